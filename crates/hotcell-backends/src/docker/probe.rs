//! What the engine can hold on this machine, now.

use std::collections::BTreeMap;
use std::path::Path;

use bollard::models::{SystemInfo, SystemInfoCgroupDriverEnum, SystemInfoCgroupVersionEnum, SystemVersion};
use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_linux::landlock::Abi;
use hotcell_linux::seccomp::Arch;
use rustix::process::geteuid;

/// The engine, as found when the backend started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineFacts {
    /// Whether it is Podman, which speaks Docker's API with an accent.
    pub podman: bool,
    /// The engine's version.
    pub version: String,
    /// The programs that it works with, and what they say of their versions.
    pub components: Vec<(String, String)>,
    /// The newest version of the API that it speaks.
    pub api: String,
    /// Whether it runs without root's rights: numbers of users in containers are others on the host.
    pub rootless: bool,
    /// Whether it maps all users of containers to others on the host.
    pub remaps_users: bool,
    /// 1 or 2, if it uses cgroups at all.
    pub cgroup_version: Option<u8>,
    /// How it makes cgroups.
    pub cgroup_driver: String,
    /// Whether it can limit memory.
    pub memory: bool,
    /// Whether it can limit swap.
    pub swap: bool,
    /// Whether it can limit processes.
    pub pids: bool,
    /// Whether it can limit CPUs.
    pub cpu: bool,
    /// OCI runtimes by name, with what they execute.
    pub runtimes: BTreeMap<String, String>,
    /// The one that is used when nobody says.
    pub default_runtime: String,
    /// How it stores images.
    pub storage: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processor, in Go's terms.
    pub architecture: String,
}

impl EngineFacts {
    /// What an engine says about itself.
    pub(super) fn new(info: &SystemInfo, version: &SystemVersion, rootless: bool) -> Self {
        let options = info.security_options.as_deref().unwrap_or_default();
        let has =
            |name: &str| options.iter().any(|option| option.split(',').any(|part| part == format!("name={name}")));
        let components = version.components.as_deref().unwrap_or_default();
        let driver = info.cgroup_driver.unwrap_or(SystemInfoCgroupDriverEnum::NONE);
        let rootless = rootless || has("rootless");
        let second_version = info.cgroup_version == Some(SystemInfoCgroupVersionEnum::_2);
        // Version 1 cannot be handed to somebody who is not root; Podman takes limits all the same, and ignores them.
        let no_cgroups = driver == SystemInfoCgroupDriverEnum::NONE || rootless && !second_version;
        let runtimes = info.runtimes.iter().flatten();
        Self {
            podman: components.iter().any(|component| component.name.contains("Podman")),
            version: version.version.clone().unwrap_or_default(),
            components: components
                .iter()
                .map(|component| (component.name.clone(), component.version.clone()))
                .collect(),
            api: version.api_version.clone().unwrap_or_default(),
            rootless,
            remaps_users: has("userns"),
            // Engines that do not say are older than version 2.
            cgroup_version: (!no_cgroups).then_some(if second_version { 2 } else { 1 }),
            cgroup_driver: driver.to_string(),
            memory: !no_cgroups && info.memory_limit == Some(true),
            swap: info.swap_limit == Some(true),
            pids: !no_cgroups && info.pids_limit == Some(true),
            cpu: !no_cgroups && info.cpu_cfs_quota == Some(true),
            runtimes: runtimes
                .map(|(name, runtime)| (name.clone(), runtime.path.clone().unwrap_or_default()))
                .collect(),
            default_runtime: info.default_runtime.clone().unwrap_or_default(),
            storage: info.driver.clone().unwrap_or_default(),
            kernel: info.kernel_version.clone().unwrap_or_default(),
            architecture: version.arch.clone().unwrap_or_default(),
        }
    }

    /// How the engine is called.
    pub fn name(&self) -> &'static str {
        if self.podman { "Podman" } else { "Docker" }
    }

    /// Whether containers run by gVisor, which is a kernel of its own.
    pub(super) fn is_gvisor(&self, runtime: Option<&str>) -> bool {
        let name = runtime.unwrap_or(&self.default_runtime);
        let path = self.runtimes.get(name).filter(|path| !path.is_empty()).map_or(name, String::as_str);
        path.rsplit('/').next() == Some("runsc")
    }

    /// Whether the engine has the runtime. Podman also lists those that it would know if they were there.
    pub(super) fn has_runtime(&self, name: &str) -> bool {
        let is_there = |path: &String| !self.podman || !path.starts_with('/') || Path::new(path).exists();
        self.runtimes.get(name).is_some_and(is_there)
    }

    /// Which runtimes there are, for people.
    pub fn runtime_names(&self) -> String {
        let names = self.runtimes.keys().map(String::as_str).filter(|name| self.has_runtime(name));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// What is found on this side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here {
    pub(super) landlock: Abi,
    pub(super) root: bool,
    /// Whether something can be mounted into a container from outside.
    pub(super) mounts_inside: bool,
    pub(super) swap_in_use: bool,
}

impl Here {
    pub(super) fn look() -> Self {
        let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        Self {
            landlock: hotcell_linux::probe::look().landlock,
            root: geteuid().is_root(),
            mounts_inside: super::inside::is_possible(),
            swap_in_use: swaps.lines().count() > 1,
        }
    }
}

/// Capabilities of the engine's containers.
pub(super) fn capabilities(engine: &EngineFacts, here: Here, runtime: Option<&str>) -> Capabilities {
    let isolation = if engine.is_gvisor(runtime) { Isolation::UserKernel } else { Isolation::Container };
    let mut capabilities = Capabilities::new(RuntimeKind::Docker, isolation);
    for control in Control::ALL {
        let own_kernel = engine.is_gvisor(runtime);
        let here = Here { mounts_inside: here.mounts_inside && !own_kernel, ..here };
        let capability = unknown_runtime(engine, runtime)
            .or_else(|| if own_kernel { in_gvisor(*control) } else { None })
            .unwrap_or_else(|| capability(engine, here, *control));
        capabilities = capabilities.with(*control, capability);
    }
    capabilities.notes.push(format!(
        "{} {}{}, OCI runtime {}",
        engine.name(),
        engine.version,
        if engine.rootless { " (rootless)" } else { "" },
        runtime.unwrap_or(&engine.default_runtime)
    ));
    if engine.is_gvisor(runtime) {
        capabilities.notes.push(
            "with gVisor in an engine no trees are shown, code in a box can disturb the conversation with its init, and a box that is out of \
             memory is lost without a word about it; `--runtime gvisor` shows trees, and says that memory ran out"
                .into(),
        );
    }
    if !engine.rootless && !engine.remaps_users {
        capabilities.notes.push(
            "users in containers are the host's users of the same number: a container's root would be root in trees that it sees, so \
             boxes are never root here"
                .into(),
        );
    }
    capabilities
}

/// Where the engine has no such runtime, nothing is held.
fn unknown_runtime(engine: &EngineFacts, runtime: Option<&str>) -> Option<Capability> {
    let name = runtime.filter(|name| !engine.has_runtime(name))?;
    Some(Capability::unsupported(
        format!("{} has no OCI runtime `{name}`; it has: {}", engine.name(), engine.runtime_names()),
        "register it with the engine, name another with --oci-runtime, or use `--runtime oci`, which needs no engine",
    ))
}

/// What is held in another way where containers run by gVisor.
fn in_gvisor(control: Control) -> Option<Capability> {
    match control {
        Control::Syscalls => Some(Capability::enforced("gVisor's kernel, and a seccomp allow-list in it")),
        Control::ReadOnly => {
            Some(Capability::enforced("gVisor's kernel, over a root of the container's own; trees are refused"))
        }
        Control::Tty => Some(Capability::unsupported(
            "gVisor's terminals do not work in containers of an engine",
            "use `--runtime gvisor`, which needs no engine",
        )),
        Control::ProcessCount => Some(Capability::approximated(
            "looking from time to time",
            "the host's kernel does not see gVisor's processes, so more can be started between two looks",
        )),
        _ => None,
    }
}

fn capability(engine: &EngineFacts, here: Here, control: Control) -> Capability {
    let mounts_inside = here.mounts_inside && !engine.rootless && !engine.remaps_users;
    match control {
        Control::FilesystemView => Capability::enforced("the image, and bind mounts of what the policy names"),
        Control::ReadOnly => Capability::enforced("a read-only root and read-only bind mounts"),
        Control::Sockets if mounts_inside => {
            Capability::enforced("owners mapped on mounts, which makes the kernel refuse connections")
        }
        Control::Sockets => Capability::approximated(
            "the permissions of the sockets",
            "the box can talk to those that its user on the host can",
        ),
        Control::Overlay if mounts_inside => {
            Capability::enforced("overlayfs, mounted into the container before anything runs in it")
        }
        Control::Overlay => Capability::unsupported(
            "container engines show trees as they are, and to mount into a container takes root's rights here",
            "use `read`, `write` on a copy, run as root with a rootful engine, or use the native runtime",
        ),
        Control::DenyPaths | Control::ProtectedPaths => {
            Capability::enforced("mounts over them, until a program of the host's replaces them")
        }
        Control::Network => Capability::enforced("a network namespace with nothing but its own loopback"),
        Control::OpenNetwork => Capability::enforced("the engine's bridge, which leads to the host's network"),
        Control::Environment => Capability::enforced("an allow-list"),
        Control::Syscalls => match Arch::native() {
            Some(_) => Capability::enforced("a seccomp profile, and the exact allow-list on top of it"),
            None => Capability::unsupported(
                "there is no system call table for this processor",
                "use x86_64 or aarch64, or another runtime",
            ),
        },
        Control::Privileges => Capability::enforced("empty capability sets, no_new_privs and a user that is not root"),
        Control::ProcessIsolation => Capability::enforced("a pid namespace, killed through its init"),
        Control::Memory => memory(engine, here),
        Control::Cpus if engine.cpu => Capability::enforced(by_cgroup(engine, "cpu controller")),
        Control::Cpus => {
            Capability::unsupported(no_cgroup(engine), "leave `cpus` out, or use an engine that can limit CPUs")
        }
        Control::CpuTime if engine.cgroup_version.is_some() => {
            Capability::enforced(by_cgroup(engine, "CPU accounting read by the supervisor"))
        }
        Control::CpuTime => Capability::approximated(
            "sampling of the box's processes",
            format!("the time of children that nobody waits for is not counted; {}", no_cgroup(engine)),
        ),
        Control::ProcessCount if engine.pids => Capability::enforced(by_cgroup(engine, "pids controller")),
        Control::ProcessCount => Capability::approximated(
            "sampling of the box's processes",
            format!("a burst between two samples is not seen; {}", no_cgroup(engine)),
        ),
        Control::OpenFiles => Capability::enforced("RLIMIT_NOFILE"),
        Control::Disk => {
            Capability::enforced("the sizes of the box's tmpfs mounts, which share the limit; the root is read-only")
        }
        Control::DiskDirect => Capability::unsupported(
            "writes to a directly writable tree go to the host's file system, which has no quota for one box",
            "use the native runtime with an overlay, or allow it with `approximate = [\"disk-direct\"]`",
        ),
        Control::Output | Control::Timeout => Capability::enforced("the supervisor"),
        Control::Tty => Capability::enforced("a devpts of the box's own"),
        Control::User => Capability::enforced("the container's user"),
        other => Capability::unsupported(
            format!("the docker backend does not know the control `{other}`"),
            "choose another runtime",
        ),
    }
}

fn memory(engine: &EngineFacts, here: Here) -> Capability {
    if !engine.memory {
        return Capability::approximated(
            "sampling of the box's processes",
            format!("a burst between two samples is not seen; {}", no_cgroup(engine)),
        );
    }
    if here.swap_in_use && !engine.swap {
        return Capability::approximated(
            by_cgroup(engine, "memory controller"),
            "this kernel does not account for swap, so the box may use swap on top of it",
        );
    }
    Capability::enforced(by_cgroup(engine, "memory controller"))
}

fn by_cgroup(engine: &EngineFacts, what: &str) -> String {
    format!("cgroup v{}, {what}", engine.cgroup_version.unwrap_or(1))
}

fn no_cgroup(engine: &EngineFacts) -> String {
    format!("this {} has no such cgroup controller (cgroup driver: {})", engine.name(), engine.cgroup_driver)
}
