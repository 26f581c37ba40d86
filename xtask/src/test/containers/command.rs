//! `cargo xtask engines -- COMMAND`: a command with engines to use.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::realm::Group;
use super::{Engines, Supplies};
use crate::test::remote::{Servers, build_standin};
use crate::{Verdict, progress};

pub(crate) fn run(arguments: &[String]) -> Verdict {
    let command = match arguments {
        [dashes, command @ ..] if dashes == "--" => command,
        command => command,
    };
    if command.is_empty() {
        bail!("usage: cargo xtask engines -- COMMAND");
    }
    with_servers(|inside| {
        inside.args(command);
    })
}

/// Runs a command among engines and servers, which are started for it and stopped; `prepare` says which.
pub(crate) fn with_servers(prepare: impl FnOnce(&mut Command)) -> Verdict {
    with_engines(|engines| {
        let directory = env::current_dir().context("cannot find the current directory")?;
        let mut missing = |name: &str, error: &anyhow::Error| println!("  {name}: {error:#}");
        let line = progress::begin("OpenSandbox and stand-ins");
        let servers = Servers::start(&build_standin()?, Some(engines), &mut missing)?;
        line.end("started");
        // The network is the engines' own: there OpenSandbox listens, and so do the ports of its sandboxes.
        let mut inside = engines.realm().command(Group::Network, &directory);
        prepare(&mut inside);
        inside.envs(engines.environment()).envs(servers.environment_inside());
        let status = inside.status().context("cannot start `nsenter`");
        servers.stop()?;
        let status = status?;
        if !status.success() {
            let signal = status.signal().map(|signal| format!(", by signal {signal}")).unwrap_or_default();
            println!("the command failed: {status}{signal}");
            println!("{}", engines.log_tails());
        }
        Ok(status.success())
    })
}

/// Starts engines, does `work` with them and stops them; false also when something was left behind.
pub(crate) fn with_engines(work: impl FnOnce(&Engines) -> Verdict) -> Verdict {
    progress::heading("Engines");
    let mut reasons = Vec::new();
    let supplies = Supplies::get(&mut |name, missing| reasons.push(format!("{name}: {}", missing.reason)))?;
    for reason in &reasons {
        println!("  {reason}");
    }
    let Some(supplies) = supplies else { bail!("there are no engines: {}", reasons.join("; ")) };
    let line = progress::begin("Docker and Podman");
    let engines: Engines = match supplies.start() {
        Ok(engines) => engines,
        Err(error) => {
            line.end("FAILED");
            return Err(error);
        }
    };
    line.end("started");
    let worked: Result<bool> = work(&engines);
    let left = engines.stop()?;
    for what in &left {
        println!("left behind: {what}");
    }
    Ok(worked? && left.is_empty())
}
