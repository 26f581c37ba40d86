//! `cargo xtask bench tools`: what the protocol adds to a call of a tool, how fast code answers that is there already, and whether
//! calls leave memory behind.

mod candidates;
mod client;
mod memory;
mod targets;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::comparison::Comparison;
use super::machine::{self, Machine};
use super::options::{MEASURE, Options, Usual};
use super::{build, in_words, part};
use crate::test::setup;
use crate::workspace::forget_hotcell_settings;
use crate::{Verdict, process, progress};

/// Rounds if nobody says how many.
const USUAL: Usual = Usual { full: 300, quick: 10 };

const METHOD: &str = "\
## Method
`cargo xtask bench tools` builds a release `hotcell` and a release program that measures, and runs everything in one go. Time is from
calling a tool to having its result. Every variant has a box of its own, which is there before, as is the Python context that
`run_code` uses. Every round runs all variants, each round begins with another one, and there is a pause of 10 ms between two runs.
Differences are of medians.

- **exec_shell** and **run_code** are calls of `hotcell::tools` in the program that measures.
- **exec_shell-mcp** and **run_code-mcp** are the same calls to `hotcell mcp` on stdin and stdout, by the smallest client there is: one
  that writes a line and reads a line.
- Memory is the resident memory of a `hotcell mcp` that answered both calls in turn.

All numbers are in [tools.json](tools.json). They are of one machine and one run.
";

pub(super) fn run(arguments: &[String]) -> Verdict {
    let options = Options::parse(arguments, USUAL)?;
    match &options.command {
        Some(command) => measure(&options, command),
        None => build_and_measure(arguments),
    }
}

fn build_and_measure(arguments: &[String]) -> Verdict {
    let Some(built) = build()? else { return Ok(false) };
    let mut command = Command::new(built.join("xtask"));
    command.args(["bench", "tools", MEASURE]).arg(built.join("hotcell")).args(arguments);
    forget_hotcell_settings(&mut command);
    Ok(command.status().context("cannot start the release build of xtask")?.success())
}

fn measure(options: &Options, hotcell: &Path) -> Verdict {
    progress::heading("Measure");
    let busy = machine::busy_with_others();
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let workspace = scratch.path().canonicalize()?;
    let rows = part(&format!("calls of tools, {} rounds", options.rounds), || {
        candidates::measure(hotcell, &workspace, options.rounds)
    })?;
    let mut notes = Vec::new();
    let memory = part(&format!("memory over {} calls", memory::LATE), || Ok(memory::measure(hotcell, &workspace)))?;
    let memory = memory.map_err(|error| in_words(&error));
    if let Ok(memory) = &memory {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        notes.push(format!(
            "The server had {:.1} MiB of memory after {} calls, and {:.1} MiB after {}.",
            mebibytes(memory.early),
            memory::EARLY,
            mebibytes(memory.late),
            memory::LATE
        ));
    }
    let results = Comparison {
        name: "tools",
        title: "What a call of a tool costs",
        method: METHOD,
        machine: Machine::look(None),
        versions: versions()?,
        busy,
        quick: options.quick,
        notes,
        targets: targets::targets(&rows, memory),
        rows,
    };
    results.publish(options.out.as_deref())?;
    Ok(results.rows.iter().all(|row| row.samples.is_ok()))
}

/// Who runs the code.
fn versions() -> Result<Vec<(String, String)>> {
    let python = setup::program("python3").context("python3 is not installed, and run_code needs it")?;
    let said = process::run(Command::new(python).arg("--version"), std::time::Duration::from_secs(30))?;
    let version = said.output.trim().strip_prefix("Python ").unwrap_or("of an unknown version").to_owned();
    Ok(vec![("hotcell".to_owned(), env!("CARGO_PKG_VERSION").to_owned()), ("Python".to_owned(), version)])
}
