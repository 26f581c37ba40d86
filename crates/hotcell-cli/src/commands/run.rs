//! `hotcell run`: one command in a box of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use hotcell::Engine;
use hotcell::config::Config;
use hotcell::outcome::Outcome;
use hotcell::policy::Policy;
use hotcell::text::PrintablePath;
use hotcell::{SpawnConfig, StdinMode};
use serde::Serialize;

use super::{block_on, prepare};
use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::progress::Pulls;
use crate::report::{self, RunReport, Streams};
use crate::session::{self, Sink};
use crate::{exit, json, output, terminal};

/// What `run` and `shell` do with a command, apart from its policy.
pub(super) struct Job {
    pub(super) command: Vec<OsString>,
    pub(super) flags: Config,
    pub(super) defaults: Config,
    pub(super) policy_file: Option<PathBuf>,
    /// Whether a terminal was asked for here, and not only allowed by a file.
    pub(super) tty: bool,
    pub(super) json: bool,
    pub(super) verbose: bool,
    pub(super) report: Option<PathBuf>,
}

/// Runs the command; the exit code is the command's own where there is one.
pub(crate) fn execute(arguments: RunArguments) -> Result<u8, Failure> {
    run(Job {
        flags: arguments.policy.to_config(arguments.tty)?,
        defaults: Config::default(),
        policy_file: arguments.policy.policy,
        command: arguments.command,
        tty: arguments.tty,
        json: arguments.json,
        verbose: arguments.verbose,
        report: arguments.report,
    })
}

pub(super) fn run(job: Job) -> Result<u8, Failure> {
    // Opened before anything runs: a report that cannot be written is better known now, and what the command does to
    // the path later does not matter.
    let mut report = job.report.as_deref().map(ReportFile::create).transpose()?;
    let result = block_on(in_engine(job, report.as_mut()));
    if let (Err(failure), Some(report)) = (&result, &mut report) {
        report.write(&failure.object());
    }
    result
}

async fn in_engine(job: Job, report: Option<&mut ReportFile>) -> Result<u8, Failure> {
    let Job { command, flags, defaults, policy_file, tty, json, verbose, .. } = job;
    let pulls = Pulls::new();
    let (engine, settings) = prepare(flags, defaults, policy_file, pulls.listener()).await?;
    let policy = settings.policy;
    // A file may allow a terminal for all commands; that is no reason to put one between two pipes.
    let tty = policy.process.tty && (tty || (!json && io::stdin().is_terminal() && io::stdout().is_terminal()));
    let sink = if json { Sink::capture() } else { Sink::live(tty) };
    let ended = in_box(&engine, &policy, command, tty, verbose, sink, &pulls).await;
    // Whatever happened, nothing stays behind: this waits until the helper has ended, and with it everything.
    drop(engine);
    let Some((outcome, streams)) = ended? else { return Ok(exit::READER_GONE) };
    tell(&outcome, streams, &policy, json, verbose, report)
}

async fn in_box(
    engine: &Engine,
    policy: &Policy,
    command: Vec<OsString>,
    tty: bool,
    verbose: bool,
    sink: Sink,
    pulls: &Pulls,
) -> Result<Option<(Outcome, Streams)>, Failure> {
    if verbose {
        let plan = engine.plan(policy).await.map_err(|refused| Failure::refused(refused, &engine.capabilities()))?;
        output::message(&format!("{} box, isolation {}", plan.kind, plan.isolation));
        output::lines(&report::enforcement_table(&plan.enforcement));
    }
    session::run(engine, policy, spawn_config(command, tty, sink.is_live()), sink, pulls).await
}

fn spawn_config(command: Vec<OsString>, tty: bool, live: bool) -> SpawnConfig {
    let mut words = command.into_iter();
    let program = words.next().unwrap_or_default();
    let config = SpawnConfig::new(program).args(words);
    match tty {
        true if live => config.stdin(StdinMode::Piped).tty(terminal::size()),
        true => config.stdin(session::stdin_mode()).tty(terminal::size()),
        false => config.stdin(session::stdin_mode()),
    }
}

/// Says what happened, everywhere it was asked for.
fn tell(
    outcome: &Outcome,
    streams: Streams,
    policy: &Policy,
    json: bool,
    verbose: bool,
    report: Option<&mut ReportFile>,
) -> Result<u8, Failure> {
    if let Some(report) = report {
        report.write(&RunReport::new(outcome, streams.without_content()));
    }
    if verbose {
        output::message(&report::summary(outcome));
    }
    if json {
        let written = output::to_stdout(&json::line(&RunReport::new(outcome, streams)))?;
        if written != exit::SUCCESS {
            return Ok(written);
        }
    } else if let Some(message) = report::limit_message(outcome.status, &policy.limits) {
        output::error(&message);
    }
    Ok(exit::of(outcome.status))
}

/// The file of `--report`.
struct ReportFile {
    path: PathBuf,
    file: File,
}

impl ReportFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| {
            Failure::new("report", format!("cannot write the report `{}`: {error}", PrintablePath(path)))
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// A report that gets lost is said, but does not change what the command's exit code says.
    fn write(&mut self, object: &impl Serialize) {
        if let Err(error) = self.file.write_all(json::line(object).as_bytes()) {
            output::error(&format!("could not write the report `{}`: {error}", PrintablePath(&self.path)));
        }
    }
}
