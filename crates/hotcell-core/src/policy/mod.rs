//! What the code in the box may do, validated.
//!
//! A [`Policy`] comes from [`crate::layers::resolve`] or from [`Policy::builder`]. It says nothing about how a rule
//! is held; [`crate::plan::plan`] finds that out, or refuses.

mod address;
mod builder;
mod container;
mod filesystem;
mod limits;
mod narrow;
mod process;
pub mod protect;
mod remote;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

pub(crate) use address::{Address, check_address, without_secrets};
pub use builder::PolicyBuilder;
pub use container::{ContainerPolicy, PullPolicy, UnknownPullPolicy};
pub(crate) use container::{check_image, check_runtime};
pub(crate) use filesystem::normalize;
pub use filesystem::{Access, FilesystemPolicy, PathRule, ProtectedPath};
pub use limits::{BadCpus, Cpus, Limit, Limits};
pub use process::{BadUser, BoxUser, ProcessPolicy};
pub use remote::{Endpoints, NoServer, RemotePolicy, UnknownEndpoints};
pub(crate) use remote::{check_api_key, check_domain, check_source_name};

use crate::capability::Control;
use crate::runtime::{Isolation, RuntimeChoice};

/// Variables passed from the host unless the policy says otherwise: how text and terminals look, nothing else.
pub const DEFAULT_PASS: &[&str] = &["LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM", "TZ"];

/// What the code in the box may do.
///
/// The default denies: no host files, no network, a scrubbed environment and a bound on everything.
///
/// ```
/// use hotcell_core::policy::{NetworkMode, Policy};
/// let policy = Policy::default();
/// assert_eq!(policy.network, NetworkMode::Deny);
/// assert!(policy.filesystem.rules.is_empty());
/// assert_eq!(policy.limits.memory.value, Some(1 << 30));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Policy {
    /// Which backend.
    pub runtime: RuntimeChoice,
    /// The weakest isolation that is acceptable; none means that of the chosen backend.
    pub isolation: Option<Isolation>,
    /// Which host paths, with which access.
    pub filesystem: FilesystemPolicy,
    /// Whether there is a network.
    pub network: NetworkMode,
    /// What is in the environment.
    pub env: EnvPolicy,
    /// How much of everything.
    pub limits: Limits,
    /// How commands start.
    pub process: ProcessPolicy,
    /// What containers are made of.
    pub container: ContainerPolicy,
    /// The server of a remote box.
    pub remote: RemotePolicy,
    /// The controls for which the caller accepts an approximation.
    pub approximate: BTreeSet<Control>,
}

impl Policy {
    /// Starts from the default policy.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            runtime: RuntimeChoice::Auto,
            isolation: None,
            filesystem: FilesystemPolicy::default(),
            network: NetworkMode::Deny,
            env: EnvPolicy::default(),
            limits: Limits::default(),
            process: ProcessPolicy::default(),
            container: ContainerPolicy::default(),
            remote: RemotePolicy::default(),
            approximate: BTreeSet::new(),
        }
    }
}

/// Whether the code has a network; ordered by how much it grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum NetworkMode {
    /// None but the box's own loopback.
    #[default]
    Deny,
    /// The host's.
    Open,
}

impl NetworkMode {
    /// The name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Open => "open",
        }
    }
}

/// A network mode that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the network modes are \"deny\" and \"open\"")]
pub struct UnknownNetworkMode;

impl FromStr for NetworkMode {
    type Err = UnknownNetworkMode;

    fn from_str(name: &str) -> Result<Self, UnknownNetworkMode> {
        match name {
            "deny" => Ok(Self::Deny),
            "open" => Ok(Self::Open),
            _ => Err(UnknownNetworkMode),
        }
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for NetworkMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What the code finds in its environment; everything else is scrubbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EnvPolicy {
    /// Names passed from the host where they are set there.
    pub pass: BTreeSet<String>,
    /// Variables with a fixed value; they win over passed ones.
    #[serde(serialize_with = "names_only")]
    pub set: BTreeMap<String, String>,
}

impl Default for EnvPolicy {
    fn default() -> Self {
        Self { pass: DEFAULT_PASS.iter().map(|name| (*name).to_owned()).collect(), set: BTreeMap::new() }
    }
}

/// People put tokens into variables; plans and reports show the names only.
fn names_only<S: Serializer>(set: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(set.keys())
}
