//! The control plane: what is done to a sandbox while it lives.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::{Client, is_without_route};
use super::wire::{UpdateNetwork, whole_seconds};
use super::{Flavour, NetworkRules, SandboxId};
use crate::http::{Call, CallError, Method, Why};

/// A snapshot of a sandbox; sandboxes are made of it as of a template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name for other calls.
    #[serde(rename = "snapshotID")]
    pub id: String,
    /// What it is called.
    #[serde(default)]
    pub names: Vec<String>,
}

/// A template that sandboxes are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Template {
    /// Its name for other calls.
    pub id: String,
    /// What else it is called, with and without its team's name in front.
    pub names: Vec<String>,
}

#[derive(Deserialize)]
struct ListedTemplate {
    #[serde(rename = "templateID")]
    id: String,
    aliases: Option<Vec<String>>,
    names: Option<Vec<String>>,
}

impl ListedTemplate {
    fn read(self) -> Template {
        let names = self.names.unwrap_or_default().into_iter().chain(self.aliases.unwrap_or_default());
        Template { id: self.id, names: names.collect() }
    }
}

/// What a sandbox used at one time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
#[non_exhaustive]
pub struct Metric {
    /// When, in seconds since 1970.
    #[serde(rename = "timestampUnix")]
    pub time: i64,
    /// How many processors it has.
    pub cpu_count: u32,
    /// How much of them is used, in percent.
    pub cpu_used_pct: f64,
    /// Bytes of memory in use.
    pub mem_used: u64,
    /// Bytes of memory.
    pub mem_total: u64,
    /// Bytes of disk in use.
    pub disk_used: u64,
    /// Bytes of disk.
    pub disk_total: u64,
}

/// A line of a sandbox's log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LogEntry {
    /// When, as the server writes it.
    pub timestamp: String,
    /// How bad.
    pub level: String,
    /// What.
    pub message: String,
    /// More of it.
    pub fields: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Logs {
    logs: Vec<LogEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OlderLogs {
    log_entries: Vec<LogEntry>,
}

impl Client {
    /// Lets a sandbox live this long from now on, be it longer or shorter than before.
    pub async fn set_timeout(&self, id: &SandboxId, timeout: Duration) -> Result<(), CallError> {
        let call = self.api.post("set the sandbox's lifetime", &["sandboxes", id.as_str(), "timeout"]);
        let call = call.json(&json!({ "timeout": whole_seconds(timeout) })).repeatable(true);
        self.optional(self.tell(call).await, "set a sandbox's lifetime")
    }

    /// Lets a sandbox live this long from now on, if that is longer than before.
    pub async fn refresh(&self, id: &SandboxId, duration: Duration) -> Result<(), CallError> {
        let operation = "prolong the sandbox's life";
        self.not_cube(operation, "prolong a sandbox's life (set its lifetime)")?;
        let call = self.api.post(operation, &["sandboxes", id.as_str(), "refreshes"]);
        let call = call.json(&json!({ "duration": whole_seconds(duration) })).repeatable(true);
        self.optional(self.tell(call).await, operation)
    }

    /// Stops a sandbox and keeps it, memory included. [`Client::connect`] wakes it.
    pub async fn pause(&self, id: &SandboxId) -> Result<(), CallError> {
        let call = self.api.post("pause the sandbox", &["sandboxes", id.as_str(), "pause"]).json(&json!({}));
        self.optional(self.tell(call).await, "pause a sandbox")
    }

    /// Wakes a paused sandbox, for this long.
    pub async fn resume(&self, id: &SandboxId, timeout: Duration) -> Result<(), CallError> {
        let call = self.api.post("resume the sandbox", &["sandboxes", id.as_str(), "resume"]);
        let call = call.json(&json!({ "timeout": whole_seconds(timeout) }));
        self.optional(self.tell(call).await, "resume a sandbox")
    }

    /// Makes a snapshot of a sandbox as it is.
    pub async fn snapshot(&self, id: &SandboxId, name: Option<&str>) -> Result<Snapshot, CallError> {
        let call = self.api.post("make a snapshot", &["sandboxes", id.as_str(), "snapshots"]);
        let body = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
        self.optional(self.ask(call.json(&body)).await, "make snapshots")
    }

    /// Snapshots, of this sandbox if one is named: the first hundred.
    pub async fn snapshots(&self, of: Option<&SandboxId>) -> Result<Vec<Snapshot>, CallError> {
        let call = self.api.get("list snapshots", &["snapshots"]).query("limit", "100");
        let call = match of {
            Some(id) => call.query("sandboxID", id.as_str()),
            None => call,
        };
        let snapshots: Result<Option<Vec<Snapshot>>, CallError> = self.ask(call).await;
        Ok(self.optional(snapshots, "list snapshots")?.unwrap_or_default())
    }

    /// Removes a snapshot. One that is gone is removed.
    pub async fn delete_snapshot(&self, id: &str) -> Result<(), CallError> {
        match self.tell(self.api.delete("remove the snapshot", &["templates", id])).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => self.optional(result, "remove snapshots"),
        }
    }

    /// Templates that the key may use and that are its team's: the first hundred.
    pub async fn templates(&self) -> Result<Vec<Template>, CallError> {
        let operation = "list templates";
        let page = |path: &[&str]| self.api.get(operation, path).query("limit", "100");
        // There is nothing else in these calls that could be missing.
        let is_without = |error: &CallError| matches!(error.status(), Some(404 | 405 | 501));
        let listed: Result<Option<Vec<ListedTemplate>>, CallError> = match self.ask(page(&["v2", "templates"])).await {
            Err(error) if is_without(&error) => self.ask(page(&["templates"])).await,
            listed => listed,
        };
        let listed = listed.map_err(|error| match is_without(&error) {
            true => CallError { why: Why::Unsupported { what: operation.to_owned() }, ..error },
            false => error,
        })?;
        Ok(listed.unwrap_or_default().into_iter().map(ListedTemplate::read).collect())
    }

    /// Replaces what a sandbox may reach.
    pub async fn set_network(&self, id: &SandboxId, rules: &NetworkRules) -> Result<(), CallError> {
        let path = ["sandboxes", id.as_str(), "network"];
        let call = self.api.call("change the sandbox's network", Method::PUT, &path).json(&UpdateNetwork::new(rules));
        self.optional(self.tell(call).await, "change a sandbox's network")
    }

    /// What a sandbox used lately.
    pub async fn metrics(&self, id: &SandboxId) -> Result<Vec<Metric>, CallError> {
        let operation = "measure the sandbox";
        self.not_cube(operation, "measure a sandbox")?;
        let call = self.api.get(operation, &["sandboxes", id.as_str(), "metrics"]);
        self.optional(self.ask(call).await, "measure a sandbox")
    }

    /// The first lines of a sandbox's log, at most this many.
    pub async fn logs(&self, id: &SandboxId, most: usize) -> Result<Vec<LogEntry>, CallError> {
        let operation = "read the sandbox's log";
        self.not_cube(operation, "tell a sandbox's log")?;
        let limit = most.clamp(1, 1000).to_string();
        let page = |call: Call| call.query("limit", &limit);
        let newer = self.ask(page(self.api.get(operation, &["v2", "sandboxes", id.as_str(), "logs"]))).await;
        let entries = match newer {
            Err(error) if matches!(error.status(), Some(404 | 405)) => {
                let older = self.ask(page(self.api.get(operation, &["sandboxes", id.as_str(), "logs"]))).await;
                self.optional(older.map(|logs: OlderLogs| logs.log_entries), "tell a sandbox's log")?
            }
            newer => newer.map(|logs: Logs| logs.logs)?,
        };
        Ok(entries.into_iter().take(most).collect())
    }

    /// Whether the control plane answers. Says nothing of the key.
    pub async fn health(&self) -> Result<(), CallError> {
        self.tell(self.api.get("ask whether the server is well", &["health"])).await
    }

    /// What CubeSandbox has not is not asked of it.
    fn not_cube(&self, operation: &'static str, what: &str) -> Result<(), CallError> {
        match self.flavour {
            Flavour::Cube => Err(self.api.failed(operation, Why::Unsupported { what: what.to_owned() })),
            Flavour::E2b => Ok(()),
        }
    }

    /// The result of a call that not every server has.
    fn optional<T>(&self, result: Result<T, CallError>, what: &str) -> Result<T, CallError> {
        result.map_err(|error| match is_without_route(&error) {
            true => CallError { why: Why::Unsupported { what: what.to_owned() }, ..error },
            false => error,
        })
    }
}
