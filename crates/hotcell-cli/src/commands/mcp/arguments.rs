//! The command line of `hotcell mcp`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::PolicyFlags;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hotcell mcp                                      on stdin and stdout, with the current directory as an overlay
  hotcell mcp --workspace ~/project --write ~/project    what is written is written at once

Exit status: 0 when the client is gone; 125 if the box cannot be held, and then nothing is served.";

#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,

    /// The directory that the tools work in; relative paths of other flags start there too [default: the current directory]
    #[arg(long, value_name = "DIR", help_heading = "Tools")]
    pub(crate) workspace: Option<PathBuf>,

    /// The tools that there are, separated by commas [default: all that the policy has a use for]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tools")]
    pub(crate) tools: Option<Vec<String>>,
}
