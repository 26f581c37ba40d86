//! `cargo xtask test`: everything that can run on this machine, and the truth about what could not.
//!
//! The steps, in order: set-up, lints, build, container engines if a test uses them, remote servers, real clients of `hotcell mcp`, tests, doc tests, the other architecture, a release binary doing
//! the README's main job, and, for root, the tests once more as an ordinary user. What cannot run is skipped by
//! name, with the reason, and counted. Under `CI=true` a skip that an install could have avoided is a failure.

mod agents;
mod binaries;
pub(crate) mod containers;
mod enclosure;
mod libraries;
mod libtest;
mod long;
mod npm;
pub(crate) mod ordinary_user;
pub(crate) mod remote;
pub(crate) mod runner;
mod scratch;
pub(crate) mod setup;
mod tally;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::lint::{self, BUILD_LIMIT};
use crate::workspace::{cargo, forget_hotcell_settings, root, target_directory};
use crate::{Verdict, process, progress};

use binaries::Binaries;
use containers::realm::Group;
use enclosure::Enclosure;
use runner::Runner;
use scratch::Scratch;
use tally::Tally;

/// The other architecture that Hotcell supports, from where most of its developers sit.
const OTHER_TARGET: &str = "aarch64-unknown-linux-gnu";

/// Crates whose tests touch neither the kernel nor the user's rights: running them twice would prove nothing.
const PURE: &[&str] = &["hotcell-core", "xtask"];

/// The profile of Cargo's that is a release without the minutes of optimisation.
const TRIAL: &str = "trial";

pub(crate) fn run(arguments: &[String]) -> Verdict {
    let options = parse(arguments)?;
    let mut tally = Tally::default();
    steps(options.filter.as_deref(), &mut tally)?;
    if options.full {
        long::all(&mut tally)?;
    }
    if let Some(filter) = &options.filter
        && tally.nothing_ran()
    {
        // A misspelt name must not look like a success.
        tally.fail(&format!("no test ran whose name contains `{filter}`"));
    }
    Ok(tally.report(under_ci()))
}

fn steps(filter: Option<&str>, tally: &mut Tally) -> Result<()> {
    progress::heading("Set-up");
    setup::programs(tally)?;
    setup::toolchain(tally)?;

    if filter.is_none() {
        progress::heading("Lints");
        for mut check in lint::checks()? {
            step(check.name, &mut check.command, tally)?;
        }
    }

    progress::heading("Build");
    let Some(binaries) = binaries::build(tally)? else {
        // Without binaries there is nothing to run; the failure is counted already.
        return Ok(());
    };

    let scratch = Scratch::create()?;
    let enclosure = Enclosure::available();
    let runner = Runner::new(&scratch, filter);
    let engines = containers::start_for(&binaries.tests, tally)?;
    let servers = remote::start(&binaries, engines.as_ref(), tally)?;
    let (mut environment, mut ordinary_environment) = match &engines {
        Some(engines) => (engines.environment(), engines.environment_without_engines()),
        None => Default::default(),
    };
    environment.extend(libraries::provide(filter, tally));
    let mut inside = environment.clone();
    if let Some(servers) = &servers {
        remote::sdks(servers, engines.as_ref(), filter, tally)?;
        inside.extend(servers.environment_inside());
        environment.extend(servers.environment());
        ordinary_environment.extend(servers.environment());
    }
    agents::run(&binaries, filter, tally)?;
    progress::heading(match &enclosure {
        Ok(_) => "Tests, as root",
        Err(_) => "Tests",
    });
    for binary in &binaries.tests {
        if let Some(engines) = &engines
            && let Some((group, environment)) = if remote::is_among_engines(binary)? {
                Some((Group::Network, &inside))
            } else {
                containers::are_used_by(binary)?.then_some((Group::Tests, &environment))
            }
        {
            let failures = tally.failures();
            runner.run(binary, Enclosure::command_among(engines, group, binary), environment, "", tally)?;
            if tally.failures() != failures {
                println!("{}", engines.log_tails());
            }
            continue;
        }
        let command = match &enclosure {
            Ok(enclosure) => enclosure.command(binary),
            Err(_) => runner::in_place(binary),
        };
        runner.run(binary, command, &environment, "", tally)?;
    }
    doc_tests(filter, tally)?;

    if filter.is_none() {
        progress::heading("Portability and release");
        other_architecture(tally)?;
        release(tally)?;
    }

    if filter.is_none() {
        long::taste(tally)?;
    }

    match enclosure {
        Ok(enclosure) => {
            let user = OrdinaryRun { enclosure, environment: ordinary_environment, binaries: &binaries };
            as_ordinary_user(&user, &runner, &scratch, tally)?;
        }
        Err(reason) if is_root() => tally.skip("tests as an ordinary user", &reason, false),
        Err(reason) => tally.skip("tests as root", &reason, false),
    }
    if let Some(servers) = servers {
        progress::heading("Remote servers");
        remote::stop(servers, tally);
    }
    if let Some(engines) = engines {
        progress::heading("Containers");
        containers::stop(engines, tally)?;
    }
    Ok(())
}

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Only tests whose names contain this.
    filter: Option<String>,
    /// The long part too.
    full: bool,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let filter = match arguments {
        [] => None,
        [flag] if flag == "--full" => return Ok(Options { filter: None, full: true }),
        [flag, name] if flag == "--filter" => Some(name.clone()),
        [joined] if joined.starts_with("--filter=") => joined.strip_prefix("--filter=").map(str::to_owned),
        _ => bail!("usage: cargo xtask test [--filter NAME | --full]"),
    };
    if filter.as_deref() == Some("") {
        bail!("`--filter` needs a part of a test's name");
    }
    Ok(Options { filter, full: false })
}

/// Runs one command as one step.
fn step(name: &str, command: &mut Command, tally: &mut Tally) -> Result<()> {
    step_within(BUILD_LIMIT, name, command, tally)
}

/// Runs one command as one step, for at most `limit`.
fn step_within(limit: Duration, name: &str, command: &mut Command, tally: &mut Tally) -> Result<()> {
    let line = progress::begin(name);
    let finished = process::run(command, limit)?;
    conclude(name, line, &finished, tally);
    Ok(())
}

/// Completes the line of a step, and counts it if it failed.
fn conclude(name: &str, line: progress::Line, finished: &process::Finished, tally: &mut Tally) {
    if finished.success() {
        line.end("ok");
    } else {
        line.end_failed("FAILED", &finished.output);
        tally.fail(name);
    }
}

fn doc_tests(filter: Option<&str>, tally: &mut Tally) -> Result<()> {
    let line = progress::begin("doc tests");
    let mut command = cargo()?;
    command.args(["test", "--quiet", "--workspace", "--doc", "--no-fail-fast"]);
    // `--quiet` keeps cargo quiet; the format flag keeps one line per test, which is what is counted below.
    command.args(["--", "--format=pretty"]).args(filter);
    let finished = process::run(&mut command, BUILD_LIMIT)?;
    let report = libtest::parse(&finished.output);
    let result = report.summary();
    if finished.success() && report.failed.is_empty() {
        line.end(&result);
    } else {
        line.end_failed(&result, &finished.output);
    }
    tally.add("doc tests", &report, &BTreeSet::new(), finished.success());
    Ok(())
}

fn other_architecture(tally: &mut Tally) -> Result<()> {
    let name = format!("type-check for {OTHER_TARGET}");
    if let Err(missing) = setup::target(OTHER_TARGET)? {
        progress::begin(&name).end("skipped");
        tally.skip(&name, &missing.reason, missing.avoidable);
        return Ok(());
    }
    if setup::program(setup::OTHER_COMPILER).is_none() {
        progress::begin(&name).end("skipped");
        tally.skip(&name, &format!("{} is not installed, and cryptography is partly C", setup::OTHER_COMPILER), true);
        return Ok(());
    }
    let mut command = cargo()?;
    command.args(["check", "--quiet", "--workspace", "--all-targets", "--target", OTHER_TARGET]);
    step(&name, &mut command, tally)
}

/// Builds the binary as for a release, but for what only makes it faster, and lets it do what the README shows first.
fn release(tally: &mut Tally) -> Result<()> {
    let mut build = cargo()?;
    build.args(["build", "--quiet", "--profile", TRIAL, "--package", "hotcell-cli"]);
    let failures = tally.failures();
    step("trial of a release", &mut build, tally)?;
    if tally.failures() != failures {
        return Ok(());
    }

    let name = "the README's first command";
    if !setup::has_python() {
        tally.skip(name, "python3 is not installed", true);
        return Ok(());
    }
    let line = progress::begin(name);
    let mut command = Command::new(trial_binary()?);
    command.args(["run", "--", "python3", "-c", "print(6*7)"]);
    command.current_dir(root()?);
    forget_hotcell_settings(&mut command);
    let finished = process::run(&mut command, runner::BINARY_LIMIT)?;
    if finished.success() && finished.output.lines().any(|line| line.trim() == "42") {
        line.end("ok");
    } else {
        line.end_failed("FAILED", &finished.output);
        tally.fail(name);
    }
    Ok(())
}

/// The program that [`release`] builds.
fn trial_binary() -> Result<PathBuf> {
    Ok(target_directory()?.join(TRIAL).join("hotcell"))
}

/// What an ordinary user's tests are run from.
struct OrdinaryRun<'a> {
    enclosure: Enclosure,
    environment: containers::Environment,
    binaries: &'a Binaries,
}

fn as_ordinary_user(run: &OrdinaryRun<'_>, runner: &Runner<'_>, scratch: &Scratch, tally: &mut Tally) -> Result<()> {
    let OrdinaryRun { enclosure, environment, binaries } = run;
    let user = ordinary_user::User::unused()?;
    progress::heading(&format!("Tests, as an ordinary user (uid {})", user.uid()));
    let line = progress::begin("a checkout of their own");
    let checkout = user.prepare(scratch, binaries).context("cannot prepare a checkout for an ordinary user")?;
    runner.give_skip_log_to(user.uid())?;
    line.end("ok");
    for binary in &binaries.tests {
        if PURE.contains(&binary.package.as_str()) {
            continue;
        }
        let command = enclosure.command_as(binary, &checkout);
        runner.run(binary, command, environment, " (ordinary user)", tally)?;
    }
    Ok(())
}

/// Do we run as root? The owner of our own entry in /proc is the user that we are.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|entry| entry.uid() == 0)
}

fn under_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| matches!(value.as_str(), "true" | "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Options> {
        parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_filter_has_two_spellings() {
        assert_eq!(parse_words(&[]).unwrap(), Options::default());
        assert_eq!(parse_words(&["--filter", "timeout"]).unwrap().filter.as_deref(), Some("timeout"));
        assert_eq!(parse_words(&["--filter=timeout"]).unwrap().filter.as_deref(), Some("timeout"));
        assert!(parse_words(&["--full"]).unwrap().full);
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [&["--filter"][..], &["--filter="], &["timeout"], &["--all", "x"], &["--full", "--filter=x"]] {
            assert!(parse_words(words).is_err(), "{words:?}");
        }
    }
}
