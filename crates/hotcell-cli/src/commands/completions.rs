//! `hotcell completions`: scripts for shells.

use clap::CommandFactory;

use crate::arguments::{Cli, CompletionsArguments};
use crate::failure::Failure;
use crate::output;

/// Prints the script for a shell.
pub(crate) fn execute(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "hotcell", &mut script);
    output::to_stdout(&String::from_utf8_lossy(&script))
}
