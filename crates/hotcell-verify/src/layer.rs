//! The layers of a native box: which one refused, and boxes without one.

use std::fmt;
use std::str::FromStr;

use hotcell_backends::native::Layers;
use serde::{Serialize, Serializer};

/// Something that stands between the code in a box and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// The mount namespace: what is not in the view does not exist, and most of what is cannot be written.
    View,
    /// The pid, IPC and UTS namespaces. A box ends by its pid namespace, so there is none without.
    Namespaces,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// No capabilities, and no way to gain any.
    Privileges,
    /// The user namespace.
    UserNamespace,
    /// The network namespace.
    NetworkNamespace,
    /// Cgroups.
    Cgroups,
    /// Hotcell's process on the host.
    Supervisor,
}

impl Layer {
    /// Those that a native box can be made without.
    pub const SWITCHABLE: &'static [Self] = &[
        Self::View,
        Self::Landlock,
        Self::Seccomp,
        Self::Privileges,
        Self::UserNamespace,
        Self::NetworkNamespace,
        Self::Cgroups,
    ];

    /// The name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Privileges => "privileges",
            Self::UserNamespace => "user-namespace",
            Self::NetworkNamespace => "network-namespace",
            Self::Cgroups => "cgroups",
            Self::Supervisor => "supervisor",
        }
    }

    /// Switches this layer on or off.
    pub fn set(self, layers: &mut Layers, on: bool) {
        match self {
            Self::View => layers.view = on,
            Self::Landlock => layers.landlock = on,
            Self::Seccomp => layers.seccomp = on,
            Self::Privileges => layers.privileges = on,
            Self::UserNamespace => layers.user_namespace = on,
            Self::NetworkNamespace => layers.network_namespace = on,
            Self::Cgroups => layers.cgroups = on,
            Self::Namespaces | Self::Supervisor => {}
        }
    }

    /// The layer that a refusal points to. An error number is a trace, not a proof: that is what boxes without a layer
    /// are for.
    pub(crate) fn behind(refusal: &str) -> Option<Self> {
        let errno = refusal.rsplit(' ').next()?;
        Some(match errno {
            "ENOENT" | "EROFS" | "EXDEV" | "ENOTDIR" => Self::View,
            "EACCES" => Self::Landlock,
            "ENOSYS" => Self::Seccomp,
            "EPERM" => Self::Privileges,
            "ESRCH" => Self::Namespaces,
            "ENETUNREACH" | "ECONNREFUSED" | "EADDRNOTAVAIL" | "EHOSTUNREACH" => Self::NetworkNamespace,
            "ENOMEM" | "EAGAIN" => Self::Cgroups,
            _ => return None,
        })
    }
}

/// A name that is not one of a layer that can be switched off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no layer `{name}` to do without; there are {}", names())]
pub struct UnknownLayer {
    name: String,
}

fn names() -> String {
    Layer::SWITCHABLE.iter().map(|layer| layer.as_str()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Layer {
    type Err = UnknownLayer;

    fn from_str(name: &str) -> Result<Self, UnknownLayer> {
        let found = Self::SWITCHABLE.iter().copied().find(|layer| layer.as_str() == name);
        found.ok_or_else(|| UnknownLayer { name: name.escape_default().to_string() })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Layer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
