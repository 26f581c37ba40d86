//! A container as we ask for it: what can be different from one to the next, and in one place what never is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};

use super::trees::Bind;

/// Where the init lies in every container.
pub(super) const INIT: &str = "/.hotcell/init";

/// Whose network a container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerNetwork {
    None,
    Bridge,
}

impl ContainerNetwork {
    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bridge => "bridge",
        }
    }
}

/// A private, writable place. It belongs to the container's user, because some runtimes give it the mode that the image has
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tmpfs {
    pub(super) bytes: u64,
    pub(super) mode: u32,
    /// Whether it is the box's own; else it is root's.
    pub(super) own: bool,
}

impl Tmpfs {
    fn options(self, user: u32, group: u32, podman: bool) -> String {
        let Self { bytes, mode, own } = self;
        // Podman takes no numbers, but a letter for "the container's user"; and it has to be told to copy nothing there.
        let owner = match (podman, own) {
            (true, true) => "U,notmpcopyup".to_owned(),
            (true, false) => "notmpcopyup".to_owned(),
            (false, true) => format!("uid={user},gid={group}"),
            (false, false) => "uid=0,gid=0".to_owned(),
        };
        // A file takes memory that its size does not count. Podman knows no such option.
        let files = if podman { String::new() } else { format!(",nr_inodes={}", (bytes / 4096).max(1024)) };
        format!("rw,exec,nosuid,nodev,size={bytes},mode={mode:o},{owner}{files}")
    }
}

/// What is hidden of `/proc` and `/sys`: what Docker hides by itself, and what else tells about the machine rather than about the
/// box. Podman keeps its own list.
pub(super) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/mtrr",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/softirqs",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys",
];

/// What containers differ in.
#[derive(Debug, Clone)]
pub(super) struct Hardened {
    /// Whether it is for Podman.
    pub(super) podman: bool,
    /// By its digest, so that it is the one that was looked at.
    pub(super) image: String,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) network: ContainerNetwork,
    pub(super) tmpfs: BTreeMap<PathBuf, Tmpfs>,
    pub(super) shared_memory: u64,
    pub(super) binds: Vec<Bind>,
    pub(super) memory: Option<u64>,
    /// Only version 1 of cgroups has it.
    pub(super) no_swappiness: bool,
    pub(super) nano_cpus: Option<u64>,
    pub(super) processes: Option<u64>,
    pub(super) ulimits: Vec<(&'static str, u64)>,
    /// The profile, or where it lies.
    pub(super) seccomp: String,
    pub(super) runtime: Option<String>,
    /// What the policy denies of the image itself.
    pub(super) denied: Vec<String>,
}

impl Hardened {
    /// What is hidden: of the kernel's files, and of the image.
    pub(super) fn masked(&self) -> Vec<String> {
        MASKED.iter().map(|path| (*path).to_owned()).chain(self.denied.iter().cloned()).collect()
    }

    /// The body of the request. Everything that is not here is as the engine does it for containers without privileges:
    /// masked and read-only paths of /proc, the devices cgroup, its security modules.
    pub(super) fn body(&self) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec![INIT.into(), "agent".into()]),
            cmd: Some(Vec::new()),
            env: Some(Vec::new()),
            user: Some(format!("{}:{}", self.user, self.group)),
            working_dir: Some("/".into()),
            hostname: Some("hotcell".into()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            tty: Some(false),
            stop_signal: Some("SIGKILL".into()),
            // An image's own check would run programs behind our back.
            healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
            labels: Some(self.labels.clone().into_iter().collect()),
            host_config: Some(self.host_config()),
            ..ContainerCreateBody::default()
        }
    }

    /// Podman has no field for what is masked beyond its own list, but such an option.
    pub(super) fn security_options(&self) -> Vec<String> {
        let mask = self.podman.then(|| format!("mask={}", self.masked().join(":")));
        let always = ["no-new-privileges".to_owned(), format!("seccomp={}", self.seccomp)];
        always.into_iter().chain(mask).collect()
    }

    fn host_config(&self) -> HostConfig {
        let options = |tmpfs: &Tmpfs| tmpfs.options(self.user, self.group, self.podman);
        let tmpfs = self.tmpfs.iter().map(|(path, tmpfs)| (path.to_string_lossy().into_owned(), options(tmpfs)));
        let ulimits = self.ulimits.iter().map(|(name, most)| ResourcesUlimits {
            name: Some((*name).to_owned()),
            soft: Some(signed(*most)),
            hard: Some(signed(*most)),
        });
        HostConfig {
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".into()]),
            security_opt: Some(self.security_options()),
            readonly_rootfs: Some(true),
            network_mode: Some(self.network.mode().into()),
            ipc_mode: Some("private".into()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            tmpfs: Some(tmpfs.collect()),
            shm_size: Some(signed(self.shared_memory)),
            mounts: Some(self.binds.iter().map(mount).collect()),
            memory: self.memory.map(signed),
            memory_swap: self.memory.map(signed),
            memory_swappiness: self.no_swappiness.then_some(0),
            nano_cpus: self.nano_cpus.map(signed),
            pids_limit: self.processes.map(signed),
            ulimits: Some(ulimits.collect()),
            oom_kill_disable: Some(false),
            init: Some(false),
            log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
            restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
            auto_remove: Some(true),
            masked_paths: (!self.podman).then(|| self.masked()),
            runtime: self.runtime.clone(),
            ..HostConfig::default()
        }
    }
}

/// Private and without what is mounted below, so that read-only means all of it.
fn mount(bind: &Bind) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(bind.source.to_string_lossy().into_owned()),
        target: Some(bind.target.to_string_lossy().into_owned()),
        read_only: Some(bind.read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// The API has signed numbers; what does not fit is more than any machine has.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
