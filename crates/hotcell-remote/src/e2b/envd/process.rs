//! Commands.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::connect::{Method, open, unary};
use super::super::version::Ability;
use super::{Envd, Input, Running};
use crate::http::{CallError, Why};

/// How long a command may take to take its input.
const PATIENCE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most input in one call.
const PIECE: usize = 256 << 10;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TerminalSize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// A command to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// The program, by path or name.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to the environment that the sandbox has.
    pub env: BTreeMap<String, String>,
    /// Where it starts; the user's usual directory if nothing is said. It must exist.
    pub cwd: Option<String>,
    /// A terminal of this size, in place of input and output.
    pub terminal: Option<TerminalSize>,
    /// Whether it has a standard input that can be written to, and not `/dev/null`.
    pub stdin: bool,
    /// A name that it can be found by.
    pub tag: Option<String>,
    /// The user of the sandbox who runs it.
    pub user: Option<String>,
}

impl Command {
    /// A program with arguments.
    pub fn new<A: Into<String>>(cmd: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self { cmd: cmd.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    fn request(&self) -> Value {
        let mut process = json!({ "cmd": self.cmd, "args": self.args, "envs": self.env });
        if let Some(cwd) = &self.cwd {
            process["cwd"] = json!(cwd);
        }
        let mut request = json!({ "process": process, "stdin": self.stdin });
        if let Some(size) = self.terminal {
            request["pty"] = json!({ "size": size });
        }
        if let Some(tag) = &self.tag {
            request["tag"] = json!(tag);
        }
        request
    }
}

/// Which command is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The one with this process id.
    Pid(u32),
    /// The one that was given this name.
    Tag(String),
}

impl Selector {
    pub(super) fn request(&self) -> Value {
        match self {
            Self::Pid(pid) => json!({ "pid": pid }),
            Self::Tag(tag) => json!({ "tag": tag }),
        }
    }
}

/// A signal that `envd` sends, to one process and not to those that it started. It stops reading the command's output then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Asks it to end.
    Term,
    /// Ends it.
    Kill,
}

/// A command that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// The name that it was given.
    pub tag: Option<String>,
    /// The program.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    processes: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    config: Config,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    cmd: String,
    args: Vec<String>,
}

/// An answer in which nothing is said.
#[derive(Deserialize)]
pub(super) struct Nothing {}

pub(super) const SERVICE: &str = "process.Process";

const fn method(operation: &'static str, name: &'static str, repeatable: bool) -> Method {
    Method { operation, service: SERVICE, name, repeatable }
}

impl Envd {
    /// Starts a command; it runs until it ends, whether or not anybody reads what it says.
    pub async fn start(&self, command: &Command) -> Result<Running, CallError> {
        let start = method("start the command", "Start", false);
        if !command.stdin && command.terminal.is_none() {
            self.needs(start.operation, Ability::NO_STDIN)?;
        }
        self.follow(start, command.user.as_deref(), &command.request()).await
    }

    /// Follows a command that runs. What it said before is not repeated; how it ended is told for a while after.
    pub async fn connect(&self, which: &Selector) -> Result<Running, CallError> {
        let request = json!({ "process": which.request() });
        self.follow(method("follow the command", "Connect", false), None, &request).await
    }

    async fn follow(&self, method: Method, user: Option<&str>, request: &Value) -> Result<Running, CallError> {
        let server = self.server_for(user)?;
        let begin = async {
            let messages = open(&server, method, request, self.keepalive, self.deadline).await?;
            Running::begin(messages, self.clone()).await
        };
        match timeout(self.deadline, begin).await {
            Ok(running) => running,
            Err(_) => Err(self.server.failed(method.operation, Why::TooSlow { waited: self.deadline })),
        }
    }

    /// The commands that run.
    pub async fn processes(&self) -> Result<Vec<Process>, CallError> {
        let list: List = self.rpc(method("list the commands", "List", true), &json!({})).await?;
        let process = |listed: Listed| {
            let Config { cmd, args } = listed.config;
            Process { pid: listed.pid, tag: listed.tag, cmd, args }
        };
        Ok(list.processes.into_iter().map(process).collect())
    }

    /// Writes to a command's standard input or terminal, and waits until it has been taken. If this is given up before,
    /// nobody knows how much has arrived.
    pub async fn send_input(&self, which: &Selector, input: Input, bytes: &[u8]) -> Result<(), CallError> {
        let server = self.server_for(None)?;
        let send = method("write to the command", "SendInput", false);
        for piece in bytes.chunks(PIECE) {
            let request = json!({ "process": which.request(), "input": input.request(&STANDARD.encode(piece)) });
            let Nothing {} = unary(&server, send, &request, PATIENCE).await?;
        }
        Ok(())
    }

    /// Ends a command's standard input. A terminal has none: send it the character 4.
    pub async fn close_stdin(&self, which: &Selector) -> Result<(), CallError> {
        let close = method("close the command's standard input", "CloseStdin", true);
        self.needs(close.operation, Ability::CLOSE_STDIN)?;
        let Nothing {} = self.rpc(close, &json!({ "process": which.request() })).await?;
        Ok(())
    }

    /// Sends a command a signal. Fails with "not found" if it has ended.
    pub async fn signal(&self, which: &Selector, signal: Signal) -> Result<(), CallError> {
        let name = match signal {
            Signal::Term => "SIGNAL_SIGTERM",
            Signal::Kill => "SIGNAL_SIGKILL",
        };
        let request = json!({ "process": which.request(), "signal": name });
        let Nothing {} = self.rpc(method("signal the command", "SendSignal", false), &request).await?;
        Ok(())
    }

    /// Tells a command the new size of its terminal.
    pub async fn resize(&self, which: &Selector, size: TerminalSize) -> Result<(), CallError> {
        let request = json!({ "process": which.request(), "pty": { "size": size } });
        let Nothing {} = self.rpc(method("resize the command's terminal", "Update", true), &request).await?;
        Ok(())
    }

    /// A call with one answer, as the user.
    pub(super) async fn rpc<A: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        request: &Value,
    ) -> Result<A, CallError> {
        unary(&self.server_for(None)?, method, request, self.deadline).await
    }
}
