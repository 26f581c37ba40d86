//! Commands of bash that share variables and a directory: each is a bash of its own, which is given what the one before
//! it left.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

/// Runs the command and writes down what it left. Arguments: the command, and two files.
const SCRIPT: &str = r#"hotcell_command=$1 hotcell_variables=$2 hotcell_place=$3; set --
eval "$hotcell_command"
hotcell_status=$?
env -0 > "$hotcell_variables"; pwd > "$hotcell_place"
exit "$hotcell_status""#;

/// What is kept between commands.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    pub(crate) variables: BTreeMap<OsString, OsString>,
    pub(crate) directory: Option<PathBuf>,
}

impl Shell {
    /// A shell with the variables of this process.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { variables: std::env::vars_os().collect(), directory }
    }

    /// What runs `command` in a group of its own, without input, and where it leaves what is to be kept.
    pub(crate) fn process(&self, command: &str) -> Result<(Command, TempDir)> {
        let left = tempfile::tempdir().context("cannot make a temporary directory")?;
        let mut process = Command::new("bash");
        process.args(["--noprofile", "--norc", "-c", SCRIPT, "bash", command]);
        process.arg(left.path().join("variables")).arg(left.path().join("place"));
        process.env_clear().envs(&self.variables);
        if let Some(directory) = &self.directory {
            process.current_dir(directory);
        }
        process.process_group(0).stdin(Stdio::null());
        Ok((process, left))
    }

    /// Takes over what a command left; one that ended its shell left nothing.
    pub(crate) fn keep(&mut self, left: &TempDir) {
        if let Ok(bytes) = std::fs::read(left.path().join("variables")) {
            let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
                let equals = pair.iter().position(|byte| *byte == b'=')?;
                let (name, value) = pair.split_at(equals);
                Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.get(1..)?.to_vec())))
            });
            self.variables = pairs.collect();
        }
        if let Ok(mut bytes) = std::fs::read(left.path().join("place"))
            && bytes.pop().is_some()
        {
            self.directory = Some(OsString::from_vec(bytes).into());
        }
    }
}
