//! `cargo xtask soak`: very many boxes, killed programs, failing system calls and races, and what is left afterwards.
//!
//! Every part has figures that must be met, and every part is itself tested: `--mutants` builds the code with a defect put
//! in on purpose, and the part that is there to find such a defect has to fail.

mod cgroups;
mod cycles;
mod enclosure;
mod faults;
mod kill9;
mod mutants;
mod options;
mod proc;
mod races;
mod random;
mod report;
mod slope;
mod snapshot;
mod thousand;
mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::Runtime;

use crate::bench::machine;
use crate::workspace::{root, target_directory};
use crate::{Verdict, progress};

use options::Options;
use random::Random;
use report::Found;

/// Threads of the runtime that serves the boxes.
const WORKERS: usize = 2;

/// A part of the soak.
struct Part {
    name: &'static str,
    about: &'static str,
    run: fn(&Setting<'_>) -> Result<Found>,
}

/// Every part there is, in the order in which they run.
const PARTS: &[Part] = &[
    Part {
        name: "cycles",
        about: "Boxes of nine kinds are made, used and ended, eight at a time. Before, every thousand and after, everything \
            that could be left of them is counted, and has to come back to the exact count from before: processes, \
            zombies, namespaces, mounts, cgroups, files, shared memory, IPC objects, keys, descriptors.",
        run: cycles::run,
    },
    Part {
        name: "thousand",
        about: "A thousand boxes live at once, and each keeps to itself: it sees nothing of another. All are gone soon after the \
                order to end them, processes, cgroups and mounts.",
        run: thousand::run,
    },
    Part {
        name: "kill9",
        about: "A program that uses the library is killed with SIGKILL while hostile boxes live and are being made: they fork twice, \
                ignore signals, stop themselves, start processes without end, hold pipes. Two seconds later no process, cgroup, \
                mount, placeholder or file of it is left.",
        run: kill9::run,
    },
    Part {
        name: "faults",
        about: "Each system call that the helper makes while it sets a box up is made to fail. The box is then refused, or the \
                command is confined exactly as without the fault: capabilities, filter, users, namespaces, mounts, descriptors, \
                limits, cgroups as the kernel tells them, and canaries that stay out of reach.",
        run: faults::run,
    },
    Part {
        name: "races",
        about: "A directory and a link that leads out of its tree change places at full speed, in a box or on the host, while the \
                host reads, writes, lists, makes and removes there, commits the changes of overlays, and cleans up. What the link \
                leads to is never read and never changes.",
        run: races::run,
    },
];

/// Something that this program can be besides the soak.
struct Role {
    name: &'static str,
    run: fn(&[String]) -> Result<()>,
}

/// Every role there is.
const ROLES: &[Role] = &[
    Role { name: "resident", run: thousand::inside::resident },
    Role { name: "look", run: thousand::inside::look },
    Role { name: "victim", run: kill9::victim::run },
    Role { name: "subject", run: faults::subject::run },
    Role { name: "probe", run: faults::subject::probe },
    Role { name: "swap", run: races::swapper::run },
];

/// What every part is given.
struct Setting<'a> {
    options: &'a Options,
    runtime: &'a Runtime,
    /// Where random numbers begin.
    seed: u64,
    /// A directory of the soak's own, searchable by everybody, by its real path.
    scratch: PathBuf,
}

impl Setting<'_> {
    /// How long the kernel and the machine's init may take to let go of what has ended.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.options.scale(30, 8))
    }
}

pub(crate) fn run(arguments: &[String]) -> Verdict {
    if let Some((first, rest)) = arguments.split_first()
        && first == worker::WORKER
    {
        return worker::run(rest);
    }
    let options = Options::parse(arguments)?;
    if options.mutants {
        return mutants::run(&options);
    }
    if !options.inside && enclosure::is_possible() {
        return enclosure::run(arguments);
    }
    soak(&options)
}

fn soak(options: &Options) -> Verdict {
    machine::raise_open_files();
    let directory = match &options.out {
        Some(directory) => directory.clone(),
        None if options.quick => target_directory()?.join("soak"),
        None => root()?.join("docs/soak"),
    };
    let seed = options.seed.unwrap_or_else(Random::any_seed);
    println!("seed {seed}; `--seed {seed}` repeats the random choices");
    let mut all_hold = true;
    for part in PARTS.iter().filter(|part| options.only.as_ref().is_none_or(|only| only == part.name)) {
        progress::heading(part.name);
        let started = Instant::now();
        let found = one_part(part, options, seed).with_context(|| format!("the part `{}` broke off", part.name))?;
        for failure in found.failures() {
            println!("  failed: {failure}");
        }
        if found.failure_count() > found.failures().len() {
            println!("  … and {} more", found.failure_count() - found.failures().len());
        }
        let verdict = if found.holds() { "holds" } else { "DOES NOT HOLD" };
        println!("  {verdict}: {} [{:.1} s]", found.line(), started.elapsed().as_secs_f64());
        report::write(&directory, part.name, &found, started.elapsed(), options.quick)?;
        all_hold &= found.holds();
    }
    println!("\nwritten to {}", directory.display());
    Ok(all_hold)
}

/// Each part has a runtime and a directory of its own, so that it finds nothing of the one before.
fn one_part(part: &Part, options: &Options, seed: u64) -> Result<Found> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let scratch = tempfile::Builder::new()
        .prefix("hotcell-soak-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .context("cannot make a temporary directory")?;
    let setting = Setting { options, runtime: &runtime, seed, scratch: scratch.path().canonicalize()? };
    (part.run)(&setting)
}

/// An error with all its causes.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
