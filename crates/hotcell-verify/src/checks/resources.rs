//! Memory, processors, processes, disk, output, time.
//!
//! Every check sets a small limit and asks for a multiple of it. A limit that cannot be held on this machine is refused
//! before anything runs, and the check is then not applicable.

use std::time::Duration;

use hotcell::Control;

use crate::check::Group::Resources;
use crate::check::{Check, Grant, Impact, Need, check};

const MIB: u64 = 1 << 20;
const LITTLE_MEMORY: Grant = |policy, _| policy.memory(48 * MIB);
const VERY_LITTLE_MEMORY: Grant = |policy, _| policy.memory(16 * MIB);
const FEW_PROCESSES: Grant = |policy, _| policy.processes(32);
const LITTLE_DISK: Grant = |policy, _| policy.disk(8 * MIB);
const LITTLE_OUTPUT: Grant = |policy, _| policy.output(MIB);
const FEW_FILES: Grant = |policy, _| policy.open_files(64);
const LITTLE_TIME: Grant = |policy, _| policy.timeout(Duration::from_millis(300));

pub(super) const CHECKS: &[Check] = &[
    check("resources.memory", Resources, "use 128 MiB of memory where 48 are allowed")
        .safe("it is ended before it has them")
        .impact(Impact::HostDoS)
        .grant(LITTLE_MEMORY)
        .intruder(&["memory", "anonymous", "128"]),
    check("resources.memory-approximated", Resources, "hold 128 MiB for a moment where about 48 are allowed")
        .safe("it is ended soon after, also where the memory of a box can only be sampled")
        .impact(Impact::HostDoS)
        .grant(|policy, _| policy.memory(48 * MIB).approximate(Control::Memory))
        .intruder(&["memory", "anonymous", "128", "500"]),
    check("resources.memory-in-children", Resources, "use them in eight processes, each of which is within the limit")
        .safe("the limit is one for all of them")
        .impact(Impact::HostDoS)
        .grant(LITTLE_MEMORY)
        .intruder(&["memory", "children", "128"]),
    check("resources.memory-in-memfd", Resources, "use them in a file that is only memory")
        .safe("it counts as memory")
        .impact(Impact::HostDoS)
        .grant(LITTLE_MEMORY)
        .intruder(&["memory", "memfd", "128"]),
    check("resources.memory-in-dev-shm", Resources, "use them in a file in /dev/shm")
        .safe("it counts as memory")
        .impact(Impact::HostDoS)
        .grant(LITTLE_MEMORY)
        .intruder(&["memory", "dev-shm", "128"]),
    check("resources.memory-in-sysv", Resources, "use them in SysV shared memory")
        .safe("it counts as memory")
        .impact(Impact::HostDoS)
        .grant(LITTLE_MEMORY)
        .intruder(&["memory", "sysv", "128"]),
    check("resources.memory-in-pipes", Resources, "let the kernel hold 48 MiB in pipes where 16 are allowed")
        .safe("it counts as memory")
        .impact(Impact::HostDoS)
        .grant(VERY_LITTLE_MEMORY)
        .intruder(&["kernel-memory", "pipes", "48"]),
    check("resources.memory-in-sockets", Resources, "let the kernel hold 48 MiB in sockets where 16 are allowed")
        .safe("it counts as memory")
        .impact(Impact::HostDoS)
        .grant(VERY_LITTLE_MEMORY)
        .intruder(&["kernel-memory", "sockets", "48"]),
    check(
        "resources.memory-in-page-tables",
        Resources,
        "let the kernel hold 48 MiB of page tables where 16 are allowed",
    )
    .safe("it counts as memory")
    .impact(Impact::HostDoS)
    .grant(VERY_LITTLE_MEMORY)
    .intruder(&["kernel-memory", "page-tables", "48"]),
    check("resources.locked-memory", Resources, "lock 96 MiB so that they cannot be swapped out")
        .safe("less than that can be locked")
        .impact(Impact::HostDoS)
        .needs(&[Need::Root])
        .intruder(&["lock-memory", "96"]),
    check("resources.shared-memory-left", Resources, "leave shared memory behind that outlives its processes")
        .safe("it is gone with the box")
        .impact(Impact::HostDoS)
        .intruder(&["leave-memory", "{ipc-key}"]),
    check("resources.processes", Resources, "have 200 processes where 32 are allowed")
        .safe("no more than 32 can be started")
        .impact(Impact::HostDoS)
        .grant(FEW_PROCESSES)
        .intruder(&["processes", "children", "200", "64"]),
    check("resources.sessions", Resources, "have 200 processes, each in a session of its own")
        .safe("no more than 32 can be started")
        .impact(Impact::HostDoS)
        .grant(FEW_PROCESSES)
        .intruder(&["processes", "sessions", "200", "64"]),
    check("resources.zombies", Resources, "keep 200 processes that have ended")
        .safe("they count until they are waited for")
        .impact(Impact::HostDoS)
        .grant(FEW_PROCESSES)
        .intruder(&["processes", "zombies", "200", "64"]),
    check("resources.threads", Resources, "have 200 threads where 32 are allowed")
        .safe("threads count as processes")
        .impact(Impact::HostDoS)
        .grant(FEW_PROCESSES)
        .intruder(&["threads", "200", "64"]),
    check("resources.cpu-time", Resources, "use four times the CPU time in processes that are each within the limit")
        .safe("the limit is one for all of them")
        .impact(Impact::HostDoS)
        .grant(|policy, _| policy.cpu_time(Duration::from_millis(200)))
        .intruder(&["burn", "4", "190"]),
    check("resources.cpu-time-approximated", Resources, "use six times the CPU time where the limit is approximate")
        .safe("it is ended soon after, also where the CPU time of a box can only be sampled")
        .impact(Impact::HostDoS)
        .grant(|policy, _| policy.cpu_time(Duration::from_millis(100)).approximate(Control::CpuTime))
        .intruder(&["burn", "2", "300"]),
    // A box that is not held back gets more than this even on a busy machine.
    check("resources.cpus", Resources, "use a fifth of a CPU where a tenth is allowed")
        .safe("it gets a tenth")
        .impact(Impact::PeerDoS)
        .grant(|policy, _| policy.cpus(0.1))
        .intruder(&["share-of-cpu", "4", "500", "20"]),
    check("resources.timeout-daemon", Resources, "outstay the timeout in another session, deaf to signals")
        .safe("everything in the box ends")
        .impact(Impact::HostDoS)
        .grant(LITTLE_TIME)
        .intruder(&["outstay", "daemon", "{marker}"]),
    check("resources.timeout-stopped", Resources, "outstay the timeout as a process that is stopped")
        .safe("everything in the box ends")
        .impact(Impact::HostDoS)
        .grant(LITTLE_TIME)
        .intruder(&["outstay", "stopped", "{marker}"]),
    check("resources.timeout-relay", Resources, "outstay the timeout as another process every moment")
        .safe("everything in the box ends")
        .impact(Impact::HostDoS)
        .grant(LITTLE_TIME)
        .intruder(&["outstay", "relay", "{marker}"]),
    check("resources.disk", Resources, "write 24 MiB into each place that can be written, where 8 are allowed")
        .safe("the box's disk is full before that")
        .impact(Impact::HostDoS)
        .grant(LITTLE_DISK)
        .intruder(&["disk", "write", "24", "{host}", "/tmp", "/var/tmp", "/dev/shm", "/home/hotcell"]),
    check("resources.disk-allocate", Resources, "set 24 MiB of disk aside without writing them")
        .safe("the box's disk is full before that")
        .impact(Impact::HostDoS)
        .grant(LITTLE_DISK)
        .intruder(&["disk", "allocate", "24", "{host}", "/tmp", "/var/tmp", "/dev/shm", "/home/hotcell"]),
    check("resources.disk-overlay", Resources, "write 24 MiB into a workspace whose changes are kept apart")
        .safe("the changes count as the box's disk")
        .impact(Impact::HostDoS)
        .grant(|policy, arena| policy.overlay(arena.workspace()).disk(8 * MIB))
        .intruder(&["disk", "write", "24", "{workspace}"]),
    check("resources.files", Resources, "make 4096 empty files in a disk of 8 MiB")
        .safe("there is a limit on files, too")
        .impact(Impact::HostDoS)
        .grant(LITTLE_DISK)
        .intruder(&["files", "4096", "{host}/tree", "/tmp"]),
    check("resources.output", Resources, "write 4 MiB of output where one is allowed")
        .safe("it is ended, and what came before is kept")
        .impact(Impact::HostDoS)
        .grant(LITTLE_OUTPUT)
        .intruder(&["flood", "4096", "1"]),
    check("resources.output-streams", Resources, "write 768 KiB to each of two streams where a MiB is allowed")
        .safe("the limit is one for both")
        .impact(Impact::HostDoS)
        .grant(LITTLE_OUTPUT)
        .intruder(&["flood", "768", "1", "2"]),
    check("resources.open-files", Resources, "have 256 open files where 64 are allowed")
        .safe("no more than 64 can be opened")
        .impact(Impact::HostDoS)
        .grant(FEW_FILES)
        .intruder(&["descriptors", "256", "128"]),
    check("resources.files-in-flight", Resources, "keep 1024 files open in messages that nobody reads")
        .safe("they count")
        .impact(Impact::HostDoS)
        .cves(&["CVE-2013-4312"])
        .grant(FEW_FILES)
        .intruder(&["in-flight", "1024", "512"]),
    check("resources.raise-limit", Resources, "raise the limit on open files to 256 where 64 are allowed")
        .safe("it cannot be raised")
        .impact(Impact::InternalEsc)
        .grant(FEW_FILES)
        .intruder(&["set-limit", "7", "256"]),
    check("resources.core-dumps", Resources, "allow core dumps, which the host's kernel writes")
        .safe("the limit is zero and cannot be raised")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-4415"])
        .intruder(&["set-limit", "4", "4096"]),
    check("resources.timers", Resources, "make 6000 timers, each with memory of the kernel's")
        .safe("there is a limit on them")
        .impact(Impact::HostDoS)
        .intruder(&["timers", "6000", "5000"]),
    check("resources.cgroup-files", Resources, "open the files that limits are written in")
        .safe("they do not exist in the box")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-0492"])
        .needs(&[Need::Root])
        .intruder(&["cgroup-files"]),
    check("resources.cgroup-mount", Resources, "mount the cgroups, with namespaces of its own if it can get some")
        .safe("neither namespaces nor mounts can be had")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-0492", "CVE-2023-25809"])
        .intruder(&["nested", "cgroup-mount", "{host}/tree/below", "/tmp"]),
    check("resources.priority", Resources, "go before everybody else in scheduling, on disk, and when memory is short")
        .safe("nobody in the box has the right to")
        .impact(Impact::PeerDoS)
        .needs(&[Need::Root])
        .intruder(&["priority"]),
];
