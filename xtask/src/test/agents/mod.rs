//! Real clients of the Model Context Protocol against `hotcell mcp`: the official Python SDK, the Inspector's command line, and
//! what a browser can send.

mod inspector;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::binaries::Binaries;
use super::libtest::Report;
use super::remote::Python;
use super::setup;
use super::tally::Tally;
use crate::workspace::{forget_hotcell_settings, root};
use crate::{process, progress};

use inspector::Inspector;

/// Longer than the cases of a client take on a slow machine.
const CLIENT_LIMIT: Duration = Duration::from_secs(300);

/// One run of a script: its name, and what it is given.
struct Run {
    name: &'static str,
    script: &'static str,
    arguments: Vec<PathBuf>,
}

/// Runs every client that can be had; counts what there is not.
pub(super) fn run(binaries: &Binaries, filter: Option<&str>, tally: &mut Tally) -> Result<()> {
    progress::heading("Clients of the Model Context Protocol");
    let Some((_, hotcell)) = binaries.programs.iter().find(|(name, _)| name == "hotcell") else {
        tally.fail("find the hotcell command for its clients");
        return Ok(());
    };
    let line = progress::begin("the Python SDK and the Inspector");
    let mut missing = Vec::new();
    let python =
        Python::provide().inspect_err(|error| missing.push(("the Python SDK of MCP", format!("{error:#}")))).ok();
    let inspector =
        Inspector::provide().inspect_err(|error| missing.push(("the MCP Inspector", format!("{error:#}")))).ok();
    line.end(if missing.is_empty() { "all there" } else { "incomplete" });
    for (name, reason) in &missing {
        tally.skip(name, &format!("not installed: {reason}"), true);
    }
    // Without it nothing can start the others either.
    let Some(python) = python else { return Ok(()) };
    for run in runs(hotcell, inspector.as_ref(), tally) {
        if filter.is_none_or(|filter| run.name.contains(filter)) {
            run.on(&python, tally)?;
        }
    }
    Ok(())
}

fn runs(hotcell: &Path, inspector: Option<&Inspector>, tally: &mut Tally) -> Vec<Run> {
    let sdk = |name, transport: &str, mode: &str| Run {
        name,
        script: "python_sdk.py",
        arguments: vec![hotcell.to_owned(), transport.into(), mode.into()],
    };
    let mut runs = vec![
        sdk("mcp sdk on stdio", "stdio", "auto"),
        sdk("mcp sdk on stdio, with a handshake", "stdio", "legacy"),
        sdk("mcp sdk over HTTP", "http", "auto"),
        sdk("mcp sdk over HTTP, with a handshake", "http", "legacy"),
    ];
    if let Some(inspector) = inspector {
        let arguments = vec![hotcell.to_owned(), inspector.program()];
        runs.push(Run { name: "mcp inspector", script: "inspector.py", arguments });
    }
    match setup::program("node") {
        Some(node) => {
            runs.push(Run {
                name: "mcp and a browser",
                script: "browser.py",
                arguments: vec![hotcell.to_owned(), node],
            });
        }
        None => tally.skip("mcp and a browser", "node is not installed", true),
    }
    runs
}

impl Run {
    fn on(&self, python: &Python, tally: &mut Tally) -> Result<()> {
        let line = progress::begin(self.name);
        let mut command = Command::new(python.program("python"));
        command.arg(root()?.join("crates/hotcell-mcp/tests/clients").join(self.script)).args(&self.arguments);
        forget_hotcell_settings(&mut command);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let finished = process::run(&mut command, CLIENT_LIMIT).context("cannot run a client")?;
        let passed = finished.output.lines().filter(|line| line.starts_with("ok ")).count();
        let report = Report { passed, has_result: true, ..Report::default() };
        let ended_well = finished.success() && passed > 0;
        if ended_well {
            line.end(&report.summary());
        } else {
            line.end_failed("FAILED", &finished.output);
        }
        tally.add(self.name, &report, &Default::default(), ended_well);
        Ok(())
    }
}
