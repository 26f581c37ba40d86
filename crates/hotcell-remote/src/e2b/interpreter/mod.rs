//! The code interpreter: cells of code, in contexts that remember what earlier ones did.

mod lines;
mod output;

pub use output::{Execution, Output, Rich};

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_core::secret::Secret;
use serde::Deserialize;
use serde_json::json;

use crate::http::{CallError, Server};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// The code interpreter in one sandbox. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct CodeInterpreter {
    server: Server,
    /// Only told where code is run.
    token: Option<Secret<String>>,
    deadline: Duration,
}

/// A cell of code to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// The code.
    pub code: String,
    /// In the usual context of this language: `python`, `javascript`, `typescript`, `r`, `java`, `bash`. Not with a context.
    pub language: Option<String>,
    /// In the context with this id.
    pub context: Option<String>,
    /// Set while it runs.
    pub env: BTreeMap<String, String>,
}

impl Cell {
    /// Code, in the usual context of the usual language.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), ..Self::default() }
    }
}

/// A context: what cells of code share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Context {
    /// Its name for other calls.
    pub id: String,
    /// Its language.
    #[serde(default)]
    pub language: String,
    /// Where its code runs.
    #[serde(default)]
    pub cwd: String,
}

impl CodeInterpreter {
    pub(super) fn new(server: Server, token: Option<Secret<String>>) -> Self {
        Self { server, token, deadline: DEADLINE }
    }

    /// The same, with this much time for each call. What runs may last longer.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs a cell of code. Dropping the execution interrupts it.
    pub async fn execute(&self, cell: &Cell) -> Result<Execution, CallError> {
        let env = (!cell.env.is_empty()).then_some(&cell.env);
        let body = json!({
            "code": cell.code, "context_id": cell.context, "language": cell.language, "env_vars": env,
        });
        let call = self.server.post("run the code", &["execute"]).json(&body);
        let call = match &self.token {
            Some(token) => call.secret_header("x-access-token", token),
            None => call,
        };
        Ok(Execution::new(call.deadline(self.deadline).send().await?.chunks()))
    }

    /// Makes a context.
    pub async fn create_context(&self, language: Option<&str>, cwd: Option<&str>) -> Result<Context, CallError> {
        let mut body = json!({});
        if let Some(language) = language {
            body["language"] = json!(language);
        }
        if let Some(cwd) = cwd {
            body["cwd"] = json!(cwd);
        }
        let call = self.server.post("make a context", &["contexts"]).json(&body);
        call.deadline(self.deadline).send().await?.json().await
    }

    /// The contexts.
    pub async fn contexts(&self) -> Result<Vec<Context>, CallError> {
        self.server.get("list the contexts", &["contexts"]).deadline(self.deadline).send().await?.json().await
    }

    /// Removes a context. One that is gone is removed.
    pub async fn delete_context(&self, id: &str) -> Result<(), CallError> {
        let call = self.server.delete("remove the context", &["contexts", id]);
        match call.deadline(self.deadline).send().await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer?.bytes().await.map(drop),
        }
    }

    /// Lets a context forget everything.
    pub async fn restart_context(&self, id: &str) -> Result<(), CallError> {
        let call = self.server.post("restart the context", &["contexts", id, "restart"]);
        call.deadline(self.deadline).send().await?.bytes().await.map(drop)
    }

    /// Whether it answers.
    pub async fn health(&self) -> Result<(), CallError> {
        let call = self.server.get("ask whether the code interpreter is well", &["health"]);
        call.deadline(self.deadline).send().await?.bytes().await.map(drop)
    }
}
