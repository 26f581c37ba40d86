//! Policy × capabilities: the exact mechanisms, or a refusal.
//!
//! [`plan`] is a pure function, so what would be enforced can be printed and tested without root, kernel or network.
//! These are its rules, per control that the policy asks for:
//!
//! - `Enforced` passes.
//! - `Approximated` passes if the policy's `approximate` names the control, or if it is a default limit that nobody
//!   asked for; the report shows it.
//! - On a remote box, `Approximated` also passes for what isolates it: system calls, privileges, processes and network.
//!   That is the server's word and cannot be checked from here, whatever the server; to name a remote runtime is to trust
//!   it with that. It holds for nothing else, and an isolation level that is asked for is refused.
//! - `Unsupported` is refused. One exception: a disk limit on trees that are written directly. Most kernels cannot
//!   hold it, so the default one passes, as does an asked one if `approximate` names `disk-direct`; the report shows
//!   that nothing holds it.

mod asked;
mod refusal;

use std::fmt;

use serde::Serialize;

pub use refusal::{NoBackend, Refusal, RefusedRule, Subject, Unavailable};

use crate::capability::{Capabilities, Capability, Control};
use crate::policy::Policy;
use crate::runtime::{Isolation, RuntimeChoice, RuntimeKind};
use asked::{Asked, asked_controls};

/// What separates a box from everything else: on a remote box, the server's business.
const ISOLATING: [Control; 4] = [Control::Network, Control::Syscalls, Control::Privileges, Control::ProcessIsolation];

/// What will be enforced, by which mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// The backend.
    pub kind: RuntimeKind,
    /// Its isolation on this machine.
    pub isolation: Isolation,
    /// The policy that is held.
    pub policy: Policy,
    /// One entry per control that the policy asks for.
    pub enforcement: Vec<Enforcement>,
}

/// One control: what was asked for and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Enforcement {
    /// The control.
    pub control: Control,
    /// What the policy asks for, for people.
    pub requested: String,
    /// What holds it, and how well.
    pub actual: Capability,
}

/// Requested against actual, per control, as callers and audits see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnforcementReport {
    /// The backend.
    pub backend: RuntimeKind,
    /// Its isolation.
    pub isolation: Isolation,
    /// One entry per control that the policy asks for.
    pub controls: Vec<Enforcement>,
}

impl Plan {
    /// The report of this plan.
    pub fn report(&self) -> EnforcementReport {
        EnforcementReport { backend: self.kind, isolation: self.isolation, controls: self.enforcement.clone() }
    }

    /// How well a control is held; none if the policy does not ask for it.
    pub fn actual(&self, control: Control) -> Option<&Capability> {
        self.enforcement.iter().find(|entry| entry.control == control).map(|entry| &entry.actual)
    }
}

impl fmt::Display for Plan {
    /// One line per control.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (isolation: {})", self.kind, self.isolation)?;
        for Enforcement { control, requested, actual } in &self.enforcement {
            write!(f, "\n  {control:<18} {requested}: {actual}")?;
        }
        Ok(())
    }
}

/// Decides how a backend with these capabilities holds the policy, or refuses with every rule it cannot hold.
///
/// ```
/// use hotcell_core::capability::{Capabilities, Capability, Control};
/// use hotcell_core::plan::plan;
/// use hotcell_core::policy::Policy;
/// use hotcell_core::runtime::{Isolation, RuntimeKind};
///
/// let mut capabilities = Capabilities::new(RuntimeKind::Native, Isolation::Process);
/// for control in Control::ALL {
///     capabilities.controls.insert(*control, Capability::enforced("a test"));
/// }
/// assert!(plan(&Policy::default(), &capabilities).is_ok());
///
/// let no_memory = capabilities.with(Control::Memory, Capability::unsupported("no cgroup", "mount cgroup v2"));
/// let refusal = plan(&Policy::default(), &no_memory).unwrap_err();
/// assert!(refusal.to_string().contains("no cgroup"));
/// ```
pub fn plan(policy: &Policy, capabilities: &Capabilities) -> Result<Plan, Refusal> {
    let mut refused = refused_box(policy, capabilities);
    let mut enforcement = Vec::new();
    for asked in asked_controls(policy) {
        let actual = capabilities.of(asked.control);
        match refused_control(policy, capabilities.kind, &asked, &actual) {
            Some(rule) => refused.push(rule),
            None => enforcement.push(Enforcement { control: asked.control, requested: asked.requested, actual }),
        }
    }
    if refused.is_empty() {
        Ok(Plan { kind: capabilities.kind, isolation: capabilities.isolation, policy: policy.clone(), enforcement })
    } else {
        Err(Refusal { kind: capabilities.kind, rules: refused })
    }
}

/// Plans with the first of the candidates that can hold everything.
///
/// With [`RuntimeChoice::Kind`] only that kind is considered; with [`RuntimeChoice::Auto`] remote kinds are not.
/// The order of the candidates is the caller's preference; candidates that need an opt-in do not belong in it.
pub fn choose(policy: &Policy, candidates: &[Capabilities]) -> Result<Plan, NoBackend> {
    let mut refusals = Vec::new();
    let eligible = candidates.iter().filter(|candidate| match policy.runtime {
        RuntimeChoice::Kind(kind) => candidate.kind == kind,
        RuntimeChoice::Auto => !candidate.kind.is_remote(),
    });
    for candidate in eligible {
        match plan(policy, candidate) {
            Ok(plan) => return Ok(plan),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(NoBackend { runtime: policy.runtime, refusals, unavailable: Vec::new() })
}

/// What speaks against this box as a whole.
fn refused_box(policy: &Policy, capabilities: &Capabilities) -> Vec<RefusedRule> {
    let mut refused = Vec::new();
    if let RuntimeChoice::Kind(asked) = policy.runtime
        && asked != capabilities.kind
    {
        refused.push(RefusedRule {
            subject: Subject::Runtime,
            requested: asked.to_string(),
            why: format!("this is the {} backend, and no backend stands in for another", capabilities.kind),
            hint: format!("use the {asked} backend, or ask for `auto`"),
            origin: None,
        });
    }
    if let Some(asked) = policy.isolation
        && !capabilities.isolation.satisfies(asked)
    {
        let Capabilities { kind, isolation, .. } = capabilities;
        let (why, choose) = if *isolation == Isolation::Remote {
            let why = format!("what isolates boxes of the {kind} backend is the server's word, not a level");
            (why, "leave the level out to trust the server, or choose a local runtime")
        } else {
            (format!("boxes of the {kind} backend have isolation `{isolation}` here"), "choose a runtime")
        };
        refused.push(RefusedRule {
            subject: Subject::Isolation,
            requested: asked.to_string(),
            why,
            hint: format!("{choose} with isolation `{asked}`: {}", runtimes_with(asked)),
            origin: None,
        });
    }
    refused
}

fn runtimes_with(asked: Isolation) -> String {
    let names: Vec<&str> = RuntimeKind::ALL
        .iter()
        .filter(|kind| kind.usual_isolation().satisfies(asked))
        .map(|kind| kind.as_str())
        .collect();
    match asked {
        Isolation::UserKernel => format!("{}, or docker with gVisor's runsc", names.join(", ")),
        _ => names.join(", "),
    }
}

/// Whether naming this runtime says that the server may be trusted with this control.
fn trusts_server_with(policy: &Policy, kind: RuntimeKind, control: Control) -> bool {
    kind.is_remote() && policy.runtime == RuntimeChoice::Kind(kind) && ISOLATING.contains(&control)
}

/// The refusal of one control, if it is one; the rules are those of the module documentation.
fn refused_control(policy: &Policy, kind: RuntimeKind, asked: &Asked, actual: &Capability) -> Option<RefusedRule> {
    let accepted = policy.approximate.contains(&asked.control) || !asked.explicit;
    let (why, hint) = match actual {
        Capability::Enforced { .. } => return None,
        Capability::Approximated { .. } if trusts_server_with(policy, kind, asked.control) => return None,
        Capability::Approximated { .. } if accepted => return None,
        Capability::Unsupported { .. } if accepted && asked.control == Control::DiskDirect => return None,
        Capability::Approximated { by, how } => (
            format!("{by} can only approximate it: {how}"),
            format!("accept that with `approximate = [\"{}\"]` in [sandbox]", asked.control),
        ),
        Capability::Unsupported { why, hint } => (why.clone(), hint.clone()),
    };
    Some(RefusedRule {
        subject: Subject::Control(asked.control),
        requested: asked.requested.clone(),
        why,
        hint,
        origin: asked.origin.clone(),
    })
}
