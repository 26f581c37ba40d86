//! `cargo xtask bench remote`: what Hotcell adds to the calls to a remote server.
//!
//! The servers are those of the tests, on this machine: what is measured is the client, not a network.

mod candidates;
mod raw;
mod targets;

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

use super::comparison::Comparison;
use super::machine::{self, Machine};
use super::options::{MEASURE, Options, Usual};
use super::{build, part};
use crate::test::{self, containers::command::with_servers};
use crate::workspace::forget_hotcell_settings;
use crate::{Verdict, progress};

/// Rounds if nobody says how many.
const USUAL: Usual = Usual { full: 200, quick: 10 };

const METHOD: &str = "\
## Method
`cargo xtask bench remote` builds a release program that measures, starts the servers of the tests on this machine, and runs everything in
one go. Every variant runs `true` in a sandbox that exists. Time is from asking for the command to having its exit status and output. Every
round runs all variants, each round begins with another one, and there is a pause of 10 ms between two runs. Differences are of medians.

- **e2b** and **opensandbox** are a command in a kept box of Hotcell's: started through a shell that sets its limits and its environment,
  with Hotcell's clocks and counters on it.
- **e2b-raw** and **opensandbox-raw** are the same calls by hand, by the smallest client there is: the same shell in the sandbox and, with
  OpenSandbox, the same two files read afterwards. What Hotcell takes beyond these is its client, its clocks and its counters.
- **e2b-bare** and **opensandbox-bare** are one call for the program alone, without what makes its environment, limits and output exact.

Calls by hand to E2B go over one open connection. OpenSandbox's execd keeps an answer open for a second after its last event, so there each
command takes a new one, of Hotcell's and by hand.

All numbers are in [remote.json](remote.json). They are of one machine and one run.
";

/// A server of the tests.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// `http://HOST:PORT`.
    pub(super) url: String,
    pub(super) key: String,
}

impl Place {
    fn look(url: &str, key: &str) -> Result<Self> {
        let value = |name: &str| env::var(name).with_context(|| format!("{name} is not set: there is no server"));
        Ok(Self { url: value(url)?, key: value(key)? })
    }

    /// `HOST:PORT`.
    pub(super) fn authority(&self) -> &str {
        self.url.strip_prefix("http://").unwrap_or(&self.url).trim_end_matches('/')
    }
}

pub(super) fn run(arguments: &[String]) -> Verdict {
    let options = Options::parse(arguments, USUAL)?;
    match &options.command {
        Some(command) => measure(&options, command),
        None => build_and_measure(arguments, &options),
    }
}

fn build_and_measure(arguments: &[String], options: &Options) -> Verdict {
    let Some(built) = build()? else { return Ok(false) };
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make the directory {}", out.display()))?;
    }
    with_servers(|command| {
        command.arg(built.join("xtask")).args(["bench", "remote", MEASURE]).arg(built.join("hotcell"));
        command.args(arguments);
        forget_hotcell_settings(command);
    })
}

/// Who answers.
fn versions() -> Vec<(String, String)> {
    let pinned = test::remote::REQUIREMENTS.lines().find_map(|line| line.split_once("opensandbox-server=="));
    let server = pinned.map(|(_, version)| ("opensandbox-server".to_owned(), version.trim().to_owned()));
    let ours = env!("CARGO_PKG_VERSION").to_owned();
    server.into_iter().chain([("stand-ins for execd and E2B".to_owned(), ours)]).collect()
}

fn measure(options: &Options, _: &Path) -> Verdict {
    let e2b = Place::look("HOTCELL_TEST_E2B_URL", "HOTCELL_TEST_E2B_KEY")?;
    let opensandbox = Place::look("HOTCELL_TEST_OPENSANDBOX_URL", "HOTCELL_TEST_OPENSANDBOX_KEY")?;
    let image = env::var("HOTCELL_TEST_OPENSANDBOX_IMAGE").context("HOTCELL_TEST_OPENSANDBOX_IMAGE is not set")?;
    progress::heading("Measure");
    let busy = machine::busy_with_others();
    let rows = part(&format!("remote boxes, {} rounds", options.rounds), || {
        candidates::measure(&e2b, &opensandbox, &image, options.rounds)
    })?;
    let results = Comparison {
        name: "remote",
        title: "What a command in a remote box costs beyond its calls",
        method: METHOD,
        machine: Machine::look(None),
        versions: versions(),
        busy,
        quick: options.quick,
        notes: Vec::new(),
        targets: targets::targets(&rows),
        rows,
    };
    results.publish(options.out.as_deref())?;
    Ok(results.rows.iter().all(|row| row.samples.is_ok()))
}
