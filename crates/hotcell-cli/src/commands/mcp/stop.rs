//! Signals end the server, and with it every box.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// A token that is cancelled by the first signal that asks for an end.
pub(super) fn on_signals() -> Result<CancellationToken, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::new("signals", error));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}
