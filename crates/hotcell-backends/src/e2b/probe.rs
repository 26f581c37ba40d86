//! What sandboxes of such a server can hold.

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::runtime::RuntimeKind;

use crate::remote;

pub(super) fn capabilities(kind: RuntimeKind) -> Capabilities {
    let template = |what: &str| {
        let how = format!(
            "{what} is what its maker gave it; a box that the server says has more than was asked for is not used"
        );
        Capability::approximated("the template", how)
    };
    remote::capabilities(kind)
        .with(Control::Memory, template("how much memory a sandbox has"))
        .with(Control::Cpus, template("how many CPUs a sandbox has"))
        .with(Control::Tty, Capability::enforced("a terminal of the sandbox's"))
}
