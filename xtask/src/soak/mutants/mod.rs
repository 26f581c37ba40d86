//! `cargo xtask soak --mutants`: every part against code with a defect that it is there to find.

mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::options::Options;
use super::report::{self, Found};
use crate::lint::BUILD_LIMIT;
use crate::workspace::{cargo, forget_hotcell_settings, root, target_directory};
use crate::{Verdict, process, progress};
use list::{MUTANTS, Mutant};

/// The name under which the result is reported.
pub(super) const NAME: &str = "mutants";
/// What is said about it in the report.
pub(super) const ABOUT: &str = "Is the soak itself worth anything? The code is built with a defect that was put in on purpose, one at a time, and the part \
     that is there to find it runs in small numbers: it has to fail.";

/// How long one part may take on broken code.
const PART_LIMIT: Duration = Duration::from_secs(400);

/// A copy of the sources, built by itself.
struct Copy {
    sources: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    files: Vec<PathBuf>,
}

pub(super) fn run(options: &Options) -> Verdict {
    let started = Instant::now();
    let copy = Copy::new()?;
    let chosen: Vec<&Mutant> =
        MUTANTS.iter().filter(|mutant| options.only.as_deref().is_none_or(|only| only == mutant.part)).collect();
    let mut found = Found::default();

    progress::heading("Without a defect");
    let (mut parts, mut broken) = (Vec::new(), 0);
    copy.restore()?;
    let program = copy.build()?.map_err(anyhow::Error::msg).context("the sources do not build")?;
    for part in chosen.iter().map(|mutant| mutant.part) {
        if parts.contains(&part) {
            continue;
        }
        parts.push(part);
        let line = progress::begin(part);
        let finished = copy.soak(&program, part)?;
        if finished.success() {
            line.end("holds");
        } else {
            broken += 1;
            found.failure(format!("{part} fails without any defect"));
            line.end_failed("FAILED", &finished.output);
        }
    }

    progress::heading("Mutants");
    let (mut caught, mut survived) = (0, 0);
    for mutant in &chosen {
        let line = progress::begin(mutant.name);
        copy.restore()?;
        copy.apply(mutant)?;
        let program = match copy.build()? {
            Ok(program) => program,
            Err(output) => {
                line.end_failed("DOES NOT BUILD", &output);
                bail!("the mutant `{}` does not build", mutant.name);
            }
        };
        let finished = copy.soak(&program, mutant.part)?;
        // It found fault with the code; that it broke off or did not end is something else.
        if finished.status.code() == Some(1) && !finished.out_of_time {
            caught += 1;
            line.end(&format!("caught by {}", mutant.part));
            found.note(format!("{}: caught by {}: {}", mutant.name, mutant.part, first_failure(&finished.output)));
        } else {
            survived += 1;
            found.failure(format!(
                "{}: not caught by {}, which ended with {}",
                mutant.name, mutant.part, finished.status
            ));
            line.end_failed("SURVIVED", &finished.output);
        }
    }
    copy.restore()?;
    found.tell("mutants", chosen.len() as f64, "");
    found.at_least("caught", f64::from(caught), "", chosen.len() as f64);
    found.none_of("survived", survived);
    found.none_of("parts that fail without any defect", broken);
    println!("\n  {}", found.line());
    let directory = match &options.out {
        Some(directory) => directory.clone(),
        None if options.only.is_some() => target_directory()?.join("soak"),
        None => root()?.join("docs/soak"),
    };
    report::write(&directory, NAME, &found, started.elapsed(), false)?;
    println!("\nwritten to {}", directory.display());
    Ok(found.holds())
}

/// The first thing that a part complained of.
fn first_failure(output: &str) -> String {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("failed: "));
    let line = line.or_else(|| output.lines().find(|line| line.contains("MISSED"))).unwrap_or_default().trim();
    line.chars().take(160).collect()
}

impl Copy {
    fn new() -> Result<Self> {
        let sources = root()?.to_owned();
        let place = target_directory()?.join("mutants");
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&sources)
            .output()
            .context("cannot start `git`")?;
        if !output.status.success() {
            bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let files = String::from_utf8(output.stdout).context("a file has a name that is not UTF-8")?;
        let files = files.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
        Ok(Self { sources, tree: place.join("tree"), target: place.join("target"), files })
    }

    /// Makes the copy equal to the sources. What is equal is not touched, so that it is not built again.
    fn restore(&self) -> Result<()> {
        for file in &self.files {
            let (from, to) = (self.sources.join(file), self.tree.join(file));
            // Deleted, and not yet committed.
            let Ok(contents) = fs::read(&from) else { continue };
            if fs::read(&to).is_ok_and(|present| present == contents) {
                continue;
            }
            write(&to, &contents)?;
        }
        Ok(())
    }

    fn apply(&self, mutant: &Mutant) -> Result<()> {
        for edit in mutant.edits {
            let path = self.tree.join(edit.file);
            let source = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if !source.contains(edit.text) {
                bail!("the mutant `{}` is out of date: {} has no longer `{}`", mutant.name, edit.file, edit.text);
            }
            write(&path, source.replace(edit.text, edit.instead).as_bytes())?;
        }
        Ok(())
    }

    /// Builds xtask there: its path, or what the compiler says.
    fn build(&self) -> Result<std::result::Result<PathBuf, String>> {
        let mut command = cargo()?;
        command
            .args(["build", "--quiet", "--package", "xtask", "--target-dir"])
            .arg(&self.target)
            .current_dir(&self.tree)
            // Broken code may leave things unused.
            .env("RUSTFLAGS", "--cap-lints=allow");
        let finished = process::run(&mut command, BUILD_LIMIT)?;
        Ok(if finished.success() { Ok(self.target.join("debug/xtask")) } else { Err(finished.output) })
    }

    fn soak(&self, program: &Path, part: &str) -> Result<process::Finished> {
        let mut command = Command::new(program);
        command.args(["soak", "--quick", "--only", part, "--out"]).arg(self.target.join("report"));
        forget_hotcell_settings(&mut command);
        process::run(&mut command, PART_LIMIT)
    }
}

fn write(path: &Path, contents: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_complaint_is_told() {
        let output = "cycles\n  80 cycles\n  failed: one\n  failed: two\n  DOES NOT HOLD: cycles 1 (MISSED)\n";
        assert_eq!(first_failure(output), "one");
        assert_eq!(first_failure("  DOES NOT HOLD: cycles 1 (MISSED)\n"), "DOES NOT HOLD: cycles 1 (MISSED)");
    }
}
