//! What a person wrote: text in, values out, each with the place where it was written.
//!
//! Nothing here decides what is allowed; that is [`crate::layers`]. Unknown keys, wrong types, values out of range
//! and contradictions inside one file are errors with file, line and a suggestion.

mod environment;
mod error;
mod keys;
mod languages;
mod origin;
mod parse;
pub mod quantity;
mod remote;
mod set;
mod value;
mod vendors;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use environment::environment_config;
pub use error::ConfigError;
pub(crate) use keys::named;
pub use keys::{KEYS, KeyInfo};
pub use origin::{Layer, Origin, Sourced};
pub use parse::MAX_CONFIG_BYTES;
pub use remote::RemoteConfig;
pub(crate) use set::check_variable_name;
pub use vendors::{vendor_config, vendor_variables};

use crate::capability::Control;
use crate::policy::{BoxUser, Cpus, NetworkMode, PullPolicy};
use crate::presets::Preset;
use crate::runtime::{Isolation, RuntimeChoice};

/// One layer of configuration, exactly as it was written; what was not written is absent.
///
/// Made by [`Config::parse`] from a file, by [`environment_config`] from variables, or from flags with
/// [`Config::set`]. Paths are kept as written; [`crate::layers::resolve`] resolves them.
///
/// ```
/// use hotcell_core::config::{Config, Layer};
/// let config = Config::parse("[limits]\nmemory = \"256m\"\n", "hotcell.toml", Layer::User)?;
/// let memory = config.limits.memory.unwrap();
/// assert_eq!(memory.origin.to_string(), "hotcell.toml:2");
///
/// let error = Config::parse("[limits]\nmemroy = \"256m\"\n", "hotcell.toml", Layer::User).unwrap_err();
/// assert_eq!(error.to_string(), "hotcell.toml:2: unknown key `memroy` in [limits]; did you mean `memory`?");
/// # Ok::<(), hotcell_core::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// `[sandbox]`
    pub sandbox: SandboxConfig,
    /// `[filesystem]`
    pub filesystem: FilesystemConfig,
    /// `[network]`
    pub network: NetworkConfig,
    /// `[env]`
    pub env: EnvConfig,
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[process]`
    pub process: ProcessConfig,
    /// `[container]`
    pub container: ContainerConfig,
    /// `[remote]`
    pub remote: RemoteConfig,
    /// `[languages.NAME]`: the command that runs a file with code in this language.
    pub languages: BTreeMap<String, Sourced<Vec<String>>>,
}

/// `[sandbox]`: which box.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// The policy that takes the place of the defaults.
    pub preset: Option<Sourced<Preset>>,
    /// The runtime, also written `sandbox_backend`.
    pub mode: Option<Sourced<RuntimeChoice>>,
    /// The weakest isolation that is acceptable.
    pub isolation: Option<Sourced<Isolation>>,
    /// The controls for which an approximation is acceptable.
    pub approximate: Vec<Sourced<Control>>,
}

/// `[filesystem]`: which paths, with which access.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FilesystemConfig {
    /// Visible, not writable.
    pub read: Vec<Sourced<PathBuf>>,
    /// Written directly.
    pub write: Vec<Sourced<PathBuf>>,
    /// Writable, with the changes kept apart.
    pub overlay: Vec<Sourced<PathBuf>>,
    /// Out of reach.
    pub deny: Vec<Sourced<PathBuf>>,
    /// Names to protect inside writable trees, beyond the built-in ones.
    pub protect: Vec<Sourced<PathBuf>>,
    /// Names that are not to be protected.
    pub unprotect: Vec<Sourced<PathBuf>>,
}

/// `[network]`: whether there is one.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct NetworkConfig {
    /// `"deny"` or `"open"`.
    pub mode: Option<Sourced<NetworkMode>>,
}

/// `[env]`: what the code finds in its environment.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct EnvConfig {
    /// Variables passed from the host.
    pub pass: Vec<Sourced<String>>,
    /// Variables set to a value.
    pub set: BTreeMap<String, Sourced<String>>,
}

/// A limit as it can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound<T> {
    /// `"unlimited"`.
    Unlimited,
    /// At most this.
    At(T),
}

impl<T> Bound<T> {
    /// The value, or none when unlimited.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Unlimited => None,
            Self::At(value) => Some(value),
        }
    }
}

/// `[limits]`: how much of everything.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// Bytes of memory.
    pub memory: Option<Sourced<Bound<u64>>>,
    /// CPUs used at the same time.
    pub cpus: Option<Sourced<Bound<Cpus>>>,
    /// CPU time over all processes.
    pub cpu_time: Option<Sourced<Bound<Duration>>>,
    /// Processes and threads.
    pub processes: Option<Sourced<Bound<u64>>>,
    /// Open files per process.
    pub open_files: Option<Sourced<Bound<u64>>>,
    /// Bytes on disk.
    pub disk: Option<Sourced<Bound<u64>>>,
    /// Bytes of output.
    pub output: Option<Sourced<Bound<u64>>>,
    /// Wall-clock time.
    pub timeout: Option<Sourced<Bound<Duration>>>,
}

/// `[process]`: how the command starts.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ProcessConfig {
    /// The working directory.
    pub cwd: Option<Sourced<PathBuf>>,
    /// The user inside the box.
    pub user: Option<Sourced<BoxUser>>,
    /// Whether the command gets a terminal.
    pub tty: Option<Sourced<bool>>,
}

/// `[container]`: what containers are made of.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ContainerConfig {
    /// The image.
    pub image: Option<Sourced<String>>,
    /// The OCI runtime.
    pub runtime: Option<Sourced<String>>,
    /// Whether an image may be fetched.
    pub pull: Option<Sourced<PullPolicy>>,
}
