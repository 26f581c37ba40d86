//! Which kind of box: the backend's name and how strongly it isolates.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::suggest::{did_you_mean, nearest};
use crate::text::Printable;

/// Names a backend.
///
/// ```
/// use hotcell_core::runtime::RuntimeKind;
/// assert_eq!("native".parse(), Ok(RuntimeKind::Native));
/// assert_eq!("cube".parse(), Ok(RuntimeKind::Cube));
/// assert!("natvie".parse::<RuntimeKind>().unwrap_err().to_string().contains("did you mean `native`?"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RuntimeKind {
    /// The operating system's own mechanisms; on Linux namespaces, Landlock, seccomp and cgroups.
    Native,
    /// A container through the Docker or Podman Engine API.
    Docker,
    /// A container through an OCI runtime's binary, without a daemon.
    Oci,
    /// A container on a kernel in user space: like [`RuntimeKind::Oci`], through gVisor's runsc.
    Gvisor,
    /// WebAssembly.
    Wasm,
    /// A microVM, through Firecracker.
    Firecracker,
    /// A microVM, through BoxLite.
    Boxlite,
    /// A microVM, through QEMU.
    Qemu,
    /// A sandbox of an OpenSandbox server.
    Opensandbox,
    /// A sandbox of E2B, or of a server that speaks its API.
    E2b,
    /// A sandbox of Tencent's CubeSandbox, which speaks a part of E2B's API.
    Cube,
    /// A Pod in a Kubernetes cluster.
    Kubernetes,
}

impl RuntimeKind {
    /// Every kind, in the order in which they are documented.
    pub const ALL: &'static [Self] = &[
        Self::Native,
        Self::Docker,
        Self::Oci,
        Self::Gvisor,
        Self::Wasm,
        Self::Firecracker,
        Self::Boxlite,
        Self::Qemu,
        Self::Opensandbox,
        Self::E2b,
        Self::Cube,
        Self::Kubernetes,
    ];

    /// The name that `--runtime`, `HOTCELL_RUNTIME` and `[sandbox] mode` use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Oci => "oci",
            Self::Gvisor => "gvisor",
            Self::Wasm => "wasm",
            Self::Firecracker => "firecracker",
            Self::Boxlite => "boxlite",
            Self::Qemu => "qemu",
            Self::Opensandbox => "opensandbox",
            Self::E2b => "e2b",
            Self::Cube => "cube",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// The isolation this kind has without extra hardening; a probe may report a stronger one.
    pub fn usual_isolation(self) -> Isolation {
        match self {
            Self::Native => Isolation::Process,
            Self::Docker | Self::Oci => Isolation::Container,
            Self::Gvisor => Isolation::UserKernel,
            Self::Wasm => Isolation::Wasm,
            Self::Firecracker | Self::Boxlite | Self::Qemu => Isolation::MicroVm,
            Self::Opensandbox | Self::E2b | Self::Cube | Self::Kubernetes => Isolation::Remote,
        }
    }

    /// Whether code and files leave this machine. `auto` never picks such a backend.
    pub fn is_remote(self) -> bool {
        self.usual_isolation() == Isolation::Remote
    }
}

/// A runtime name that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a runtime{}; known runtimes: {}", Printable(.name), did_you_mean(.suggestion), known_names())]
pub struct UnknownRuntime {
    /// What was written.
    pub name: String,
    /// The nearest known name.
    pub suggestion: Option<String>,
}

fn known_names() -> String {
    let names: Vec<&str> = RuntimeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    format!("auto, {}", names.join(", "))
}

impl FromStr for RuntimeKind {
    type Err = UnknownRuntime;

    fn from_str(name: &str) -> Result<Self, UnknownRuntime> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name).ok_or_else(|| UnknownRuntime {
            name: name.to_owned(),
            suggestion: nearest(name, Self::ALL.iter().map(|kind| kind.as_str())).map(str::to_owned),
        })
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for RuntimeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Which backend a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RuntimeChoice {
    /// The fastest local backend that can hold the whole policy.
    #[default]
    Auto,
    /// This one or none.
    Kind(RuntimeKind),
}

impl RuntimeChoice {
    /// Whether taking this choice in place of the other can neither weaken the box nor send anything to another
    /// machine.
    pub fn is_at_most(self, other: Self) -> bool {
        match (self, other) {
            (mine, theirs) if mine == theirs => true,
            (Self::Auto, Self::Kind(_)) => false,
            (Self::Kind(kind), _) if kind.is_remote() => false,
            (_, Self::Auto) => true,
            (Self::Kind(kind), Self::Kind(other)) => kind.usual_isolation().satisfies(other.usual_isolation()),
        }
    }
}

impl FromStr for RuntimeChoice {
    type Err = UnknownRuntime;

    fn from_str(name: &str) -> Result<Self, UnknownRuntime> {
        if name == "auto" { Ok(Self::Auto) } else { name.parse().map(Self::Kind) }
    }
}

impl fmt::Display for RuntimeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Kind(kind) => kind.fmt(f),
        }
    }
}

impl Serialize for RuntimeChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How strongly a box is separated from the host, compared with [`Isolation::satisfies`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// A restricted process on the host's kernel.
    Process,
    /// A container on the host's kernel.
    Container,
    /// A kernel in user space between the code and the host's kernel, as gVisor has.
    UserKernel,
    /// A kernel of its own in a virtual machine.
    MicroVm,
    /// A WebAssembly runtime inside the host program: not comparable with the levels above [`Isolation::Process`].
    Wasm,
    /// Somebody else's machine: what isolates there cannot be seen from here.
    Remote,
}

impl Isolation {
    /// The levels that a policy can ask for, weakest first.
    pub const LEVELS: &'static [Self] = &[Self::Process, Self::Container, Self::UserKernel, Self::MicroVm];

    /// The name in configuration and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::UserKernel => "user-kernel",
            Self::MicroVm => "microvm",
            Self::Wasm => "wasm",
            Self::Remote => "remote",
        }
    }

    /// Whether a box with this isolation is at least as strong as the one asked for.
    ///
    /// ```
    /// use hotcell_core::runtime::Isolation;
    /// assert!(Isolation::MicroVm.satisfies(Isolation::Container));
    /// assert!(!Isolation::Process.satisfies(Isolation::Container));
    /// assert!(!Isolation::Remote.satisfies(Isolation::Process));
    /// ```
    pub fn satisfies(self, asked: Self) -> bool {
        match (self, asked) {
            (Self::Wasm, Self::Process) => true,
            (have, asked) if have == asked => true,
            (have, asked) => matches!((have.level(), asked.level()), (Some(have), Some(asked)) if have >= asked),
        }
    }

    fn level(self) -> Option<usize> {
        Self::LEVELS.iter().position(|level| *level == self)
    }
}

/// An isolation level that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an isolation level{}; levels, weakest first: process, container, user-kernel, microvm",
    Printable(.name), did_you_mean(.suggestion))]
pub struct UnknownIsolation {
    /// What was written.
    pub name: String,
    /// The nearest known level.
    pub suggestion: Option<String>,
}

impl FromStr for Isolation {
    type Err = UnknownIsolation;

    /// Only the levels that can be asked for; `wasm` and `remote` are asked for by naming the runtime.
    fn from_str(name: &str) -> Result<Self, UnknownIsolation> {
        Self::LEVELS.iter().copied().find(|level| level.as_str() == name).ok_or_else(|| UnknownIsolation {
            name: name.to_owned(),
            suggestion: nearest(name, Self::LEVELS.iter().map(|level| level.as_str())).map(str::to_owned),
        })
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Isolation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in RuntimeKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
        for level in Isolation::LEVELS {
            assert_eq!(level.as_str().parse(), Ok(*level));
        }
    }

    #[test]
    fn stronger_levels_satisfy_weaker_ones_only() {
        for (index, have) in Isolation::LEVELS.iter().enumerate() {
            for (asked_index, asked) in Isolation::LEVELS.iter().enumerate() {
                assert_eq!(have.satisfies(*asked), index >= asked_index);
            }
        }
    }
}
