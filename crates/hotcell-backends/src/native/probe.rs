//! What the native backend can hold on this machine, now.

use std::sync::Arc;

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_linux::cgroup::{Controller, Layout};
use hotcell_linux::landlock::Abi;
use hotcell_linux::probe::Findings;
use hotcell_linux::seccomp::Arch;

use super::layers::Layers;

/// Whether boxes get a user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserNamespace {
    /// They do.
    Works,
    /// It cannot be had, but the caller is privileged and can make boxes without one.
    Without(String),
    /// It cannot be had, and without it there is no box.
    Missing(String),
}

/// This machine, as found when the backend started.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The kernel and this process's place in it.
    pub findings: Findings,
    /// Where boxes get their cgroups.
    pub cgroups: Arc<Layout>,
    /// Whether boxes get a user namespace.
    pub user_namespace: UserNamespace,
    /// The layers that boxes are made with.
    pub layers: Layers,
}

impl Machine {
    /// Whether boxes are made with a user namespace.
    pub(crate) fn uses_user_namespace(&self) -> bool {
        self.user_namespace == UserNamespace::Works
    }

    /// Whether RLIMIT_NPROC counts the box's own processes only: since Linux 5.14 it is counted per user namespace.
    pub(crate) fn counts_processes_by_namespace(&self) -> bool {
        self.uses_user_namespace() && self.findings.at_least(5, 14)
    }

    /// Whether changes to an overlay can be kept on a tmpfs without privileges on the host.
    pub(crate) fn has_overlay(&self) -> bool {
        self.uses_user_namespace() && self.findings.tmpfs_user_attributes && self.findings.overlay
    }
}

/// Capabilities of the backend on this machine.
pub(crate) fn capabilities(machine: &Machine) -> Capabilities {
    let mut capabilities = Capabilities::new(RuntimeKind::Native, Isolation::Process);
    for control in Control::ALL {
        capabilities = capabilities.with(*control, capability(machine, *control));
    }
    if machine.findings.landlock == Abi(0) {
        capabilities.notes.push(
            "this kernel has no Landlock: the mount namespace alone holds the file rules (Linux 5.13 or `lsm=landlock,…` would add it)".into(),
        );
    } else if machine.findings.landlock < Abi(6) {
        capabilities.notes.push(format!(
            "Landlock version {} knows no scopes: with an open network, abstract sockets of the host are reachable",
            machine.findings.landlock.0
        ));
    }
    if let UserNamespace::Without(why) = &machine.user_namespace {
        capabilities.notes.push(format!("boxes have no user namespace: {why}"));
    }
    capabilities
}

fn capability(machine: &Machine, control: Control) -> Capability {
    if let UserNamespace::Missing(why) = &machine.user_namespace
        && needs_namespaces(control)
    {
        return Capability::unsupported(why, "change that, run as root, or choose another runtime");
    }
    if let Some(without) = machine.layers.without(control) {
        return without;
    }
    match control {
        Control::FilesystemView | Control::ReadOnly => {
            Capability::enforced(with_landlock(machine, "a mount namespace"))
        }
        Control::Sockets => sockets(machine),
        Control::DenyPaths | Control::ProtectedPaths => {
            Capability::enforced("mounts over them, until a program of the host's replaces them")
        }
        Control::Overlay => overlay(machine),
        Control::Network => Capability::enforced("a network namespace with nothing but its own loopback"),
        Control::OpenNetwork => Capability::enforced("the host's network namespace"),
        Control::Environment => Capability::enforced("an allow-list"),
        Control::Syscalls => syscalls(machine),
        Control::Privileges => Capability::enforced(privileges(machine)),
        Control::ProcessIsolation => Capability::enforced("a pid namespace, killed through its init"),
        Control::Memory => memory(machine),
        Control::Cpus => cpus(machine),
        Control::CpuTime => cpu_time(machine),
        Control::ProcessCount => processes(machine),
        Control::OpenFiles => Capability::enforced("RLIMIT_NOFILE"),
        Control::Disk => Capability::enforced("the size of the box's tmpfs"),
        Control::DiskDirect => Capability::unsupported(
            "writes to a directly writable tree go to the host's file system, which has no quota for one box",
            "use an overlay, or allow it with `approximate = [\"disk-direct\"]`",
        ),
        Control::Output | Control::Timeout => Capability::enforced("the supervisor"),
        Control::Tty => Capability::enforced("a devpts of the box's own"),
        Control::User if machine.uses_user_namespace() => Capability::enforced("the map of the user namespace"),
        Control::User => Capability::unsupported(
            "without a user namespace a box has the number that its user has on the host",
            "leave `user` out, or turn user namespaces on",
        ),
        other => Capability::unsupported(
            format!("the native backend does not know the control `{other}`"),
            "choose another runtime",
        ),
    }
}

/// What is held by namespaces, and so by nothing where none can be made.
fn needs_namespaces(control: Control) -> bool {
    matches!(
        control,
        Control::FilesystemView
            | Control::ReadOnly
            | Control::Sockets
            | Control::Overlay
            | Control::DenyPaths
            | Control::ProtectedPaths
            | Control::Network
            | Control::Privileges
            | Control::ProcessIsolation
            | Control::Disk
            | Control::Tty
            | Control::User
    )
}

fn with_landlock(machine: &Machine, mechanism: &str) -> String {
    match machine.findings.landlock.0 {
        0 => mechanism.to_owned(),
        version => format!("{mechanism} and Landlock version {version}"),
    }
}

fn sockets(machine: &Machine) -> Capability {
    if machine.findings.privileged && machine.uses_user_namespace() && machine.findings.at_least(5, 12) {
        return Capability::enforced("id-mapped mounts without the group of the tree");
    }
    sockets_by_permissions()
}

/// What is left where a tree is shown with the owners that it has on the host.
pub(crate) fn sockets_by_permissions() -> Capability {
    Capability::approximated(
        "the permissions of the sockets",
        "the box can talk to those that the user behind it can; an overlay in place of a read rule shuts them off",
    )
}

fn overlay(machine: &Machine) -> Capability {
    if machine.has_overlay() {
        return Capability::enforced("overlayfs with its changes on the box's tmpfs");
    }
    Capability::unsupported(
        format!(
            "Linux {} cannot keep the changes of an overlay on a tmpfs inside a user namespace",
            machine.findings.kernel
        ),
        "Linux 6.6 can; until then use `read`, or `write` on a copy of the tree",
    )
}

fn syscalls(machine: &Machine) -> Capability {
    if !machine.findings.seccomp {
        return Capability::unsupported(
            "this kernel has no seccomp filters",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        );
    }
    match Arch::native() {
        Some(_) => Capability::enforced("a seccomp allow-list"),
        None => Capability::unsupported(
            "there is no system call table for this processor",
            "use x86_64 or aarch64, or another runtime",
        ),
    }
}

fn privileges(machine: &Machine) -> String {
    let user = match (machine.findings.privileged, machine.uses_user_namespace()) {
        (true, true) => "a user namespace, a host user of the box's own",
        (true, false) => "a host user that is nobody else's",
        (false, _) => "a user namespace, the caller's own host user",
    };
    format!("{user}, empty capability sets and no_new_privs")
}

/// Why there are no cgroups here and what would help.
fn no_cgroup(machine: &Machine, controller: Controller) -> &str {
    machine.cgroups.problem_of(controller).unwrap_or("no cgroup controller is available")
}

fn by_cgroup(machine: &Machine, controller: Controller, name: &str) -> Option<Capability> {
    let version = machine.cgroups.kind()?;
    machine.cgroups.has(controller).then(|| Capability::enforced(format!("{version}, {name}")))
}

fn memory(machine: &Machine) -> Capability {
    by_cgroup(machine, Controller::Memory, "memory controller").unwrap_or_else(|| {
        Capability::approximated(
            "sampling of the box's processes",
            format!(
                "a burst between two samples is not seen, memory files that nobody maps are not counted; {}",
                no_cgroup(machine, Controller::Memory)
            ),
        )
    })
}

fn cpu_time(machine: &Machine) -> Capability {
    by_cgroup(machine, Controller::CpuTime, "CPU accounting read by the supervisor").unwrap_or_else(|| {
        Capability::approximated(
            "sampling of the box's processes",
            format!(
                "the time of children that nobody waits for is not counted; {}",
                no_cgroup(machine, Controller::CpuTime)
            ),
        )
    })
}

fn cpus(machine: &Machine) -> Capability {
    by_cgroup(machine, Controller::Cpu, "cpu controller").unwrap_or_else(|| {
        Capability::unsupported(
            no_cgroup(machine, Controller::Cpu),
            "leave `cpus` out, or run where a cgroup is available",
        )
    })
}

fn processes(machine: &Machine) -> Capability {
    if let Some(enforced) = by_cgroup(machine, Controller::Pids, "pids controller") {
        return enforced;
    }
    if machine.counts_processes_by_namespace() {
        return Capability::enforced("RLIMIT_NPROC, counted in the box's user namespace");
    }
    Capability::approximated(
        "sampling of the box's processes",
        format!("a burst between two samples is not seen; {}", no_cgroup(machine, Controller::Pids)),
    )
}
