//! Building the targets: with cargo-fuzz, and a compiler that lets itself be instrumented.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::lint::BUILD_LIMIT;
use crate::workspace::{cargo, forget_hotcell_settings, root};
use crate::{process, progress};

/// Asking a tool for its version takes no longer.
const QUESTION_LIMIT: Duration = Duration::from_secs(60);

/// Builds the targets, in one go. `false`: they do not build, and what the compiler said is printed.
pub(super) fn build(targets: &[String], output: &Path) -> Result<bool> {
    if !has_cargo_fuzz()? && !step("install cargo-fuzz", cargo()?.args(["install", "--locked", "cargo-fuzz"]))? {
        return Ok(false);
    }
    let (name, mut command) = compiler()?;
    let directory = output.join("fuzz");
    command.args(["fuzz", "build", "--fuzz-dir", "fuzz", "--target", &triple(), "--target-dir"]).arg(&directory);
    if let [only] = targets {
        command.arg(only);
    }
    step(&format!("fuzz targets, {name}"), &mut command)
}

/// The machine that this is built for. cargo-fuzz may have been built for another, such as musl.
pub(super) fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn has_cargo_fuzz() -> Result<bool> {
    Ok(process::run(cargo()?.args(["fuzz", "--version"]), QUESTION_LIMIT)?.success())
}

/// A cargo whose compiler accepts unstable options, and how to call it: a nightly one, if there is one; else ours, told to
/// behave like one.
fn compiler() -> Result<(&'static str, Command)> {
    let listed = process::run(Command::new("rustup").args(["toolchain", "list"]), QUESTION_LIMIT);
    if listed.is_ok_and(|listed| listed.success() && has_nightly(&listed.output)) {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]).current_dir(root().context("where is the workspace?")?);
        forget_hotcell_settings(&mut command);
        // Set by the cargo that runs us; it names another toolchain's compiler.
        command.env_remove("CARGO").env_remove("RUSTC");
        return Ok(("nightly", command));
    }
    let mut command = cargo()?;
    command.env("RUSTC_BOOTSTRAP", "1");
    Ok(("this toolchain", command))
}

/// `rustup run nightly` takes the toolchain of exactly that name and the machine's triple, no dated one.
fn has_nightly(list: &str) -> bool {
    list.lines().any(|line| {
        let name = line.split_whitespace().next().unwrap_or_default();
        name == "nightly"
            || name.strip_prefix("nightly-").is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn step(name: &str, command: &mut Command) -> Result<bool> {
    let line = progress::begin(name);
    let finished = process::run(command, BUILD_LIMIT)?;
    if finished.success() {
        line.end("ok");
    } else {
        line.end_failed("FAILED", &finished.output);
    }
    Ok(finished.success())
}

#[cfg(test)]
mod tests {
    use super::has_nightly;

    #[test]
    fn a_dated_nightly_is_not_the_nightly() {
        assert!(has_nightly("stable-x86_64-unknown-linux-gnu (active, default)\nnightly-x86_64-unknown-linux-gnu\n"));
        assert!(!has_nightly("stable-x86_64-unknown-linux-gnu\nnightly-2026-01-01-x86_64-unknown-linux-gnu\n"));
    }
}
