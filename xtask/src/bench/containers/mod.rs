//! `cargo xtask bench containers`: what Hotcell's containers cost, against the same calls to the engine and against
//! `docker run` and `docker exec`.
//!
//! Engines are started for it, as they are for the tests, and the release build of xtask measures among them.

mod candidates;
mod raw;
mod report;
mod spec;
mod targets;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::machine::{self, Machine};
use super::options::{MEASURE, Options, Usual};
use super::{build, part};
use crate::test::containers::api::Connection;
use crate::test::containers::command::with_engines;
use crate::test::containers::realm::Group;
use crate::test::containers::{DOCKER, IMAGE_TAR, RUNC, RUNSC};
use crate::test::setup;
use crate::workspace::forget_hotcell_settings;
use crate::{Verdict, progress};

use super::comparison::Comparison;

/// Rounds if nobody says how many.
const USUAL: Usual = Usual { full: 40, quick: 5 };

/// An engine that takes longer for one answer hangs.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

pub(super) fn run(arguments: &[String]) -> Verdict {
    let options = Options::parse(arguments, USUAL)?;
    match &options.command {
        Some(command) => measure(&options, command),
        None => build_and_measure(arguments, &options),
    }
}

fn build_and_measure(arguments: &[String], options: &Options) -> Verdict {
    let Some(built) = build()? else { return Ok(false) };
    let directory = env::current_dir().context("cannot find the current directory")?;
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make the directory {}", out.display()))?;
    }
    with_engines(|engines| {
        let mut command = engines.realm().command(Group::Tests, &directory);
        command.arg(built.join("xtask")).args(["bench", "containers", MEASURE]).arg(built.join("hotcell"));
        command.args(arguments);
        forget_hotcell_settings(&mut command);
        command.envs(engines.environment());
        Ok(command.status().context("cannot start `nsenter`")?.success())
    })
}

/// What there is among the engines.
#[derive(Debug)]
struct Surroundings {
    /// The released `hotcell` command.
    hotcell: PathBuf,
    /// Docker's own command.
    docker: PathBuf,
    /// Where Docker listens.
    socket: PathBuf,
    image_tar: PathBuf,
    runc: Option<PathBuf>,
    runsc: Option<PathBuf>,
}

impl Surroundings {
    fn look(hotcell: &Path) -> Result<Self> {
        let value = |name: &str| env::var_os(name).with_context(|| format!("{name} is not set: there are no engines"));
        let host = value(DOCKER)?.to_string_lossy().into_owned();
        let socket = host.strip_prefix("unix://").with_context(|| format!("{host} is not a local engine"))?;
        Ok(Self {
            hotcell: hotcell.canonicalize().with_context(|| format!("there is no {}", hotcell.display()))?,
            docker: setup::program("docker").context("docker is not installed")?,
            socket: socket.into(),
            image_tar: value(IMAGE_TAR)?.into(),
            runc: env::var_os(RUNC).map(PathBuf::from),
            runsc: env::var_os(RUNSC).map(PathBuf::from),
        })
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(&self.socket, LIMIT)
    }
}

fn measure(options: &Options, command: &Path) -> Verdict {
    let around = Surroundings::look(command)?;
    progress::heading("Measure");
    let busy = machine::busy_with_others();
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let measured = part(&format!("containers, {} rounds", options.rounds), || {
        candidates::measure(&around, scratch.path(), options.rounds)
    })?;
    let results = Comparison {
        name: "containers",
        title: "What a container costs",
        method: report::METHOD,
        machine: Machine::look(None),
        versions: report::versions(&around)?,
        busy,
        quick: options.quick,
        notes: vec![format!("The hardening of what is compared: {}.", measured.spec)],
        targets: targets::targets(&measured.rows),
        rows: measured.rows,
    };
    results.publish(options.out.as_deref())?;
    // A comparison may be missing; what is ours may not.
    Ok(results.rows.iter().all(|row| row.samples.is_ok() || !candidates::OURS.contains(&row.name)))
}
