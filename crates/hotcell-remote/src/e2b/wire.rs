//! What the control plane is told and says, in JSON.

use std::collections::BTreeMap;
use std::fmt;

use hotcell_core::secret::Secret;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::sandbox::{Details, NetworkRules, NewSandbox, Sandbox, State};
use super::{EnvdVersion, IdError};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create<'a> {
    #[serde(rename = "templateID")]
    template: &'a str,
    timeout: u64,
    auto_pause: bool,
    /// Only the first version of the call has it; the second is always so.
    #[serde(skip_serializing_if = "Option::is_none")]
    secure: Option<bool>,
    #[serde(rename = "allow_internet_access", skip_serializing_if = "Option::is_none")]
    internet: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env_vars: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Network<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    allow_out: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    deny_out: &'a [String],
}

impl<'a> Create<'a> {
    pub(super) fn new(new: &'a NewSandbox, secure: Option<bool>) -> Self {
        let rules = &new.network;
        let any = !rules.allow_out.is_empty() || !rules.deny_out.is_empty();
        Self {
            template: &new.template,
            timeout: whole_seconds(new.timeout),
            auto_pause: new.pause_at_end,
            secure,
            internet: rules.internet,
            network: any.then_some(Network { allow_out: &rules.allow_out, deny_out: &rules.deny_out }),
            metadata: &new.metadata,
            env_vars: &new.env,
        }
    }
}

/// The whole of the rules: what is left out is cleared.
#[derive(Serialize)]
pub(super) struct UpdateNetwork<'a> {
    #[serde(flatten)]
    lists: Network<'a>,
    #[serde(rename = "allow_internet_access", skip_serializing_if = "Option::is_none")]
    internet: Option<bool>,
}

impl<'a> UpdateNetwork<'a> {
    pub(super) fn new(rules: &'a NetworkRules) -> Self {
        let lists = Network { allow_out: &rules.allow_out, deny_out: &rules.deny_out };
        Self { lists, internet: rules.internet }
    }
}

/// Rounded up: a sandbox lives as long as was asked for, not less.
pub(super) fn whole_seconds(duration: std::time::Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Created {
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "templateID", default)]
    template: String,
    #[serde(default)]
    envd_version: Option<String>,
    #[serde(default)]
    envd_access_token: Option<String>,
    #[serde(default)]
    traffic_access_token: Option<String>,
    #[serde(default)]
    domain: Option<String>,
}

impl Created {
    pub(super) fn into_sandbox(self) -> Result<Sandbox, IdError> {
        let secret = |token: Option<String>| token.filter(|token| !token.is_empty()).map(Secret::new);
        Ok(Sandbox {
            id: self.id.parse()?,
            template: self.template,
            version: EnvdVersion::parse(&self.envd_version.unwrap_or_default()),
            access_token: secret(self.envd_access_token),
            traffic_token: secret(self.traffic_access_token),
            domain: self.domain.filter(|domain| !domain.is_empty()),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "templateID", default)]
    template: String,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    started_at: Option<String>,
    #[serde(default)]
    end_at: Option<String>,
    #[serde(default)]
    cpu_count: Option<u32>,
    #[serde(rename = "memoryMB", default)]
    memory: Option<u64>,
    #[serde(rename = "diskSizeMB", default)]
    disk: Option<u64>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    envd_version: Option<String>,
}

impl Listed {
    pub(super) fn into_details(self) -> Result<Details, IdError> {
        let state = match self.state.unwrap_or_default().as_str() {
            // Servers that know of no other state leave it out.
            "running" | "" => State::Running,
            "paused" => State::Paused,
            other => State::Other(other.to_owned()),
        };
        Ok(Details {
            id: self.id.parse()?,
            template: self.template,
            state,
            started_at: self.started_at.unwrap_or_default(),
            end_at: self.end_at.unwrap_or_default(),
            cpus: self.cpu_count,
            memory_mib: self.memory,
            disk_mib: self.disk,
            metadata: self.metadata.unwrap_or_default(),
            envd_version: EnvdVersion::parse(&self.envd_version.unwrap_or_default()),
        })
    }
}

/// A number that JSON of protocol buffers writes as a number or, from 64 bits on, as text.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    struct Number;
    impl Visitor<'_> for Number {
        type Value = i64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, as a number or as text")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<i64, E> {
            Ok(value)
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<i64, E> {
            i64::try_from(value).map_err(|_| E::custom("a number that is too large"))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<i64, E> {
            text.parse().map_err(|_| E::custom("text that is no number"))
        }
    }
    deserializer.deserialize_any(Number)
}
