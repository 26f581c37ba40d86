//! What containers without a daemon can hold on this machine, now.

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::runtime::RuntimeKind;

use super::runtime::{Flavour, Runtime};
use crate::native::Machine;
use crate::native::probe::capabilities as on_host;

/// Capabilities of this runtime on this machine.
///
/// Files and limits are held as in a native box, by the same mounts and cgroups, before the runtime starts; the rest is the
/// runtime's, or that of the first process in the container.
pub(super) fn capabilities(kind: RuntimeKind, runtime: &Runtime, machine: &Machine) -> Capabilities {
    let held = on_host(machine);
    let mut capabilities = Capabilities::new(kind, runtime.flavour.isolation());
    for control in Control::ALL {
        capabilities = capabilities.with(*control, capability(runtime, machine, *control, &held));
    }
    capabilities.notes.push(format!("containers are made by {}", runtime.program.display()));
    capabilities
}

fn capability(runtime: &Runtime, machine: &Machine, control: Control, held: &Capabilities) -> Capability {
    let name = runtime.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own_user = machine.findings.privileged || runtime.flavour.maps_any_user();
    match (control, runtime.flavour) {
        (Control::User, _) if !own_user => {
            Capability::approximated(name, "without privileges the code sees itself as root, whatever it is to be")
        }
        (Control::User, _) => Capability::enforced("the map of the container's user namespace"),
        (Control::ProcessIsolation, _) => {
            Capability::enforced(format!("the pid namespace of {name}, inside one of the stage's"))
        }
        (Control::Syscalls, Flavour::Runsc) => Capability::enforced("gVisor's kernel, and a seccomp allow-list in it"),
        (Control::FilesystemView, Flavour::Runsc) => {
            Capability::enforced("gVisor's own file system, over mounts of the stage's")
        }
        (Control::ReadOnly, Flavour::Runsc) => Capability::enforced("read-only mounts on the host, beneath gVisor"),
        (Control::Sockets, Flavour::Runsc) => Capability::enforced("gVisor, which opens no socket of the host's"),
        (Control::Network, Flavour::Runsc) => {
            Capability::enforced("gVisor's own network, with nothing but its loopback")
        }
        (Control::OpenNetwork, Flavour::Runsc) => Capability::unsupported(
            "runsc would take the machine's own interface over",
            "use --net deny, or another runtime for code that needs the host's network",
        ),
        (Control::Disk, Flavour::Runsc) if !machine.findings.privileged => Capability::approximated(
            "the size of the box's tmpfs",
            "the code is root inside, which can also write to gVisor's own /dev, in memory that only the memory limit bounds",
        ),
        (Control::ProcessCount, Flavour::Runsc) => Capability::approximated(
            "looking from time to time",
            "the host's kernel does not see gVisor's processes, so more can be started between two looks",
        ),
        (Control::Tty, _) => Capability::enforced("a devpts of the container's own"),
        _ => held.of(control),
    }
}
