//! The lifecycle API's JSON. What is read is lenient about what is missing and strict about what is there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::network::{Action, NetworkPolicy, NetworkStatus, Rule};
use super::sandbox::{NewSandbox, Sandbox, Snapshot, Source, State, Status, Volume, VolumeSource};
use super::timestamp;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<ImageSpec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resource_limits: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    entrypoint: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    network_policy: Option<Policy>,
    #[serde(skip_serializing_if = "is_false")]
    secure_access: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<VolumeSpec<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extensions: &'a BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl<'a> CreateRequest<'a> {
    pub(super) fn new(new: &'a NewSandbox) -> Self {
        let (mut image, mut snapshot_id, mut template_id) = (None, None, None);
        match &new.source {
            Source::Image { uri, auth } => {
                let auth = auth
                    .as_ref()
                    .map(|auth| ImageAuthSpec { username: &auth.username, password: auth.password.expose() });
                image = Some(ImageSpec { uri, auth });
            }
            Source::Snapshot(id) => snapshot_id = Some(id.as_str()),
            Source::Template(id) => template_id = Some(id.as_str()),
        }
        Self {
            image,
            snapshot_id,
            template_id,
            // A part of a second counts as one: a sandbox must not end before the time that was asked for.
            timeout: new.timeout.map(|timeout| timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)),
            resource_limits: &new.resource_limits,
            env: &new.env,
            metadata: &new.metadata,
            entrypoint: &new.entrypoint,
            network_policy: new.network_policy.as_ref().map(Policy::new),
            secure_access: new.secure_access,
            volumes: new.volumes.iter().map(VolumeSpec::new).collect(),
            extensions: &new.extensions,
        }
    }
}

#[derive(Serialize)]
struct ImageSpec<'a> {
    uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<ImageAuthSpec<'a>>,
}

#[derive(Serialize)]
struct ImageAuthSpec<'a> {
    username: &'a str,
    password: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec<'a> {
    name: &'a str,
    mount_path: &'a str,
    read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<HostSpec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pvc: Option<ClaimSpec<'a>>,
}

#[derive(Serialize)]
struct HostSpec<'a> {
    path: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec<'a> {
    claim_name: &'a str,
}

impl<'a> VolumeSpec<'a> {
    fn new(volume: &'a Volume) -> Self {
        let (mut host, mut pvc) = (None, None);
        match &volume.from {
            VolumeSource::HostPath(path) => host = Some(HostSpec { path }),
            VolumeSource::Claim(claim_name) => pvc = Some(ClaimSpec { claim_name }),
        }
        Self {
            name: &volume.name,
            mount_path: &volume.mount_path,
            read_only: volume.read_only,
            sub_path: volume.sub_path.as_deref(),
            host,
            pvc,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    #[serde(default)]
    default_action: Option<String>,
    #[serde(default)]
    egress: Option<Vec<PolicyRule>>,
}

#[derive(Serialize, Deserialize)]
struct PolicyRule {
    action: String,
    target: String,
}

impl Policy {
    pub(super) fn new(policy: &NetworkPolicy) -> Self {
        let rule = |rule: &Rule| PolicyRule { action: rule.action.as_str().to_owned(), target: rule.target.to_owned() };
        Self {
            // Said in any case: what servers do without it has changed.
            default_action: Some(policy.default.as_str().to_owned()),
            egress: Some(policy.egress.iter().map(rule).collect()),
        }
    }

    fn read(self) -> Option<NetworkPolicy> {
        let action = |word: &str| match word {
            "allow" => Some(Action::Allow),
            "deny" => Some(Action::Deny),
            _ => None,
        };
        let default = action(self.default_action.as_deref().unwrap_or("deny"))?;
        let rules = self.egress.unwrap_or_default().into_iter();
        let egress: Option<Vec<Rule>> =
            rules.map(|rule| Some(Rule { action: action(&rule.action)?, target: rule.target })).collect();
        Some(NetworkPolicy { default, egress: egress? })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyStatus {
    policy: Option<Policy>,
    enforcement_mode: Option<String>,
    status: Option<String>,
    reason: Option<String>,
}

impl PolicyStatus {
    pub(super) fn read(self) -> NetworkStatus {
        NetworkStatus {
            policy: self.policy.and_then(Policy::read),
            enforcement: self.enforcement_mode.unwrap_or_default(),
            status: self.status.unwrap_or_default(),
            reason: self.reason.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxAnswer {
    id: String,
    status: StatusAnswer,
    created_at: Option<String>,
    expires_at: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
    image: Option<ImageAnswer>,
    snapshot_id: Option<String>,
}

#[derive(Deserialize)]
struct ImageAnswer {
    uri: Option<String>,
}

#[derive(Deserialize)]
struct StatusAnswer {
    state: String,
    reason: Option<String>,
    message: Option<String>,
}

impl SandboxAnswer {
    pub(super) fn read(self) -> Sandbox {
        let time = |text: Option<String>| text.as_deref().and_then(timestamp::parse);
        Sandbox {
            id: self.id,
            status: Status {
                state: State::read(self.status.state),
                reason: self.status.reason.unwrap_or_default(),
                message: self.status.message.unwrap_or_default(),
            },
            created_at: time(self.created_at),
            expires_at: time(self.expires_at),
            metadata: self.metadata.unwrap_or_default(),
            image: self.image.and_then(|image| image.uri),
            snapshot: self.snapshot_id,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SnapshotAnswer {
    id: String,
    sandbox_id: String,
    name: Option<String>,
    status: StatusAnswer,
    created_at: Option<String>,
}

impl SnapshotAnswer {
    pub(super) fn read(self) -> Snapshot {
        Snapshot {
            id: self.id,
            sandbox: self.sandbox_id,
            name: self.name,
            state: self.status.state,
            message: self.status.message.unwrap_or_default(),
            created_at: self.created_at.as_deref().and_then(timestamp::parse),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Pools {
    pub(super) items: Vec<Pool>,
}

#[derive(Deserialize)]
pub(super) struct Pool {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) pagination: Pagination,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pagination {
    pub(super) has_next_page: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expiration {
    pub(super) expires_at: String,
}

#[derive(Deserialize)]
pub(super) struct EndpointAnswer {
    pub(super) endpoint: String,
    pub(super) headers: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
pub(super) struct VersionAnswer {
    pub(super) version: String,
}
