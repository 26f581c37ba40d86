//! `hotcell verify`: boxes attack themselves, and what got through is shown.

use std::fs;
use std::io::IsTerminal;

use hotcell::config::Origin;
use hotcell::runtime::{RuntimeChoice, RuntimeKind};
use hotcell::settings::{RemoteRuntime, Request};
use hotcell::{Engine, EngineOptions};
use hotcell_verify::check::Check;
use hotcell_verify::knockout::{self, Boxes};
use hotcell_verify::report::Report;
use hotcell_verify::target::{self, MadeOf, Target};
use hotcell_verify::{Layer, Suite};

use super::block_on;
use crate::arguments::{ServerFlags, VerifyArguments};
use crate::failure::Failure;
use crate::{exit, json, output};

/// Tries the checks; the exit code says whether anything got through, or was not as expected.
pub(crate) fn execute(arguments: &VerifyArguments) -> Result<u8, Failure> {
    check_flags(arguments)?;
    let targets = targets(arguments)?;
    let boxes = boxes(&arguments.knock_out)?;
    let mut suite = Suite::filtered(&arguments.filter).map_err(|error| Failure::usage(&error.to_string()))?;
    if arguments.list {
        return output::to_stdout(&output::printable(&list(suite.checks())));
    }
    for name in &arguments.runtime {
        see_it_start(name, &made_of(name, arguments)?)?;
    }
    let mut progress = Progress::new(suite.checks().len() * (targets.len() + boxes.len()));
    let examination = Report::examine(&mut suite, &targets, &boxes, |sandbox, check| progress.next(sandbox, check));
    let report = block_on(async { Ok(examination.await) })?;
    progress.end();
    if let Some(file) = &arguments.html {
        fs::write(file, report.to_html())
            .map_err(|error| Failure::new("report", format!("cannot write {}: {error}", file.display())))?;
    }
    let shown = match arguments.json {
        true => json::line(&report.to_json()),
        false => output::printable(&report.to_text(arguments.verbose)),
    };
    let code = if report.is_good() { exit::SUCCESS } else { exit::INCOMPLETE };
    Ok(output::to_stdout(&shown)?.max(code))
}

fn targets(arguments: &VerifyArguments) -> Result<Vec<Box<dyn Target>>, Failure> {
    let native = ["native".to_owned()];
    let names = if arguments.runtime.is_empty() { &native[..] } else { &arguments.runtime };
    let target = |name: &String| {
        target::named(name, &made_of(name, arguments)?).map_err(|error| Failure::usage(&error.to_string()))
    };
    names.iter().map(target).collect()
}

/// What boxes of this name are made of. The server of remote ones is the configured one, or that of the flags.
fn made_of(name: &str, arguments: &VerifyArguments) -> Result<MadeOf, Failure> {
    let mut made_of = MadeOf {
        image: arguments.image.clone(),
        oci_runtime: arguments.oci_runtime.clone(),
        open_network: arguments.open_network,
        ..MadeOf::default()
    };
    if is_remote(name) && !arguments.list {
        let mut request = Request::of_this_process()?;
        request.flags.set("sandbox.mode", name, Origin::flag("--runtime"))?;
        if let Some(template) = &arguments.template {
            request.flags.set("remote.template", template, Origin::flag("--template"))?;
        }
        arguments.server.add_to(&mut request.flags)?;
        if let Some(runtime) = RemoteRuntime::load(&request)? {
            made_of.remote = runtime.remote;
        }
    }
    Ok(made_of)
}

fn is_remote(name: &str) -> bool {
    name.parse::<RuntimeKind>().is_ok_and(RuntimeKind::is_remote)
}

/// Refuses what was asked for in so many words and would not be used.
fn check_flags(arguments: &VerifyArguments) -> Result<(), Failure> {
    let ServerFlags { sandbox_url, sandbox_key_file, plain_http } = &arguments.server;
    let given = sandbox_url.is_some()
        || sandbox_key_file.is_some()
        || *plain_http
        || arguments.template.is_some()
        || arguments.open_network;
    if given && !arguments.runtime.iter().any(|name| is_remote(name)) {
        let flags = "--sandbox-url, --sandbox-key-file, --template, --plain-http and --open-network";
        let message = format!("{flags} have no meaning for a local box; add --runtime opensandbox, e2b or cube");
        return Err(Failure::usage(&message));
    }
    Ok(())
}

/// A kind of box that cannot be had here would fail every check, and prove nothing.
fn see_it_start(name: &str, made_of: &MadeOf) -> Result<(), Failure> {
    // Others to compare with are no boxes of ours, and say for themselves what they lack.
    let Ok(kind) = name.parse::<RuntimeKind>() else { return Ok(()) };
    let mut options = EngineOptions::default().warm(0);
    options.runtime = RuntimeChoice::Kind(kind);
    options.oci_runtime.clone_from(&made_of.oci_runtime);
    options.remote.clone_from(&made_of.remote);
    block_on(async {
        let started = Engine::with_options(options).await;
        started
            .map_err(|error| Failure::engine(error, &[]).hint("`hotcell doctor` says what this machine can do"))?
            .close()
            .await;
        Ok(())
    })
}

fn boxes(names: &[String]) -> Result<Vec<Boxes>, Failure> {
    if names.iter().any(|name| name == "all") {
        return Ok(Boxes::all());
    }
    let layer = |name: &String| {
        let layer: Layer = name.parse().map_err(|error| Failure::usage(&format!("{error}, and `all`")))?;
        match knockout::switchable().any(|switchable| switchable == layer) {
            true => Ok(Boxes::Without(layer)),
            false => Err(Failure::usage(&format!("only root can have a box without the layer `{layer}`"))),
        }
    };
    names.iter().map(layer).collect()
}

fn list(checks: &[&Check]) -> String {
    let rows: Vec<[String; 2]> = checks.iter().map(|check| [check.id.to_owned(), check.tries.to_owned()]).collect();
    crate::table::aligned("", &rows)
}

/// A bar on a terminal, and nothing elsewhere.
struct Progress {
    done: usize,
    all: usize,
    shown: bool,
}

impl Progress {
    const WIDTH: usize = 24;

    fn new(all: usize) -> Self {
        Self { done: 0, all, shown: std::io::stderr().is_terminal() }
    }

    fn next(&mut self, sandbox: &str, check: &Check) {
        if self.shown {
            let filled = self.done * Self::WIDTH / self.all.max(1);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(Self::WIDTH - filled));
            output::status(&format!("[{bar}] {}/{} {sandbox}: {}", self.done, self.all, check.id));
        }
        self.done += 1;
    }

    fn end(&self) {
        if self.shown {
            output::status("");
        }
    }
}
