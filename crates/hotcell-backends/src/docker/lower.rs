//! From a plan to a container, and to what its init does to itself before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hotcell_core::backend::CreateError;
use hotcell_core::capability::Control;
use hotcell_core::plan::{Plan, Refusal, RefusedRule, Subject};
use hotcell_core::policy::{Access, BoxUser, Limits, NetworkMode, Policy};
use hotcell_core::runtime::RuntimeKind;
use hotcell_core::text::PrintablePath;
use hotcell_linux::landlock::{self, Abi, Rules};
use hotcell_linux::seccomp::{self, Arch, FilterOptions, profile};
use hotcell_linux::{CellSpec, Namespaces, Owner};
use rustix::process::{Resource, getegid, geteuid, getrlimit};

use super::hardened::{ContainerNetwork, Hardened, INIT, Tmpfs};
use super::holder::Holders;
use super::image::Image;
use super::place::Place;
use super::probe::{EngineFacts, Here};
use super::trees::{self, Bind, Surroundings, Trees};
use crate::cell::HOME;
use crate::native::lower::bad_path;

/// Private places, their modes, and their shares of the disk limit. `/dev/shm` has one share, each volume of the image another.
const PRIVATE: &[(&str, u32, u64)] = &[("/tmp", 0o1777, 3), (HOME, 0o700, 3), ("/var/tmp", 0o1777, 1)];
/// What "unlimited" means for a place that has to have a size.
const UNLIMITED_DISK: u64 = 1 << 50;
/// Less than this has no room for anything once it is shared out.
const LEAST_DISK: u64 = 1 << 20;
/// Where the changes of overlays are kept, and what places are covered with.
const WORK: &str = "/.hotcell";
/// The size of something that is only there to be mounted on.
const POINT: u64 = 4096;
/// Below this, engines refuse to make a container.
const LEAST_MEMORY: u64 = 6 << 20;
/// What Podman's service allows itself; the limit of a box is held by its cgroup.
const PODMAN_PROCESSES: u64 = 32_768;
/// What gVisor needs on the host for itself, whatever runs in it.
const GVISOR_PROCESSES: u64 = 512;
/// The init counts as a process of its box.
const INIT_PROCESS: u64 = 1;

/// What is known about the engine and this side of it.
pub(super) struct Ground<'a> {
    pub(super) engine: &'a EngineFacts,
    pub(super) here: Here,
    pub(super) place: &'a Place,
    pub(super) sockets: &'a [&'a Path],
    pub(super) runtime: Option<&'a str>,
}

impl Ground<'_> {
    /// Whether trees are mounted into a container that runs, rather than by the engine.
    pub(super) fn mounts_inside(&self) -> bool {
        self.here.mounts_inside
            && !self.engine.rootless
            && !self.engine.remaps_users
            && !self.engine.is_gvisor(self.runtime)
    }
}

/// A plan in terms of the engine.
pub(super) struct Lowered {
    pub(super) hardened: Hardened,
    /// What holds names of the host for the container, if that is needed.
    pub(super) holder: Option<CellSpec>,
    /// Resource limits of every process: which, soft, hard.
    pub(super) resources: Vec<(u32, u64, u64)>,
}

/// Lowers `plan`, with `image` as the root.
pub(super) fn lower(plan: &Plan, image: &Image, ground: &Ground<'_>) -> Result<Lowered, CreateError> {
    let policy = &plan.policy;
    refuse_trees_in_gvisor(policy, ground)?;
    let private: BTreeSet<PathBuf> =
        PRIVATE.iter().map(|(path, ..)| path.into()).chain(image.volumes.iter().cloned()).collect();
    let mut holder = Holders::blank();
    let around = Surroundings {
        private: &private,
        sockets: ground.sockets,
        place: ground.place,
        mounts_inside: ground.mounts_inside(),
    };
    let trees = trees::lower(&policy.filesystem, &around, &mut holder)?;
    let (user, group) = user(policy, &trees, ground)?;
    let (tmpfs, shared_memory) = places(policy, image, &trees, ground)?;
    let ulimits = ulimits(&policy.limits, ground.engine);
    let init = ground.place.init(hotcell_linux::agent_image()).map_err(|error| not_written(ground.place, &error))?;
    let mut binds = vec![Bind { source: init, target: INIT.into(), read_only: true }];
    binds.extend(trees.binds);
    let hardened = Hardened {
        podman: ground.engine.podman,
        image: image.id.clone(),
        user,
        group,
        labels: BTreeMap::new(),
        network: match policy.network {
            NetworkMode::Deny => ContainerNetwork::None,
            _ => ContainerNetwork::Bridge,
        },
        tmpfs,
        shared_memory,
        binds,
        memory: memory(&policy.limits, ground.engine)?,
        no_swappiness: ground.engine.cgroup_version == Some(1) && ground.engine.memory && !ground.engine.podman,
        nano_cpus: policy
            .limits
            .cpus
            .value
            .filter(|_| ground.engine.cpu)
            .map(|cpus| u64::from(cpus.milli()) * 1_000_000),
        processes: processes(&policy.limits, ground),
        ulimits: ulimits.iter().map(|(name, _, most)| (*name, *most)).collect(),
        seccomp: seccomp_option(ground)?,
        runtime: ground.runtime.map(str::to_owned),
        denied: trees.denied,
    };
    let resources = ulimits.iter().map(|(_, resource, most)| (*resource as u32, *most, *most)).collect();
    Ok(Lowered { hardened, holder: trees.holds_names.then_some(holder), resources })
}

/// How the init confines itself and all that it starts, on top of what the engine does.
pub(super) fn confine(policy: &Policy, image: &Image, landlock: Abi) -> CellSpec {
    let mut spec = CellSpec::new(
        Namespaces { user: false, network: false, stage: false, same_user: false },
        Owner { uid: 0, gid: 0 },
    );
    spec.no_new_privs();
    if landlock > Abi(0) {
        let mut rules = Rules::new(landlock, false);
        rules.allow(Path::new("/"), landlock::Access::Read, true);
        rules.allow(Path::new("/dev"), landlock::Access::Device, true);
        let private = PRIVATE.iter().map(|(path, ..)| PathBuf::from(path)).chain([PathBuf::from("/dev/shm")]);
        for path in private.chain(image.volumes.iter().cloned()) {
            rules.allow(&path, landlock::Access::Write, true);
        }
        for rule in policy.filesystem.rules.iter().filter(|rule| rule.access >= Access::Overlay) {
            rules.allow(&rule.path, landlock::Access::Write, rule.path.is_dir());
        }
        spec.landlock(&rules);
    }
    spec.drop_capabilities();
    if let Some(arch) = Arch::native() {
        static FILTER: OnceLock<seccomp::Program> = OnceLock::new();
        // A container has a network namespace of its own, also where it leads somewhere.
        spec.seccomp(FILTER.get_or_init(|| seccomp::compile(arch, &FilterOptions::default())), false);
    }
    spec
}

/// The user of the container, which is one of the host's as well unless the engine maps users.
fn user(policy: &Policy, trees: &Trees, ground: &Ground<'_>) -> Result<(u32, u32), CreateError> {
    let asked = policy.process.user.map(BoxUser::uid);
    let (own, own_group) = (geteuid().as_raw(), getegid().as_raw());
    let maps = ground.engine.rootless || ground.engine.remaps_users;
    let shows = policy.filesystem.rules.iter().any(|rule| rule.access > Access::Deny);
    if asked == Some(0) && !maps {
        return Err(refused_user(
            "root",
            "a container's root is the host's root in every tree that it sees",
            "leave `user` out, use a rootless engine, or the native runtime",
        ));
    }
    let chosen = if ground.engine.rootless {
        // Inside of a rootless engine's containers root is the caller, and everybody else is nobody's.
        match asked {
            None if shows => (0, 0),
            None => (BoxUser::HOTCELL.uid(), BoxUser::HOTCELL.uid()),
            Some(uid) => (uid, uid),
        }
    } else if ground.here.root || maps {
        let owner = trees.written.first().map(|(_, metadata)| trees::owner(metadata)).filter(|_| !maps);
        match (asked, owner) {
            (Some(uid), _) => (uid, uid),
            (None, Some(owner)) => owner,
            (None, None) => (BoxUser::HOTCELL.uid(), BoxUser::HOTCELL.uid()),
        }
    } else {
        match asked {
            Some(uid) if uid != own && shows => {
                return Err(refused_user(
                    &uid.to_string(),
                    "containers see trees with the rights of the host's user of the same number, which is not you",
                    "leave `user` out, or use the native runtime",
                ));
            }
            Some(uid) => (uid, uid),
            None => (own, own_group),
        }
    };
    let writer = match (ground.engine.rootless, ground.engine.remaps_users) {
        (true, _) if chosen.0 == 0 => Some(own),
        (false, false) => Some(chosen.0),
        // Some number of the engine's own.
        _ => None,
    };
    for (path, metadata) in &trees.written {
        let (owner, _) = trees::owner(metadata);
        if owner == 0 && !ground.engine.rootless || Some(owner) != writer {
            return Err(bad_path(
                path,
                &format!("it belongs to user {owner}, and the box would write as {}", shown(writer)),
                "give all writable trees to one user that is not root, or use the native runtime, which maps owners",
            ));
        }
    }
    Ok(chosen)
}

/// An engine hands trees to gVisor writable, and gVisor keeps them read-only in its own kernel. That is not enough: there are
/// versions in which opening a file to truncate it fails with "read-only" and has truncated the host's file.
fn refuse_trees_in_gvisor(policy: &Policy, ground: &Ground<'_>) -> Result<(), CreateError> {
    let tree = policy.filesystem.rules.iter().find(|rule| rule.access > Access::Deny);
    let Some(tree) = tree.filter(|_| ground.engine.is_gvisor(ground.runtime)) else { return Ok(()) };
    Err(refused(
        Control::ReadOnly,
        &PrintablePath(&tree.path).to_string(),
        "with gVisor in an engine, trees are kept read-only by gVisor alone, and the host's files could be truncated",
        "use `--runtime gvisor`, which mounts them read-only beneath gVisor, or show no trees (`--deny .` hides the current directory)",
    ))
}

fn shown(writer: Option<u32>) -> String {
    writer.map_or_else(|| "a user that the engine chooses".to_owned(), |uid| format!("user {uid}"))
}

fn refused_user(asked: &str, why: &str, hint: &str) -> CreateError {
    refused(Control::User, asked, why, hint)
}

fn refused(control: Control, asked: &str, why: &str, hint: &str) -> CreateError {
    CreateError::Refused(Refusal {
        kind: RuntimeKind::Docker,
        rules: vec![RefusedRule {
            subject: Subject::Control(control),
            requested: asked.to_owned(),
            why: why.to_owned(),
            hint: hint.to_owned(),
            origin: None,
        }],
    })
}

/// The private places, which share the disk limit; a tree of the policy's may lie where one would be.
fn places(
    policy: &Policy,
    image: &Image,
    trees: &Trees,
    ground: &Ground<'_>,
) -> Result<(BTreeMap<PathBuf, Tmpfs>, u64), CreateError> {
    let disk = policy.limits.disk.value.unwrap_or(UNLIMITED_DISK);
    if disk < LEAST_DISK {
        return Err(CreateError::Setup {
            step: "limiting the disk".into(),
            reason: format!("{disk} bytes are too little to be shared by the places that a box can write to"),
            hint: "1 MiB is the least".into(),
        });
    }
    let mut wanted: BTreeMap<PathBuf, (u32, u64)> =
        image.volumes.iter().map(|volume| (volume.clone(), (0o1777, 1))).collect();
    wanted.extend(PRIVATE.iter().map(|(path, mode, share)| (PathBuf::from(path), (*mode, *share))));
    if !trees.points.is_empty() || ground.mounts_inside() && !policy.filesystem.rules.is_empty() {
        wanted.insert(WORK.into(), (0o711, 8));
    }
    wanted.retain(|path, _| !trees.binds.iter().any(|bind| bind.target == *path));
    let shares = 1 + wanted.values().map(|(_, share)| share).sum::<u64>();
    // Whole pages, and never more than the limit in all.
    let part = |share: u64| (disk / shares).saturating_mul(share) & !0xfff;
    let tmpfs = wanted.into_iter().map(|(path, (mode, share))| {
        let own = path != Path::new(WORK);
        (path, Tmpfs { bytes: part(share), mode, own })
    });
    let points = trees.points.iter().map(|path| (path.clone(), Tmpfs { bytes: POINT, mode: 0o755, own: false }));
    Ok((tmpfs.chain(points).collect(), part(1)))
}

fn processes(limits: &Limits, ground: &Ground<'_>) -> Option<u64> {
    let most = limits.processes.value.filter(|_| ground.engine.pids)?;
    if ground.engine.is_gvisor(ground.runtime) {
        // These are gVisor's own on the host, several for each that it shows; this only keeps it from taking them all.
        return Some(most.saturating_mul(4).saturating_add(GVISOR_PROCESSES));
    }
    Some(most.saturating_add(INIT_PROCESS))
}

fn memory(limits: &Limits, engine: &EngineFacts) -> Result<Option<u64>, CreateError> {
    match limits.memory.value {
        Some(memory) if memory < LEAST_MEMORY => Err(CreateError::Setup {
            step: "limiting the memory".into(),
            reason: format!("{memory} bytes are less than a container engine takes"),
            hint: "6 MiB is the least; most programs need 16 MiB or more".into(),
        }),
        memory => Ok(memory.filter(|_| engine.memory)),
    }
}

/// Resource limits that the engine sets, by its names and the kernel's. Without root's rights it cannot go beyond its own.
fn ulimits(limits: &Limits, engine: &EngineFacts) -> Vec<(&'static str, Resource, u64)> {
    let mut wanted = vec![("core", Resource::Core, 0)];
    wanted.extend(limits.open_files.value.map(|files| ("nofile", Resource::Nofile, files)));
    if engine.podman {
        // Left alone it raises this one, which it cannot where it has not all of root's rights. Its service has this much.
        let own = getrlimit(Resource::Nproc).maximum.unwrap_or(PODMAN_PROCESSES);
        wanted.push(("nproc", Resource::Nproc, own.min(PODMAN_PROCESSES)));
    }
    if engine.rootless {
        for (_, resource, most) in &mut wanted {
            *most = getrlimit(*resource).maximum.map_or(*most, |own| own.min(*most));
        }
    }
    wanted
}

/// Further limits of every process, by the names that the kernel has for them in `/proc`. The init sets them, as far as what it
/// has itself goes: an engine may not be able to raise them.
const FURTHER: &[(&str, Resource, u64)] = &[
    ("Max locked memory", Resource::Memlock, 64 << 20),
    ("Max pending signals", Resource::Sigpending, 4096),
    ("Max msgqueue size", Resource::Msgqueue, 819_200),
];

/// The further limits for a container whose first process has these limits, as `/proc` shows them.
pub(super) fn further_limits(shown: &str) -> Vec<(u32, u64, u64)> {
    let most = |name: &str, wanted: u64| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().nth(1)? {
            "unlimited" => Some(wanted),
            hard => hard.parse::<u64>().ok().map(|hard| hard.min(wanted)),
        }
    };
    let found = FURTHER.iter().filter_map(|(name, resource, wanted)| Some((*resource as u32, most(name, *wanted)?)));
    found.map(|(resource, most)| (resource, most, most)).collect()
}

/// Docker takes the profile itself, Podman the name of a file with it.
fn seccomp_option(ground: &Ground<'_>) -> Result<String, CreateError> {
    let Some(arch) = Arch::native() else {
        return Err(CreateError::Setup {
            step: "choosing a system call profile".into(),
            reason: "there is no system call table for this processor".into(),
            hint: "use x86_64 or aarch64, or another runtime".into(),
        });
    };
    static PROFILE: OnceLock<String> = OnceLock::new();
    let profile = PROFILE.get_or_init(|| profile::profile(arch, &FilterOptions::default()).to_json());
    if !ground.engine.podman {
        return Ok(profile.clone());
    }
    let file = ground.place.text("profile", profile).map_err(|error| not_written(ground.place, &error))?;
    file.into_os_string()
        .into_string()
        .map_err(|file| bad_path(Path::new(&file), "its name is no text", "set XDG_RUNTIME_DIR"))
}

fn not_written(place: &Place, error: &std::io::Error) -> CreateError {
    CreateError::Setup {
        step: format!("writing the init of containers to `{}`", PrintablePath(place.path())),
        reason: error.to_string(),
        hint: "make room there, or remove that directory and try again".into(),
    }
}

#[cfg(test)]
#[path = "lower_tests.rs"]
pub(super) mod tests;
