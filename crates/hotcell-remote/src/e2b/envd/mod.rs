//! `envd`, the server in every sandbox: commands and files.

mod end;
mod entry;
mod event;
mod files;
mod filesystem;
mod input;
mod process;
mod signed;
mod upload;
mod watch;

pub use end::End;
pub use entry::{Entry, EntryKind};
pub use event::{Event, Running};
pub use files::Download;
pub use input::Input;
pub use process::{Command, Process, Selector, Signal, TerminalSize};
pub use signed::SignedUrl;
pub use watch::{Change, ChangeKind, Watcher};

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hotcell_core::secret::Secret;
use serde::Deserialize;
use tokio::time::Instant;

use super::version::Ability;
use super::{EnvdVersion, Flavour};
use crate::http::{CallError, Server, Why};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long a whole file may take.
const TRANSFER: Duration = Duration::from_secs(60 * 60);

/// How long is waited between two looks at whether `envd` is there, at first and at most.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// The `envd` in one sandbox. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Envd {
    server: Server,
    version: EnvdVersion,
    token: Option<Secret<String>>,
    /// The user if nobody says one; none where `envd` knows by itself.
    usual: Option<&'static str>,
    user: Option<String>,
    keepalive: Duration,
    deadline: Duration,
    transfer: Duration,
}

/// What a sandbox has and uses, as it says itself.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Resources {
    /// When, in seconds since 1970.
    pub ts: i64,
    /// How many processors there are.
    pub cpu_count: u32,
    /// How much of them is used, in percent.
    pub cpu_used_pct: f64,
    /// Bytes of memory.
    pub mem_total: u64,
    /// Bytes of memory in use.
    pub mem_used: u64,
    /// Bytes of disk.
    pub disk_total: u64,
    /// Bytes of disk in use.
    pub disk_used: u64,
}

impl Envd {
    pub(super) fn new(
        server: Server,
        version: EnvdVersion,
        token: Option<Secret<String>>,
        flavour: Flavour,
        keepalive: Duration,
    ) -> Self {
        let usual = match flavour {
            Flavour::Cube => Some("root"),
            Flavour::E2b if version.can(Ability::DEFAULT_USER) => None,
            Flavour::E2b => Some("user"),
        };
        Self { server, version, token, usual, user: None, keepalive, deadline: DEADLINE, transfer: TRANSFER }
    }

    /// The same, for this user of the sandbox.
    pub fn as_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The same, with this much time for each call. A command may run longer, and input may wait for it longer.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same, with this much time for each upload and download, an hour if nothing is said.
    pub fn transfers_within(mut self, deadline: Duration) -> Self {
        self.transfer = deadline;
        self
    }

    /// Its version.
    pub fn version(&self) -> &EnvdVersion {
        &self.version
    }

    /// Whether the sandbox runs: whether `envd` answers, or a proxy in front of it that nobody does.
    pub async fn is_running(&self) -> Result<bool, CallError> {
        let call = self.server.get("ask whether the sandbox runs", &["health"]).repeatable(false);
        match call.deadline(self.deadline).send().await {
            Ok(answer) => answer.bytes().await.map(|_| true),
            Err(error) if error.status() == Some(502) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the sandbox runs, no longer than this.
    pub async fn wait_until_running(&self, within: Duration) -> Result<(), CallError> {
        let by = Instant::now() + within;
        let mut pause = FIRST_LOOK;
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let look = self.clone().within(left.min(self.deadline));
            let last = match look.is_running().await {
                Ok(true) => return Ok(()),
                Ok(false) => self.server.failed("wait for the sandbox", Why::TooSlow { waited: within }),
                Err(error) => error,
            };
            let may_come = match &last.why {
                Why::Answered { status: 502..=504, .. } => true,
                why => matches!(why, Why::Unreachable { .. } | Why::Broken { .. } | Why::TooSlow { .. }),
            };
            if !may_come || Instant::now() + pause >= by {
                return Err(last);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// What the sandbox has and uses, as it says itself.
    pub async fn resources(&self) -> Result<Resources, CallError> {
        let operation = "measure the sandbox";
        self.needs(operation, Ability::METRICS)?;
        self.server.get(operation, &["metrics"]).deadline(self.deadline).send().await?.json().await
    }

    fn needs(&self, operation: &'static str, ability: Ability) -> Result<(), CallError> {
        if self.version.can(ability) {
            return Ok(());
        }
        Err(self.server.failed(operation, Why::Unsupported { what: self.version.lack(ability) }))
    }

    /// The user that a call is for, if one is named.
    fn user(&self) -> Option<&str> {
        self.user.as_deref().or(self.usual)
    }

    /// The server for calls of the Connect protocol, which are told the user in a header.
    fn server_for(&self, user: Option<&str>) -> Result<Server, CallError> {
        match user.or(self.user()) {
            Some(user) if user.contains(':') => {
                let reason = "the name of a user has no colon".to_owned();
                Err(self.server.failed("name the user", Why::Impossible { reason }))
            }
            Some(user) => {
                self.server.clone().header("authorization", &format!("Basic {}", STANDARD.encode(format!("{user}:"))))
            }
            None => Ok(self.server.clone()),
        }
    }
}
