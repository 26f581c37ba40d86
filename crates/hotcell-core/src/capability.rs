//! What a backend can hold on this machine, now.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::runtime::{Isolation, RuntimeKind};
use crate::suggest::{did_you_mean, nearest};
use crate::text::Printable;

/// One thing that a policy can ask for and a backend can hold, or not.
///
/// The names ([`Control::as_str`]) are the same in `approximate`, plans, refusals and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Control {
    /// Only what the policy names, and the system directories, can be seen.
    FilesystemView,
    /// What is readable cannot be written.
    ReadOnly,
    /// Sockets and pipes of the host's in trees that can only be read cannot be talked to.
    Sockets,
    /// Writes to an overlay tree stay apart until they are committed.
    Overlay,
    /// Denied paths inside a visible tree are out of reach.
    DenyPaths,
    /// Protected names inside a writable tree cannot be changed or created.
    ProtectedPaths,
    /// No network.
    Network,
    /// The host's network can be used when the policy opens it.
    OpenNetwork,
    /// The environment holds only what the policy passes or sets.
    Environment,
    /// Dangerous system calls are refused.
    Syscalls,
    /// The code holds no privileges and cannot gain any.
    Privileges,
    /// Processes outside cannot be seen or signalled, and all inside die with the box.
    ProcessIsolation,
    /// The memory limit, over all processes and memory-backed files.
    Memory,
    /// The limit of CPUs used at the same time.
    Cpus,
    /// The CPU time limit, as the total over all processes.
    CpuTime,
    /// The limit of processes and threads.
    ProcessCount,
    /// The limit of open files per process.
    OpenFiles,
    /// The disk limit on overlays and on the box's private directories.
    Disk,
    /// The disk limit on trees that are written directly.
    DiskDirect,
    /// The limit of bytes written to stdout and stderr.
    Output,
    /// The wall-clock limit.
    Timeout,
    /// A terminal of the box's own.
    Tty,
    /// The user that the code sees itself as.
    User,
}

impl Control {
    /// Every control, in the order in which reports list them.
    pub const ALL: &'static [Self] = &[
        Self::FilesystemView,
        Self::ReadOnly,
        Self::Sockets,
        Self::Overlay,
        Self::DenyPaths,
        Self::ProtectedPaths,
        Self::Network,
        Self::OpenNetwork,
        Self::Environment,
        Self::Syscalls,
        Self::Privileges,
        Self::ProcessIsolation,
        Self::Memory,
        Self::Cpus,
        Self::CpuTime,
        Self::ProcessCount,
        Self::OpenFiles,
        Self::Disk,
        Self::DiskDirect,
        Self::Output,
        Self::Timeout,
        Self::Tty,
        Self::User,
    ];

    /// The name in configuration, plans and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FilesystemView => "filesystem-view",
            Self::ReadOnly => "read-only",
            Self::Sockets => "sockets",
            Self::Overlay => "overlay",
            Self::DenyPaths => "deny-paths",
            Self::ProtectedPaths => "protected-paths",
            Self::Network => "network",
            Self::OpenNetwork => "open-network",
            Self::Environment => "environment",
            Self::Syscalls => "syscalls",
            Self::Privileges => "privileges",
            Self::ProcessIsolation => "process-isolation",
            Self::Memory => "memory",
            Self::Cpus => "cpus",
            Self::CpuTime => "cpu-time",
            Self::ProcessCount => "processes",
            Self::OpenFiles => "open-files",
            Self::Disk => "disk",
            Self::DiskDirect => "disk-direct",
            Self::Output => "output",
            Self::Timeout => "timeout",
            Self::Tty => "tty",
            Self::User => "user",
        }
    }
}

/// A control name that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a control{}; controls: {}", Printable(.name), did_you_mean(.suggestion), control_names())]
pub struct UnknownControl {
    /// What was written.
    pub name: String,
    /// The nearest known name.
    pub suggestion: Option<String>,
}

fn control_names() -> String {
    Control::ALL.iter().map(|control| control.as_str()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Control {
    type Err = UnknownControl;

    /// Underscores are read as hyphens, because the limits are spelled `cpu_time` as keys.
    fn from_str(name: &str) -> Result<Self, UnknownControl> {
        let hyphenated = name.replace('_', "-");
        Self::ALL.iter().copied().find(|control| control.as_str() == hyphenated).ok_or_else(|| UnknownControl {
            name: name.to_owned(),
            suggestion: nearest(&hyphenated, Self::ALL.iter().map(|control| control.as_str())).map(str::to_owned),
        })
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Control {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// How well one control is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "level", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Capability {
    /// Held, completely.
    Enforced {
        /// The mechanism, for instance "cgroup v2 memory.max".
        by: String,
    },
    /// Held in part.
    Approximated {
        /// The mechanism.
        by: String,
        /// In which way it falls short.
        how: String,
    },
    /// Not held.
    Unsupported {
        /// What is missing on this machine or in this backend.
        why: String,
        /// What a person could do about it.
        hint: String,
    },
}

impl Capability {
    /// Held completely, by this mechanism.
    pub fn enforced(by: impl Into<String>) -> Self {
        Self::Enforced { by: by.into() }
    }

    /// Held in part: by this mechanism, falling short in this way.
    pub fn approximated(by: impl Into<String>, how: impl Into<String>) -> Self {
        Self::Approximated { by: by.into(), how: how.into() }
    }

    /// Not held: why, and what could be done.
    pub fn unsupported(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported { why: why.into(), hint: hint.into() }
    }

    /// "enforced", "approximated" or "unsupported".
    pub fn level(&self) -> &'static str {
        match self {
            Self::Enforced { .. } => "enforced",
            Self::Approximated { .. } => "approximated",
            Self::Unsupported { .. } => "unsupported",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced { by } => write!(f, "enforced by {by}"),
            Self::Approximated { by, how } => write!(f, "approximated by {by} ({how})"),
            Self::Unsupported { why, .. } => write!(f, "unsupported: {why}"),
        }
    }
}

/// What one backend can hold on this machine, now: found by trying, not by reading version numbers.
///
/// A control that is not listed counts as unsupported, so a backend cannot be trusted with a control it has not
/// heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The backend.
    pub kind: RuntimeKind,
    /// How strongly its boxes are isolated here.
    pub isolation: Isolation,
    /// Each control and how well it is held.
    pub controls: BTreeMap<Control, Capability>,
    /// What else a person should know, one sentence each.
    pub notes: Vec<String>,
}

impl Capabilities {
    /// A backend that holds nothing yet; add to it with [`Capabilities::with`].
    pub fn new(kind: RuntimeKind, isolation: Isolation) -> Self {
        Self { kind, isolation, controls: BTreeMap::new(), notes: Vec::new() }
    }

    /// States how well a control is held.
    pub fn with(mut self, control: Control, capability: Capability) -> Self {
        self.controls.insert(control, capability);
        self
    }

    /// How well a control is held.
    pub fn of(&self, control: Control) -> Capability {
        self.controls.get(&control).cloned().unwrap_or_else(|| {
            Capability::unsupported(
                format!("the {} backend does not offer this control", self.kind),
                "choose another runtime with --runtime",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_names_are_unique_and_read_back() {
        for control in Control::ALL {
            assert_eq!(control.as_str().parse(), Ok(*control));
        }
        assert_eq!("cpu_time".parse(), Ok(Control::CpuTime));
        let error = "memoory".parse::<Control>().unwrap_err();
        assert_eq!(error.suggestion.as_deref(), Some("memory"));
    }

    #[test]
    fn an_unlisted_control_is_unsupported() {
        let capabilities = Capabilities::new(RuntimeKind::Native, Isolation::Process);
        assert_eq!(capabilities.of(Control::Memory).level(), "unsupported");
    }
}
