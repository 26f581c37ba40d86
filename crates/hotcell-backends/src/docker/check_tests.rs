#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use bollard::models::{DeviceMapping, HealthConfig, HostConfigLogConfig, NetworkingConfig, RestartPolicy};

use super::super::hardened::{ContainerNetwork, Tmpfs};
use super::*;

/// A container with a tree to read and one to write.
fn meant(directory: &Path) -> Hardened {
    let bind = |name: &str, read_only| {
        let source = directory.join(name);
        fs::create_dir_all(&source).unwrap();
        Bind { target: source.clone(), source, read_only }
    };
    Hardened {
        podman: false,
        denied: vec!["/etc/secret".to_owned()],
        image: format!("sha256:{}", "0".repeat(64)),
        user: 1000,
        group: 1000,
        labels: BTreeMap::from([("dev.hotcell.box".into(), "docker-1-1".into())]),
        network: ContainerNetwork::None,
        tmpfs: BTreeMap::from([(PathBuf::from("/tmp"), Tmpfs { bytes: 4096, mode: 0o1777, own: true })]),
        shared_memory: 4096,
        binds: vec![bind("read", true), bind("write", false)],
        memory: Some(1 << 20),
        no_swappiness: true,
        nano_cpus: Some(1_000_000_000),
        processes: Some(17),
        ulimits: vec![("core", 0), ("nofile", 64)],
        seccomp: "{}".into(),
        runtime: Some("runc".into()),
    }
}

type Change = fn(&mut ContainerCreateBody);

/// Changes one field of the host's part, or of a mount.
macro_rules! host {
    ($field:ident = $value:expr) => {
        |body| body.host_config.as_mut().unwrap().$field = $value
    };
}
macro_rules! mount {
    ($field:ident = $value:expr) => {
        |body| body.host_config.as_mut().unwrap().mounts.as_mut().unwrap()[0].$field = $value
    };
}
macro_rules! bind {
    ($field:ident = $value:expr) => {
        |body| {
            let mounts = body.host_config.as_mut().unwrap().mounts.as_mut().unwrap();
            mounts[0].bind_options.as_mut().unwrap().$field = $value;
        }
    };
}

const CHANGES: &[(&str, Change)] = &[
    ("Hostname", |body| body.hostname = None),
    ("Domainname", |body| body.domainname = Some("a".into())),
    ("User", |body| body.user = Some("0:0".into())),
    ("User", |body| body.user = None),
    ("AttachStdin", |body| body.attach_stdin = Some(false)),
    ("AttachStdout", |body| body.attach_stdout = None),
    ("AttachStderr", |body| body.attach_stderr = None),
    ("ExposedPorts", |body| body.exposed_ports = Some(vec!["80/tcp".into()])),
    ("Tty", |body| body.tty = Some(true)),
    ("OpenStdin", |body| body.open_stdin = Some(false)),
    ("StdinOnce", |body| body.stdin_once = Some(false)),
    ("Env", |body| body.env = Some(vec!["A=B".into()])),
    ("Cmd", |body| body.cmd = Some(vec!["sh".into()])),
    ("Cmd", |body| body.cmd = None),
    ("Healthcheck", |body| body.healthcheck = None),
    ("Healthcheck", |body| {
        body.healthcheck = Some(HealthConfig { test: Some(vec!["CMD".into()]), ..HealthConfig::default() })
    }),
    ("ArgsEscaped", |body| body.args_escaped = Some(true)),
    ("Image", |body| body.image = Some("debian:latest".into())),
    ("Volumes", |body| body.volumes = Some(vec!["/data".into()])),
    ("WorkingDir", |body| body.working_dir = None),
    ("Entrypoint", |body| body.entrypoint = None),
    ("Entrypoint", |body| body.entrypoint = Some(vec!["/bin/sh".into()])),
    ("NetworkDisabled", |body| body.network_disabled = Some(false)),
    ("OnBuild", |body| body.on_build = Some(Vec::new())),
    ("Labels", |body| body.labels = None),
    ("Labels", |body| {
        body.labels.as_mut().unwrap().insert("a".into(), "b".into());
    }),
    ("StopSignal", |body| body.stop_signal = None),
    ("StopTimeout", |body| body.stop_timeout = Some(9)),
    ("Shell", |body| body.shell = Some(Vec::new())),
    ("NetworkingConfig", |body| body.networking_config = Some(NetworkingConfig::default())),
    ("HostConfig", |body| body.host_config = None),
    ("CpuShares", host!(cpu_shares = Some(1))),
    ("Memory", host!(memory = None)),
    ("Memory", host!(memory = Some(0))),
    ("Memory", host!(memory = Some(-1))),
    ("Memory", host!(memory = Some((1 << 20) + 1))),
    ("CgroupParent", host!(cgroup_parent = Some("/".into()))),
    ("BlkioWeight", host!(blkio_weight = Some(1))),
    ("BlkioWeightDevice", host!(blkio_weight_device = Some(Vec::new()))),
    ("BlkioDeviceReadBps", host!(blkio_device_read_bps = Some(Vec::new()))),
    ("BlkioDeviceWriteBps", host!(blkio_device_write_bps = Some(Vec::new()))),
    ("BlkioDeviceReadIOps", host!(blkio_device_read_iops = Some(Vec::new()))),
    ("BlkioDeviceWriteIOps", host!(blkio_device_write_iops = Some(Vec::new()))),
    ("CpuPeriod", host!(cpu_period = Some(1))),
    ("CpuQuota", host!(cpu_quota = Some(-1))),
    ("CpuRealtimePeriod", host!(cpu_realtime_period = Some(1))),
    ("CpuRealtimeRuntime", host!(cpu_realtime_runtime = Some(1))),
    ("CpusetCpus", host!(cpuset_cpus = Some(String::new()))),
    ("CpusetMems", host!(cpuset_mems = Some(String::new()))),
    ("Devices", host!(devices = Some(vec![DeviceMapping::default()]))),
    ("DeviceCgroupRules", host!(device_cgroup_rules = Some(vec!["a *:* rwm".into()]))),
    ("DeviceRequests", host!(device_requests = Some(Vec::new()))),
    ("MemoryReservation", host!(memory_reservation = Some(1))),
    ("MemorySwap", host!(memory_swap = Some(-1))),
    ("MemorySwap", host!(memory_swap = None)),
    ("MemorySwappiness", host!(memory_swappiness = Some(60))),
    ("NanoCpus", host!(nano_cpus = None)),
    ("NanoCpus", host!(nano_cpus = Some(2_000_000_000))),
    ("OomKillDisable", host!(oom_kill_disable = Some(true))),
    ("Init", host!(init = Some(true))),
    ("PidsLimit", host!(pids_limit = None)),
    ("PidsLimit", host!(pids_limit = Some(0))),
    ("PidsLimit", host!(pids_limit = Some(-1))),
    ("Ulimits", host!(ulimits = None)),
    ("Ulimits", |body| body.host_config.as_mut().unwrap().ulimits.as_mut().unwrap()[0].hard = Some(-1)),
    ("Ulimits", |body| body.host_config.as_mut().unwrap().ulimits.as_mut().unwrap()[1].soft = Some(65)),
    ("CpuCount", host!(cpu_count = Some(1))),
    ("CpuPercent", host!(cpu_percent = Some(1))),
    ("IOMaximumIOps", host!(io_maximum_iops = Some(1))),
    ("IOMaximumBandwidth", host!(io_maximum_bandwidth = Some(1))),
    ("Binds", host!(binds = Some(vec!["/:/host".into()]))),
    ("Binds", host!(binds = Some(Vec::new()))),
    ("ContainerIDFile", host!(container_id_file = Some(String::new()))),
    ("LogConfig", host!(log_config = None)),
    ("LogConfig", host!(log_config = Some(HostConfigLogConfig { typ: Some("syslog".into()), config: None }))),
    ("NetworkMode", host!(network_mode = Some("host".into()))),
    ("NetworkMode", host!(network_mode = Some("bridge".into()))),
    ("NetworkMode", host!(network_mode = None)),
    ("PortBindings", host!(port_bindings = Some(HashMap::new()))),
    ("RestartPolicy", host!(restart_policy = None)),
    (
        "RestartPolicy",
        host!(
            restart_policy =
                Some(RestartPolicy { name: Some(RestartPolicyNameEnum::ALWAYS), maximum_retry_count: None })
        ),
    ),
    ("AutoRemove", host!(auto_remove = Some(false))),
    ("VolumeDriver", host!(volume_driver = Some("local".into()))),
    ("VolumesFrom", host!(volumes_from = Some(vec!["other".into()]))),
    ("Mounts", host!(mounts = None)),
    ("Mounts", |body| {
        let mounts = body.host_config.as_mut().unwrap().mounts.as_mut().unwrap();
        let another = mounts[0].clone();
        mounts.push(another);
    }),
    ("ConsoleSize", host!(console_size = Some(Vec::new()))),
    ("Annotations", host!(annotations = Some(HashMap::new()))),
    ("CapAdd", host!(cap_add = Some(vec!["SYS_ADMIN".into()]))),
    ("CapDrop", host!(cap_drop = None)),
    ("CapDrop", host!(cap_drop = Some(vec!["NET_RAW".into()]))),
    ("CgroupnsMode", host!(cgroupns_mode = Some(HostConfigCgroupnsModeEnum::HOST))),
    ("CgroupnsMode", host!(cgroupns_mode = None)),
    ("Dns", host!(dns = Some(Vec::new()))),
    ("DnsOptions", host!(dns_options = Some(Vec::new()))),
    ("DnsSearch", host!(dns_search = Some(Vec::new()))),
    ("ExtraHosts", host!(extra_hosts = Some(Vec::new()))),
    ("GroupAdd", host!(group_add = Some(vec!["0".into()]))),
    ("IpcMode", host!(ipc_mode = Some("host".into()))),
    ("IpcMode", host!(ipc_mode = None)),
    ("Cgroup", host!(cgroup = Some(String::new()))),
    ("Links", host!(links = Some(Vec::new()))),
    ("OomScoreAdj", host!(oom_score_adj = Some(-1000))),
    ("PidMode", host!(pid_mode = Some("host".into()))),
    ("UTSMode", host!(uts_mode = Some("host".into()))),
    ("UsernsMode", host!(userns_mode = Some("host".into()))),
    ("Privileged", host!(privileged = Some(true))),
    ("Privileged", host!(privileged = None)),
    ("PublishAllPorts", host!(publish_all_ports = Some(true))),
    ("ReadonlyRootfs", host!(readonly_rootfs = Some(false))),
    ("SecurityOpt", host!(security_opt = None)),
    ("SecurityOpt", host!(security_opt = Some(vec!["no-new-privileges".into(), "seccomp=unconfined".into()]))),
    ("SecurityOpt", host!(security_opt = Some(vec!["no-new-privileges".into()]))),
    ("SecurityOpt", |body| {
        body.host_config.as_mut().unwrap().security_opt.as_mut().unwrap().push("apparmor=unconfined".into());
    }),
    ("StorageOpt", host!(storage_opt = Some(HashMap::new()))),
    ("Tmpfs", host!(tmpfs = None)),
    ("Tmpfs", |body| {
        body.host_config.as_mut().unwrap().tmpfs.as_mut().unwrap().insert("/tmp".into(), "rw,nosuid,nodev".into());
    }),
    ("Tmpfs", |body| {
        body.host_config.as_mut().unwrap().tmpfs.as_mut().unwrap().insert("/tmp".into(), "rw,nodev,size=4096".into());
    }),
    ("Tmpfs", |body| {
        body.host_config.as_mut().unwrap().tmpfs.as_mut().unwrap().insert("/a".into(), "nosuid,nodev,size=4096".into());
    }),
    ("ShmSize", host!(shm_size = None)),
    ("ShmSize", host!(shm_size = Some(8192))),
    ("Sysctls", host!(sysctls = Some(HashMap::new()))),
    ("Runtime", host!(runtime = None)),
    ("Runtime", host!(runtime = Some("other".into()))),
    ("MaskedPaths", host!(masked_paths = Some(Vec::new()))),
    ("ReadonlyPaths", host!(readonly_paths = Some(Vec::new()))),
    ("Mounts.Type", mount!(typ = Some(MountType::VOLUME))),
    ("Mounts.Source", mount!(source = Some("/etc".into()))),
    ("Mounts.Target", mount!(target = Some("/etc".into()))),
    ("Mounts.ReadOnly", mount!(read_only = Some(false))),
    ("Mounts.ReadOnly", mount!(read_only = None)),
    ("Mounts.Consistency", mount!(consistency = Some("cached".into()))),
    ("Mounts.BindOptions", mount!(bind_options = None)),
    ("Mounts.BindOptions.Propagation", bind!(propagation = Some(MountBindOptionsPropagationEnum::RSHARED))),
    ("Mounts.BindOptions.Propagation", bind!(propagation = None)),
    ("Mounts.BindOptions.NonRecursive", bind!(non_recursive = Some(false))),
    ("Mounts.BindOptions.CreateMountpoint", bind!(create_mountpoint = Some(true))),
    ("Mounts.BindOptions.ReadOnlyNonRecursive", bind!(read_only_non_recursive = Some(true))),
    ("Mounts.BindOptions.ReadOnlyForceRecursive", bind!(read_only_force_recursive = Some(false))),
];

#[test]
fn every_change_to_a_request_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let meant = meant(directory.path());
    assert_eq!(check(&meant.body(), &meant, &[]), Ok(()));
    for (field, change) in CHANGES {
        let mut body = meant.body();
        change(&mut body);
        assert_eq!(check(&body, &meant, &[]), Err(Unsafe { field }));
    }
}

#[test]
fn sources_that_a_policy_cannot_mean_are_refused_however_they_came_about() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("read/engine.sock");
    let mut meant = meant(directory.path());
    let _listener = UnixListener::bind(&socket).unwrap();
    let refused = Err(Unsafe { field: "Mounts.Source" });
    assert_eq!(check(&meant.body(), &meant, &[socket.as_path()]), refused, "a tree that leads to the engine");
    let alias = directory.path().join("alias.sock");
    std::os::unix::fs::symlink(&socket, &alias).unwrap();
    assert_eq!(check(&meant.body(), &meant, &[alias.as_path()]), refused, "by another name");
    for source in [socket.to_str().unwrap(), "/dev/null", "/proc/1", "/sys", "/", "relative", "/does/not/exist"] {
        meant.binds[0].source = source.into();
        assert_eq!(check(&meant.body(), &meant, &[]), refused, "{source}");
    }
}

#[test]
fn podman_is_told_what_to_mask() {
    let directory = tempfile::tempdir().unwrap();
    let meant = Hardened { podman: true, ..meant(directory.path()) };
    assert_eq!(check(&meant.body(), &meant, &[]), Ok(()));
    let mut body = meant.body();
    body.host_config.as_mut().unwrap().security_opt.as_mut().unwrap().pop();
    assert_eq!(check(&body, &meant, &[]), Err(Unsafe { field: "SecurityOpt" }));
}

#[test]
fn an_image_goes_by_its_digest() {
    let directory = tempfile::tempdir().unwrap();
    let mut meant = meant(directory.path());
    meant.image = "debian:latest".into();
    assert_eq!(check(&meant.body(), &meant, &[]), Err(Unsafe { field: "Image" }));
}
