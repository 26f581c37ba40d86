//! Looks again at what is about to be sent to the engine, field by field.
//!
//! What makes a container is decided in [`super::hardened`]; this is the second pair of eyes. It knows every field of the
//! request, so that one that a new version of the API brings does not compile until somebody has thought about it.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, Mount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, RestartPolicyNameEnum,
};

use super::hardened::{Hardened, INIT};
use super::trees::Bind;

/// A request that would make a weaker container than was meant. It is a defect of Hotcell, and nothing is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is not as it must be")]
pub(super) struct Unsafe {
    field: &'static str,
}

fn must(field: &'static str, holds: bool) -> Result<(), Unsafe> {
    if holds { Ok(()) } else { Err(Unsafe { field }) }
}

fn absent<T>(field: &'static str, value: &Option<T>) -> Result<(), Unsafe> {
    must(field, value.is_none())
}

/// Checks a whole request. `meant` is what the plan came to, `sockets` are those of engines.
pub(super) fn check(body: &ContainerCreateBody, meant: &Hardened, sockets: &[&Path]) -> Result<(), Unsafe> {
    let ContainerCreateBody {
        hostname,
        domainname,
        user,
        attach_stdin,
        attach_stdout,
        attach_stderr,
        exposed_ports,
        tty,
        open_stdin,
        stdin_once,
        env,
        cmd,
        healthcheck,
        args_escaped,
        image,
        volumes,
        working_dir,
        entrypoint,
        network_disabled,
        on_build,
        labels,
        stop_signal,
        stop_timeout,
        shell,
        host_config,
        networking_config,
    } = body;
    must("Hostname", hostname.as_deref() == Some("hotcell"))?;
    absent("Domainname", domainname)?;
    must("User", user.as_deref() == Some(format!("{}:{}", meant.user, meant.group).as_str()))?;
    // Whoever ends the connection ends the container: nobody has to be there to clean up.
    for (field, value) in [
        ("AttachStdin", attach_stdin),
        ("AttachStdout", attach_stdout),
        ("AttachStderr", attach_stderr),
        ("OpenStdin", open_stdin),
        ("StdinOnce", stdin_once),
    ] {
        must(field, *value == Some(true))?;
    }
    absent("ExposedPorts", exposed_ports)?;
    must("Tty", *tty == Some(false))?;
    must("Env", env.as_ref().is_some_and(Vec::is_empty))?;
    must("Cmd", cmd.as_ref().is_some_and(Vec::is_empty))?;
    let test = healthcheck.as_ref().and_then(|check| check.test.as_deref());
    must("Healthcheck", test.is_some_and(|test| test == ["NONE"]))?;
    absent("ArgsEscaped", args_escaped)?;
    must("Image", image.as_ref() == Some(&meant.image) && meant.image.starts_with("sha256:"))?;
    absent("Volumes", volumes)?;
    must("WorkingDir", working_dir.as_deref() == Some("/"))?;
    must("Entrypoint", entrypoint.as_deref().is_some_and(|entrypoint| entrypoint == [INIT, "agent"]))?;
    absent("NetworkDisabled", network_disabled)?;
    absent("OnBuild", on_build)?;
    let ours = labels.as_ref().is_some_and(|labels| {
        labels.len() == meant.labels.len() && meant.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    });
    must("Labels", ours)?;
    must("StopSignal", stop_signal.as_deref() == Some("SIGKILL"))?;
    absent("StopTimeout", stop_timeout)?;
    absent("Shell", shell)?;
    absent("NetworkingConfig", networking_config)?;
    host(host_config.as_ref().ok_or(Unsafe { field: "HostConfig" })?, meant, sockets)
}

fn host(config: &HostConfig, meant: &Hardened, sockets: &[&Path]) -> Result<(), Unsafe> {
    let HostConfig {
        cpu_shares,
        memory,
        cgroup_parent,
        blkio_weight,
        blkio_weight_device,
        blkio_device_read_bps,
        blkio_device_write_bps,
        blkio_device_read_iops,
        blkio_device_write_iops,
        cpu_period,
        cpu_quota,
        cpu_realtime_period,
        cpu_realtime_runtime,
        cpuset_cpus,
        cpuset_mems,
        devices,
        device_cgroup_rules,
        device_requests,
        memory_reservation,
        memory_swap,
        memory_swappiness,
        nano_cpus,
        oom_kill_disable,
        init,
        pids_limit,
        ulimits,
        cpu_count,
        cpu_percent,
        io_maximum_iops,
        io_maximum_bandwidth,
        binds,
        container_id_file,
        log_config,
        network_mode,
        port_bindings,
        restart_policy,
        auto_remove,
        volume_driver,
        volumes_from,
        mounts,
        console_size,
        annotations,
        cap_add,
        cap_drop,
        cgroupns_mode,
        dns,
        dns_options,
        dns_search,
        extra_hosts,
        group_add,
        ipc_mode,
        cgroup,
        links,
        oom_score_adj,
        pid_mode,
        privileged,
        publish_all_ports,
        readonly_rootfs,
        security_opt,
        storage_opt,
        tmpfs,
        uts_mode,
        userns_mode,
        shm_size,
        sysctls,
        runtime,
        isolation,
        masked_paths,
        readonly_paths,
    } = config;
    absent("CpuShares", cpu_shares)?;
    absent("CgroupParent", cgroup_parent)?;
    absent("BlkioWeight", blkio_weight)?;
    absent("BlkioWeightDevice", blkio_weight_device)?;
    absent("BlkioDeviceReadBps", blkio_device_read_bps)?;
    absent("BlkioDeviceWriteBps", blkio_device_write_bps)?;
    absent("BlkioDeviceReadIOps", blkio_device_read_iops)?;
    absent("BlkioDeviceWriteIOps", blkio_device_write_iops)?;
    absent("CpuPeriod", cpu_period)?;
    absent("CpuQuota", cpu_quota)?;
    absent("CpuRealtimePeriod", cpu_realtime_period)?;
    absent("CpuRealtimeRuntime", cpu_realtime_runtime)?;
    absent("CpusetCpus", cpuset_cpus)?;
    absent("CpusetMems", cpuset_mems)?;
    absent("Devices", devices)?;
    absent("DeviceCgroupRules", device_cgroup_rules)?;
    absent("DeviceRequests", device_requests)?;
    absent("MemoryReservation", memory_reservation)?;
    must("Memory", at_most(*memory, meant.memory))?;
    must("MemorySwap", memory_swap == memory)?;
    must("MemorySwappiness", matches!(memory_swappiness, None | Some(0)))?;
    must("NanoCpus", at_most(*nano_cpus, meant.nano_cpus))?;
    must("OomKillDisable", *oom_kill_disable == Some(false))?;
    must("Init", *init == Some(false))?;
    must("PidsLimit", at_most(*pids_limit, meant.processes))?;
    let limits = ulimits.as_deref().unwrap_or_default();
    let held = |(name, most): &(&str, u64)| {
        limits.iter().any(|limit| {
            limit.name.as_deref() == Some(name) && limit.hard == limit.soft && at_most(limit.hard, Some(*most))
        })
    };
    must("Ulimits", limits.len() == meant.ulimits.len() && meant.ulimits.iter().all(held))?;
    absent("CpuCount", cpu_count)?;
    absent("CpuPercent", cpu_percent)?;
    absent("IOMaximumIOps", io_maximum_iops)?;
    absent("IOMaximumBandwidth", io_maximum_bandwidth)?;
    absent("Binds", binds)?;
    absent("ContainerIDFile", container_id_file)?;
    let log = log_config.as_ref();
    must("LogConfig", log.is_some_and(|log| log.typ.as_deref() == Some("none") && log.config.is_none()))?;
    must("NetworkMode", network_mode.as_deref() == Some(meant.network.mode()))?;
    absent("PortBindings", port_bindings)?;
    let restarts = restart_policy.as_ref().and_then(|policy| policy.name);
    must("RestartPolicy", restarts == Some(RestartPolicyNameEnum::NO))?;
    must("AutoRemove", *auto_remove == Some(true))?;
    absent("VolumeDriver", volume_driver)?;
    absent("VolumesFrom", volumes_from)?;
    absent("ConsoleSize", console_size)?;
    absent("Annotations", annotations)?;
    absent("CapAdd", cap_add)?;
    must("CapDrop", cap_drop.as_deref().is_some_and(|dropped| dropped == ["ALL"]))?;
    must("CgroupnsMode", *cgroupns_mode == Some(HostConfigCgroupnsModeEnum::PRIVATE))?;
    absent("Dns", dns)?;
    absent("DnsOptions", dns_options)?;
    absent("DnsSearch", dns_search)?;
    absent("ExtraHosts", extra_hosts)?;
    absent("GroupAdd", group_add)?;
    must("IpcMode", ipc_mode.as_deref() == Some("private"))?;
    absent("Cgroup", cgroup)?;
    absent("Links", links)?;
    absent("OomScoreAdj", oom_score_adj)?;
    // Absent means one of its own; there is no word for that.
    absent("PidMode", pid_mode)?;
    absent("UTSMode", uts_mode)?;
    absent("UsernsMode", userns_mode)?;
    must("Privileged", *privileged == Some(false))?;
    absent("PublishAllPorts", publish_all_ports)?;
    must("ReadonlyRootfs", *readonly_rootfs == Some(true))?;
    let profile = format!("seccomp={}", meant.seccomp);
    let (always, further) = security_opt.as_deref().unwrap_or_default().split_at_checked(2).unwrap_or_default();
    let masks = if meant.podman { vec![format!("mask={}", meant.masked().join(":"))] } else { Vec::new() };
    let confined = always == ["no-new-privileges", profile.as_str()] && further == masks;
    must("SecurityOpt", confined && (meant.seccomp.starts_with('{') || meant.seccomp.starts_with('/')))?;
    absent("StorageOpt", storage_opt)?;
    let closed = tmpfs.as_ref().is_some_and(|tmpfs| {
        tmpfs.len() == meant.tmpfs.len()
            && tmpfs.iter().all(|(path, options)| {
                let meant = meant.tmpfs.get(Path::new(path));
                let has = |word: &str| options.split(',').any(|option| option == word);
                meant.is_some_and(|meant| has(&format!("size={}", meant.bytes))) && has("nosuid") && has("nodev")
            })
    });
    must("Tmpfs", closed)?;
    must("ShmSize", at_most(*shm_size, Some(meant.shared_memory)))?;
    absent("Sysctls", sysctls)?;
    must("Runtime", *runtime == meant.runtime)?;
    absent("Isolation", isolation)?;
    let masked = masked_paths.as_deref().is_some_and(|paths| paths == meant.masked());
    must("MaskedPaths", if meant.podman { masked_paths.is_none() } else { masked })?;
    // Absent means the engine's own, which keep the kernel's settings as they are.
    absent("ReadonlyPaths", readonly_paths)?;
    let mounts = mounts.as_deref().unwrap_or_default();
    must("Mounts", mounts.len() == meant.binds.len())?;
    mounts.iter().zip(&meant.binds).try_for_each(|(mount, bind)| check_mount(mount, bind, sockets))
}

/// A limit that was asked for is there, and is no more than was asked for.
fn at_most(limit: Option<i64>, asked: Option<u64>) -> bool {
    match (limit, asked) {
        (None, None) => true,
        (Some(limit), Some(asked)) => limit >= 0 && limit.unsigned_abs() <= asked && (limit > 0 || asked == 0),
        _ => false,
    }
}

fn check_mount(mount: &Mount, meant: &Bind, sockets: &[&Path]) -> Result<(), Unsafe> {
    let Mount {
        target,
        source,
        typ,
        read_only,
        consistency,
        bind_options,
        volume_options,
        image_options,
        tmpfs_options,
    } = mount;
    must("Mounts.Type", *typ == Some(MountType::BIND))?;
    absent("Mounts.Consistency", consistency)?;
    absent("Mounts.VolumeOptions", volume_options)?;
    absent("Mounts.ImageOptions", image_options)?;
    absent("Mounts.TmpfsOptions", tmpfs_options)?;
    let MountBindOptions {
        propagation,
        non_recursive,
        create_mountpoint,
        read_only_non_recursive,
        read_only_force_recursive,
    } = bind_options.as_ref().ok_or(Unsafe { field: "Mounts.BindOptions" })?;
    must("Mounts.BindOptions.Propagation", *propagation == Some(MountBindOptionsPropagationEnum::RPRIVATE))?;
    must("Mounts.BindOptions.NonRecursive", *non_recursive == Some(true))?;
    absent("Mounts.BindOptions.CreateMountpoint", create_mountpoint)?;
    absent("Mounts.BindOptions.ReadOnlyNonRecursive", read_only_non_recursive)?;
    absent("Mounts.BindOptions.ReadOnlyForceRecursive", read_only_force_recursive)?;
    let (source, target) = (source.as_deref().unwrap_or_default(), target.as_deref().unwrap_or_default());
    must("Mounts.Source", Path::new(source) == meant.source)?;
    must("Mounts.Target", Path::new(target) == meant.target)?;
    must("Mounts.ReadOnly", *read_only == Some(meant.read_only))?;
    harmless(Path::new(source), sockets)
}

/// A file or directory of the host's, and neither of the kernel's nor one that leads to the engine.
fn harmless(source: &Path, sockets: &[&Path]) -> Result<(), Unsafe> {
    let field = "Mounts.Source";
    must(field, source.is_absolute() && source != Path::new("/"))?;
    must(field, !["/proc", "/sys", "/dev"].iter().any(|kernel| source.starts_with(kernel)))?;
    let real = fs::canonicalize(source).map_err(|_| Unsafe { field })?;
    let leads_to_engine = sockets.iter().any(|socket| {
        let socket = fs::canonicalize(socket).unwrap_or_else(|_| (*socket).to_owned());
        socket.starts_with(&real)
    });
    must(field, !leads_to_engine)?;
    let kind = fs::metadata(&real).map_err(|_| Unsafe { field })?.file_type();
    let special = kind.is_socket() || kind.is_block_device() || kind.is_char_device() || kind.is_fifo();
    must(field, !special)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
