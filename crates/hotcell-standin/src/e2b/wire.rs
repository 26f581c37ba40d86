//! What is said about sandboxes.

use serde_json::{Value, json};

use super::sandbox::Facts;
use crate::clock;
use crate::envd::VERSION;

/// The answer to creating and connecting.
pub(super) fn created(facts: &Facts) -> Value {
    let mut sandbox = json!({
        "clientID": "6532622b",
        "domain": null,
        "envdVersion": VERSION,
        "sandboxID": facts.id,
        "templateID": facts.template,
        "trafficAccessToken": null,
    });
    if let Some(token) = &facts.token {
        sandbox["envdAccessToken"] = token.clone().into();
    }
    sandbox
}

/// An entry of the list.
pub(super) fn listed(facts: &Facts) -> Value {
    json!({
        "clientID": "6532622b",
        "cpuCount": 2,
        "diskSizeMB": 1024,
        "endAt": clock::text(facts.ends),
        "envdVersion": VERSION,
        "memoryMB": 512,
        "metadata": facts.metadata,
        "sandboxID": facts.id,
        "startedAt": clock::text(facts.started),
        "state": if facts.paused { "paused" } else { "running" },
        "templateID": facts.template,
    })
}

/// Everything about one.
pub(super) fn detailed(facts: &Facts) -> Value {
    let mut sandbox = listed(facts);
    sandbox["domain"] = Value::Null;
    if let Some(token) = &facts.token {
        sandbox["envdAccessToken"] = token.clone().into();
    }
    sandbox
}

pub(super) fn metric() -> Value {
    json!({
        "cpuCount": 2, "cpuUsedPct": 0.0, "diskTotal": 0, "diskUsed": 0, "memCache": 0, "memTotal": 536_870_912, "memUsed": 0,
        "timestamp": clock::now(), "timestampUnix": clock::milliseconds() / 1000,
    })
}
