//! The layers of the box, each on its own switch.
//!
//! Every box has all of them. Tests (and whoever wants to see what a layer is good for) start a backend without one: its
//! controls are then reported as approximated, so a policy has to accept that in so many words before anything runs.

use hotcell_core::capability::{Capability, Control};

/// Which layers boxes are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// The view: without it the box sees the host's directories, and may write what its user may write.
    pub view: bool,
    /// Landlock: files, and scopes for signals and abstract sockets.
    pub landlock: bool,
    /// The system call filter.
    pub seccomp: bool,
    /// Cgroups: memory, processes, CPU.
    pub cgroups: bool,
    /// The user namespace (only root can do without).
    pub user_namespace: bool,
    /// The network namespace.
    pub network_namespace: bool,
    /// Emptying the capability sets, and no_new_privs.
    pub privileges: bool,
}

impl Layers {
    /// All of them.
    pub const ALL: Self = Self {
        view: true,
        landlock: true,
        seccomp: true,
        cgroups: true,
        user_namespace: true,
        network_namespace: true,
        privileges: true,
    };

    /// What a control comes down to without the layer that holds it, if that is switched off.
    pub(super) fn without(self, control: Control) -> Option<Capability> {
        let off = match control {
            Control::FilesystemView | Control::ReadOnly | Control::Disk => !self.view,
            Control::Syscalls => !self.seccomp,
            Control::Network => !self.network_namespace,
            Control::Privileges => !self.privileges,
            _ => false,
        };
        off.then(|| Capability::approximated("nothing", "the layer that holds it was switched off"))
    }
}

impl Default for Layers {
    fn default() -> Self {
        Self::ALL
    }
}
