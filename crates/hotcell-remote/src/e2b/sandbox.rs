//! Sandboxes, as the control plane knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_core::secret::Secret;

use super::{EnvdVersion, SandboxId};

/// What a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkRules {
    /// Whether it reaches the internet at all; the server's default if nothing is said.
    pub internet: Option<bool>,
    /// Networks, addresses and names that it reaches, even if they are denied below.
    pub allow_out: Vec<String>,
    /// Networks and addresses that it does not reach.
    pub deny_out: Vec<String>,
}

/// A sandbox to be created.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NewSandbox {
    /// The template, by id or name; or the id of a snapshot.
    pub template: String,
    /// How long it lives unless that is prolonged. In whole seconds, rounded up.
    pub timeout: Duration,
    /// What it can be found by.
    pub metadata: BTreeMap<String, String>,
    /// What every command in it has in its environment.
    pub env: BTreeMap<String, String>,
    /// What it may reach.
    pub network: NetworkRules,
    /// Whether it is paused, and not removed, when its time is over.
    pub pause_at_end: bool,
}

impl NewSandbox {
    /// A sandbox of this template that lives this long.
    pub fn new(template: impl Into<String>, timeout: Duration) -> Self {
        Self {
            template: template.into(),
            timeout,
            metadata: BTreeMap::new(),
            env: BTreeMap::new(),
            network: NetworkRules::default(),
            pause_at_end: false,
        }
    }
}

/// A sandbox that can be talked to.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub(super) id: SandboxId,
    pub(super) template: String,
    pub(super) version: EnvdVersion,
    pub(super) access_token: Option<Secret<String>>,
    pub(super) traffic_token: Option<Secret<String>>,
    pub(super) domain: Option<String>,
}

impl Sandbox {
    /// Its name.
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// The template that it was made of.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The version of the `envd` in it.
    pub fn envd_version(&self) -> &EnvdVersion {
        &self.version
    }
}

/// What a sandbox does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It runs.
    Running,
    /// It is kept, and does not run.
    Paused,
    /// Something that this program does not know.
    Other(String),
}

/// What the control plane says of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Details {
    /// Its name.
    pub id: SandboxId,
    /// The template that it was made of.
    pub template: String,
    /// What it does.
    pub state: State,
    /// When it was started, as the server writes it.
    pub started_at: String,
    /// When it ends, as the server writes it.
    pub end_at: String,
    /// How many processors it has.
    pub cpus: Option<u32>,
    /// How much memory it has, in MiB.
    pub memory_mib: Option<u64>,
    /// How much disk it has, in MiB.
    pub disk_mib: Option<u64>,
    /// What it was given to be found by.
    pub metadata: BTreeMap<String, String>,
    /// The version of the `envd` in it.
    pub envd_version: EnvdVersion,
}

/// Which sandboxes are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Those that have all of this among their metadata.
    pub metadata: BTreeMap<String, String>,
    /// At most this many.
    pub most: usize,
}

impl Filter {
    /// At most this many, whatever they are.
    pub fn new(most: usize) -> Self {
        Self { metadata: BTreeMap::new(), most }
    }
}
