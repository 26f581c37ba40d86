//! `cargo xtask bench`: what a box costs, against plain spawn, the kernel's own floor and bubblewrap.
//!
//! The command builds the release `hotcell` and the release xtask, and lets the latter measure: what is compared is
//! what users get. The results go to the terminal and to `docs/bench`. A number that misses its target is said, and is
//! no failure: this measures, it does not judge. `bench containers` does the same for containers, `bench remote` for
//! remote boxes, and `bench tools` for what agents call.

mod anatomy;
mod boxes;
mod comparison;
mod containers;
mod flood;
mod floor;
mod latency;
pub(crate) mod machine;
mod memory;
mod options;
mod remote;
mod report;
mod samples;
mod spawned;
mod targets;
mod throughput;
mod tools;
mod variants;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hotcell::Engine;
use tokio::runtime::Runtime;

use crate::lint::BUILD_LIMIT;
use crate::workspace::{cargo, forget_hotcell_settings, root, target_directory};
use crate::{Verdict, process, progress};

use anatomy::Anatomy;
use machine::Machine;
use options::{Options, Usual};
use report::Results;

/// What was measured, or why it was not.
type Measured<T> = std::result::Result<T, String>;

/// Why something was not measured. Only the first line of what a program said has a place in a table.
fn in_words(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

const GIBIBYTE: u64 = 1 << 30;

/// Threads of the runtime that serves many commands at once.
const WORKERS: usize = 2;

/// Rounds of the ordinary benchmark.
const USUAL: Usual = Usual { full: 1000, quick: 30 };

pub(crate) fn run(arguments: &[String]) -> Verdict {
    match arguments.split_first() {
        Some((first, rest)) if first == "containers" => return containers::run(rest),
        Some((first, rest)) if first == "remote" => return remote::run(rest),
        Some((first, rest)) if first == "tools" => return tools::run(rest),
        _ => {}
    }
    let options = Options::parse(arguments, USUAL)?;
    match &options.command {
        Some(command) => measure(&options, command).map(|()| true),
        None => build_and_measure(arguments),
    }
}

fn build_and_measure(arguments: &[String]) -> Verdict {
    let Some(built) = build()? else { return Ok(false) };
    let mut command = Command::new(built.join("xtask"));
    command.arg("bench").arg(options::MEASURE).arg(built.join("hotcell")).args(arguments);
    forget_hotcell_settings(&mut command);
    Ok(command.status().context("cannot start the release build of xtask")?.success())
}

/// Builds what is measured and what measures, each by itself: built together, one could get features of the other.
/// Where they are, or nothing if one of them does not build.
fn build() -> Result<Option<PathBuf>> {
    progress::heading("Build");
    for package in ["hotcell-cli", "xtask"] {
        let line = progress::begin(&format!("{package}, release"));
        let mut command = cargo()?;
        command.args(["build", "--quiet", "--release", "--package", package]);
        let finished = process::run(&mut command, BUILD_LIMIT)?;
        if !finished.success() {
            line.end_failed("FAILED", &finished.output);
            return Ok(None);
        }
        line.end("ok");
    }
    Ok(Some(target_directory()?.join("release")))
}

fn measure(options: &Options, command: &Path) -> Result<()> {
    machine::raise_open_files();
    let results = measure_everything(options, command)?;
    print!("\n{}", report::table::text(&results));
    let directory = match &options.out {
        Some(directory) => directory.clone(),
        None => root()?.join("docs/bench"),
    };
    report::write(&results, &directory)?;
    println!("\nwritten to {}", directory.display());
    Ok(())
}

fn measure_everything(options: &Options, command: &Path) -> Result<Results> {
    progress::heading("Measure");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let program = spawned::system_program("true").context("there is no /usr/bin/true to run")?;
    let sleep = spawned::system_program("sleep").context("there is no /usr/bin/sleep to run")?;
    let bubblewrap = spawned::find_bubblewrap();
    let bwrap = || bubblewrap.as_deref().map_err(Clone::clone);
    let busy = machine::busy_with_others();

    // First, while the peak of our memory is still that of a process that has done nothing.
    let flood_size = options.scale(20, 1) * GIBIBYTE;
    let flood = part(&format!("flood of {} GiB", flood_size / GIBIBYTE), || flood::measure(&runtime, flood_size))?;
    let anatomy = part("what a box is made of", || look_at_a_box(&runtime))?;
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let latency = part(&format!("latency, {} rounds", options.rounds), || {
        let ingredients = variants::Ingredients {
            anatomy: &anatomy,
            program: &program,
            bubblewrap: bwrap(),
            command,
            scratch: scratch.path(),
        };
        variants::measure(&ingredients, options.rounds)
    })?;
    let contest = throughput::Contest {
        program: &program,
        anatomy: &anatomy,
        bubblewrap: bwrap(),
        slices: options.scale(8, 1),
        slice: Duration::from_millis(options.scale(1000, 500)),
    };
    let throughput = part("throughput, 8 at a time", || throughput::measure(&runtime, &contest))?;
    let pairs = options.scale(15, 1);
    let workload = part(&format!("work inside and outside, {pairs} pairs"), || workload::measure(&runtime, pairs))?;
    let boxes = options.scale(1000, 100);
    let memory = part(&format!("memory of {boxes} boxes"), || memory::measure(&runtime, boxes, &sleep))?;
    Ok(Results {
        machine: Machine::look(bubblewrap.as_deref().ok()),
        busy,
        quick: options.quick,
        rounds: options.rounds,
        mounts: anatomy.mounts.len(),
        latency,
        throughput,
        memory,
        flood,
        workload,
    })
}

fn look_at_a_box(runtime: &Runtime) -> Result<Anatomy> {
    let engine = runtime.block_on(Engine::new())?;
    let anatomy = runtime.block_on(Anatomy::of_a_box(&engine));
    runtime.block_on(engine.close());
    anatomy
}

/// Measures one part, with a line to watch.
fn part<T>(name: &str, measure: impl FnOnce() -> Result<T>) -> Result<T> {
    let line = progress::begin(name);
    match measure() {
        Ok(result) => {
            line.end("done");
            Ok(result)
        }
        Err(error) => {
            line.end("FAILED");
            Err(error.context(format!("cannot measure: {name}")))
        }
    }
}
