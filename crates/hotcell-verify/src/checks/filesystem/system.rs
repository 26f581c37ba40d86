//! What the kernel and the machine show as files. Nothing is written to them, and nothing of them is printed.

use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, Need, check};

pub(super) const CHECKS: &[Check] = &[
    check(
        "filesystem.kernel-state",
        Filesystem,
        "read what /proc tells about the kernel and about everybody on the machine",
    )
    .safe("it is masked")
    .impact(Impact::HostLeak)
    .cves(&["CVE-2025-31133"])
    .intruder(&[
        "peek",
        "/proc/kcore",
        "/proc/keys",
        "/proc/key-users",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/latency_stats",
    ]),
    check("filesystem.kernel-addresses", Filesystem, "read from /proc where the kernel lies in memory")
        .safe("addresses are hidden")
        .impact(Impact::HostLeak)
        .needs(&[Need::Root])
        .intruder(&["kernel-addresses"]),
    check(
        "filesystem.kernel-controls",
        Filesystem,
        "open files in /proc to write with which the whole machine is steered",
    )
    .safe("they are read-only or masked")
    .cves(&["CVE-2025-31133", "CVE-2025-52881"])
    .needs(&[Need::Root])
    .intruder(&[
        "open-to-write",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/fs/binfmt_misc/register",
    ]),
    check("filesystem.sys", Filesystem, "look around in /sys: firmware, security modules, devices, cgroups")
        .safe("there is nothing in it")
        .impact(Impact::HostLeak)
        .intruder(&[
            "peek-directory",
            "/sys",
            "/sys/firmware",
            "/sys/kernel/security",
            "/sys/kernel/debug",
            "/sys/block",
            "/sys/fs/cgroup",
        ]),
    check(
        "filesystem.cgroup-controls",
        Filesystem,
        "open cgroup files to write, such as the program that runs when a cgroup ends",
    )
    .safe("they do not exist in the box")
    .cves(&["CVE-2022-0492"])
    .needs(&[Need::Root])
    .intruder(&[
        "open-to-write",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/cgroup.subtree_control",
        "/sys/fs/cgroup/memory/cgroup.procs",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/pids/release_agent",
    ]),
    check(
        "filesystem.devices",
        Filesystem,
        "open devices of the machine: memory, log, disks, tunnels, virtual machines",
    )
    .safe("they do not exist in the box")
    .intruder(&[
        "open",
        "/dev/autofs",
        "/dev/kmsg",
        "/dev/mem",
        "/dev/kvm",
        "/dev/fuse",
        "/dev/loop-control",
        "/dev/net/tun",
        "/dev/vhost-net",
        "/dev/vda",
        "/dev/sda",
        "/dev/nvme0n1",
    ]),
    check("filesystem.system-secrets", Filesystem, "open the machine's password hashes and host keys")
        .safe("they do not exist in the box")
        .impact(Impact::HostLeak)
        .needs(&[Need::Root, Need::HostSystem])
        .intruder(&[
            "open",
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/shadow-",
            "/etc/sudoers",
            "/etc/ssh/ssh_host_ed25519_key",
            "/var/log/wtmp",
        ]),
];
