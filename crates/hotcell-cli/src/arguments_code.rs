//! The command line of `hotcell code`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::arguments::PolicyFlags;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hotcell code python -c 'print(6*7)'
  hotcell code python -c 'import sys; print(sys.argv)' a b     with arguments, which the code sees as always
  hotcell code javascript script.js a b            a file of yours; the box need not see it
  seq 9 | hotcell code python -c 'print(sum(map(int, open(0))))'    the code reads what comes on stdin
  echo 'echo hi' | hotcell code bash               without -c or a file, that is the code
  echo 'echo $1' | hotcell code bash - a           the same, with arguments
  hotcell code python                              a prompt that remembers variables
  hotcell code python --save-images out plot.py    images that the code shows become files in out/

All words after the file belong to the code. After -c, put `--` before arguments that begin with a dash.

Languages: python, javascript, typescript and bash, and what `[languages.NAME] command = [...]` in your hotcell.toml adds.

At the prompt: Ctrl-C interrupts the code, or clears the line; Ctrl-D ends; :restart forgets all variables; :help says so.

Exit status:
  that of the code; 1 if it raised something; 124 the time limit ended it; 125 Hotcell refused or failed and nothing ran;
  128+n signal n ended it (137 also for the memory, process, disk and output limits, 152 for CPU time)";

#[derive(Debug, Args)]
pub(crate) struct CodeArguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,

    /// The code itself
    #[arg(short = 'c', long, value_name = "CODE", help_heading = "Code")]
    pub(crate) code: Option<String>,

    /// Capture the output and print one JSON object instead
    ///
    /// `exit_code` is what hotcell itself exits with. Output that is not UTF-8 is in base64.
    #[arg(long, help_heading = "Result")]
    pub(crate) json: bool,

    /// Write images that the code shows into this directory, as image-1.png and so on; nothing is overwritten
    #[arg(long, value_name = "DIR", help_heading = "Result")]
    pub(crate) save_images: Option<PathBuf>,

    /// What the code is written in
    #[arg(value_name = "LANGUAGE")]
    pub(crate) language: String,

    /// A file with the code, or `-` for stdin, and the code's arguments; after -c only these [default: stdin, or a prompt if that is a terminal]
    #[arg(value_name = "FILE | ARGUMENT", trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}
