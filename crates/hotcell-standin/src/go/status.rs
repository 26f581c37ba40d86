//! How Go names errors of the system and the ways in which a process ends.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// How a process ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// The exit code; -1 for a signal.
    pub(crate) code: i32,
    /// Did it exit by itself?
    pub(crate) exited: bool,
    /// `exit status 3`, `signal: killed`.
    pub(crate) status: String,
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self { code, exited: true, status: format!("exit status {code}") },
            (None, signal) => {
                let dumped = if status.core_dumped() { " (core dumped)" } else { "" };
                let name = signal_name(signal.unwrap_or(0));
                Self { code: -1, exited: false, status: format!("signal: {name}{dumped}") }
            }
        }
    }
}

impl Ended {
    pub(crate) fn is_success(&self) -> bool {
        self.exited && self.code == 0
    }
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// `no such file or directory`
pub(crate) fn of_error(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

/// `stat /nowhere: no such file or directory`
pub(crate) fn with_path(operation: &str, path: &Path, error: &io::Error) -> String {
    format!("{operation} {}: {}", path.display(), of_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_their_names() {
        let exited = Ended::from(ExitStatus::from_raw(3 << 8));
        assert_eq!((exited.code, exited.exited, exited.status.as_str()), (3, true, "exit status 3"));
        let killed = Ended::from(ExitStatus::from_raw(9));
        assert_eq!((killed.code, killed.exited, killed.status.as_str()), (-1, false, "signal: killed"));
        assert_eq!(of_error(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
