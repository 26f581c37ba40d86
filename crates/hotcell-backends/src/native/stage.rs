//! A plan's files and limits for boxes whose first process somebody else starts: a runtime on a stage, or an engine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hotcell_core::backend::CreateError;
use hotcell_core::plan::Plan;
use hotcell_core::policy::{NetworkMode, Policy};
use hotcell_linux::landlock::{self, Abi, Rules};
use hotcell_linux::{CellSpec, Namespaces, Owner, TreeOptions};

use super::lower::{BYTES_PER_FILE, Base, Lowered, Lowering, UNLIMITED_DISK, checked_disk};
use super::probe::Machine;
use super::{limits, protect, view};

/// What is special about the root of a container that a runtime makes.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    /// A directory of the host's to mount the bundle at.
    pub(crate) place: &'a Path,
    /// The root file system to show; without one, the host's system directories.
    pub(crate) image: Option<&'a Path>,
    /// The user that the code sees itself as.
    pub(crate) uid: u32,
    /// Private places, with their modes.
    pub(crate) private: &'a [(&'a str, u32)],
    /// How much may be written to private places and overlays.
    pub(crate) disk: Option<u64>,
    /// How many of the host's tasks there may be, where that is not how many the box may have.
    pub(crate) host_tasks: Option<u64>,
    /// The first process of the container, and where it is put.
    pub(crate) init: (&'a Path, &'a [u8]),
}

/// A plan in terms of a stage. What follows is the bundle, and the runtime.
#[derive(Debug)]
pub(crate) struct LoweredStage {
    pub(crate) lowered: Lowered,
    /// What the first process of the container may reach.
    pub(crate) rules: Rules,
    /// The private places that were made.
    pub(crate) private: Vec<PathBuf>,
}

/// Lowers the files and limits of `plan` for a container that a runtime makes.
pub(crate) fn lower_stage(
    plan: &Plan,
    machine: &Machine,
    not_mapped: &BTreeSet<PathBuf>,
    stage: &Stage<'_>,
) -> Result<LoweredStage, CreateError> {
    let policy = &plan.policy;
    let privileged = machine.findings.privileged;
    checked_disk(policy)?;
    let disk = stage.disk.unwrap_or(UNLIMITED_DISK);
    let mut rules = Rules::new(machine.findings.landlock, false);
    let mut spec = CellSpec::new(stage_namespaces(privileged), Owner { uid: 0, gid: 0 });
    spec.stage(stage.place);
    spec.root(disk, (disk / BYTES_PER_FILE).clamp(1024, 1 << 22));
    view::stage_base(&mut spec, &mut rules, stage.uid, policy.network == NetworkMode::Open, stage.image);
    spec.file(stage.init.0, 0o555, stage.init.1);
    let mut private = Vec::new();
    for (path, mode) in stage.private {
        let path = Path::new(path);
        // What an image has there is covered by a directory of the box's own; what it lacks there is done without.
        let above = path.parent().filter(|parent| !view::is_of_box(parent));
        let inside = stage.image.zip(above).filter(|(image, parent)| view::image_has(image, parent));
        match inside {
            None => view::stage_private(&mut spec, &mut rules, path, *mode, privileged),
            Some((image, above))
                if view::image_has_directory(image, above) && view::image_has_directory(image, path) =>
            {
                let own = PathBuf::from(format!("/.hotcell/private-{}", private.len()));
                spec.directory(&own, *mode);
                if privileged {
                    spec.owner(&own);
                }
                let options = TreeOptions {
                    read_only: false,
                    devices: false,
                    no_exec: false,
                    id_mapped: false,
                    no_sockets: false,
                    own_place: false,
                };
                spec.bind(&own, path, options);
                rules.allow(path, landlock::Access::Write, true);
            }
            Some(_) => continue,
        }
        private.push(path.to_owned());
    }
    let mut limits = policy.limits.clone();
    if let Some(host_tasks) = stage.host_tasks {
        limits.processes.value = Some(host_tasks);
    }
    limits::cgroup(&mut spec, &limits, &machine.cgroups)?;
    let mut lowering = Lowering {
        policy,
        machine,
        not_mapped,
        base: stage.image.map_or(Base::Host, Base::Image),
        lowered: Lowered::new(spec),
        rules,
    };
    for rule in &policy.filesystem.rules {
        lowering.path_rule(rule)?;
    }
    protect::add(&mut lowering.lowered.spec, &policy.filesystem)?;
    let Lowering { mut lowered, rules, .. } = lowering;
    lowered.spec.cgroup_namespace();
    lowered.spec.mode(Path::new("/.hotcell"), 0);
    lowered.spec.seal();
    lowered.spec.own_processes();
    Ok(LoweredStage { lowered, rules, private })
}

/// Lowers the files of `policy` for a container that somebody else made: `uid` is its user, `namespace` its mount namespace. It has
/// a private place at `/.hotcell`, and something to mount on for each tree that is in no other.
pub(crate) fn lower_inside(
    policy: &Policy,
    machine: &Machine,
    not_mapped: &BTreeSet<PathBuf>,
    uid: u32,
    namespace: (&Path, &fs::Metadata),
) -> Result<Lowered, CreateError> {
    let namespaces = Namespaces { user: false, network: false, stage: true, same_user: true };
    let mut spec = CellSpec::new(namespaces, Owner { uid, gid: uid });
    spec.enter(namespace.0, namespace.1);
    spec.covers();
    let lowered = Lowered::new(spec);
    let rules = Rules::new(Abi(0), false);
    let mut lowering = Lowering { policy, machine, not_mapped, base: Base::Foreign, lowered, rules };
    for rule in &policy.filesystem.rules {
        lowering.path_rule(rule)?;
    }
    let mut lowered = lowering.lowered;
    protect::add(&mut lowered.spec, &policy.filesystem)?;
    // It stays, to hold what it made on the host, and needs no rights for that.
    lowered.spec.no_new_privs();
    lowered.spec.drop_capabilities();
    Ok(lowered)
}

/// The namespaces of a stage.
pub(crate) fn stage_namespaces(privileged: bool) -> Namespaces {
    Namespaces { user: !privileged, network: false, stage: true, same_user: false }
}
