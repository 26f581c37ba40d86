//! Progress of a call, for clients that asked for it.

use std::sync::Arc;
use std::time::Duration;

use hotcell::tools::{CallProgress, OnProgress};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;

/// The shortest time between two notifications: a flood of output is not a flood of messages.
const INTERVAL: Duration = Duration::from_millis(100);

/// Where a call tells its progress, and from where it goes to the client.
pub(crate) struct Relay {
    token: ProgressToken,
    peer: Peer<RoleServer>,
    newest: watch::Receiver<Option<CallProgress>>,
}

impl Relay {
    /// What the call is given, and what sends it on.
    pub(crate) fn new(token: ProgressToken, peer: Peer<RoleServer>) -> (OnProgress, Self) {
        let (sender, newest) = watch::channel(None);
        // Only the newest is kept: whoever reads slowly misses steps, not memory.
        let listener = Arc::new(move |progress: CallProgress| {
            sender.send_replace(Some(progress));
        });
        (listener, Self { token, peer, newest })
    }

    /// Sends progress on until the call is over, and never returns before that. Cancel-safe.
    pub(crate) async fn run(mut self) {
        let mut told = 0;
        while self.newest.changed().await.is_ok() {
            let progress = self.newest.borrow_and_update().clone();
            // The protocol wants a number that grows.
            if let Some(progress) = progress.filter(|progress| progress.bytes > told) {
                told = progress.bytes;
                #[expect(clippy::cast_precision_loss, reason = "the protocol counts in floating point")]
                let parameters =
                    ProgressNotificationParam::new(self.token.clone(), told as f64).with_message(progress.line);
                if self.peer.notify_progress(parameters).await.is_err() {
                    break;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        }
        std::future::pending().await
    }
}
