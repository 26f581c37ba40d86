//! Hotcell's own failures: what is said, how, and the exit code.

use std::fmt::Display;
use std::io;

use hotcell::CreateError;
use hotcell::EngineError;
use hotcell::capability::{Capabilities, Capability};
use hotcell::config::ConfigError;
use hotcell::plan::{NoBackend, Refusal, Subject};
use hotcell::settings::SettingsError;
use serde::Serialize;

use crate::{exit, json, output};

/// A failure of Hotcell's, not of the command in the box.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: &'static str,
    message: String,
    hints: Vec<String>,
    refusals: Vec<Refusal>,
    code: u8,
}

/// As it is printed with `--json`.
#[derive(Serialize)]
pub(crate) struct FailureObject<'a> {
    error: FailureDetails<'a>,
}

#[derive(Serialize)]
struct FailureDetails<'a> {
    kind: &'static str,
    message: &'a str,
    exit_code: u8,
    hints: &'a [String],
    refusals: &'a [Refusal],
}

impl Failure {
    /// Something that was asked for and is not possible; nothing ran.
    pub(crate) fn new(kind: &'static str, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), hints: Vec::new(), refusals: Vec::new(), code: exit::REFUSED }
    }

    /// A command line that cannot be understood, in the words of its parser.
    pub(crate) fn usage(message: &str) -> Self {
        Self::new("usage", message.strip_prefix("error: ").unwrap_or(message).trim_end())
    }

    /// A result that could not be written.
    pub(crate) fn unwritten(what: &str, error: &io::Error) -> Self {
        Self { code: exit::INCOMPLETE, ..Self::new("write", format!("could not write to {what}: {error}")) }
    }

    /// A policy that no backend can hold, with what the flags can do about it.
    pub(crate) fn refused(refused: NoBackend, available: &[Capabilities]) -> Self {
        let hints = if refused.refusals.is_empty() {
            let names: Vec<&str> = available.iter().map(|capabilities| capabilities.kind.as_str()).collect();
            vec![format!("runtimes that can be used here: {}", names.join(", "))]
        } else {
            accepting(&refused.refusals, available).into_iter().collect()
        };
        Self { hints, message: refused.to_string(), refusals: refused.refusals, ..Self::new("refused", "") }
    }

    /// A failure of the engine's.
    pub(crate) fn engine(error: EngineError, available: &[Capabilities]) -> Self {
        let code = exit::from_number(error.exit_code());
        let message = error.to_string();
        let kind = match error {
            EngineError::Refused(refused) => return Self::refused(refused, available),
            EngineError::Create(CreateError::Refused(refusal)) => {
                let hints = accepting(std::slice::from_ref(&refusal), available).into_iter().collect();
                return Self { hints, refusals: vec![refusal], ..Self::new("refused", message) };
            }
            EngineError::Start(_) => "start",
            EngineError::Create(_) => "create",
            EngineError::Spawn(_) => "spawn",
            EngineError::Process(_) => "process",
            EngineError::Destroy(_) => "destroy",
            _ => "engine",
        };
        Self { code, ..Self::new(kind, message) }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// As an object, for `--json` and `--report`.
    pub(crate) fn object(&self) -> FailureObject<'_> {
        FailureObject {
            error: FailureDetails {
                kind: self.kind,
                message: &self.message,
                exit_code: self.code,
                hints: &self.hints,
                refusals: &self.refusals,
            },
        }
    }

    /// Tells the user; returns the exit code.
    pub(crate) fn show(&self, as_json: bool) -> u8 {
        // When stdout is what failed, only stderr is left.
        let written = as_json && output::to_stdout(&json::line(&self.object())).is_ok();
        if !written {
            output::error(&self.message);
            self.hints.iter().for_each(|hint| output::hint(hint));
        }
        self.code
    }
}

/// How to accept what can only be approximated, if anything can.
fn accepting(refusals: &[Refusal], available: &[Capabilities]) -> Option<String> {
    let refused = refusals.iter().flat_map(|refusal| refusal.rules.iter().map(move |rule| (refusal.kind, rule)));
    let mut flags: Vec<String> = Vec::new();
    for (kind, rule) in refused {
        let Subject::Control(control) = rule.subject else { continue };
        let capability = available.iter().find(|capabilities| capabilities.kind == kind)?.of(control);
        let flag = format!("--approximate {control}");
        if matches!(capability, Capability::Approximated { .. }) && !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    (!flags.is_empty()).then(|| format!("to accept approximations, add {}", flags.join(" ")))
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new("settings", error)
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::new("settings", error)
    }
}
