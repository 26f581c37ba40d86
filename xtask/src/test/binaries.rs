//! Building the tests, and knowing which programs came out.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::tally::Tally;
use crate::progress;
use crate::workspace::cargo;

/// Every program that the build made.
#[derive(Debug, Default)]
pub(crate) struct Binaries {
    pub(crate) tests: Vec<TestBinary>,
    /// Ordinary programs and examples, which tests may start: name and path.
    pub(crate) programs: Vec<(String, PathBuf)>,
}

/// One program made of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestBinary {
    pub(crate) package: String,
    /// What to call it in the list: the package, and the test file or `unit`.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// Where cargo would start it.
    pub(crate) directory: PathBuf,
}

/// Builds all tests, examples and programs with the dev profile, or counts the failure and returns nothing.
pub(crate) fn build(tally: &mut Tally) -> Result<Option<Binaries>> {
    let name = "tests, examples and programs";
    let line = progress::begin(name);
    let output = cargo()?
        .args(["test", "--quiet", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        line.end_failed("FAILED", &String::from_utf8_lossy(&output.stderr));
        tally.fail(name);
        return Ok(None);
    }
    let binaries = read_messages(&String::from_utf8_lossy(&output.stdout));
    line.end(&format!("{} test binaries", binaries.tests.len()));
    Ok(Some(binaries))
}

/// Picks the programs out of cargo's messages, one JSON object per line.
fn read_messages(messages: &str) -> Binaries {
    let mut binaries = Binaries::default();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let (Some(executable), Some(manifest), Some(target)) =
            (message["executable"].as_str(), message["manifest_path"].as_str(), message["target"]["name"].as_str())
        else {
            continue;
        };
        let Some(directory) = PathBuf::from(manifest).parent().map(PathBuf::from) else {
            continue;
        };
        if message["profile"]["test"] != true {
            binaries.programs.push((target.to_owned(), executable.into()));
            continue;
        }
        // A crate's folder bears its name.
        let package = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_integration =
            message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "test"));
        let what = if is_integration { target } else { "unit" };
        binaries.tests.push(TestBinary {
            name: format!("{package} {what}"),
            package,
            executable: executable.into(),
            directory,
        });
    }
    // Cargo reports in the order in which builds end, which differs from run to run.
    binaries.tests.sort_by(|a, b| a.name.cmp(&b.name));
    binaries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_programs_are_told_apart() {
        let binaries = read_messages(concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"run"},"profile":{"test":true},"executable":"/w/target/debug/deps/run-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"hotcell"},"profile":{"test":false},"executable":"/w/target/debug/hotcell"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","target":{"kind":["lib"],"name":"core"},"profile":{"test":true},"executable":"/w/target/debug/deps/core-2"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/r/dep/Cargo.toml","target":{"kind":["lib"],"name":"dep"},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\nnot json\n",
        ));
        let names: Vec<&str> = binaries.tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["cli run", "core unit"]);
        assert_eq!(binaries.tests[0].directory, PathBuf::from("/w/crates/cli"));
        assert_eq!(binaries.programs, [("hotcell".to_owned(), PathBuf::from("/w/target/debug/hotcell"))]);
    }
}
