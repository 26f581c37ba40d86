//! Processes and threads, who they are and how they are scheduled.

use super::super::condition::Argument::First;
use super::super::condition::int_bits;
use super::{Action, Group, call, shared, x86_64_only};

/// Every `CLONE_NEW*` flag that `clone` can carry: mount, cgroup, UTS, IPC, user, PID, network.
///
/// `CLONE_NEWTIME` (0x80) is not among them: `clone` uses its lowest eight bits for the exit signal and
/// cuts them off the flags, so that flag only exists for `clone3` and `unshare`, which are refused.
const NEW_NAMESPACES: u32 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "makes processes and threads, but no namespaces: a nested user namespace would hand out \
              capabilities and with them most of the kernel's attack surface",
        // clone(unsigned long flags, …): the flags come first on both architectures (only the order
        // of the last two arguments differs), and the kernel uses their lower half.
        action: Action::AllowIf(int_bits(First, NEW_NAMESPACES, &[0])),
        calls: &[call("clone", 56, 220)],
    },
    Group {
        why: "starts, ends and awaits processes; the limit on their number is held elsewhere",
        action: Action::Allow,
        calls: &[
            x86_64_only("fork", 57),
            x86_64_only("vfork", 58),
            call("execve", 59, 221),
            call("execveat", 322, 281),
            call("exit", 60, 93),
            call("exit_group", 231, 94),
            call("wait4", 61, 260),
            call("waitid", 247, 95),
        ],
    },
    Group {
        why: "set-up of threads by the C library and language runtimes",
        action: Action::Allow,
        calls: &[
            call("set_tid_address", 218, 96),
            call("set_robust_list", 273, 99),
            call("get_robust_list", 274, 100),
            call("rseq", 334, 293),
            x86_64_only("arch_prctl", 158),
            call("membarrier", 324, 283),
        ],
    },
    Group {
        why: "locks between threads and processes",
        action: Action::Allow,
        calls: &[
            call("futex", 202, 98),
            shared("futex_waitv", 449),
            shared("futex_wait", 455),
            shared("futex_wake", 454),
            shared("futex_requeue", 456),
        ],
    },
    Group {
        why: "who am I, and what machine is this; the view and the UTS namespace decide the answers",
        action: Action::Allow,
        calls: &[
            call("getpid", 39, 172),
            call("getppid", 110, 173),
            call("gettid", 186, 178),
            call("getuid", 102, 174),
            call("geteuid", 107, 175),
            call("getgid", 104, 176),
            call("getegid", 108, 177),
            call("getresuid", 118, 148),
            call("getresgid", 120, 150),
            call("getgroups", 115, 158),
            call("getcpu", 309, 168),
            call("uname", 63, 160),
            call("sysinfo", 99, 179),
            call("capget", 125, 90),
        ],
    },
    Group {
        why: "changes of identity end within the one user that the box maps, and no privilege comes back",
        action: Action::Allow,
        calls: &[
            call("setuid", 105, 146),
            call("setgid", 106, 144),
            call("setreuid", 113, 145),
            call("setregid", 114, 143),
            call("setresuid", 117, 147),
            call("setresgid", 119, 149),
            call("setfsuid", 122, 151),
            call("setfsgid", 123, 152),
            call("setgroups", 116, 159),
            call("capset", 126, 91),
        ],
    },
    Group {
        why: "job control of shells and terminals",
        action: Action::Allow,
        calls: &[
            x86_64_only("getpgrp", 111),
            call("getpgid", 121, 155),
            call("setpgid", 109, 154),
            call("getsid", 124, 156),
            call("setsid", 112, 157),
        ],
    },
    Group {
        why: "a descriptor for a process, to wait for it or signal it without a race",
        action: Action::Allow,
        calls: &[shared("pidfd_open", 434)],
    },
    Group {
        why: "scheduling within what an unprivileged user may ask; runtimes read the CPUs they may use",
        action: Action::Allow,
        calls: &[
            call("sched_yield", 24, 124),
            call("sched_setparam", 142, 118),
            call("sched_getparam", 143, 121),
            call("sched_setscheduler", 144, 119),
            call("sched_getscheduler", 145, 120),
            call("sched_get_priority_max", 146, 125),
            call("sched_get_priority_min", 147, 126),
            call("sched_rr_get_interval", 148, 127),
            call("sched_setaffinity", 203, 122),
            call("sched_getaffinity", 204, 123),
            call("sched_setattr", 314, 274),
            call("sched_getattr", 315, 275),
            call("getpriority", 140, 141),
            call("setpriority", 141, 140),
            call("ioprio_set", 251, 30),
            call("ioprio_get", 252, 31),
        ],
    },
    Group {
        why: "reads usage and lowers limits; raising a hard limit needs a capability",
        action: Action::Allow,
        calls: &[
            call("getrlimit", 97, 163),
            call("setrlimit", 160, 164),
            call("prlimit64", 302, 261),
            call("getrusage", 98, 165),
            call("times", 100, 153),
        ],
    },
    Group { why: "random bytes without a file", action: Action::Allow, calls: &[call("getrandom", 318, 278)] },
];
