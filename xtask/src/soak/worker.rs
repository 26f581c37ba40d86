//! The soak's own program, run again in another role: inside a box, or as a program that uses the library and is killed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use hotcell::SpawnConfig;

use super::proc::MARK;
use super::{ROLES, Role};
use crate::Verdict;
use crate::workspace::forget_hotcell_settings;

/// Comes before the name of a role and its arguments.
pub(super) const WORKER: &str = "--worker";

/// Where our own program is.
pub(super) fn program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find our own program")
}

/// The role, to be run in a box that may read [`program`].
pub(super) fn in_box(role: &str, arguments: &[&str], mark: &str) -> Result<SpawnConfig> {
    Ok(SpawnConfig::new(program()?).args(["soak", WORKER, role]).args(arguments).env(MARK, mark))
}

/// The role, to be run as a program of its own.
pub(super) fn command(role: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(["soak", WORKER, role]);
    forget_hotcell_settings(&mut command);
    Ok(command)
}

/// Plays a role.
pub(super) fn run(arguments: &[String]) -> Verdict {
    let Some((name, rest)) = arguments.split_first() else { bail!("`{WORKER}` needs a role") };
    let Role { run, .. } = ROLES.iter().find(|role| role.name == name).with_context(|| format!("no role `{name}`"))?;
    run(rest).map(|()| true)
}
