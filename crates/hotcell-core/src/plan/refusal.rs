//! A refusal: which rule, why not here, what would.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::capability::Control;
use crate::config::{Layer, Origin};
use crate::runtime::{RuntimeChoice, RuntimeKind};

/// A backend cannot hold the policy; nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The backend that was asked.
    pub kind: RuntimeKind,
    /// Every rule it cannot hold, at least one.
    pub rules: Vec<RefusedRule>,
}

/// One rule that a backend cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedRule {
    /// What the rule is about.
    pub subject: Subject,
    /// What the policy asks for.
    pub requested: String,
    /// Why this backend cannot hold it here.
    pub why: String,
    /// What would.
    pub hint: String,
    /// Where the rule was written, when somebody wrote it.
    pub origin: Option<Origin>,
}

/// What a refused rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// The backend itself is not the one that was asked for.
    Runtime,
    /// The isolation level.
    Isolation,
    /// A control.
    Control(Control),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime => f.pad("runtime"),
            Self::Isolation => f.pad("isolation"),
            Self::Control(control) => control.fmt(f),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for RefusedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    what would: {}", Named(self), self.why, self.hint)
    }
}

/// A rule by its name, what it asks for, and where it was written.
struct Named<'a>(&'a RefusedRule);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.0.subject, self.0.requested)?;
        match &self.0.origin {
            Some(origin) if origin.layer == Layer::Default => f.write_str(", default)"),
            Some(origin) => write!(f, ", from {origin})"),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} backend cannot hold this policy here, so nothing was run:", self.kind)?;
        // Rules that fail for the same reason are told together.
        for rules in self.rules.chunk_by(|a, b| (&a.why, &a.hint) == (&b.why, &b.hint)) {
            for (index, rule) in rules.iter().enumerate() {
                if index + 1 < rules.len() {
                    write!(f, "\n  {},", Named(rule))?;
                } else {
                    write!(f, "\n  {rule}")?;
                }
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// None of the candidates can hold the policy; nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoBackend {
    /// Which runtime was asked for.
    pub runtime: RuntimeChoice,
    /// What each eligible candidate says, in order of preference; empty if there is none.
    pub refusals: Vec<Refusal>,
    /// Backends that would have been candidates and could not be started.
    pub unavailable: Vec<Unavailable>,
}

/// A backend that could not be started, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// The backend.
    pub kind: RuntimeKind,
    /// Why, and what would help.
    pub reason: String,
}

impl fmt::Display for NoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.refusals.as_slice(), self.runtime) {
            ([], RuntimeChoice::Auto) => f.write_str("no local backend is available, so nothing was run")?,
            ([], RuntimeChoice::Kind(kind)) => write!(f, "the {kind} backend is not available, so nothing was run")?,
            ([only], _) => only.fmt(f)?,
            (several, _) => {
                f.write_str("no backend can hold this policy, so nothing was run:")?;
                several.iter().try_for_each(|refusal| write!(f, "\n{refusal}"))?;
            }
        }
        match (self.unavailable.as_slice(), self.runtime) {
            ([only], RuntimeChoice::Kind(_)) => write!(f, ": {}", only.reason),
            (several, _) => {
                several.iter().try_for_each(|other| write!(f, "\nnot available: {}: {}", other.kind, other.reason))
            }
        }
    }
}

impl std::error::Error for NoBackend {}
