//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const RUN_EXAMPLES: &str = "\
Examples:
  hotcell run -- python3 -c 'print(6*7)'
  hotcell run --write . --memory 256m --timeout 10s -- make test
  hotcell run --overlay . -- ./install.sh          writes go to a layer, not to your files
  hotcell run --json -- sh -c 'id; env'            one JSON object with output, usage and report
  hotcell run --runtime docker --image python:3.14 -- python3 -V    in a container of Docker or Podman
  hotcell run --runtime gvisor -- uname -a         on gVisor's own kernel, without a daemon
  hotcell run --runtime opensandbox --sandbox-url https://sandbox.example.org -- python3 -V    on another machine

Runtimes:
  native       a kernel sandbox, the default; sees the system's own programs and libraries
  docker       a container of Docker or Podman, of an image (`hotcell image build` makes the default one)
  oci          a container by runc, crun or youki, without a daemon; of the system's own directories, or of an image
  gvisor       the same by gVisor, a kernel of its own in user space
  opensandbox  a sandbox of an OpenSandbox server [default: http://localhost:8080]
  e2b          a sandbox of E2B, or of another server that speaks its API
  cube         a sandbox of a CubeSandbox server
  auto         the fastest local one that holds the whole policy; never a weaker one than was asked for
  Nothing stands in for a runtime that was named: one that cannot be used is an error, and nothing runs.
  A remote box gets copies of what --read, --write and --overlay name, the current directory among them unless you say
  otherwise; what changed in --write trees is brought back. What isolates it there is its server's word.
  The key for a server is in HOTCELL_SANDBOX_API_KEY, in a file (--sandbox-key-file), or in your hotcell.toml.

Exit status:
  the command's own; 124 the time limit ended it; 125 Hotcell refused or failed and nothing ran;
  126 the program cannot be executed; 127 it is not there; 128+n signal n ended it
  (137 also for the memory, process, disk and output limits, 152 for CPU time)";

const PLAN_EXAMPLES: &str = "\
Examples:
  hotcell plan                                     what the defaults come to on this machine
  hotcell plan --write . --memory 256m --json
  hotcell plan --preset offline                    what a preset comes to here
  hotcell plan --preset offline --print > my.toml  the preset as a file to edit; use it with --policy my.toml

Exit status: 0 if everything can be held; 125 if not, with every rule that cannot.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  hotcell doctor                                   this machine, and the server of the configured runtime if that is remote
  hotcell doctor --runtime opensandbox --sandbox-url https://sandbox.example.org

Exit status: 0 if a box can be made, native unless a remote runtime is configured or named; 1 if not.";

#[cfg(target_os = "linux")]
const PRUNE_EXAMPLES: &str = "\
Examples:
  hotcell prune                                    remove it
  hotcell prune --dry-run                          only show it
  hotcell prune --runtime e2b                      also at the server that E2B's boxes are made by

Exit status: 0 if nothing is left; 1 if something could not be removed, or with --dry-run if something is there.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  hotcell verify                                   does the native box hold here?
  hotcell verify --filter kernel. --verbose        one group, every check
  hotcell verify --knock-out seccomp               what would get through without that layer
  hotcell verify --runtime native --runtime bwrap --html report.html
  hotcell verify --runtime opensandbox             what protects this machine from a server's box; the rest is the server's word

Exit status: 0 if everything held; 1 if anything is BROKEN, a known gap was not found, or nothing was proven.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  hotcell import ~/.srt-settings.json              print the policy, and what became of every setting
  hotcell import ~/.codex/config.toml --allow-loss unix_sockets --output my.toml
  hotcell import settings.json --allow-loss network.allowedDomains,mandatoryDenySearchDepth

What becomes of a setting:
  carried    it is in the policy
  narrower   it is in the policy, which grants less than it did, and says so
  always     nothing needs to say it
  elsewhere  it is no setting of a sandbox
  left out   it has no equal, and you said that it may be left out

Exit status: 0 if there is a policy; 125 if not, with every setting that has no equal.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  hotcell completions bash > ~/.local/share/bash-completion/completions/hotcell
  hotcell completions zsh > \"${fpath[1]}/_hotcell\"";

/// Run code that nobody trusts in a box: what you asked for is enforced, or nothing runs.
///
/// A box is a kernel sandbox (the default, which needs nothing), a container of Docker or Podman, one by an OCI runtime
/// without a daemon, one on gVisor's own kernel, or a sandbox of a remote server (OpenSandbox, E2B, CubeSandbox): `--runtime`.
/// The policy is the same for all of them.
#[derive(Debug, Parser)]
#[command(name = "hotcell", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command in a box
    ///
    /// Without any option the command sees the current directory (read-only), the system's own programs
    /// and libraries, a private home and /tmp, no network, and an environment without your secrets.
    #[command(after_help = RUN_EXAMPLES, verbatim_doc_comment)]
    Run(RunArguments),
    /// Show what would be enforced, and by which mechanism
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArguments),
    /// Show what this machine can hold, why not more, and what would change it
    ///
    /// If a remote runtime is configured or named, its server is asked as well: whether it answers and takes the key, and what
    /// it can do. Nothing is made there.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Start an interactive shell in a box
    ///
    /// The box is that of `hotcell run`, with a terminal, and without a time limit unless you set one.
    Shell(ShellArguments),
    /// Run code in a box, or start a prompt that remembers
    ///
    /// The box is that of `hotcell run` with the current directory as an overlay: what code writes there ends with the box, and a line says so;
    /// `--write .` lets it change your files. The code comes from `-c`, a file or stdin; on a terminal, without any of these, it is typed,
    /// and the time limit is then for each piece of code, if you set one.
    #[command(after_help = crate::arguments_code::EXAMPLES)]
    Code(crate::arguments_code::CodeArguments),
    /// Attack a box from inside, and show what held
    ///
    /// Every attack is tried without a box first: where it fails there too it proves nothing, and counts as vacuous.
    /// Attacks aim only at objects that are planted for them and are taken away again.
    #[cfg(target_os = "linux")]
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Build, list, get, take in, remove and write images
    #[cfg(target_os = "linux")]
    Image(crate::arguments_image::ImageArguments),
    /// Remove what programs that crashed left behind
    ///
    /// Boxes end with the program that made them, even if that is killed. What can remain are containers that an engine did not
    /// remove, cgroups of a helper that was killed too, half-written files of the image store, and sandboxes on the server of a
    /// remote runtime that is configured or named. Only what is certainly a box of Hotcell's, made on this machine and nobody's
    /// any more, is removed. Images are for `hotcell image prune`.
    #[cfg(target_os = "linux")]
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(PruneArguments),
    /// Make a policy of another sandbox's settings: srt, Codex or CodeWhale
    ///
    /// Every setting is listed with what became of it. One that has no equal is an error, and nothing is written, unless it is
    /// named with --allow-loss. The result grants no more than the settings did.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArguments),
    /// Serve a box and its tools to an agent, by the Model Context Protocol
    ///
    /// The agent gets commands, code and files in a box of its own that is kept between calls. Without any option that is the
    /// box of `hotcell run` with a time limit on each call in place of one on all, and with the workspace as an overlay: nothing
    /// reaches your files until the agent asks to commit it.
    #[cfg(feature = "mcp")]
    #[command(after_help = crate::commands::mcp::EXAMPLES)]
    Mcp(Box<crate::commands::mcp::McpArguments>),
    /// Print the JSON Schema of hotcell.toml
    Schema,
    /// Print the completion script of a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArguments),
}

impl Command {
    /// Whether errors are to be printed as JSON too.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(arguments) => arguments.json,
            Self::Code(arguments) => arguments.json,
            Self::Plan(arguments) => arguments.json,
            Self::Doctor(arguments) => arguments.json,
            #[cfg(target_os = "linux")]
            Self::Verify(arguments) => arguments.json,
            #[cfg(target_os = "linux")]
            Self::Image(arguments) => arguments.command.wants_json(),
            #[cfg(target_os = "linux")]
            Self::Prune(arguments) => arguments.json,
            Self::Import(arguments) => arguments.json,
            #[cfg(feature = "mcp")]
            Self::Mcp(_) => false,
            Self::Shell(_) | Self::Schema | Self::Completions(_) => false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,

    /// Give the command a terminal
    ///
    /// The command can then send anything to your terminal, as a remote shell can.
    #[arg(long, help_heading = "Process")]
    pub(crate) tty: bool,

    /// Capture the output and print one JSON object instead
    ///
    /// `exit_code` is what hotcell itself exits with. Output that is not UTF-8 is in base64.
    #[arg(long, help_heading = "Result")]
    pub(crate) json: bool,

    /// Write a report as JSON: status, usage, enforcement, violations
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub(crate) report: Option<PathBuf>,

    /// Print to stderr what is enforced, and what was used
    #[arg(short, long, help_heading = "Result")]
    pub(crate) verbose: bool,

    /// The command, looked up in the box's own PATH
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,

    /// Plan for a command with a terminal
    #[arg(long, help_heading = "Process")]
    pub(crate) tty: bool,

    /// Print the plan as one JSON object
    #[arg(long, help_heading = "Result")]
    pub(crate) json: bool,

    /// Print the preset itself instead, as a hotcell.toml that you can edit
    #[arg(long, requires = "preset", conflicts_with = "json", help_heading = "Result")]
    pub(crate) print: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) runtime: RemoteRuntimeFlags,

    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,

    /// Print to stderr what is enforced, and what was used
    #[arg(short, long, help_heading = "Result")]
    pub(crate) verbose: bool,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The boxes to attack: native, docker, oci, gvisor, opensandbox, e2b, cube, or bwrap or unshare to compare with; repeatable [default: native]
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Vec<String>,

    /// The image that containers, or boxes of opensandbox, are made of [default: that of the runtime]
    #[arg(long, value_name = "NAME")]
    pub(crate) image: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerFlags,

    /// The template that boxes of e2b or cube are made of [default: that of the server]
    #[arg(long, value_name = "NAME", help_heading = "Remote box")]
    pub(crate) template: Option<String>,

    /// Give remote boxes the network of their server, for servers that cannot keep boxes off it
    #[arg(long, help_heading = "Remote box")]
    pub(crate) open_network: bool,

    /// The OCI runtime of containers, as a name or a path [default: that of the runtime]
    #[arg(long, value_name = "NAME")]
    pub(crate) oci_runtime: Option<String>,

    /// Only checks with this in their name; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) filter: Vec<String>,

    /// Also attack native boxes without a layer, or without each and with each alone for `all`; repeatable
    #[arg(long, value_name = "LAYER")]
    pub(crate) knock_out: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a page with the checks, the boxes and the layers
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// List every check, not only those that did not hold
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Show the checks and try none
    #[arg(long)]
    pub(crate) list: bool,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    #[command(flatten)]
    pub(crate) runtime: RemoteRuntimeFlags,

    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The settings; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Whose settings they are: srt, codex or codewhale [default: found out from the keys]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,

    /// The policy file to write, which must not be there; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,

    /// Replace the policy file if it is there
    #[arg(long)]
    pub(crate) force: bool,

    /// Settings that may be left out although they have no equal, each with all that is beneath it; repeatable
    #[arg(long, value_name = "KEY,KEY")]
    pub(crate) allow_loss: Vec<String>,

    /// Print what became of every setting as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// The server of remote boxes.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerFlags {
    /// The address of the server that a remote box is made by [default: that of the runtime]
    #[arg(long, value_name = "URL", help_heading = "Remote box")]
    pub(crate) sandbox_url: Option<String>,

    /// A file with the key for that server, which nobody else may read
    #[arg(long, value_name = "FILE", help_heading = "Remote box")]
    pub(crate) sandbox_key_file: Option<PathBuf>,

    /// Accept that the key, files and code go to another machine unencrypted
    #[arg(long, help_heading = "Remote box")]
    pub(crate) plain_http: bool,
}

/// A remote runtime to look at, in place of the configured one.
#[derive(Debug, Default, Args)]
pub(crate) struct RemoteRuntimeFlags {
    /// The remote runtime to look at: opensandbox, e2b or cube [default: the configured one, if it is remote]
    #[arg(long, value_name = "NAME", help_heading = "Remote box")]
    pub(crate) runtime: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// What the box is and what the code in it may do; every flag is a key of hotcell.toml.
#[derive(Debug, Default, Args)]
pub(crate) struct PolicyFlags {
    /// Start from a policy for a common case: read-only, workspace-write, workspace-overlay, offline, package-install
    ///
    /// It takes the place of the defaults, for the current directory; `hotcell plan --preset NAME --print` shows what it says.
    #[arg(long, value_name = "NAME", help_heading = "Box")]
    pub(crate) preset: Option<String>,

    /// Which kind of box: auto, native, docker, oci, gvisor, opensandbox, e2b, cube
    #[arg(long, value_name = "NAME", help_heading = "Box")]
    pub(crate) runtime: Option<String>,

    /// The weakest isolation that will do: process, container, user-kernel or microvm
    #[arg(long, value_name = "LEVEL", help_heading = "Box")]
    pub(crate) isolation: Option<String>,

    /// The image that a container, or a box of opensandbox, is made of [default: that of the runtime]
    #[arg(long, value_name = "NAME", help_heading = "Box")]
    pub(crate) image: Option<String>,

    /// The OCI runtime of a container: runc, crun, runsc, … or a path [default: that of the runtime]
    #[arg(long, value_name = "NAME", help_heading = "Box")]
    pub(crate) oci_runtime: Option<String>,

    /// Whether an image is fetched: never, when it is missing, or always [default: missing]
    #[arg(long, value_name = "WHEN", help_heading = "Box")]
    pub(crate) pull: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerFlags,

    /// The template that a box of e2b or cube is made of [default: that of the server]
    #[arg(long, value_name = "NAME", help_heading = "Remote box")]
    pub(crate) template: Option<String>,

    /// The snapshot that a box of opensandbox is made of, in place of an image
    #[arg(long, value_name = "NAME", help_heading = "Remote box")]
    pub(crate) snapshot: Option<String>,

    /// Use this policy file in place of your own; the project's can still tighten
    #[arg(long, value_name = "FILE", help_heading = "Box")]
    pub(crate) policy: Option<PathBuf>,

    /// Accept that this control is only approximated; repeatable
    #[arg(long, value_name = "CONTROL", help_heading = "Box")]
    pub(crate) approximate: Vec<String>,

    /// Show a file or directory, read-only; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) read: Vec<PathBuf>,

    /// Let a file or directory be written; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) write: Vec<PathBuf>,

    /// Let a directory be written, but keep the changes in a layer of the box; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) overlay: Vec<PathBuf>,

    /// Keep a path out of reach inside what is shown; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) deny: Vec<PathBuf>,

    /// The network: deny (none but the box's own loopback) or open (the host's) [default: deny]
    #[arg(long, value_name = "MODE", help_heading = "Network and environment")]
    pub(crate) net: Option<String>,

    /// Set a variable; repeatable
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Network and environment")]
    pub(crate) env: Vec<String>,

    /// Pass a variable of yours; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Network and environment")]
    pub(crate) pass_env: Vec<String>,

    /// Memory of all processes and memory-backed files, for example 256m [default: 1g]
    #[arg(long, value_name = "SIZE", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) memory: Option<String>,

    /// CPUs used at the same time, for example 1.5 [default: unlimited]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) cpus: Option<String>,

    /// CPU time of all processes together [default: 300s; unlimited for mcp]
    #[arg(long, value_name = "DURATION", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) cpu_time: Option<String>,

    /// Processes and threads at the same time [default: 256]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) pids: Option<String>,

    /// Open files per process [default: 1024]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) open_files: Option<String>,

    /// Bytes written to private directories and overlays [default: 512m]
    #[arg(long, value_name = "SIZE", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) disk: Option<String>,

    /// Bytes of stdout and stderr together [default: 256m]
    #[arg(long, value_name = "SIZE", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) max_output: Option<String>,

    /// Wall-clock time, for example 10s or 5m [default: 300s; unlimited for shell, mcp and the prompt of code]
    #[arg(long, value_name = "DURATION", help_heading = "Limits", allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,

    /// Where the command starts [default: the current directory]
    #[arg(long, value_name = "DIR", help_heading = "Process")]
    pub(crate) cwd: Option<PathBuf>,

    /// Who the command is in the box: hotcell, root or a number; nobody outside either way [default: hotcell]
    #[arg(long, value_name = "USER", help_heading = "Process", allow_negative_numbers = true)]
    pub(crate) user: Option<String>,
}
