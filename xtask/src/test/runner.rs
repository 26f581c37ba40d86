//! Running one test binary and counting what it says.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};

use super::binaries::TestBinary;
use super::containers::Environment;
use super::enclosure::{LEFT_BEHIND, NOT_READY};
use super::libtest;
use super::scratch::Scratch;
use super::tally::Tally;
use crate::workspace::forget_hotcell_settings;
use crate::{process, progress};

/// A test binary that takes longer hangs.
pub(crate) const BINARY_LIMIT: Duration = Duration::from_secs(900);

/// Names the file to which a test that must skip itself appends a line `NAME: REASON`.
///
/// The prefix matters: Hotcell refuses `HOTCELL_` variables that it does not know, other than `HOTCELL_TEST_` ones.
pub(crate) const SKIP_LOG: &str = "HOTCELL_TEST_SKIP_LOG";

/// Runs test binaries one after the other.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    skip_log: PathBuf,
    filter: Option<&'a str>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(scratch: &Scratch, filter: Option<&'a str>) -> Self {
        Self { skip_log: scratch.path().join("skips"), filter }
    }

    /// Lets the tests of the user `uid` write to the skip log.
    pub(crate) fn give_skip_log_to(&self, uid: u32) -> Result<()> {
        fs::write(&self.skip_log, "")
            .and_then(|()| chown(&self.skip_log, Some(uid), Some(uid)))
            .with_context(|| format!("cannot hand over {}", self.skip_log.display()))
    }

    /// Runs `command`, which starts `binary` in whatever surroundings, with `environment`, and counts the result under
    /// the binary's name followed by `suffix`.
    pub(crate) fn run(
        &self,
        binary: &TestBinary,
        mut command: Command,
        environment: &Environment,
        suffix: &str,
        tally: &mut Tally,
    ) -> Result<()> {
        // Emptied rather than removed, so that it keeps its owner.
        fs::write(&self.skip_log, "").with_context(|| format!("cannot empty {}", self.skip_log.display()))?;
        forget_hotcell_settings(&mut command);
        command.env("CARGO_MANIFEST_DIR", &binary.directory).env(SKIP_LOG, &self.skip_log).args(self.filter);
        command.envs(environment.iter().map(|(name, value)| (name, value)));

        let line = progress::begin(&binary.name);
        let finished = process::run(&mut command, BINARY_LIMIT)?;
        let mut report = libtest::parse(&finished.output);
        if finished.success() && !report.has_result {
            // A harness of its own has only its exit status to speak with.
            report.passed = 1;
        }
        let skips: BTreeSet<String> = fs::read_to_string(&self.skip_log)
            .with_context(|| format!("cannot read {}", self.skip_log.display()))?
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(str::to_owned)
            .collect();

        if let Some(what) = trouble(finished.status, finished.out_of_time) {
            report.failed.push(what);
        }
        let mut result = report.summary();
        if !skips.is_empty() {
            result.push_str(&format!(", {} skips", skips.len()));
        }
        if finished.success() && report.failed.is_empty() {
            line.end(&result);
        } else {
            line.end_failed(&result, &finished.output);
        }
        let name = format!("{}{suffix}", binary.name);
        tally.add(&name, &report, &skips, finished.success());
        Ok(())
    }
}

/// A binary started where cargo would start it.
pub(crate) fn in_place(binary: &TestBinary) -> Command {
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.directory);
    command
}

/// What the way a binary ended says beyond its tests' own results.
fn trouble(status: ExitStatus, out_of_time: bool) -> Option<String> {
    if out_of_time {
        return Some(format!("did not end within {} s", BINARY_LIMIT.as_secs()));
    }
    match status.code() {
        Some(LEFT_BEHIND) => Some("processes were left behind".to_owned()),
        Some(NOT_READY) => Some("its surroundings could not be made".to_owned()),
        _ => None,
    }
}

/// Notes that a test of our own cannot run here.
#[cfg(test)]
pub(crate) fn note_skip(test: &str, reason: &str) {
    use std::io::Write;
    if let Some(path) = std::env::var_os(SKIP_LOG) {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}
