//! The MCP Inspector, kept in the user's cache.

use std::path::PathBuf;

use anyhow::Result;

use crate::test::npm;

const PACKAGE: &str = "@modelcontextprotocol/inspector";
const VERSION: &str = "2.12.0";

/// Where it is.
#[derive(Debug)]
pub(super) struct Inspector {
    directory: PathBuf,
}

impl Inspector {
    /// Finds it, or installs it: a minute.
    pub(super) fn provide() -> Result<Self> {
        Ok(Self { directory: npm::provide("inspector", PACKAGE, VERSION)? })
    }

    /// Its command.
    pub(super) fn program(&self) -> PathBuf {
        self.directory.join("node_modules/.bin/mcp-inspector")
    }
}
