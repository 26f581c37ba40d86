//! A policy in the terms of the lifecycle API.

use std::collections::BTreeMap;

use hotcell_core::backend::{CreateError, SandboxId};
use hotcell_core::capability::Control;
use hotcell_core::plan::{Plan, Refusal, RefusedRule, Subject};
use hotcell_core::policy::{Limits, NetworkMode, PullPolicy};
use hotcell_core::runtime::RuntimeKind;
use hotcell_core::secret::Secret;
use hotcell_core::text::Printable;
use hotcell_remote::http::{CallError, Why};
use hotcell_remote::opensandbox::{Action, Client, NetworkPolicy, NetworkStatus, NewSandbox, Source, Via};

use crate::owner::Owner;
use crate::remote::{self, LIFETIME};

/// The image of a sandbox where nobody names one: small, public, and with what scripts expect.
pub const DEFAULT_IMAGE: &str = "python:3.12-slim";

/// By which `execd` learns what to ask of callers.
const TOKEN: &str = "EXECD_ACCESS_TOKEN";

/// The sandbox that the plan asks for, and the token that its `execd` then wants: its port may be open to others.
pub(super) fn new_sandbox(
    plan: &Plan,
    owner: &Owner,
    id: &SandboxId,
) -> Result<(NewSandbox, Secret<String>), CreateError> {
    let policy = &plan.policy;
    if policy.container.image.is_some() && policy.container.pull == PullPolicy::Never {
        return Err(CreateError::Setup {
            step: "choosing the image".to_owned(),
            reason: "the server fetches images by itself, and this one is not to be fetched: \
                     `pull = \"never\"` holds, also for an image that a project's file names"
                .to_owned(),
            hint: "name the image with --image, or let it be fetched with --pull missing".to_owned(),
        });
    }
    let source = match &policy.remote.snapshot {
        Some(snapshot) => Source::Snapshot(snapshot.clone()),
        None => {
            let uri = policy.container.image.clone().unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
            Source::Image { uri, auth: None }
        }
    };
    let token = hotcell_remote::unique().ok_or_else(|| CreateError::Setup {
        step: "choosing a token".to_owned(),
        reason: "the system has no randomness".to_owned(),
        hint: "look at the kernel's log".to_owned(),
    })?;
    let mut new = NewSandbox::new(source);
    new.timeout = Some(LIFETIME);
    new.resource_limits = resources(&policy.limits);
    new.env = BTreeMap::from([(TOKEN.to_owned(), token.clone())]);
    new.metadata = remote::labels(owner, id);
    new.network_policy = (policy.network == NetworkMode::Deny).then(NetworkPolicy::deny_all);
    Ok((new, Secret::new(token)))
}

/// Limits as Kubernetes writes them.
fn resources(limits: &Limits) -> BTreeMap<String, String> {
    const KIB: u64 = 1024;
    let memory = limits.memory.value.map(|bytes| ("memory".to_owned(), format!("{}Ki", (bytes / KIB).max(1))));
    let cpus = limits.cpus.value.map(|cpus| ("cpu".to_owned(), format!("{}m", cpus.milli())));
    memory.into_iter().chain(cpus).collect()
}

/// Asks how the server holds a denied network. One that only filters names lets code reach every address that it knows, and
/// the server took the request all the same.
pub(super) async fn check_network(
    client: &Client,
    id: &str,
    via: Via,
    token: &Secret<String>,
    plan: &Plan,
) -> Result<(), CreateError> {
    let accepted = plan.policy.approximate.contains(&Control::Network);
    if plan.policy.network == NetworkMode::Open || accepted {
        return Ok(());
    }
    let why = match client.sidecar_policy(id, via, Some(token)).await {
        Ok(held) if held.enforcement == "dns+nft" && held.status == "ok" && denies_all(&held) => return Ok(()),
        Ok(held) if held.enforcement == "dns+nft" => "the server holds the sandbox to something else".to_owned(),
        Ok(held) if held.enforcement.is_empty() => "the server does not say how it holds it".to_owned(),
        Ok(held) => format!(
            "the server filters names only (`{}`), and addresses stay within reach",
            Printable(&held.enforcement)
        ),
        Err(error) => format!("the server does not say how it holds it: {error}"),
    };
    let hint = "have the server's egress work by addresses too (`egress.mode = \"dns+nft\"`), accept it with \
                `approximate = [\"network\"]` in [sandbox], or open the network with `network = \"open\"`";
    Err(no_network(why, hint))
}

fn denies_all(held: &NetworkStatus) -> bool {
    held.policy.as_ref().is_some_and(|policy| policy.default == Action::Deny && policy.egress.is_empty())
}

fn no_network(why: String, hint: &str) -> CreateError {
    CreateError::Refused(Refusal {
        kind: RuntimeKind::Opensandbox,
        rules: vec![RefusedRule {
            subject: Subject::Control(Control::Network),
            requested: "no network".to_owned(),
            why,
            hint: hint.to_owned(),
            origin: None,
        }],
    })
}

/// Why the server did not make the sandbox, in the terms of the policy where it is about one of its rules.
pub(super) fn refused(plan: &Plan, error: &CallError) -> CreateError {
    let said = match &error.why {
        Why::Answered { status: 400 | 422 | 501, message, .. } => message.as_str(),
        _ => "",
    };
    let about_network =
        ["networkpolicy", "egress", "network policy"].iter().any(|word| said.to_lowercase().contains(word));
    if plan.policy.network == NetworkMode::Deny && about_network {
        let hint =
            "have it configured for network policies (`egress.image`), or open the network with `network = \"open\"`";
        return no_network(format!("the server cannot hold it: {error}"), hint);
    }
    let about_image = matches!(&error.why, Why::Answered { message, .. } if message.contains("IMAGE"));
    let hint = match about_image {
        true => "name an image that the server has or can get, with --image",
        false => error.hint(),
    };
    CreateError::Setup { step: "making the sandbox".to_owned(), reason: error.to_string(), hint: hint.to_owned() }
}
