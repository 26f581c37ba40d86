//! Sessions: a working directory and an environment that commands share, one after the other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::super::http::CallError;
use super::Execd;
use super::command::milliseconds;
use super::running::Running;

/// A command in a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionCommand {
    /// What is run by `bash`.
    pub line: String,
    /// Where; none is where the command before ended.
    pub cwd: Option<String>,
    /// When execd kills it; the session's stream then ends without a last event, which is an error.
    pub timeout: Option<Duration>,
}

impl SessionCommand {
    /// A line of shell.
    pub fn line(line: impl Into<String>) -> Self {
        Self { line: line.into(), cwd: None, timeout: None }
    }
}

#[derive(Serialize)]
struct CreateRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
}

#[derive(Deserialize)]
pub(super) struct SessionAnswer {
    pub(super) session_id: String,
}

#[derive(Serialize)]
struct RunRequest<'a> {
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
}

impl Execd {
    /// Opens a session. Says its id.
    pub async fn create_session(&self, cwd: Option<&str>) -> Result<String, CallError> {
        let operation = "open a session";
        let cwd = cwd.map(|cwd| self.named(operation, cwd)).transpose()?;
        let call = self.server.post(operation, &["session"]).json(&CreateRequest { cwd });
        Ok(call.send().await?.json::<SessionAnswer>().await?.session_id)
    }

    /// Runs a command in a session. What [`Execd::run`] loses of the output is lost here too, and more: both streams come as
    /// one, and without empty lines.
    pub async fn run_in_session(&self, session: &str, command: &SessionCommand) -> Result<Running, CallError> {
        let operation = "run a command in a session";
        if command.line.trim().is_empty() {
            return Err(self.impossible(operation, "the command is empty"));
        }
        let cwd = command.cwd.as_deref().map(|cwd| self.named(operation, cwd)).transpose()?;
        let request = RunRequest { command: &command.line, cwd, timeout: command.timeout.map(milliseconds) };
        let call = self.server.post(operation, &["session", session, "run"]).json(&request);
        Ok(Running::new(call.header("accept", "text/event-stream").send().await?.chunks()))
    }

    /// Closes a session and ends what runs in it. One that is not there is as good as closed.
    pub async fn delete_session(&self, session: &str) -> Result<(), CallError> {
        match self.server.delete("close a session", &["session", session]).send().await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
