//! Stand-ins for remote sandbox servers, for tests.
//!
//! `execd` speaks the API of OpenSandbox's execd and `egress` that of its sidecar, `e2b` that of E2B: control plane, envd and code interpreter. Both run
//! real processes. `record` writes down what a client and a server say to each other. Bytes, status codes and field
//! names are those of the real servers, as far as the official SDKs, the tests beside this crate and comparisons with
//! the real programs go; `README.md` says which.

mod clock;
mod e2b;
mod egress;
mod envd;
mod execd;
mod go;
mod identity;
mod listen;
mod query;
mod record;
mod reply;
mod shell;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A stand-in for remote sandbox servers. For tests only: whoever can reach it can run anything as its user, nothing is
/// isolated, and it listens on loopback addresses alone.
#[derive(Debug, Parser)]
#[command(name = "hotcell-standin", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// OpenSandbox's execd: commands, sessions, terminals, files. EXECD_ACCESS_TOKEN sets its token. Commands run as
    /// this user, on this machine's own files.
    Execd(execd::Options),
    /// E2B's control plane, and for each sandbox envd and a code interpreter. A sandbox has files and processes of its
    /// own (by bubblewrap, so that tests do not disturb each other) and no other protection.
    E2b(e2b::Options),
    /// OpenSandbox's egress sidecar, for policies that deny everything. Works in a container only.
    Egress,
    /// What serves one sandbox of `e2b`; started by that.
    #[command(hide = true)]
    Envd,
    /// Passes everything on to a server and writes down each exchange.
    Record {
        /// Where to listen: a loopback address.
        #[arg(long)]
        listen: SocketAddr,
        /// The server.
        #[arg(long)]
        to: SocketAddr,
        /// The directory for the recordings; made if it is not there.
        #[arg(long)]
        out: PathBuf,
        /// Ends when standard input does.
        #[arg(long)]
        lifeline: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().role {
        Role::Execd(options) => execd::run(options).await,
        Role::E2b(options) => e2b::run(options).await,
        Role::Egress => egress::run().await,
        Role::Envd => envd::run().await,
        Role::Record { listen, to, out, lifeline } => record::run(listen, to, out, lifeline).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            listen::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
