//! `hotcell shell`: an interactive shell in a box.

use std::io::{self, IsTerminal};
use std::path::Path;

use super::run::{Job, run};
use super::without_time_limit;
use crate::arguments::ShellArguments;
use crate::failure::Failure;

/// Shells that the box shows if the host has them, best first.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Runs the shell; the exit code is the shell's.
pub(crate) fn execute(arguments: ShellArguments) -> Result<u8, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let failure = Failure::new("terminal", "an interactive shell needs a terminal, and stdin or stdout is none");
        return Err(failure.hint("for a script use `hotcell run -- sh -c '…'`"));
    }
    let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists()).unwrap_or("/bin/sh");
    run(Job {
        command: vec![shell.into()],
        flags: arguments.policy.to_config(true)?,
        defaults: without_time_limit(),
        policy_file: arguments.policy.policy,
        tty: true,
        json: false,
        verbose: arguments.verbose,
        report: None,
    })
}
