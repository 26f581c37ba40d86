//! What sandboxes of an OpenSandbox server can hold.

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::runtime::RuntimeKind;

use crate::remote;

pub(super) fn capabilities() -> Capabilities {
    let told =
        || Capability::approximated("the server", "it is told the limit, and its word is all that is known of it");
    let mut capabilities = remote::capabilities(RuntimeKind::Opensandbox)
        .with(Control::Memory, told())
        .with(Control::Cpus, told())
        .with(Control::Tty, Capability::enforced("a terminal of the sandbox's, for which its image needs bash"));
    capabilities.notes.push(
        "output is kept in files of the sandbox until it is read: the order between stdout and stderr is not known, and a slow reader does not stop the command"
            .to_owned(),
    );
    capabilities
}
