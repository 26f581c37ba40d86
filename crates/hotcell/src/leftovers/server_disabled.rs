//! A build without remote boxes.

use super::ServerLeftovers;
use crate::settings::RemoteRuntime;

pub(super) async fn look(runtime: &RemoteRuntime, _: bool) -> ServerLeftovers {
    let kind = runtime.kind;
    ServerLeftovers {
        address: format!("the server of {kind} boxes"),
        sandboxes: Vec::new(),
        unanswered: Some(format!("the `{kind}` backend is not part of this build")),
    }
}
