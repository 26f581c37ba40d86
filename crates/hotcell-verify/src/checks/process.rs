//! Other processes, signals, the environment, terminals, and how a process finds itself.

use std::time::Duration;

use hotcell::policy::PolicyBuilder;

use crate::arena::Arena;
use crate::check::Group::Process;
use crate::check::{Check, Impact, Need, check};

/// For attacks that do not end by themselves.
fn short_timeout(policy: PolicyBuilder, _: &Arena) -> PolicyBuilder {
    policy.timeout(Duration::from_millis(300))
}

pub(super) const CHECKS: &[Check] = &[
    // A process of the host's.
    check("process.list", Process, "find a process of the host's in the list of processes")
        .safe("only processes of the box are listed")
        .impact(Impact::HostLeak)
        .intruder(&["list-processes", "{victim}"]),
    check("process.arguments", Process, "read the command line of a process of the host's")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["read", "/proc/{victim}/cmdline"]),
    check("process.variables", Process, "read the environment of a process of the host's")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["read", "/proc/{victim}/environ"]),
    check("process.trace", Process, "attach to a process of the host's as a debugger and read its memory")
        .safe("ptrace is refused, and there is no such process")
        .impact(Impact::Escape)
        .cves(&["CVE-2019-13272"])
        .intruder(&["trace", "{victim}", "{victim-address}", "{victim-length}"]),
    check("process.read-memory", Process, "copy memory of a process of the host's with process_vm_readv")
        .safe("the call is refused, and there is no such process")
        .impact(Impact::HostLeak)
        .intruder(&["read-memory", "{victim}", "{victim-address}", "{victim-length}"]),
    check("process.write-memory", Process, "overwrite memory of a process of the host's with process_vm_writev")
        .safe("the call is refused, and there is no such process")
        .impact(Impact::Escape)
        .intruder(&["write-memory", "{victim}", "{victim-address}"]),
    check("process.memory-file", Process, "read and overwrite memory of a process of the host's through /proc/PID/mem")
        .safe("the file does not exist in the box")
        .impact(Impact::Escape)
        .cves(&["CVE-2012-0056"])
        .intruder(&["memory-file", "{victim}", "{victim-address}", "{victim-length}"]),
    check("process.steal-descriptor", Process, "copy an open pipe of a process of the host's with pidfd_getfd")
        .safe("the call is refused, and there is no such process")
        .impact(Impact::HostLeak)
        .intruder(&["steal-descriptor", "{victim}", "{victim-fd}"]),
    check("process.open-descriptor", Process, "open a pipe of a process of the host's by its name in /proc/PID/fd")
        .safe("the name does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["open-descriptor", "{victim}", "{victim-fd}"]),
    check("process.compare", Process, "compare kernel objects with those of a process of the host's")
        .safe("kcmp is refused, and there is no such process")
        .impact(Impact::HostLeak)
        .intruder(&["compare", "{victim}"]),
    check("process.kill", Process, "kill a process of the host's by its number")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["signal", "kill", "{victim}", "9"]),
    check("process.kill-thread", Process, "kill a thread of the host's with tgkill")
        .safe("there is no such thread")
        .impact(Impact::HostDoS)
        .intruder(&["signal", "tgkill", "{victim}", "9"]),
    check("process.queue-signal", Process, "queue a deadly signal for a process of the host's")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["signal", "rt_sigqueueinfo", "{victim}", "9"]),
    check("process.kill-by-descriptor", Process, "kill a process of the host's by a descriptor of it")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["signal", "pidfd_send_signal", "{victim}", "9"]),
    check("process.stop", Process, "stop a process of the host's")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["signal", "kill", "{victim}", "19"]),
    check("process.priority", Process, "take priority from a process of the host's")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["steer", "setpriority", "{victim}"]),
    check("process.processors", Process, "move a process of the host's to one processor")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["steer", "sched_setaffinity", "{victim}"]),
    check("process.disk-priority", Process, "take disk priority from a process of the host's")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["steer", "ioprio_set", "{victim}"]),
    check("process.limits", Process, "lower the limits of a process of the host's")
        .safe("there is no such process")
        .impact(Impact::HostDoS)
        .intruder(&["steer", "prlimit64", "{victim}"]),
    // Whoever started the box.
    check("process.supervisor", Process, "find the process that made the box, and ask whether it could be signalled")
        .safe("it has no number in the box")
        .impact(Impact::HostDoS)
        .intruder(&["supervisor", "{supervisor}", "{ns-pid}"]),
    check("process.environment", Process, "read variables of the host in its own environment")
        .safe("only variables that the policy gives are there")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2026-22708"])
        .intruder(&["environment"]),
    check("process.parent-environment", Process, "read variables of the host in the environments of its ancestors")
        .safe("the ancestors that it can see have none of the host's, or do not show them")
        .impact(Impact::HostLeak)
        .intruder(&["parent-environment"]),
    check("process.parent-memory", Process, "open the memory and the descriptors of its parent")
        .safe("the first process of the box shows neither")
        .impact(Impact::Escape)
        .cves(&["CVE-2016-9962", "CVE-2019-5736"])
        .intruder(&["parent-memory"]),
    check("process.descriptors", Process, "use descriptors that were left open by whoever started it")
        .safe("it has its three standard streams and nothing else")
        .impact(Impact::Escape)
        .cves(&["CVE-2024-21626", "CVE-2016-9962"])
        .intruder(&["descriptors", "{fd}"]),
    check("process.session", Process, "belong to the supervisor's session, and so to its terminal and to its signals")
        .safe("it has a session whose leader is in the box")
        .impact(Impact::HostDoS)
        .cves(&["CVE-2017-5226"])
        .intruder(&["session", "{session}", "{ns-pid}"]),
    // Outliving the box.
    check("process.daemon", Process, "leave a daemon with a session of its own behind")
        .safe("it ends with the box")
        .impact(Impact::HostDoS)
        .intruder(&["daemon", "{marker}"]),
    check("process.open-output", Process, "leave a daemon behind that holds the standard output open")
        .safe("it ends with the box, and nobody waits for it")
        .impact(Impact::HostDoS)
        .intruder(&["daemon", "{marker}", "noisy"]),
    check("process.daemon-timeout", Process, "run into the timeout, with a daemon that is not the command's process")
        .safe("the daemon ends with the command")
        .impact(Impact::HostDoS)
        .grant(short_timeout)
        .intruder(&["daemon", "{marker}", "stays"]),
    check("process.deaf-daemon", Process, "run into the timeout, with a daemon that blocks every signal")
        .safe("the daemon is killed")
        .impact(Impact::HostDoS)
        .grant(short_timeout)
        .intruder(&["daemon", "{marker}", "stays", "noisy", "deaf"]),
    check("process.stopped-daemon", Process, "leave a daemon behind that has stopped itself")
        .safe("it is killed, stopped as it is")
        .impact(Impact::HostDoS)
        .intruder(&["daemon", "{marker}", "deaf", "stopped"]),
    // Terminals.
    check("process.type", Process, "type into its controlling terminal, on behalf of whoever reads from it next")
        .safe("the request TIOCSTI is refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2017-5226"])
        .intruder(&["type", "0"]),
    check(
        "process.type-upper-bits",
        Process,
        "type into its terminal with bits set that only a careless filter looks at",
    )
    .safe("the request TIOCSTI is refused, whatever the upper half of its register holds")
    .impact(Impact::Escape)
    .cves(&["CVE-2019-10063"])
    .intruder(&["type", "1"]),
    check("process.terminal-requests", Process, "paste into a console, and load a line discipline")
        .safe("the requests TIOCLINUX and TIOCSETD are refused before their own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2023-28100"])
        .intruder(&["terminal-requests"]),
    // Things of the host's that have a number or a name.
    check("process.shared-memory", Process, "read and overwrite System V shared memory of the host's")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["shared-memory", "{shm}"]),
    check("process.message-queue", Process, "take a message from a System V queue of the host's")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["message-queue", "{queue}"]),
    check("process.posix-queue", Process, "take a message from a POSIX queue of the host's")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["posix-queue", "{mqueue}"]),
    // More rights than were given.
    check("process.become-root", Process, "become root, with a user namespace of its own if it can get one")
        .safe("there is no other user to become, and no capability to take")
        .impact(Impact::InternalEsc)
        .intruder(&["nested", "become-root"]),
    check("process.raise-limits", Process, "raise its own limits and priority, and be spared when memory runs out")
        .safe("none can be raised")
        .impact(Impact::HostDoS)
        .needs(&[Need::Root])
        .intruder(&["raise-limits"]),
    check("process.core-dump", Process, "raise the limit on core dumps and crash")
        .safe("the limit stays at nothing, and no dump is written")
        .impact(Impact::HostLeak)
        .grant(|policy, arena| policy.write(arena.workspace()))
        .intruder(&["core-dump", "{workspace}"]),
    // How it finds itself.
    check("process.no-new-privileges", Process, "find that executing a file can still give privileges")
        .safe("no_new_privs is set")
        .impact(Impact::InternalEsc)
        .intruder(&["no-new-privileges"]),
    check("process.filtered", Process, "find a thread without a system call filter, a new one included")
        .safe("every thread has one")
        .impact(Impact::InternalEsc)
        .intruder(&["filtered"]),
    check("process.capabilities", Process, "find a capability in one of its five sets")
        .safe("all are empty, the bounding set included")
        .impact(Impact::InternalEsc)
        .cves(&["CVE-2022-0492"])
        .intruder(&["capabilities"]),
    check("process.secure-bits", Process, "find that root would still mean something")
        .safe("the bits that take the meaning from root are set and locked")
        .impact(Impact::InternalEsc)
        .intruder(&["secure-bits"]),
    check("process.namespaces", Process, "find itself in a namespace of the host's")
        .safe("each of its seven namespaces is the box's own")
        .impact(Impact::Escape)
        .intruder(&[
            "same-namespaces",
            "user",
            "{ns-user}",
            "mnt",
            "{ns-mnt}",
            "pid",
            "{ns-pid}",
            "net",
            "{ns-net}",
            "ipc",
            "{ns-ipc}",
            "uts",
            "{ns-uts}",
            "cgroup",
            "{ns-cgroup}",
        ]),
    check(
        "process.identity",
        Process,
        "find the host's root among the users that it could be, or groups of the host's",
    )
    .safe("one unprivileged user is mapped, and no group came along")
    .impact(Impact::InternalEsc)
    .intruder(&["identity"]),
    check("process.hostname", Process, "learn the name of the host")
        .safe("the box has a name of its own")
        .impact(Impact::HostLeak)
        .intruder(&["hostname", "{hostname}"]),
];
