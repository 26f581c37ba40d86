//! Commands: what is asked for, and the line of shell that it becomes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::super::super::http::CallError;
use super::Execd;
use super::running::Running;

const OPERATION: &str = "run a command";

/// A command to be run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Command {
    /// What is run by the sandbox's `bash`, or `sh` where there is none.
    pub line: String,
    /// Where it is run; none is where execd was started.
    pub cwd: Option<String>,
    /// What is added to the environment.
    pub env: BTreeMap<String, String>,
    /// When execd kills it and all that it started in its process group.
    pub timeout: Option<Duration>,
    /// As which user it is run.
    pub uid: Option<u32>,
    /// As which group it is run; needs a user.
    pub gid: Option<u32>,
    /// The line as [`Command::argv`] made it; anything else is a line of shell.
    argv: Option<String>,
}

impl Command {
    /// A line of shell.
    pub fn line(line: impl Into<String>) -> Self {
        let (line, env) = (line.into(), BTreeMap::new());
        Self { line, cwd: None, env, timeout: None, uid: None, gid: None, argv: None }
    }

    /// Whether the line is a program and its arguments, and nothing else.
    pub(super) fn is_argv(&self) -> bool {
        self.argv.as_ref() == Some(&self.line)
    }

    /// A program and its arguments, exactly these.
    ///
    /// ```
    /// use hotcell_remote::opensandbox::Command;
    /// assert_eq!(Command::argv(["echo", "it's", ""]).line, r"'echo' 'it'\''s' ''");
    /// ```
    pub fn argv<I: IntoIterator<Item = S>, S: AsRef<str>>(argv: I) -> Self {
        // Servers know `argv` only since 1.1; all of them know a line.
        let words: Vec<String> = argv.into_iter().map(|word| quoted(word.as_ref())).collect();
        let line = words.join(" ");
        Self { argv: Some(line.clone()), ..Self::line(line) }
    }
}

/// A word that every shell takes as it is.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[derive(Serialize)]
struct Request<'a> {
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    background: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    envs: &'a BTreeMap<String, String>,
}

/// Whole milliseconds, at least one: execd takes none as no limit.
pub(super) fn milliseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64)
}

impl Execd {
    /// Runs a command and says what it writes as it comes. See the module for what is lost of it.
    ///
    /// The command goes on when [`Running`] is dropped: [`Execd::interrupt`] and its timeout end it, and nothing else does.
    pub async fn run(&self, command: &Command) -> Result<Running, CallError> {
        self.start(OPERATION, command, false).await
    }

    pub(super) async fn start(
        &self,
        operation: &'static str,
        command: &Command,
        background: bool,
    ) -> Result<Running, CallError> {
        if command.line.trim().is_empty() || command.line.contains('\0') {
            return Err(self.impossible(operation, "the command is empty or has a NUL in it"));
        }
        if command.gid.is_some() && command.uid.is_none() {
            return Err(self.impossible(operation, "it knows a group only together with a user"));
        }
        let cwd = command.cwd.as_deref().map(|cwd| self.named(operation, cwd)).transpose()?;
        let request = Request {
            command: &command.line,
            cwd,
            background,
            timeout: command.timeout.map(milliseconds),
            uid: command.uid,
            gid: command.gid,
            envs: &command.env,
        };
        let call = self.server.post(operation, &["command"]).json(&request).header("accept", "text/event-stream");
        Ok(Running::new(call.send().await?.chunks()))
    }

    /// Ends a command, however it was started: execd sends it and its process group SIGTERM, and SIGKILL after three
    /// seconds. One that is not running is an error of the server (500).
    pub async fn interrupt(&self, id: &str) -> Result<(), CallError> {
        let call = self.server.delete("end a command", &["command"]).query("id", id).repeatable(false);
        call.send().await?.bytes().await.map(drop)
    }
}
