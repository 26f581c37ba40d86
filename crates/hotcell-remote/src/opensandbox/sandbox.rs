//! What the lifecycle API is asked for, and what it says.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use hotcell_core::secret::Secret;

use super::network::NetworkPolicy;

/// What a sandbox starts from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Source {
    /// An image of a registry.
    Image {
        /// Its name, such as `python:3.12`.
        uri: String,
        /// Who asks the registry for it.
        auth: Option<ImageAuth>,
    },
    /// A snapshot, by its id.
    Snapshot(String),
    /// A template of servers that have them, by its id.
    Template(String),
}

/// Who asks a registry for an image.
#[derive(Debug, Clone)]
pub struct ImageAuth {
    /// The user's name.
    pub username: String,
    /// The password or token.
    pub password: Secret<String>,
}

/// A sandbox to be made.
///
/// ```
/// use hotcell_remote::opensandbox::NewSandbox;
/// let mut new = NewSandbox::image("python:3.12");
/// new.resource_limits.insert("memory".to_owned(), "512Mi".to_owned());
/// new.metadata.insert("hotcell.owner".to_owned(), "me".to_owned());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NewSandbox {
    /// What it starts from.
    pub source: Source,
    /// How long it lives unless that is renewed; none is for ever, which not every server allows. Servers want at least a
    /// minute.
    pub timeout: Option<Duration>,
    /// Limits as Kubernetes writes them: `cpu` = `500m`, `memory` = `512Mi`.
    pub resource_limits: BTreeMap<String, String>,
    /// The environment of the entry point, and so of every command.
    pub env: BTreeMap<String, String>,
    /// Labels to find it by. Servers hold them to the rules of Kubernetes labels: at most 63 letters, digits, `-`, `_` and
    /// `.` in a value.
    pub metadata: BTreeMap<String, String>,
    /// What is started in it and keeps it alive. Servers demand one with an image.
    pub entrypoint: Vec<String>,
    /// What it may reach; none leaves that to the server.
    pub network_policy: Option<NetworkPolicy>,
    /// Whether endpoints want a secret of their own, which the server then gives along with them.
    pub secure_access: bool,
    /// What is mounted in it.
    pub volumes: Vec<Volume>,
    /// Settings of particular servers, as they are.
    pub extensions: BTreeMap<String, String>,
}

impl NewSandbox {
    /// A sandbox from this source that does nothing by itself, ends after ten minutes and has the usual limits.
    pub fn new(source: Source) -> Self {
        let image = matches!(source, Source::Image { .. });
        let entrypoint = if image { vec!["tail", "-f", "/dev/null"] } else { vec![] };
        Self {
            source,
            timeout: Some(Duration::from_secs(600)),
            // Servers refuse an image without limits.
            resource_limits: [("cpu", "1"), ("memory", "2Gi")].iter().filter(|_| image).map(owned).collect(),
            env: BTreeMap::new(),
            metadata: BTreeMap::new(),
            entrypoint: entrypoint.into_iter().map(str::to_owned).collect(),
            network_policy: None,
            secure_access: false,
            volumes: Vec::new(),
            extensions: BTreeMap::new(),
        }
    }

    /// A sandbox from a public image.
    pub fn image(uri: impl Into<String>) -> Self {
        Self::new(Source::Image { uri: uri.into(), auth: None })
    }
}

fn owned((name, value): &(&str, &str)) -> (String, String) {
    ((*name).to_owned(), (*value).to_owned())
}

/// Something that is mounted in a sandbox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Volume {
    /// Its name: lower-case letters, digits and `-`.
    pub name: String,
    /// Where it is in the sandbox.
    pub mount_path: String,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// The part of it that is mounted.
    pub sub_path: Option<String>,
    /// What it is.
    pub from: VolumeSource,
}

impl Volume {
    /// A volume that can be written.
    pub fn new(name: impl Into<String>, mount_path: impl Into<String>, from: VolumeSource) -> Self {
        Self { name: name.into(), mount_path: mount_path.into(), read_only: false, sub_path: None, from }
    }
}

/// What a volume is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum VolumeSource {
    /// A directory of the server's machine.
    HostPath(String),
    /// A claim (Kubernetes) or a named volume (Docker), made if it does not exist.
    Claim(String),
}

/// A sandbox, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sandbox {
    /// Its id.
    pub id: String,
    /// How it is.
    pub status: Status,
    /// When it was made.
    pub created_at: Option<SystemTime>,
    /// When it ends; none is never.
    pub expires_at: Option<SystemTime>,
    /// Its labels.
    pub metadata: BTreeMap<String, String>,
    /// The image that it came from.
    pub image: Option<String>,
    /// The snapshot that it came from.
    pub snapshot: Option<String>,
}

/// How a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub state: State,
    /// Why, in a word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// On its way.
    Pending,
    /// Up.
    Running,
    /// On its way to [`State::Paused`].
    Pausing,
    /// Not running, and resumable.
    Paused,
    /// On its way back from [`State::Paused`].
    Resuming,
    /// On its way down.
    Stopping,
    /// Gone.
    Terminated,
    /// Gone wrong.
    Failed,
    /// Something that this client does not know.
    Other(String),
}

impl State {
    pub(super) fn read(text: String) -> Self {
        match text.as_str() {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Pausing" => Self::Pausing,
            "Paused" => Self::Paused,
            "Resuming" => Self::Resuming,
            "Stopping" => Self::Stopping,
            "Terminated" => Self::Terminated,
            "Failed" => Self::Failed,
            _ => Self::Other(text),
        }
    }

    /// The word that servers use.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Pausing => "Pausing",
            Self::Paused => "Paused",
            Self::Resuming => "Resuming",
            Self::Stopping => "Stopping",
            Self::Terminated => "Terminated",
            Self::Failed => "Failed",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which sandboxes are listed; all of it must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// One of these states; none is any.
    pub states: Vec<State>,
    /// These labels.
    pub metadata: BTreeMap<String, String>,
}

/// A snapshot, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// The sandbox that it was made of.
    pub sandbox: String,
    /// Its name.
    pub name: Option<String>,
    /// `Creating`, `Ready`, `Failed`, or what the server says else.
    pub state: String,
    /// Why, in words.
    pub message: String,
    /// When it was made.
    pub created_at: Option<SystemTime>,
}
