//! Running one target, and reading what libFuzzer says about it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::toolchain::triple;
use crate::process;
use crate::workspace::{forget_hotcell_settings, root};

/// The longest input. Longer ones take more time and hardly show more.
const LONGEST_INPUT: u32 = 4096;
/// The longest time for one input, in seconds; the machine may be busy.
const ONE_INPUT: u32 = 30;
/// How a target says that it cannot run on this machine; the line that begins with this says why.
const CANNOT_RUN: (i32, &str) = (77, "cannot run here: ");
/// How much of a crash report is shown.
const LINES_SHOWN: usize = 30;

/// How a target ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nothing was found.
    Clean(Figures),
    /// An input that must not do what it does; or the target itself failed.
    Found(String),
    /// For this reason.
    CannotRun(String),
}

/// What libFuzzer counted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Figures {
    executions: u64,
    per_second: u64,
    coverage: u64,
    inputs: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, per_second, coverage, inputs } = self;
        write!(f, "{executions} executions, {per_second}/s, {coverage} edges, {inputs} inputs")
    }
}

/// Runs a target for so many seconds, from its seeds and what earlier runs found.
pub(super) fn target(name: &str, seconds: u32, output: &Path) -> Result<Ended> {
    let fuzz = root()?.join("fuzz");
    let corpus = made(output.join("fuzz-corpus").join(name))?;
    let artifacts = made(output.join("fuzz-artifacts").join(name))?;
    let binary = output.join("fuzz").join(triple()).join("release").join(name);
    let mut command = Command::new(&binary);
    command.arg(&corpus).arg(fuzz.join("seeds").join(name));
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-timeout={ONE_INPUT}"));
    command.arg(format!("-max_len={LONGEST_INPUT}"));
    command.arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let dictionary = fuzz.join("dictionaries").join(format!("{name}.dict"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    forget_hotcell_settings(&mut command);
    // The target's own words are enough, and it is at hand to be asked for more.
    command.env("RUST_BACKTRACE", "0");
    let limit = Duration::from_secs(u64::from(seconds) + 180);
    let finished = process::run(&mut command, limit)?;

    if finished.status.code() == Some(CANNOT_RUN.0)
        && let Some(reason) = finished.output.lines().find_map(|line| line.strip_prefix(CANNOT_RUN.1))
    {
        return Ok(Ended::CannotRun(reason.to_owned()));
    }
    if finished.success() {
        return Ok(Ended::Clean(figures(&finished.output)));
    }
    Ok(Ended::Found(report(&finished.output, &binary)))
}

fn made(directory: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

fn figures(output: &str) -> Figures {
    let stat = |name: &str| {
        let line = output.lines().rev().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or_default()
    };
    // `#123 DONE   cov: 45 ft: 67 corp: 8/9b …`
    let word_after = |name: &str| {
        let line = output.lines().rev().find(|line| line.starts_with('#') && line.contains(name));
        let word = line.and_then(|line| line.split_whitespace().skip_while(|word| *word != name).nth(1));
        word.and_then(|word| word.split('/').next()).and_then(|number| number.parse().ok()).unwrap_or_default()
    };
    Figures {
        executions: stat("number_of_executed_units"),
        per_second: stat("average_exec_per_sec"),
        coverage: word_after("cov:"),
        inputs: word_after("corp:"),
    }
}

/// What went wrong, and how to see it again.
fn report(output: &str, binary: &Path) -> String {
    // The report begins with the panic's own words; before it is progress, after it addresses and the input's bytes.
    let lines: Vec<&str> = output.lines().collect();
    let begin =
        lines.iter().position(|line| line.contains("panicked at") || line.starts_with("==")).unwrap_or_default();
    let told = lines[begin..].iter().take_while(|line| !line.starts_with("==")).take(LINES_SHOWN);
    let mut report: String = told.map(|line| format!("{line}\n")).collect();
    if report.is_empty() {
        let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        report = last.iter().map(|line| format!("{line}\n")).collect();
    }
    let file = lines.iter().rev().find_map(|line| line.split_once("Test unit written to ").map(|(_, file)| file));
    match file {
        Some(file) => report + &format!("the input is {file}\nto see it again: {} {file}\n", binary.display()),
        None => report + "no input was kept\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_end() {
        let output = "#2\tINITED cov: 1 ft: 2 corp: 3/4b exec/s: 0 rss: 30Mb\n\
                      #950\tDONE   cov: 1234 ft: 5678 corp: 90/12Kb lim: 43 exec/s: 105 rss: 74Mb\n\
                      Done 950 runs in 9 second(s)\n\
                      stat::number_of_executed_units: 950\n\
                      stat::average_exec_per_sec:     105\n";
        let expected = Figures { executions: 950, per_second: 105, coverage: 1234, inputs: 90 };
        assert_eq!(figures(output), expected);
        assert_eq!(expected.to_string(), "950 executions, 105/s, 1234 edges, 90 inputs");
    }

    #[test]
    fn a_crash_is_told_with_its_input() {
        let output = "#2 INITED cov: 1\n\nthread '<unnamed>' panicked at targets/wire.rs:1:2:\nit is wrong\n==12== ERROR: libFuzzer: deadly signal\n    #0 0x1\n\
                      artifact_prefix='/x/'; Test unit written to /x/crash-1\n";
        let report = report(output, Path::new("/bin/wire"));
        assert!(
            report.contains("it is wrong\nthe input is /x/crash-1\nto see it again: /bin/wire /x/crash-1"),
            "{report}"
        );
        assert!(!report.contains("INITED") && !report.contains("0x1"), "{report}");
    }

    #[test]
    fn a_crash_without_an_input_is_told_by_its_last_lines() {
        let report = report("one\ntwo\n", Path::new("/bin/wire"));
        assert_eq!(report, "one\ntwo\nno input was kept\n");
    }
}
