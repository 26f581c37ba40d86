//! What a box on a server can hold, whoever's server it is.

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::runtime::{Isolation, RuntimeKind};

/// The controls that do not depend on the server's product; a backend adds memory, CPUs and a terminal.
pub(crate) fn capabilities(kind: RuntimeKind) -> Capabilities {
    let word = || Capability::approximated("the server", "its word; nothing of it can be checked from here");
    let here = Capability::enforced;
    let mut capabilities = Capabilities::new(kind, Isolation::Remote)
        .with(Control::FilesystemView, here("distance: of this machine it has what was sent"))
        .with(Control::ReadOnly, here("copies: what may only be read is never brought back"))
        .with(Control::Sockets, here("copies: sockets and pipes are not sent"))
        .with(Control::Overlay, here("a copy that is compared and committed here"))
        .with(Control::DenyPaths, here("copies: what is denied is not sent"))
        .with(Control::ProtectedPaths, here("Hotcell, which does not bring changes of them back"))
        .with(Control::Network, word())
        .with(Control::OpenNetwork, here("the server, whose network it is"))
        .with(Control::Environment, here("`env -i` in the box"))
        .with(Control::Syscalls, word())
        .with(Control::Privileges, word())
        .with(Control::ProcessIsolation, word())
        .with(Control::CpuTime, Capability::approximated("`ulimit -t` in the box", "per process, in whole seconds"))
        .with(
            Control::ProcessCount,
            Capability::approximated(
                "`ulimit` in the box",
                "it counts all processes of the box's user, and does not hold for root",
            ),
        )
        .with(Control::OpenFiles, Capability::approximated("`ulimit -n` in the box", "root in the box can raise it"))
        .with(
            Control::Disk,
            Capability::approximated("`ulimit -f` in the box", "per file; the whole is what the server gives"),
        )
        .with(Control::DiskDirect, here("Hotcell, which brings no more back"))
        .with(Control::Output, here("the supervisor"))
        .with(Control::Timeout, here("the supervisor; a command that cannot be ended takes its box along"))
        .with(
            Control::User,
            Capability::unsupported(
                "the image or template decides who runs commands",
                "leave `user` out, or choose another image or template",
            ),
        );
    capabilities.notes = vec![
        "what isolates the box is the server's word".to_owned(),
        "a command's end is told when everything that holds its output has ended".to_owned(),
        "daemons that left the command's process tree end with the box, not with the command".to_owned(),
    ];
    capabilities
}
