//! The wrapper around every command, and the line by which it says that the command starts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use hotcell_core::backend::{SpawnConfig, SpawnError};
use hotcell_core::policy::Limits;

use super::inside::{Facts, script_words};
use super::link::Command;

/// What is around a line of ours.
pub(crate) const MARK: u8 = 0x1e;

/// The longest line of ours.
const LINE_MAX: usize = 256;

/// A command in the wrapper.
pub(super) fn wrap(
    config: &SpawnConfig,
    directory: &Path,
    environment: &BTreeMap<OsString, OsString>,
    limits: &Limits,
    facts: &Facts,
) -> Result<Command, SpawnError> {
    // A word that nothing in the box can know before it is used.
    let nonce = hotcell_remote::unique().ok_or_else(|| SpawnError::Setup {
        step: "choosing a word".to_owned(),
        reason: "the system has no randomness".to_owned(),
    })?;
    let search = environment.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
    let mut words = script_words(START);
    words.extend([nonce.clone(), text("the working directory", directory.as_os_str())?, text("PATH", search)?]);
    words.extend(limit_words(limits, facts));
    words.push("--".to_owned());
    words.push(environment.len().to_string());
    for (name, value) in environment {
        let what = format!("the variable `{}`", name.to_string_lossy());
        words.push(format!("{}={}", text(&what, name)?, text(&what, value)?));
    }
    let program = text("the program", &config.program)?;
    if program.contains('=') {
        // `env` would take it for a variable.
        words.extend(["/bin/sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned));
    }
    words.push(program);
    for (index, arg) in config.args.iter().enumerate() {
        words.push(text(&format!("argument {}", index + 1), arg)?);
    }
    let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
    if bytes > LONGEST {
        return Err(SpawnError::TooLong { bytes: bytes as u64, limit: LONGEST as u64 });
    }
    if let Some(longest) = words.iter().map(String::len).find(|length| *length >= LONGEST_WORD) {
        return Err(SpawnError::TooLong { bytes: longest as u64, limit: LONGEST_WORD as u64 });
    }
    let stdin = config.stdin == hotcell_core::backend::StdinMode::Piped;
    Ok(Command { words, stdin, tty: config.tty, nonce })
}

const START: &str = include_str!("scripts/start.sh");

/// What Linux takes of arguments and variables together with the usual stack, less what servers add; and of each of them.
const LONGEST: usize = (2 << 20) - (64 << 10);
const LONGEST_WORD: usize = 128 << 10;

/// Servers carry text.
fn text(what: &str, value: &OsStr) -> Result<String, SpawnError> {
    value.to_str().map(str::to_owned).ok_or_else(|| SpawnError::InvalidArgument {
        what: what.to_owned(),
        reason: "it is not UTF-8, and servers carry text only; pass the bytes through a file or stdin".to_owned(),
    })
}

/// The limits that a shell can set, as pairs of an option and a number.
fn limit_words(limits: &Limits, facts: &Facts) -> Vec<String> {
    let mut words = Vec::new();
    let mut limit = |option: String, value: u64| words.extend([option, value.to_string()]);
    if let Some(files) = limits.open_files.value {
        limit("-n".to_owned(), files);
    }
    if let (Some(processes), Some(option)) = (limits.processes.value, facts.process_option) {
        limit(format!("-{option}"), processes);
    }
    if let Some(disk) = limits.disk.value {
        // In blocks of 512 bytes, in every shell that is called `sh`.
        limit("-f".to_owned(), disk.div_ceil(512));
    }
    if let Some(time) = limits.cpu_time.value {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        // The kernel sends SIGXCPU at the first and SIGKILL at the second: so that the one can be told from other ends.
        limit("-St".to_owned(), seconds);
        limit("-Ht".to_owned(), seconds + 1);
    }
    words
}

/// What the wrapper says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum First {
    /// Not all of it has come.
    Incomplete,
    /// The command starts: its process, when that was started, and where the command's own output begins.
    Ready { process: u32, started: u64, rest: usize },
    /// It does not, for this reason.
    Refused(String),
    /// The box says something else.
    Garbled,
}

/// Reads the first line of a command's output.
pub(super) fn first(output: &[u8], nonce: &str) -> First {
    let Some((&mark, line)) = output.split_first() else { return First::Incomplete };
    if mark != MARK {
        return First::Garbled;
    }
    let Some(end) = line.iter().position(|byte| *byte == MARK) else {
        return if line.len() > LINE_MAX { First::Garbled } else { First::Incomplete };
    };
    let (line, after) = (&line[..end], &line[end + 1..]);
    let Ok(line) = std::str::from_utf8(line) else { return First::Garbled };
    let Some(said) = line.strip_prefix("hotcell ").and_then(|rest| rest.strip_prefix(nonce)) else {
        return First::Garbled;
    };
    // A terminal writes a line's end in its own way.
    let newline = match after {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        [] | [b'\r'] => return First::Incomplete,
        _ => return First::Garbled,
    };
    let words: Vec<&str> = said.split_whitespace().collect();
    match words[..] {
        ["ready", process, started] => match (process.parse(), started.parse()) {
            (Ok(process), Ok(started)) if process > 1 => First::Ready { process, started, rest: 1 + end + 1 + newline },
            _ => First::Garbled,
        },
        [] => First::Garbled,
        _ => First::Refused(words.join(" ")),
    }
}

/// The refusal of a start, in the terms of the contract.
pub(super) fn refused(said: &str, config: &SpawnConfig, directory: &Path) -> SpawnError {
    let program = config.program.to_string_lossy().into_owned();
    match said.split(' ').collect::<Vec<_>>()[..] {
        ["missing"] => SpawnError::NotFound { program },
        ["locked"] => SpawnError::NotExecutable { program, reason: "it is not an executable file".to_owned() },
        ["directory"] => {
            SpawnError::BadCwd { path: directory.to_owned(), reason: "the box has no such directory".to_owned() }
        }
        ["limit", option] => SpawnError::Setup {
            step: format!("setting the limit `ulimit {option}` in the box"),
            reason: "its shell refuses it".to_owned(),
        },
        _ => SpawnError::Setup {
            step: "starting the command in the box".to_owned(),
            reason: format!("`{}`", hotcell_core::text::Printable(said)),
        },
    }
}
