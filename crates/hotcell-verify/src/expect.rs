//! Holes that are known to be there, per sandbox. A known hole that is not found is as much a surprise as one that is not
//! known: either way this table, or the suite, is wrong.
//!
//! Native boxes have none. Containers have a few, each of which is either beyond what an engine can be asked for, or a thing of the
//! container's own kernel that only looks like one of the host's. Boxes on servers have what their protocol cannot say. The references are `bwrap` and `unshare` without any option that would help.

use Who::{Everybody, Root};

/// Why `check` is known to get through in `sandbox`, if it is, for root or an ordinary user.
pub fn gap(sandbox: &str, check: &str, root: bool) -> Option<&'static str> {
    all().find(|gap| gap.sandbox == sandbox && gap.check == check && (root || !gap.only_root)).map(|gap| gap.why)
}

/// A hole that is known to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The sandbox that has it.
    pub sandbox: &'static str,
    /// The check that finds it.
    pub check: &'static str,
    /// Why it is there.
    pub why: &'static str,
    /// Whether only root's sandbox has it.
    pub only_root: bool,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Gap> {
    GAPS.iter().flat_map(|gaps| {
        gaps.sandboxes.iter().flat_map(|sandbox| {
            gaps.checks.iter().map(|check| Gap { sandbox, check, why: gaps.why, only_root: gaps.who == Root })
        })
    })
}

/// Checks that get through for one reason.
struct Gaps {
    sandboxes: &'static [&'static str],
    who: Who,
    why: &'static str,
    checks: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Everybody,
    Root,
}

const BOTH: &[&str] = &["bwrap", "unshare"];
const BUBBLEWRAP: &[&str] = &["bwrap"];
const UNSHARE: &[&str] = &["unshare"];
const CONTAINERS: &[&str] = &["docker", "oci", "gvisor"];
const DOCKER: &[&str] = &["docker"];
const GVISOR: &[&str] = &["gvisor"];
const OPENSANDBOX: &[&str] = &["opensandbox"];

const GAPS: &[Gaps] = &[
    Gaps {
        sandboxes: OPENSANDBOX,
        who: Everybody,
        why: "the server lists names as text, so one that is not UTF-8 comes with other characters; what is brought back is named as it is",
        checks: &["supervisor.hostile-names"],
    },
    Gaps {
        sandboxes: CONTAINERS,
        who: Everybody,
        why: "to set these bits takes a capability, of which a container's first process has none; nothing can gain one, as the \
              bounding set is empty",
        checks: &["process.secure-bits"],
    },
    Gaps {
        sandboxes: DOCKER,
        who: Root,
        why: "the engine gives its containers the host's user namespace",
        checks: &["process.namespaces", "process.identity"],
    },
    Gaps {
        sandboxes: DOCKER,
        who: Everybody,
        why: "the engine mounts the root of a container; no_new_privs takes the meaning from set-ID bits",
        checks: &["filesystem.honoured-set-user-id"],
    },
    Gaps {
        sandboxes: DOCKER,
        who: Everybody,
        why: "an open network is the engine's bridge, with ports of its own",
        checks: &["network.shared-port"],
    },
    Gaps {
        sandboxes: GVISOR,
        who: Everybody,
        why: "these devices, files and settings are those of gVisor's own kernel, and end with it",
        checks: &[
            "filesystem.sys",
            "filesystem.devices",
            "process.parent-memory",
            "process.raise-limits",
            "process.identity",
            "kernel.fuse",
            "kernel.tunnel",
            "kernel.drivers",
            "network.privileged-options",
            "resources.timers",
            "resources.priority",
        ],
    },
    Gaps {
        sandboxes: GVISOR,
        who: Everybody,
        why: "gVisor does not show how a file system is mounted, and has nobody whose rights a set-user-ID program could give",
        checks: &["filesystem.honoured-set-user-id"],
    },
    Gaps {
        sandboxes: GVISOR,
        who: Everybody,
        why: "gVisor does not shield the first process of a container: code can end its own box, and nothing else",
        checks: &["supervisor.signaled-init"],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "all files of the host are in view",
        checks: &[
            "filesystem.read-secret",
            "filesystem.proc-root",
            "filesystem.parent-directories",
            "filesystem.openat2",
            "filesystem.symlink-out",
            "filesystem.execute-host-program",
            "filesystem.metadata",
            "filesystem.list-directory",
            "filesystem.read-link",
            "filesystem.read-attribute",
            "filesystem.watch",
            "filesystem.temporary-files",
            "filesystem.leave-root",
            "filesystem.system-secrets",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "there is no system call filter",
        checks: &[
            "filesystem.file-handle",
            "filesystem.lease",
            "filesystem.set-user-id",
            "filesystem.set-group-id-by-list",
            "filesystem.device-node",
            "filesystem.flags-of-workspace",
            "process.become-root",
            "process.filtered",
            "kernel.io-uring",
            "kernel.userfaultfd",
            "kernel.bpf",
            "kernel.perf-events",
            "kernel.keyring-calls",
            "kernel.key",
            "kernel.memfd-secret",
            "kernel.fanotify",
            "kernel.file-handles",
            "kernel.numa",
            "kernel.cache-residence",
            "kernel.old-io",
            "kernel.old-calls",
            "kernel.process-calls",
            "kernel.filter-listener",
            "kernel.personality",
            "kernel.process-switches",
            "kernel.unshare",
            "kernel.clone",
            "kernel.clone3",
            "kernel.nested-powers",
            "kernel.setns",
            "kernel.mount",
            "kernel.file-system-context",
            "kernel.move-mount",
            "kernel.list-mounts",
            "kernel.change-root",
            "kernel.overlay",
            "kernel.hostname",
            "kernel.socket-families",
            "kernel.crypto-sockets",
            "kernel.vsock",
            "kernel.packet-sockets",
            "kernel.raw-sockets",
            "kernel.internet-protocols",
            "kernel.netlink",
            "kernel.packet-filter",
            "kernel.traffic-control",
            "kernel.socket-programs",
            "kernel.firewall-tables",
            "kernel.urgent-data",
            "kernel.administration",
            "kernel.quotas",
            "kernel.clocks",
            "kernel.hardware",
            "kernel.device-nodes",
            "kernel.file-flags",
            "kernel.leases",
            "kernel.i386-calls",
            "kernel.upper-bits",
            "network.shared-port",
            "network.raw-sockets",
            "network.packet-sockets",
            "network.netlink",
            "network.vsock",
            "network.change-interface",
            "network.privileged-options",
            "network.socket-programs",
            "network.urgent-data",
            "resources.cgroup-mount",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "the command keeps what the caller has: descriptors, session, identity, privileges",
        checks: &[
            "filesystem.inherited-file",
            "filesystem.inherited-directory",
            "process.descriptors",
            "process.session",
            "process.secure-bits",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "sockets of the host are in view, and a read-only mount does not keep anybody from connecting",
        checks: &[
            "filesystem.socket",
            "filesystem.socket-in-shown",
            "filesystem.pipe-in-shown",
            "network.unix-socket",
            "network.unix-datagram",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "there is no overlay",
        checks: &["filesystem.socket-in-overlay", "filesystem.lock-in-overlay", "filesystem.overlay-tricks"],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "nothing in a tree is denied",
        checks: &[
            "filesystem.denied",
            "filesystem.denied-metadata",
            "filesystem.denied-by-link",
            "filesystem.denied-renamed",
            "filesystem.denied-parent-moved",
            "filesystem.denied-unmasked",
            "filesystem.denied-in-alias",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "nothing in a writable tree is protected",
        checks: &[
            "filesystem.git-hooks",
            "filesystem.git-configuration",
            "filesystem.git-directories",
            "filesystem.git-replaced",
            "filesystem.git-hooks-replaced",
            "filesystem.git-linked",
            "filesystem.git-made",
            "filesystem.git-made-by-rename",
            "filesystem.agent-settings",
            "filesystem.editor-settings",
            "filesystem.shell-start-files",
            "filesystem.own-policy",
            "filesystem.protected-by-link",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "the host's /sys and /proc are in view",
        checks: &["filesystem.kernel-state", "filesystem.sys", "network.sysfs-interfaces"],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "the host's /proc, environment and name are in view",
        checks: &["process.list", "process.arguments", "process.environment", "process.hostname"],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "nobody ends what a command started",
        checks: &[
            "process.daemon-timeout",
            "process.deaf-daemon",
            "resources.timeout-daemon",
            "resources.timeout-stopped",
            "resources.timeout-relay",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "there are no limits",
        checks: &[
            "process.core-dump",
            "resources.memory",
            "resources.memory-approximated",
            "resources.memory-in-children",
            "resources.memory-in-memfd",
            "resources.memory-in-sysv",
            "resources.memory-in-pipes",
            "resources.memory-in-sockets",
            "resources.memory-in-page-tables",
            "resources.processes",
            "resources.sessions",
            "resources.zombies",
            "resources.threads",
            "resources.cpu-time",
            "resources.cpu-time-approximated",
            "resources.cpus",
            "resources.disk-overlay",
            "resources.output",
            "resources.output-streams",
            "resources.open-files",
            "resources.files-in-flight",
            "resources.raise-limit",
            "resources.core-dumps",
            "resources.timers",
        ],
    },
    Gaps {
        sandboxes: BOTH,
        who: Everybody,
        why: "the host's /dev and /tmp cannot be used, or the loopback is down",
        checks: &["work.java", "work.processes-of-ones-own"],
    },
    Gaps {
        sandboxes: BUBBLEWRAP,
        who: Everybody,
        why: "nobody ends what a command started",
        checks: &["process.daemon", "process.open-output", "process.stopped-daemon"],
    },
    Gaps {
        sandboxes: BUBBLEWRAP,
        who: Everybody,
        why: "the host's /dev and /tmp cannot be used, or the loopback is down",
        checks: &[
            "work.git",
            "work.git-in-a-tree",
            "work.npm",
            "work.cargo",
            "work.multiprocessing",
            "work.terminal",
            "work.users-and-time",
            "work.pipelines",
            "work.limits-of-ones-own",
        ],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "the command keeps what the caller has: descriptors, session, identity, privileges",
        checks: &["process.capabilities"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "files of the host can be written",
        checks: &[
            "filesystem.create-outside",
            "filesystem.modify-outside",
            "filesystem.rename-outside",
            "filesystem.remove-outside",
            "filesystem.mode-outside",
            "filesystem.times-outside",
            "filesystem.attribute-outside",
            "filesystem.flags-outside",
            "filesystem.modify-temporary-files",
            "filesystem.hard-link",
            "filesystem.modify-shown",
            "filesystem.create-in-shown",
            "filesystem.rename-shown",
            "filesystem.remove-shown",
            "filesystem.mode-of-shown",
            "filesystem.times-of-shown",
            "filesystem.attribute-of-shown",
            "filesystem.flags-of-shown",
            "filesystem.map-shown",
            "filesystem.reopen-shown",
            "filesystem.transfer-into-shown",
            "filesystem.remount-shown",
            "filesystem.program-overwrite",
            "filesystem.honoured-set-user-id",
        ],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "there is no overlay",
        checks: &["filesystem.overlay-contents", "filesystem.overlay-metadata"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "there is no system call filter",
        checks: &["filesystem.file-capability", "process.type", "process.type-upper-bits", "process.terminal-requests"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "the host's /sys and /proc are in view",
        checks: &["filesystem.kernel-controls", "filesystem.cgroup-controls", "resources.cgroup-files"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "device nodes of the host can be opened",
        checks: &["filesystem.devices", "kernel.fuse", "kernel.tunnel", "kernel.drivers", "network.tun"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "the command keeps what the caller has: descriptors, session, identity, privileges",
        checks: &["process.no-new-privileges"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "there are no limits",
        checks: &["resources.memory-in-dev-shm", "resources.disk", "resources.disk-allocate", "resources.files"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Everybody,
        why: "the host's /dev and /tmp cannot be used, or the loopback is down",
        checks: &["work.loopback"],
    },
    Gaps {
        sandboxes: BUBBLEWRAP,
        who: Root,
        why: "the command keeps what the caller has: descriptors, session, identity, privileges",
        checks: &["process.parent-memory", "process.capabilities", "process.identity"],
    },
    Gaps {
        sandboxes: UNSHARE,
        who: Root,
        why: "the command keeps what the caller has: descriptors, session, identity, privileges",
        checks: &["process.identity"],
    },
];
