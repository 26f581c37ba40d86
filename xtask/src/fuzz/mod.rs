//! `cargo xtask fuzz`: every fuzz target for a while, one after the other.
//!
//! The targets are in `fuzz/targets`, their seeds in `fuzz/seeds`. What libFuzzer finds on the way is kept in
//! `target/fuzz-corpus`, so that the next run begins where this one ended.

mod options;
mod run;
mod toolchain;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace::{root, target_directory};
use crate::{Verdict, progress};
use options::Options;
use run::Ended;

pub(crate) fn run(arguments: &[String]) -> Verdict {
    let options = Options::parse(arguments)?;
    let targets = chosen(&options.targets, targets()?)?;

    progress::heading("Build");
    let output = target_directory()?;
    if !toolchain::build(&targets, &output)? {
        return Ok(false);
    }

    progress::heading(&format!("Fuzzing, {} s each", options.seconds));
    let mut clean = true;
    for target in &targets {
        let line = progress::begin(target);
        match run::target(target, options.seconds, &output)? {
            Ended::Clean(figures) => line.end(&figures.to_string()),
            Ended::CannotRun(reason) => line.end(&format!("skipped: {reason}")),
            Ended::Found(failure) => {
                line.end_failed("FAILED", &failure);
                clean = false;
            }
        }
    }
    Ok(clean)
}

/// Every target there is, by its file.
fn targets() -> Result<Vec<String>> {
    let directory = root()?.join("fuzz/targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            targets.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
        }
    }
    targets.sort();
    Ok(targets)
}

/// The targets that were asked for; all if none was.
fn chosen(asked: &[String], all: Vec<String>) -> Result<Vec<String>> {
    if let Some(unknown) = asked.iter().find(|name| !all.contains(name)) {
        bail!("there is no target `{unknown}`; there are: {}", all.join(", "));
    }
    Ok(if asked.is_empty() { all } else { asked.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_is_built() {
        let root = root().unwrap();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for target in targets().unwrap() {
            assert!(
                manifest.contains(&format!("path = \"targets/{target}.rs\"")),
                "{target} is not in fuzz/Cargo.toml"
            );
            let seeds = fs::read_dir(root.join("fuzz/seeds").join(&target)).unwrap();
            assert!(seeds.count() > 0, "{target} has no seeds");
        }
    }

    #[test]
    fn an_unknown_target_is_named() {
        let all = vec!["config".to_owned(), "wire".to_owned()];
        assert_eq!(chosen(&[], all.clone()).unwrap(), all);
        assert_eq!(chosen(&["wire".to_owned()], all.clone()).unwrap(), ["wire"]);
        let error = chosen(&["wires".to_owned()], all).unwrap_err().to_string();
        assert!(error.contains("`wires`") && error.contains("config, wire"), "{error}");
    }
}
