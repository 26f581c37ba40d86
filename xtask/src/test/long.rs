//! What takes long: other kernels, soak, fuzzing, and the examination that `docs/verify` shows.
//!
//! Every run has a taste of it; `--full` has all of it.

use std::env;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::setup::{self, Missing};
use super::tally::Tally;
use super::{conclude, is_root, step_within};
use crate::verify::elsewhere::{kernel_command, stage};
use crate::workspace::target_directory;
use crate::{process, progress, vm_lab};

/// Longer than any of them takes.
const LIMIT: Duration = Duration::from_secs(2 * 3600);

/// Groups of checks that take little time on an emulated processor, too.
const QUICK_GROUPS: &[&str] = &["filesystem.", "process.", "kernel.", "network."];

/// Soak in small numbers, and the quick checks on each of the other kernels.
pub(super) fn taste(tally: &mut Tally) -> Result<()> {
    progress::heading("Soak and other kernels, in small");
    step_within(LIMIT, "soak --quick", xtask()?.args(["soak", "--quick"]), tally)?;
    if let Some(missing) = no_kernels()? {
        tally.skip("other kernels", &missing.reason, missing.avoidable);
        return Ok(());
    }
    if let Err(error) = vm_lab::install() {
        tally.skip("other kernels", &format!("not installed: {error:#}"), true);
        return Ok(());
    }
    let staged = stage(&super::trial_binary()?)?;
    let mut commands = Vec::new();
    for suite in vm_lab::SUITES {
        let mut command = kernel_command(suite, &staged.program)?;
        command.args(QUICK_GROUPS.iter().flat_map(|group| ["--filter", group]));
        commands.push((format!("verify, quick groups, on Debian {suite}"), command));
    }
    side_by_side(commands, tally)
}

/// Runs commands as steps, two at a time: an emulated machine keeps one processor busy.
fn side_by_side(commands: Vec<(String, Command)>, tally: &mut Tally) -> Result<()> {
    let waiting = Mutex::new(commands.into_iter());
    let tally = Mutex::new(tally);
    let work = || -> Result<()> {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((name, mut command)) = next else { return Ok(()) };
            let started = Instant::now();
            let finished = process::run(&mut command, LIMIT)?;
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            conclude(&name, progress::begun(&name, started), &finished, &mut tally);
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        work().and(other.join().unwrap_or_else(|_| Err(anyhow!("a thread that watched a step panicked"))))
    })
}

/// Everything.
pub(super) fn all(tally: &mut Tally) -> Result<()> {
    progress::heading("The long part");
    let out = target_directory()?.join("verify");
    step_within(LIMIT, "verify", xtask()?.arg("verify").arg("--out").arg(out), tally)?;
    let out = target_directory()?.join("soak");
    step_within(LIMIT, "soak", xtask()?.arg("soak").arg("--out").arg(out), tally)?;
    step_within(LIMIT, "soak --mutants", xtask()?.args(["soak", "--mutants"]), tally)?;
    step_within(LIMIT, "fuzz", xtask()?.arg("fuzz"), tally)
}

/// Why there are no other kernels here.
fn no_kernels() -> Result<Option<Missing>> {
    if !is_root() {
        let reason = "only root can have QEMU and the kernels installed".to_owned();
        return Ok(Some(Missing { reason, avoidable: false }));
    }
    if !setup::is_debian() || !cfg!(target_arch = "x86_64") {
        let reason = "they are Debian's for x86_64, and this is another kind of machine".to_owned();
        return Ok(Some(Missing { reason, avoidable: false }));
    }
    Ok(None)
}

fn xtask() -> Result<Command> {
    Ok(Command::new(env::current_exe().context("cannot find xtask itself")?))
}
