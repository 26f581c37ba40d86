//! The request to start a command, the same for every backend.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use super::{CaptureLimits, SpawnError};
use crate::text::Printable;

/// A command to start in a box.
///
/// ```
/// use std::time::Duration;
/// use hotcell_core::backend::{SpawnConfig, StdinMode};
///
/// let config = SpawnConfig::new("python3")
///     .args(["-c", "print(6*7)"])
///     .env("PYTHONDONTWRITEBYTECODE", "1")
///     .stdin(StdinMode::Null)
///     .timeout(Duration::from_secs(10));
/// config.check()?;
/// # Ok::<(), hotcell_core::backend::SpawnError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpawnConfig {
    /// A path inside the box, or a name looked up in the box's own `PATH`.
    pub program: OsString,
    /// Without the program's own name.
    pub args: Vec<OsString>,
    /// The working directory inside the box; none means that of the policy.
    pub cwd: Option<PathBuf>,
    /// Variables on top of those of the policy.
    pub env: BTreeMap<OsString, OsString>,
    /// Where stdin comes from; with a terminal it is the terminal.
    pub stdin: StdinMode,
    /// A terminal of this size; none means pipes. The policy must allow a terminal.
    pub tty: Option<TtySize>,
    /// A timeout shorter than the policy's; a longer one has no effect.
    pub timeout: Option<Duration>,
    /// How much output [`super::SandboxOutput::collect`] keeps.
    pub capture: CaptureLimits,
}

/// Where stdin comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StdinMode {
    /// Nowhere: reading gives the end at once.
    #[default]
    Null,
    /// The caller, through [`super::ProcessIo::stdin`].
    Piped,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtySize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TtySize {
    /// 80 × 24.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

impl SpawnConfig {
    /// A command without arguments, with no stdin and no terminal.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            stdin: StdinMode::Null,
            tty: None,
            timeout: None,
            capture: CaptureLimits::default(),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory inside the box.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Says where stdin comes from.
    pub fn stdin(mut self, stdin: StdinMode) -> Self {
        self.stdin = stdin;
        self
    }

    /// Asks for a terminal.
    pub fn tty(mut self, size: TtySize) -> Self {
        self.tty = Some(size);
        self
    }

    /// Shortens the timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Says how much output to keep.
    pub fn capture(mut self, capture: CaptureLimits) -> Self {
        self.capture = capture;
        self
    }

    /// The timeout that holds: the shorter of this one's and the policy's.
    pub fn effective_timeout(&self, policy: Option<Duration>) -> Option<Duration> {
        match (self.timeout, policy) {
            (Some(mine), Some(policy)) => Some(mine.min(policy)),
            (mine, policy) => mine.or(policy),
        }
    }

    /// Finds what no kernel would accept, before anything is started. Backends call it first.
    pub fn check(&self) -> Result<(), SpawnError> {
        if self.program.is_empty() {
            return Err(invalid("the program", "it is empty"));
        }
        no_nul("the program", &self.program)?;
        for (index, arg) in self.args.iter().enumerate() {
            no_nul(&format!("argument {}", index + 1), arg)?;
        }
        if let Some(cwd) = &self.cwd {
            no_nul("the working directory", cwd.as_os_str())?;
        }
        for (name, value) in &self.env {
            let what = format!("the variable `{}`", Printable(&name.to_string_lossy()));
            if name.is_empty() || name.as_encoded_bytes().contains(&b'=') {
                return Err(invalid(&what, "a name is not empty and has no `=`"));
            }
            no_nul(&what, name)?;
            no_nul(&what, value)?;
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(invalid("the timeout", "it is zero"));
        }
        Ok(())
    }
}

fn no_nul(what: &str, text: &OsStr) -> Result<(), SpawnError> {
    if text.as_encoded_bytes().contains(&0) { Err(invalid(what, "it contains a NUL byte")) } else { Ok(()) }
}

fn invalid(what: &str, reason: &str) -> SpawnError {
    SpawnError::InvalidArgument { what: what.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_kernel_accepts_is_found() {
        let bad = [
            SpawnConfig::new(""),
            SpawnConfig::new("a\0b"),
            SpawnConfig::new("a").arg("b\0"),
            SpawnConfig::new("a").cwd("/\0"),
            SpawnConfig::new("a").env("", "b"),
            SpawnConfig::new("a").env("B=C", "d"),
            SpawnConfig::new("a").env("B", "\0"),
            SpawnConfig::new("a").timeout(Duration::ZERO),
        ];
        for config in bad {
            assert!(matches!(config.check(), Err(SpawnError::InvalidArgument { .. })), "{config:?}");
        }
        assert!(SpawnConfig::new("a").arg("").env("B", "").check().is_ok());
    }

    #[test]
    fn a_timeout_can_only_be_shortened() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(9));
        let asked = |timeout| SpawnConfig::new("a").timeout(timeout);
        assert_eq!(asked(long).effective_timeout(Some(short)), Some(short));
        assert_eq!(asked(short).effective_timeout(Some(long)), Some(short));
        assert_eq!(asked(long).effective_timeout(None), Some(long));
        assert_eq!(SpawnConfig::new("a").effective_timeout(Some(long)), Some(long));
    }
}
