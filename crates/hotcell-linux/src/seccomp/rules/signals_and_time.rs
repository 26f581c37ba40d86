//! Signals, clocks and timers.

use super::{Action, Group, call, shared, x86_64_only};

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "handles and awaits signals",
        action: Action::Allow,
        calls: &[
            call("rt_sigaction", 13, 134),
            call("rt_sigprocmask", 14, 135),
            call("rt_sigreturn", 15, 139),
            call("rt_sigpending", 127, 136),
            call("rt_sigtimedwait", 128, 137),
            call("rt_sigsuspend", 130, 133),
            call("sigaltstack", 131, 132),
            x86_64_only("pause", 34),
            call("restart_syscall", 219, 128),
        ],
    },
    Group {
        why: "sends signals; only the box's own processes have a number in its PID namespace",
        action: Action::Allow,
        calls: &[
            call("kill", 62, 129),
            call("tkill", 200, 130),
            call("tgkill", 234, 131),
            call("rt_sigqueueinfo", 129, 138),
            call("rt_tgsigqueueinfo", 297, 240),
            shared("pidfd_send_signal", 424),
        ],
    },
    Group {
        why: "reads clocks and sleeps",
        action: Action::Allow,
        calls: &[
            x86_64_only("time", 201),
            call("gettimeofday", 96, 169),
            call("clock_gettime", 228, 113),
            call("clock_getres", 229, 114),
            call("nanosleep", 35, 101),
            call("clock_nanosleep", 230, 115),
        ],
    },
    Group {
        why: "timers that signal the caller",
        action: Action::Allow,
        calls: &[
            x86_64_only("alarm", 37),
            call("getitimer", 36, 102),
            call("setitimer", 38, 103),
            call("timer_create", 222, 107),
            call("timer_settime", 223, 110),
            call("timer_gettime", 224, 108),
            call("timer_getoverrun", 225, 109),
            call("timer_delete", 226, 111),
        ],
    },
];
