//! A running command.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;

use super::{ProcessError, ProcessId, TtySize};
use crate::outcome::Outcome;

/// A running command.
///
/// Call [`SandboxedProcess::take_io`] once, before anything else if the output matters; then any of the others in any
/// order, from any task. [`SandboxedProcess::wait`] may be called again and by several tasks; all get the same
/// outcome. Dropping the handle ends the command and all its descendants.
#[async_trait]
pub trait SandboxedProcess: Send + Sync {
    /// Its number in the box.
    fn id(&self) -> ProcessId;

    /// Its stdin and output. The second call returns nothing to write to or read from. Output that was never taken is
    /// counted and thrown away.
    fn take_io(&mut self) -> ProcessIo;

    /// Sends a signal to the command's process group.
    async fn signal(&self, signal: Signal) -> Result<(), ProcessError>;

    /// Ends the command and all its descendants, at once. Ending what has already ended is no error.
    async fn kill(&self) -> Result<(), ProcessError>;

    /// Like [`SandboxedProcess::kill`], but politely: SIGTERM to its process group first, and what of it and its descendants still runs
    /// when `grace` is over is killed. One that ended within that time has ended by itself, one that did not was
    /// [`Status::Canceled`](crate::outcome::Status::Canceled). This does not wait for the end. Where other commands
    /// run in the box, the end may be told only when `grace` is over: what still runs may be theirs.
    async fn stop(&self, grace: Duration) -> Result<(), ProcessError>;

    /// Changes the size of its terminal.
    async fn resize(&self, size: TtySize) -> Result<(), ProcessError>;

    /// Waits until the command and all its descendants have ended.
    async fn wait(&self) -> Result<Outcome, ProcessError>;
}

/// The ends of a command's streams that the caller holds.
#[derive(Default)]
pub struct ProcessIo {
    /// Its stdin, when that is piped or a terminal. Dropping it closes it.
    pub stdin: Option<Box<dyn ProcessStdin>>,
    /// Its output.
    pub output: Option<Box<dyn OutputEvents>>,
}

impl fmt::Debug for ProcessIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessIo")
            .field("stdin", &self.stdin.is_some())
            .field("output", &self.output.is_some())
            .finish()
    }
}

/// The writing end of a command's stdin.
#[async_trait]
pub trait ProcessStdin: Send + Sync {
    /// Writes everything, waiting while the command does not read. `BrokenPipe` when it never will.
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Lets the command see the end of its input. Calling it again does nothing.
    async fn close(&mut self) -> io::Result<()>;
}

/// A command's output, in order.
///
/// Cancel-safe: an event is never lost because the future of `next` was dropped. While nobody calls `next` the command
/// is held back once the pipes are full.
#[async_trait]
pub trait OutputEvents: Send + Sync {
    /// The next piece; none when there will be no more.
    async fn next(&mut self) -> Option<OutputEvent>;
}

/// A piece of output, as bytes: what the guest writes is neither text nor to be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputEvent {
    /// Which stream it was written to. With a terminal everything is [`Stream::Stdout`].
    pub stream: Stream,
    /// What was written, never empty.
    pub bytes: Vec<u8>,
}

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A signal, with the numbers of Linux.
///
/// ```
/// use hotcell_core::backend::Signal;
/// assert_eq!("TERM".parse::<Signal>()?, Signal::TERM);
/// assert_eq!("SIGTERM".parse::<Signal>()?, Signal::TERM);
/// assert_eq!("15".parse::<Signal>()?, Signal::TERM);
/// # Ok::<(), hotcell_core::backend::BadSignal>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(u8);

/// A signal that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a signal is a number from 1 to 64 or a name such as TERM, INT, HUP, QUIT, KILL, USR1, USR2, STOP, CONT or WINCH"
)]
pub struct BadSignal;

impl Signal {
    /// Hang up.
    pub const HUP: Self = Self(1);
    /// Interrupt, Ctrl-C.
    pub const INT: Self = Self(2);
    /// Quit, Ctrl-\.
    pub const QUIT: Self = Self(3);
    /// Cannot be handled.
    pub const KILL: Self = Self(9);
    /// User defined.
    pub const USR1: Self = Self(10);
    /// User defined.
    pub const USR2: Self = Self(12);
    /// Please end.
    pub const TERM: Self = Self(15);
    /// Continue.
    pub const CONT: Self = Self(18);
    /// Stop; cannot be handled.
    pub const STOP: Self = Self(19);
    /// The terminal's size changed.
    pub const WINCH: Self = Self(28);

    const NAMES: &'static [(&'static str, Self)] = &[
        ("HUP", Self::HUP),
        ("INT", Self::INT),
        ("QUIT", Self::QUIT),
        ("KILL", Self::KILL),
        ("USR1", Self::USR1),
        ("USR2", Self::USR2),
        ("TERM", Self::TERM),
        ("CONT", Self::CONT),
        ("STOP", Self::STOP),
        ("WINCH", Self::WINCH),
    ];

    /// By number.
    pub fn from_number(number: i32) -> Result<Self, BadSignal> {
        match u8::try_from(number) {
            Ok(number @ 1..=64) => Ok(Self(number)),
            _ => Err(BadSignal),
        }
    }

    /// Its number.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }
}

impl FromStr for Signal {
    type Err = BadSignal;

    fn from_str(text: &str) -> Result<Self, BadSignal> {
        let name = text.strip_prefix("SIG").unwrap_or(text);
        if let Some((_, signal)) = Self::NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*signal);
        }
        text.parse().map_err(|_| BadSignal).and_then(Self::from_number)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, signal)| signal == self) {
            Some((name, _)) => write!(f, "SIG{name}"),
            None => write!(f, "signal {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_do_not_exist_are_refused() {
        for bad in ["", "0", "65", "-9", "SIG", "term", "300"] {
            assert_eq!(bad.parse::<Signal>(), Err(BadSignal), "{bad}");
        }
        assert_eq!(Signal::from_number(34).unwrap().to_string(), "signal 34");
    }
}
