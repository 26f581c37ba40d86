//! Servers for tests of remote boxes: OpenSandbox's own, and stand-ins where the real one cannot be had.
//!
//! ```text
//! on this machine          stand-ins for E2B and execd   everybody's tests
//! among the engines        stand-in for E2B              root's tests that speak of OpenSandbox; they run among the
//!                          opensandbox-server ─▶ Docker  engines with the engines' network, where all of this listens
//! ```
//! The official SDKs are run against the same servers, to see that the stand-ins are what they pretend to be.

mod child;
mod image;
mod opensandbox;
mod python;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::binaries::{Binaries, TestBinary};
use super::containers::realm::Group;
use super::containers::{self, Engines, Environment};
use super::libtest::Report;
use super::tally::Tally;
use crate::workspace::{cargo, forget_hotcell_settings, root, target_directory};
use crate::{process, progress};

use child::Server;
use opensandbox::OpenSandbox;
pub(crate) use python::{Python, REQUIREMENTS};

/// The real OpenSandbox server: its address, its key, and an image that it has.
const OPENSANDBOX_URL: &str = "HOTCELL_TEST_OPENSANDBOX_URL";
const OPENSANDBOX_KEY: &str = "HOTCELL_TEST_OPENSANDBOX_KEY";
const OPENSANDBOX_IMAGE: &str = "HOTCELL_TEST_OPENSANDBOX_IMAGE";
/// A server that speaks E2B's API: its address, for both planes, and its key.
const E2B_URL: &str = "HOTCELL_TEST_E2B_URL";
const E2B_KEY: &str = "HOTCELL_TEST_E2B_KEY";
/// An execd without a server around it: its address, and its token.
const EXECD_URL: &str = "HOTCELL_TEST_EXECD_URL";
const EXECD_TOKEN: &str = "HOTCELL_TEST_EXECD_TOKEN";
/// The path of the stand-in, for tests that start it themselves.
const STANDIN: &str = "HOTCELL_TEST_STANDIN";

const KEY: &str = "hotcell-test-key";
/// Where the stand-in for E2B listens among the engines.
const INSIDE: &str = "127.0.0.1:8081";

/// Longer than the tests of an SDK take on a slow machine.
const SDK_LIMIT: Duration = Duration::from_secs(300);

/// Servers that run.
#[derive(Debug)]
pub(crate) struct Servers {
    standin: PathBuf,
    /// The stand-in for E2B on this machine, and where it listens.
    e2b: (Server, String),
    /// The stand-in for execd on this machine.
    execd: (Server, String),
    /// The one for E2B among the engines.
    inside: Option<(Server, String)>,
    opensandbox: Option<OpenSandbox>,
    python: Option<Python>,
}

impl Servers {
    /// Starts what can be started. `missing` is told what cannot, and why.
    pub(crate) fn start(
        standin: &Path,
        engines: Option<&Engines>,
        missing: &mut dyn FnMut(&str, &anyhow::Error),
    ) -> Result<Self> {
        let on_this_machine = || {
            let mut command = Command::new(standin);
            forget_hotcell_settings(&mut command);
            command
        };
        let e2b = Server::start_standin(e2b_at(&mut on_this_machine(), "127.0.0.1:0"))?;
        let execd = Server::start_standin(
            on_this_machine().args(["execd", "--listen", "127.0.0.1:0", "--lifeline"]).env("EXECD_ACCESS_TOKEN", KEY),
        )?;
        let python =
            Python::provide().inspect_err(|error| missing("the official SDKs of OpenSandbox and E2B", error)).ok();
        let mut servers = Self { standin: standin.to_owned(), e2b, execd, inside: None, opensandbox: None, python };
        let Some(engines) = engines else { return Ok(servers) };
        let mut command = engines.realm().command(Group::Daemons, Path::new("/"));
        servers.inside = Some(Server::start_standin(e2b_at(command.arg(standin), INSIDE))?);
        if let Some(python) = &servers.python {
            let started = OpenSandbox::start(engines, python, standin);
            servers.opensandbox = started.inspect_err(|error| missing("opensandbox-server", error)).ok();
        }
        Ok(servers)
    }

    /// What tells tests on this machine where everything is.
    pub(crate) fn environment(&self) -> Environment {
        let mut variables = self.with_e2b(&self.e2b.1);
        variables.extend([(EXECD_URL, self.execd.1.clone().into()), (EXECD_TOKEN, KEY.into())]);
        variables
    }

    /// The same for those that run among the engines, with their network.
    pub(crate) fn environment_inside(&self) -> Environment {
        let Some((_, e2b)) = &self.inside else { return Environment::new() };
        let mut variables = self.with_e2b(e2b);
        if self.opensandbox.is_some() {
            variables.push((OPENSANDBOX_URL, format!("http://{}", opensandbox::ADDRESS).into()));
            variables.push((OPENSANDBOX_KEY, opensandbox::KEY.into()));
            variables.push((OPENSANDBOX_IMAGE, containers::image::NAME.into()));
        }
        variables
    }

    fn with_e2b(&self, address: &str) -> Environment {
        vec![(STANDIN, self.standin.clone().into_os_string()), (E2B_URL, address.into()), (E2B_KEY, KEY.into())]
    }

    /// Ends everything.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { e2b, execd, inside, opensandbox, .. } = self;
        let opensandbox = opensandbox.map_or(Ok(()), OpenSandbox::stop);
        let inside = inside.map_or(Ok(()), |(server, _)| server.stop());
        e2b.0.stop().and(execd.0.stop()).and(inside).and(opensandbox)
    }
}

fn e2b_at<'a>(command: &'a mut Command, address: &str) -> &'a mut Command {
    command.args(["e2b", "--listen", address, "--api-key", KEY, "--lifeline"])
}

/// The stand-in among what was built.
fn standin(binaries: &Binaries) -> Option<&Path> {
    binaries.programs.iter().find(|(name, _)| name == "hotcell-standin").map(|(_, path)| path.as_path())
}

/// Builds the stand-in alone.
pub(crate) fn build_standin() -> Result<PathBuf> {
    let finished =
        process::run(cargo()?.args(["build", "--quiet", "--package", "hotcell-standin"]), crate::lint::BUILD_LIMIT)?;
    if !finished.success() {
        anyhow::bail!("cannot build the stand-in: {}", finished.output.trim());
    }
    Ok(target_directory()?.join("debug/hotcell-standin"))
}

/// Does `binary` need what listens among the engines?
pub(super) fn is_among_engines(binary: &TestBinary) -> Result<bool> {
    containers::speaks_of(binary, &[OPENSANDBOX_URL])
}

/// Starts the servers for a run of tests; counts what there is not.
pub(super) fn start(binaries: &Binaries, engines: Option<&Engines>, tally: &mut Tally) -> Result<Option<Servers>> {
    progress::heading("Remote servers");
    let Some(standin) = standin(binaries) else {
        tally.fail("build the stand-in for remote servers");
        return Ok(None);
    };
    let line = progress::begin("OpenSandbox and stand-ins");
    let mut missing = Vec::new();
    let started =
        Servers::start(standin, engines, &mut |name, error| missing.push((name.to_owned(), format!("{error:#}"))));
    match started {
        Ok(servers) => {
            line.end(if missing.is_empty() { "started" } else { "incomplete" });
            for (name, reason) in &missing {
                tally.skip(name, &format!("not installed: {reason}"), true);
            }
            Ok(Some(servers))
        }
        Err(error) => {
            line.end_failed("FAILED", &format!("{error:#}"));
            tally.fail("start OpenSandbox and stand-ins");
            Ok(None)
        }
    }
}

/// Runs the official SDKs against the servers.
pub(super) fn sdks(
    servers: &Servers,
    engines: Option<&Engines>,
    filter: Option<&str>,
    tally: &mut Tally,
) -> Result<()> {
    let Some(python) = &servers.python else { return Ok(()) };
    let scripts = root()?.join("crates/hotcell-standin/tests/sdk");
    let e2b = &servers.e2b.1;
    let with_e2b = [("E2B_API_KEY", KEY), ("E2B_API_URL", e2b), ("E2B_SANDBOX_URL", e2b)];
    let mut runs = vec![("sdk e2b", Command::new(python.program("python")), "e2b_sdk.py", "", &with_e2b[..])];
    let with_opensandbox = [("OPEN_SANDBOX_DOMAIN", opensandbox::ADDRESS), ("OPEN_SANDBOX_API_KEY", opensandbox::KEY)];
    if let (Some(engines), Some(_)) = (engines, &servers.opensandbox) {
        for (name, way) in [("sdk opensandbox", ""), ("sdk opensandbox through the server", "--proxy")] {
            let mut command = engines.realm().command(Group::Network, &scripts);
            command.arg(python.program("python"));
            runs.push((name, command, "opensandbox_sdk.py", way, &with_opensandbox[..]));
        }
    }
    for (name, mut command, script, way, variables) in runs {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let line = progress::begin(name);
        command.arg(scripts.join(script));
        if script == "opensandbox_sdk.py" {
            command.arg(containers::image::NAME);
        }
        command.args((!way.is_empty()).then_some(way)).env("OPENSANDBOX_DISABLE_METRICS", "1");
        command.envs(variables.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
        let finished = process::run(&mut command, SDK_LIMIT).context("cannot run an SDK")?;
        let passed = finished.output.lines().filter(|line| line.starts_with("ok ")).count();
        let report = Report { passed, has_result: true, ..Report::default() };
        if finished.success() && passed > 0 {
            line.end(&report.summary());
        } else {
            line.end_failed("FAILED", &finished.output);
        }
        tally.add(name, &report, &Default::default(), finished.success() && passed > 0);
    }
    Ok(())
}

/// Stops the servers of a run of tests.
pub(super) fn stop(servers: Servers, tally: &mut Tally) {
    let name = "remote servers end";
    let line = progress::begin(name);
    match servers.stop() {
        Ok(()) => line.end("ok"),
        Err(error) => {
            line.end_failed("FAILED", &format!("{error:#}"));
            tally.fail(name);
        }
    }
}
