//! A sandbox ends by itself soon after nobody renews it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::sandbox::Shared;

/// How long a sandbox lives from its creation and from each renewal: the longest that one is left by a client that crashed.
pub(crate) const LIFETIME: Duration = Duration::from_secs(300);

/// How long is waited after a renewal that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Renews the sandbox at half its time, until it ends. One that the server no longer has is lost.
pub(super) async fn renew(shared: Arc<Shared>) {
    let mut ends = Instant::now() + LIFETIME;
    loop {
        let mut next = Instant::now() + LIFETIME / 2;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = shared.closing() => return,
            }
            let asked = Instant::now();
            match shared.link.renew(LIFETIME).await {
                Ok(()) => {
                    ends = asked + LIFETIME;
                    break;
                }
                Err(error) if error.is_not_found() || Instant::now() >= ends => {
                    shared.give_up(format!("the server no longer has it: {error}"));
                    return;
                }
                Err(_) => next = Instant::now() + PAUSE,
            }
        }
    }
}
