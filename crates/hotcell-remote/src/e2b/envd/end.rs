//! How a command ended.

use hotcell_core::text::Printable;
use serde::Deserialize;

use super::super::wire::number;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// The exit code; -1, or 128 and more, if it was a signal.
    pub exit_code: i32,
    /// The signal that ended it, if one did. None as well where `envd` names one that this program does not know.
    pub signal: Option<i32>,
    /// Whether it ended by itself, and not by a signal.
    pub exited: bool,
    /// What `envd` says of it: `exit status 3`, `signal: killed`.
    pub status: String,
    /// What `envd` says went wrong.
    pub error: Option<String>,
}

/// The event. What is left out has its default, as protocol buffers have it: no exit code is the exit code 0.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EndEvent {
    #[serde(deserialize_with = "number")]
    exit_code: i64,
    exited: bool,
    status: String,
    error: Option<String>,
}

impl EndEvent {
    /// Fails on an end that contradicts itself, which must not pass for a success.
    pub(super) fn into_end(self) -> Result<End, String> {
        let exit_code = i32::try_from(self.exit_code).ok().filter(|code| (-1..=255).contains(code));
        let exit_code = exit_code.ok_or_else(|| format!("{} is no exit code", self.exit_code))?;
        let said = self.status.strip_prefix("exit status ").map(|code| code.parse::<i32>().ok());
        if self.exited && said.is_none() && !self.status.is_empty() {
            return Err(format!("a command exited, and its status is `{}`", Printable(&self.status)));
        }
        if said.is_some_and(|said| said != Some(exit_code)) {
            return Err(format!("a command ended with the exit code {exit_code} and with another at once"));
        }
        let signal = if self.exited { None } else { signal(&self.status, exit_code) };
        if signal.is_some() && exit_code == 0 {
            return Err("a command ended by a signal and with the exit code 0 at once".to_owned());
        }
        Ok(End { exit_code, signal, exited: self.exited, status: self.status, error: self.error })
    }
}

/// The signal in `signal: killed`, `signal: aborted (core dumped)`, `signal: signal 34`; after an upgrade of `envd` under a
/// running command just `killed`, with 128 and the signal's number as the exit code.
fn signal(status: &str, exit_code: i32) -> Option<i32> {
    let name = status.strip_prefix("signal: ").unwrap_or(status);
    let name = name.strip_suffix(" (core dumped)").unwrap_or(name);
    let numbered = name.strip_prefix("signal ").and_then(|number| number.parse().ok());
    let named = NAMES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
    let coded = (129..=192).contains(&exit_code).then(|| exit_code - 128);
    numbered.or(named).or(coded).filter(|number| (1..=64).contains(number))
}

/// As the Go runtime calls them on Linux.
const NAMES: [(i32, &str); 31] = [
    (1, "hangup"),
    (2, "interrupt"),
    (3, "quit"),
    (4, "illegal instruction"),
    (5, "trace/breakpoint trap"),
    (6, "aborted"),
    (7, "bus error"),
    (8, "floating point exception"),
    (9, "killed"),
    (10, "user defined signal 1"),
    (11, "segmentation fault"),
    (12, "user defined signal 2"),
    (13, "broken pipe"),
    (14, "alarm clock"),
    (15, "terminated"),
    (16, "stack fault"),
    (17, "child exited"),
    (18, "continued"),
    (19, "stopped (signal)"),
    (20, "stopped"),
    (21, "stopped (tty input)"),
    (22, "stopped (tty output)"),
    (23, "urgent I/O condition"),
    (24, "CPU time limit exceeded"),
    (25, "file size limit exceeded"),
    (26, "virtual timer expired"),
    (27, "profiling timer expired"),
    (28, "window changed"),
    (29, "I/O possible"),
    (30, "power failure"),
    (31, "bad system call"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn end(json: &str) -> Result<End, String> {
        serde_json::from_str::<EndEvent>(json).map_err(|error| error.to_string())?.into_end()
    }

    #[test]
    fn a_missing_exit_code_is_zero() {
        let end = end(r#"{"exited":true,"status":"exit status 0"}"#).unwrap();
        assert_eq!((end.exit_code, end.signal, end.exited, end.error), (0, None, true, None));
    }

    #[test]
    fn signals_are_told_from_exit_codes() {
        for (json, signal) in [
            (r#"{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}"#, Some(9)),
            (r#"{"exitCode":-1,"status":"signal: aborted (core dumped)"}"#, Some(6)),
            (r#"{"exitCode":-1,"status":"signal: signal 34"}"#, Some(34)),
            (r#"{"exitCode":137,"status":"killed"}"#, Some(9)),
            (r#"{"exitCode":-1,"status":"signal: of a new kind"}"#, None),
            (r#"{"exitCode":-1,"status":"signal: signal 99999999999"}"#, None),
            (r#"{"exitCode":137,"exited":true,"status":"exit status 137"}"#, None),
        ] {
            assert_eq!(end(json).unwrap().signal, signal, "{json}");
        }
    }

    #[test]
    fn an_end_that_contradicts_itself_is_no_success() {
        for json in [
            r#"{"exited":true,"status":"exit status 3"}"#,
            r#"{"exitCode":0,"status":"signal: killed"}"#,
            r#"{"exitCode":4294967296,"exited":true}"#,
            r#"{"exitCode":256,"exited":true}"#,
            r#"{"exitCode":-256,"exited":true}"#,
            r#"{"exited":true,"status":"signal: killed"}"#,
            r#"{"exited":true,"status":"exit status "}"#,
            r#"{"exitCode":"x"}"#,
            r#"{"exitCode":1.5}"#,
            r#"{"exited":"true"}"#,
        ] {
            end(json).unwrap_err();
        }
        assert_eq!(end(r#"{"exitCode":"3","exited":true}"#).unwrap().exit_code, 3);
    }
}
