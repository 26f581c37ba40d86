//! The command line of `hotcell mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::snippet::Client;
use crate::arguments::PolicyFlags;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hotcell mcp                                      on stdin and stdout; the current directory is an overlay
  hotcell mcp --preset workspace-write             what the agent writes is written at once
  hotcell mcp --print-config claude-code           what to put where, for an agent to find it
  hotcell mcp --http 127.0.0.1:7700 --token-file ~/.config/hotcell/mcp-tokens

Exit status: 0 when the client is gone or a signal came; 125 if the box cannot be made, and then nothing is served.";

#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,

    /// The directory that the tools work in, as if the command were started there [default: the current directory]
    #[arg(long, value_name = "DIR", help_heading = "Tools")]
    pub(crate) workspace: Option<PathBuf>,

    /// The tools that there are, separated by commas [default: all that the policy has a use for]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tools")]
    pub(crate) tools: Option<Vec<String>>,

    /// Print what an agent's configuration needs to use this with the other flags, if that could be served, and serve nothing
    #[arg(long, value_name = "CLIENT", help_heading = "Tools")]
    pub(crate) print_config: Option<Client>,

    #[command(flatten)]
    pub(crate) http: HttpFlags,
}

/// How the server is reached, if not by stdin and stdout.
#[derive(Debug, Clone, Args)]
pub(crate) struct HttpFlags {
    /// Serve over HTTP at this address and port, to many clients with a box each; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", help_heading = "HTTP")]
    pub(crate) http: Option<SocketAddr>,

    /// A file with a token for each client, one on a line, which nobody else may read; it is made if it is not there
    ///
    /// Without it a token is made for this run and printed to stderr.
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    pub(crate) token_file: Option<PathBuf>,

    /// A further name that clients call this server by, with any port or with the one that it has; repeatable
    #[arg(long, value_name = "NAME", requires = "http", help_heading = "HTTP")]
    pub(crate) allow_host: Vec<String>,

    /// An origin whose requests are not refused, such as https://app.example; repeatable [default: none]
    #[arg(long, value_name = "ORIGIN", requires = "http", help_heading = "HTTP")]
    pub(crate) allow_origin: Vec<String>,

    /// The server's certificate, with those that lead to its root, in PEM
    #[arg(long, value_name = "FILE", requires = "http", requires = "tls_key", help_heading = "HTTP")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "HTTP")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Let other machines connect without TLS, for instance behind a proxy that has it
    #[arg(long, requires = "http", help_heading = "HTTP")]
    pub(crate) insecure_bind: bool,

    /// Sessions, and so boxes, at the same time [default: 16]
    #[arg(long, value_name = "NUMBER", requires = "http", help_heading = "HTTP")]
    pub(crate) max_sessions: Option<usize>,

    /// How long a session lives in which nothing is asked and nothing runs, also not in the background [default: 30m]
    #[arg(long, value_name = "DURATION", requires = "http", help_heading = "HTTP")]
    pub(crate) idle_timeout: Option<String>,

    /// How long a session lives in all [default: 12h]
    #[arg(long, value_name = "DURATION", requires = "http", help_heading = "HTTP")]
    pub(crate) session_timeout: Option<String>,
}
