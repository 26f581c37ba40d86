//! `cargo xtask lint`: formatting and clippy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::workspace::{cargo, root};
use crate::{Verdict, process, progress};

/// Longer than any honest build on a small machine.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// Compiled by a build script or by cargo-fuzz, and so no members of the workspace: `cargo fmt` passes them by.
const ELSEWHERE: &[&str] = &["crates/hotcell-linux/helper", "crates/hotcell-linux/intruder", "fuzz"];

/// One thing that lint looks at.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) command: Command,
}

pub(crate) fn run(arguments: &[String]) -> Verdict {
    if let Some(argument) = arguments.first() {
        bail!("`lint` takes no arguments, got `{argument}`");
    }
    let mut clean = true;
    for mut check in checks()? {
        let line = progress::begin(check.name);
        let finished = process::run(&mut check.command, BUILD_LIMIT)?;
        if finished.success() {
            line.end("ok");
        } else {
            line.end_failed("FAILED", &finished.output);
            clean = false;
        }
    }
    Ok(clean)
}

/// Everything that lint looks at, in order.
pub(crate) fn checks() -> Result<Vec<Check>> {
    let mut format = cargo()?;
    format.args(["fmt", "--all", "--check"]);
    let mut clippy = cargo()?;
    clippy.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    let mut checks = vec![Check { name: "format", command: format }];
    let mut files = Vec::new();
    for directory in ELSEWHERE {
        files.append(&mut rust_files(&root()?.join(directory))?);
    }
    if !files.is_empty() {
        let mut command = Command::new("rustfmt");
        command.args(["--edition", "2024", "--color", "never", "--check"]).args(files);
        checks.push(Check { name: "format of helper, intruder and fuzz targets", command });
    }
    checks.push(Check { name: "clippy", command: clippy });
    let mut least = cargo()?;
    least.args(["clippy", "--quiet", "--package", "hotcell", "--no-default-features", "--", "-D", "warnings"]);
    checks.push(Check { name: "clippy without optional features", command: least });
    Ok(checks)
}

/// Every `.rs` file beneath `directory`, which need not exist.
fn rust_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !directory.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() == "target" {
                continue;
            }
            files.append(&mut rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
