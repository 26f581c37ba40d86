//! The user's own terminal.

mod filter;

use std::io::{self, IsTerminal};

use hotcell::TtySize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

pub(crate) use filter::Filter;

/// The size of the user's terminal, or a usual one if there is none.
pub(crate) fn size() -> TtySize {
    let size = tcgetwinsize(rustix::stdio::stdout()).or_else(|_| tcgetwinsize(rustix::stdio::stdin()));
    match size {
        // Terminals that do not know their size say 0.
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => TtySize { columns: size.ws_col, rows: size.ws_row },
        _ => TtySize::default(),
    }
}

/// Whether a person can type into stdin.
pub(crate) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// The user's terminal, passing every key on as it is, until this is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Switches the terminal that is stdin; none if stdin is no terminal.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        if !stdin_is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        Ok(Some(Self { before }))
    }
}

/// The mode that the user's terminal has now, put back when this is dropped, whoever changed it meanwhile.
pub(crate) struct KeptMode(Option<Termios>);

impl KeptMode {
    pub(crate) fn keep() -> Self {
        Self(tcgetattr(rustix::stdio::stdin()).ok())
    }
}

impl Drop for KeptMode {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}
