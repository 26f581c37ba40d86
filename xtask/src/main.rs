//! What people type while developing: `cargo xtask COMMAND`.
//!
//! One file (or folder) per command, one row per command in [`COMMANDS`].

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "xtask is a program for a terminal, not a library: what it prints is its result"
)]

mod bench;
mod debian;
mod fuzz;
mod lint;
mod process;
mod progress;
mod soak;
mod test;
mod verify;
mod vm_lab;
mod workspace;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};

/// Did everything that the command checked hold?
type Verdict = Result<bool>;

struct Command {
    name: &'static str,
    usage: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> Verdict,
}

/// Every command there is. To add one: a module above, a row here.
const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "test [--filter NAME | --full]",
        summary: "everything that can run here: set-up, lints, tests, doc tests, release, \
                  the tests again as an ordinary user; with --filter only the tests whose names contain NAME; with --full \
                  also verify, soak, mutants and fuzzing, which takes hours",
        run: test::run,
    },
    Command { name: "lint", usage: "lint", summary: "formatting and clippy, warnings are errors", run: lint::run },
    Command {
        name: "bench",
        usage: "bench [containers|remote] [--quick] [--rounds N] [--out DIR]",
        summary: "what a box costs, against plain spawn, the kernel's floor and bubblewrap, or what a container costs, \
                  against docker's own; writes docs/bench, or DIR; with --quick a smoke test",
        run: bench::run,
    },
    Command {
        name: "engines",
        usage: "engines -- COMMAND",
        summary: "runs a command with Docker, Podman and OCI runtimes that are started for it, named by HOTCELL_TEST_DOCKER \
                  and its kin, and stopped after it",
        run: test::containers::command::run,
    },
    Command {
        name: "fuzz",
        usage: "fuzz [--seconds N] [TARGET…]",
        summary: "every fuzz target, or those named, for 60 s or N each",
        run: fuzz::run,
    },
    Command {
        name: "soak",
        usage: "soak [--quick] [--only NAME] [--seed N] [--out DIR] [--mutants]",
        summary: "very many boxes, killed programs, failing system calls and races, and what is left; writes docs/soak, or \
                  DIR; with --mutants the code is broken on purpose, which has to be noticed",
        run: soak::run,
    },
    Command {
        name: "verify",
        usage: "verify [--no-kernels] [--out DIR]",
        summary: "attacks on boxes with and without each layer, as root and as an ordinary user, on three more kernels, \
                  and on the sandboxes to compare with; writes docs/verify, or DIR",
        run: verify::run,
    },
    Command {
        name: "vm-lab",
        usage: "vm-lab --suite SUITE [--user] [--mem MB] [--timeout SECONDS] [--out DIR] -- COMMAND",
        summary: "runs a command on this machine's files under the kernel of Debian bullseye (5.10), bookworm (6.1) \
                  or trixie (6.12), as root or as an ordinary user; what it writes to /run/vm-lab-out stays in DIR",
        run: vm_lab::run,
    },
    Command { name: "help", usage: "help", summary: "this list", run: help },
];

fn main() -> ExitCode {
    match dispatch() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch() -> Verdict {
    let mut arguments = Vec::new();
    for argument in env::args_os().skip(1) {
        match argument.into_string() {
            Ok(text) => arguments.push(text),
            Err(raw) => bail!("the argument {raw:?} is not UTF-8"),
        }
    }
    let Some((name, rest)) = arguments.split_first() else {
        help(&[])?;
        return Ok(false);
    };
    let name = match name.as_str() {
        "--help" | "-h" => "help",
        other => other,
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(rest),
        None => bail!("there is no command `{name}`; `cargo xtask help` lists them"),
    }
}

fn help(_arguments: &[String]) -> Verdict {
    println!("cargo xtask COMMAND\n");
    for command in COMMANDS {
        println!("  {:<22} {}", command.usage, command.summary);
    }
    Ok(true)
}
