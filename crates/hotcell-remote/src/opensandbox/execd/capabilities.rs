//! What execd can do to isolate commands from each other inside a sandbox.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::super::http::CallError;
use super::Execd;

/// What execd says that it can do to isolate commands inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether there are isolated sessions at all.
    pub available: bool,
    /// What makes them: `bwrap`.
    pub isolator: String,
    /// Its version.
    pub version: String,
    /// Why not, in words.
    pub message: String,
    /// How execd hardens itself and its commands: a layer's name, and how it is.
    pub hardening: BTreeMap<String, Hardening>,
}

/// How a layer of hardening is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Hardening {
    /// `active`, `degraded`, `disabled` or `unsupported`.
    pub state: String,
    /// Why, in words.
    pub message: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    available: bool,
    isolator: Option<String>,
    version: Option<String>,
    message: Option<String>,
    #[serde(default)]
    hardening: BTreeMap<String, serde_json::Value>,
}

impl Execd {
    /// What execd can do to isolate commands inside a sandbox; nothing, where it is older than 1.1.
    pub async fn capabilities(&self) -> Result<Capabilities, CallError> {
        let call = self.server.get("ask for a sandbox's abilities", &["v1", "isolated", "capabilities"]);
        let answer: Answer = match call.send().await {
            Ok(answer) => answer.json().await?,
            Err(error) if matches!(error.status(), Some(404 | 405 | 501)) => return Ok(Capabilities::default()),
            Err(error) => return Err(error),
        };
        Ok(Capabilities {
            available: answer.available,
            isolator: answer.isolator.unwrap_or_default(),
            version: answer.version.unwrap_or_default(),
            message: answer.message.unwrap_or_default(),
            hardening: answer.hardening.into_iter().map(|(name, value)| (name, hardening(&value))).collect(),
        })
    }
}

/// Layers are objects, except for those that are a word or a yes.
fn hardening(value: &serde_json::Value) -> Hardening {
    let text = |key: &str| value.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    match value {
        serde_json::Value::Object(_) => Hardening { state: text("state"), message: text("message") },
        serde_json::Value::String(word) => Hardening { state: word.clone(), message: String::new() },
        other => Hardening { state: other.to_string(), message: String::new() },
    }
}
