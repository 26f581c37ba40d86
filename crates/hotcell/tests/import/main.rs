//! Settings of other sandboxes: what becomes of every key, that none is overlooked, and that nothing is granted that was not.

#![cfg(feature = "import")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

mod codex;
mod goldens;
mod hostile;
mod keys;
mod never_weaker;
mod srt;

use std::path::Path;

use hotcell::config::{Config, Layer, Origin, Sourced};
use hotcell::import::{Format, ImportError, ImportOptions, Imported, Report, import};
use hotcell::layers::{Context, Layers, resolve};
use hotcell::policy::{Access, Policy};

const HOME: &str = "/home/ada";
const WORKSPACE: &str = "/home/ada/project";

fn options(format: Format) -> ImportOptions {
    ImportOptions { format: Some(format), allow_loss: Vec::new(), workspace: WORKSPACE.into(), home: Some(HOME.into()) }
}

/// The report, whether or not something is lost.
fn report(format: Format, text: &str) -> Report {
    match import(text, &options(format)) {
        Ok(imported) => imported.report,
        Err(ImportError::Lost(report)) => *report,
        Err(error) => panic!("{text}: {error}"),
    }
}

/// The import with everything left out that is lost.
fn import_anyway(format: Format, text: &str) -> Imported {
    let lost: Vec<String> = report(format, text).losses().map(|loss| loss.key.to_owned()).collect();
    import(text, &ImportOptions { allow_loss: lost, ..options(format) })
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What a file of the user's comes to, with the current directory shown by default.
fn policy(toml: &str) -> Policy {
    let mut layers = Layers { user: Some(Config::parse(toml, "imported", Layer::User).unwrap()), ..Layers::default() };
    let workspace = Sourced::new(WORKSPACE.into(), Origin::layer(Layer::Default));
    layers.defaults.filesystem.read.push(workspace);
    resolve(&layers, &Context { root: WORKSPACE.into(), home: Some(HOME.into()) }).unwrap()
}

fn access(policy: &Policy, path: &str) -> Access {
    let path = match path.strip_prefix('~') {
        Some(rest) => format!("{HOME}{rest}"),
        None => path.to_owned(),
    };
    policy.filesystem.effective_access(&Path::new(WORKSPACE).join(path))
}
