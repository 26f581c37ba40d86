//! Sandboxes on a server.

use hotcell_backends::e2b::E2bBackend;
use hotcell_backends::opensandbox::OpenSandboxBackend;
use hotcell_backends::remote::RemoteError;
use hotcell_core::runtime::RuntimeKind;

use super::{ServerLeftovers, leftovers};
use crate::settings::RemoteRuntime;

/// Removes what programs of this machine left there, or only finds it.
pub(super) async fn look(runtime: &RemoteRuntime, only_look: bool) -> ServerLeftovers {
    let RemoteRuntime { kind, remote } = runtime;
    let pruned = match kind {
        RuntimeKind::Opensandbox => OpenSandboxBackend::prune(remote, only_look).await,
        kind => E2bBackend::prune(*kind, remote, only_look).await,
    };
    let address = remote.server(*kind).unwrap_or_else(|_| format!("the server of {kind} boxes"));
    match pruned {
        Ok(pruned) => {
            ServerLeftovers { address, sandboxes: leftovers(pruned.removed, pruned.failed), unanswered: None }
        }
        Err(error) => ServerLeftovers { address, sandboxes: Vec::new(), unanswered: Some(why(&error)) },
    }
}

/// Without the words for those who wanted to run something.
fn why(error: &RemoteError) -> String {
    match error {
        RemoteError::Call(call) => format!("{call}; {}", call.hint()),
        error => error.to_string(),
    }
}
