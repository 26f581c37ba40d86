//! From a plan to a stage, a bundle, and what confines the first process of the container.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hotcell_core::backend::CreateError;
use hotcell_core::capability::Control;
use hotcell_core::plan::{Plan, Refusal, RefusedRule, Subject};
use hotcell_core::policy::{Access, NetworkMode};
use hotcell_linux::landlock::Abi;
use hotcell_linux::seccomp::{Arch, FilterOptions, Network};
use hotcell_linux::{CellSpec, Owner};

use super::bundle::{Bundle, BundleMount, INIT, PRIVATE, SHM, root_place};
use super::runtime::{self, Runtime};
use crate::native::Machine;
use crate::native::limits;
use crate::native::lower::{Lowered, filter};
use crate::native::stage::{LoweredStage, Stage, lower_stage, stage_namespaces};

/// The part of the disk limit that is gVisor's shared memory.
const SHM_PART: u64 = 8;
/// What "unlimited" means for it.
const UNLIMITED: u64 = 1 << 40;

/// What a container is made of.
#[derive(Debug)]
pub(super) struct Container {
    /// The stage, up to and including the runtime.
    pub(super) lowered: Lowered,
    /// How its first process confines itself.
    pub(super) setup: CellSpec,
}

/// Lowers `plan`; trees in `not_mapped` are shown with the owners that they have on the host.
pub(super) fn lower(
    plan: &Plan,
    machine: &Machine,
    runtime: &Runtime,
    id: &str,
    image: Option<&Path>,
    not_mapped: &BTreeSet<PathBuf>,
) -> Result<Container, CreateError> {
    let policy = &plan.policy;
    let privileged = machine.findings.privileged;
    let place = runtime::stage_place(&runtime.program).ok_or_else(|| CreateError::Setup {
        step: "finding a place for the bundle".into(),
        reason: "there is none of /mnt, /media, /srv and /opt".into(),
        hint: "make an empty directory /mnt".into(),
    })?;
    let asked = policy.process.user.unwrap_or_default().uid();
    if asked == 0 && privileged && !runtime.flavour.shares_kernel() {
        return Err(CreateError::Refused(Refusal {
            kind: plan.kind,
            rules: vec![RefusedRule {
                subject: Subject::Control(Control::User),
                requested: "root".to_owned(),
                why: "gVisor lets its root write to a /dev that no disk limit bounds".to_owned(),
                hint: "leave `user` out, or use another runtime".to_owned(),
                origin: None,
            }],
        }));
    }
    let uid = if privileged || runtime.flavour.maps_any_user() { asked } else { 0 };
    let mut private = PRIVATE.to_vec();
    // gVisor has one of its own, which takes its part of the disk limit.
    let mut shared_memory = 0;
    let mut disk_held = policy.limits.disk.value;
    if runtime.flavour.shares_kernel() {
        private.push((SHM, 0o1777));
    } else {
        shared_memory = policy.limits.disk.value.map_or(UNLIMITED, |disk| disk / SHM_PART);
        disk_held = policy.limits.disk.value.map(|disk| disk - shared_memory);
    }
    // The host sees what gVisor's kernel is made of, and a few tasks for each of the box's.
    let host_tasks = match policy.limits.processes.value {
        Some(processes) if !runtime.flavour.shares_kernel() => Some(processes.saturating_mul(4).saturating_add(512)),
        _ => None,
    };
    let stage = Stage {
        disk: disk_held,
        host_tasks,
        place,
        image,
        uid,
        private: &private,
        init: (Path::new(INIT), hotcell_linux::agent_image()),
    };
    let LoweredStage { mut lowered, rules, private } = lower_stage(plan, machine, not_mapped, &stage)?;

    let writable = private.into_iter().filter(|path| path != Path::new(SHM));
    let mut mounts: Vec<BundleMount> =
        writable.map(|path| BundleMount { source: root_place(&path), path, writable: true }).collect();
    if !runtime.flavour.shares_kernel() {
        for rule in policy.filesystem.rules.iter().filter(|rule| rule.access != Access::Deny) {
            // Not from its place in the root: the code in another box may put a link on the way there, and the runtime would
            // follow it on the host.
            let source = format!("tree-{}", mounts.len());
            lowered.spec.expose(&rule.path, &source, rule.path.is_dir());
            let writable = rule.access != Access::Read;
            mounts.push(BundleMount { path: rule.path.clone(), source: source.into(), writable });
        }
    }
    let bundle = Bundle { policy, flavour: runtime.flavour, privileged, uid, shared_memory, place, mounts: &mounts };
    let pieces = bundle.pieces();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    lowered.spec.bundle_file("config.json", &pieces);

    let command = runtime.command(place, id, privileged);
    let environment = runtime::ENVIRONMENT.iter().map(std::ffi::OsStr::new);
    lowered.spec.execute(!runtime.flavour.shares_kernel(), runtime::words(&command), environment);

    let mut setup = CellSpec::new(stage_namespaces(privileged), Owner { uid, gid: uid });
    setup.no_new_privs();
    if runtime.flavour.shares_kernel() {
        if let Some((resource, most)) = limits::most_processes(&policy.limits, machine) {
            setup.limit_init(resource, most);
        }
        if machine.findings.landlock > Abi(0) {
            setup.landlock(&rules);
        }
    }
    setup.drop_capabilities();
    if let Some(arch) = Arch::native() {
        let network = if policy.network == NetworkMode::Open { Network::Host } else { Network::Private };
        let notify_denied = machine.findings.seccomp_notify && runtime.flavour.shares_kernel();
        setup.seccomp(filter(arch, FilterOptions { network, notify_denied }), notify_denied);
    }
    Ok(Container { lowered, setup })
}
