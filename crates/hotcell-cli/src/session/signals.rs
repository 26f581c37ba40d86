//! Signals that the user sends to `hotcell` and means for the command.

use std::io::{self, IsTerminal};

use hotcell::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// What a signal means.
pub(crate) enum Event {
    /// The command should end, or do what it does on this signal.
    Asked(Signal),
    /// The user's terminal has another size.
    Resized,
}

/// The signals that are passed on.
pub(crate) struct Signals {
    interrupt: Listener,
    terminate: Listener,
    quit: Listener,
    resize: Listener,
    /// Without a terminal nothing hangs up, and `nohup` must keep its effect.
    hangup: Option<Listener>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let on_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            resize: signal(SignalKind::window_change())?,
            hangup: on_terminal.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        let hangup = async {
            match &mut self.hangup {
                Some(listener) => listener.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Event::Asked(Signal::INT),
            _ = self.terminate.recv() => Event::Asked(Signal::TERM),
            _ = self.quit.recv() => Event::Asked(Signal::QUIT),
            _ = self.resize.recv() => Event::Resized,
            _ = hangup => Event::Asked(Signal::HUP),
        }
    }
}
