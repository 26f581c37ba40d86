//! A policy in the terms of the control plane.

use hotcell_core::backend::{CreateError, SandboxId};
use hotcell_core::capability::Control;
use hotcell_core::config::quantity::show_size;
use hotcell_core::plan::{Plan, Refusal, RefusedRule, Subject};
use hotcell_core::policy::{Limit, NetworkMode, Policy, RemotePolicy};
use hotcell_core::runtime::RuntimeKind;
use hotcell_remote::e2b::{Client, Data, Details, Flavour, NewSandbox, Options};
use hotcell_remote::http::{Address, Server};

use crate::owner::Owner;
use crate::remote::{self, LIFETIME, RemoteError};

/// The template of E2B's own clients.
const TEMPLATE: &str = "base";

/// A client of the server that a policy names.
pub(super) fn client(kind: RuntimeKind, remote: &RemotePolicy) -> Result<Client, RemoteError> {
    let api = remote::address(remote, kind)?;
    let data = data(kind, remote, &api)?;
    let mut options = Options::new(api, data);
    options.api_key = remote.api_key.clone();
    options.flavour = if kind == RuntimeKind::Cube { Flavour::Cube } else { Flavour::E2b };
    Ok(Client::new(options)?)
}

/// The server itself.
pub(super) fn server(kind: RuntimeKind, remote: &RemotePolicy) -> Result<Server, RemoteError> {
    let product = if kind == RuntimeKind::Cube { "CubeSandbox" } else { "E2B" };
    Ok(Server::new(product, remote::address(remote, kind)?)?)
}

/// Where sandboxes are reached: where the policy says; else beneath the domain that the API's own name tells; else at the API's address,
/// as servers do that have but one.
fn data(kind: RuntimeKind, remote: &RemotePolicy, api: &Address) -> Result<Data, RemoteError> {
    if let Some(url) = &remote.data_url {
        return Ok(Data::Url(Address::parse(url, remote::plain(remote))?));
    }
    if let Some(domain) = &remote.domain {
        return Ok(Data::Domain(domain.clone()));
    }
    Ok(match api.host().strip_prefix("api.") {
        Some(domain) => Data::Domain(domain.to_owned()),
        // Its own default is somebody's domain: code, files and the key would go there.
        None if kind == RuntimeKind::Cube => return Err(RemoteError::NoDomain { server: api.clone() }),
        None => Data::Url(api.clone()),
    })
}

/// The sandbox that the plan asks for.
pub(super) fn new_sandbox(plan: &Plan, owner: &Owner, id: &SandboxId) -> Result<NewSandbox, CreateError> {
    let policy = &plan.policy;
    let template = match (&policy.remote.template, plan.kind) {
        (Some(template), _) => template.clone(),
        (None, RuntimeKind::Cube) => {
            return Err(CreateError::Setup {
                step: "choosing a template".to_owned(),
                reason: "CubeSandbox has none of its own".to_owned(),
                hint: "name one with --template, HOTCELL_TEMPLATE or CUBE_TEMPLATE_ID".to_owned(),
            });
        }
        (None, _) => TEMPLATE.to_owned(),
    };
    let mut new = NewSandbox::new(template, LIFETIME);
    new.metadata = remote::labels(owner, id);
    if policy.network == NetworkMode::Deny {
        new.network.internet = Some(false);
        new.network.deny_out = vec!["0.0.0.0/0".to_owned()];
    }
    Ok(new)
}

/// Refuses a sandbox that is larger than what was asked for, by what the server itself says.
pub(super) fn check_size(policy: &Policy, kind: RuntimeKind, details: &Details) -> Result<(), Refusal> {
    const MIB: u64 = 1 << 20;
    let mut rules = Vec::new();
    let mut check = |control, limit: &Limit<u64>, has: Option<u64>| {
        let asked = limit.value.filter(|_| limit.explicit);
        if let (Some(asked), Some(has)) = (asked, has)
            && has > asked
        {
            rules.push(RefusedRule {
                subject: Subject::Control(control),
                requested: format!("at most {}", show_size(asked)),
                why: format!("sandboxes of the template `{}` have {}", details.template, show_size(has)),
                hint: "choose a smaller template with --template, or ask for that much".to_owned(),
                origin: Some(limit.origin.clone()),
            });
        }
    };
    check(Control::Memory, &policy.limits.memory, details.memory_mib.map(|mib| mib.saturating_mul(MIB)));
    check(Control::Disk, &policy.limits.disk, details.disk_mib.map(|mib| mib.saturating_mul(MIB)));
    let cpus = &policy.limits.cpus;
    if let (Some(asked), Some(has)) = (cpus.value.filter(|_| cpus.explicit), details.cpus)
        && u64::from(has) * 1000 > u64::from(asked.milli())
    {
        rules.push(RefusedRule {
            subject: Subject::Control(Control::Cpus),
            requested: format!("at most {asked}"),
            why: format!("sandboxes of the template `{}` have {has}", details.template),
            hint: "choose a smaller template with --template, or ask for that many".to_owned(),
            origin: Some(cpus.origin.clone()),
        });
    }
    if rules.is_empty() { Ok(()) } else { Err(Refusal { kind, rules }) }
}
