//! The `hotcell` command.
//!
//! One file per command in `commands`, exit codes in `exit`, everything that is printed goes through `output`.

mod arguments;
mod arguments_code;
#[cfg(target_os = "linux")]
mod arguments_image;
mod commands;
mod exit;
mod failure;
mod json;
mod output;
mod policy_flags;
mod progress;
mod remote_flags;
mod report;
mod session;
mod table;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use arguments::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = match Cli::try_parse_from(&arguments) {
        Ok(cli) => {
            let json = cli.command.wants_json();
            execute(cli.command).unwrap_or_else(|failure| failure.show(json))
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            output::to_stdout(&error.to_string()).unwrap_or_else(|failure| failure.show(false))
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::lines(&error.to_string());
            exit::REFUSED
        }
        Err(error) => Failure::usage(&error.to_string()).show(asks_for_json(&arguments)),
    };
    ExitCode::from(code)
}

fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(arguments) => commands::run::execute(arguments),
        Command::Plan(arguments) => commands::plan::execute(arguments),
        Command::Doctor(arguments) => commands::doctor::execute(&arguments),
        Command::Shell(arguments) => commands::shell::execute(arguments),
        Command::Code(arguments) => commands::code::execute(arguments),
        #[cfg(target_os = "linux")]
        Command::Verify(arguments) => commands::verify::execute(&arguments),
        #[cfg(target_os = "linux")]
        Command::Image(arguments) => commands::image::execute(&arguments),
        #[cfg(target_os = "linux")]
        Command::Prune(arguments) => commands::prune::execute(&arguments),
        Command::Import(arguments) => commands::import::execute(&arguments),
        #[cfg(feature = "mcp")]
        Command::Mcp(arguments) => commands::mcp::execute(*arguments),
        Command::Schema => commands::schema::execute(),
        Command::Completions(arguments) => commands::completions::execute(&arguments),
    }
}

/// Whether a command line that could not be understood asks for JSON.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}
