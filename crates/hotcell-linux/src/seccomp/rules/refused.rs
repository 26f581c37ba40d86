//! What the box refuses, whatever the arguments.
//!
//! Rows that say `NotPermitted` would be refused without a row too. They stand here so that the
//! refusal is a decision with a reason, which a report can quote.

use super::{Action, Errno, Group, call, shared, x86_64_only};

const NOT_PERMITTED: Action = Action::Refuse(Errno::NotPermitted);
const NOT_IMPLEMENTED: Action = Action::Refuse(Errno::NotImplemented);

pub(super) const GROUPS: &[Group] = &[
    // Ways out of the view.
    Group {
        why: "its flags lie in memory where a filter cannot see them; without it C libraries use clone",
        action: NOT_IMPLEMENTED,
        calls: &[shared("clone3", 435)],
    },
    Group {
        why: "makes or enters namespaces, and with a user namespace come capabilities",
        action: NOT_PERMITTED,
        calls: &[call("unshare", 272, 97), call("setns", 308, 268)],
    },
    Group {
        why: "the view of files is the boundary; nothing inside may change it",
        action: NOT_PERMITTED,
        calls: &[
            call("mount", 165, 40),
            call("umount2", 166, 39),
            call("pivot_root", 155, 41),
            call("chroot", 161, 51),
            shared("open_tree", 428),
            shared("open_tree_attr", 467),
            shared("move_mount", 429),
            shared("fsopen", 430),
            shared("fsconfig", 431),
            shared("fsmount", 432),
            shared("fspick", 433),
            shared("mount_setattr", 442),
        ],
    },
    Group {
        why: "tells about mounts of the host; programs fall back to the masked /proc",
        action: NOT_IMPLEMENTED,
        calls: &[shared("statmount", 457), shared("listmount", 458)],
    },
    Group {
        why: "file handles open files by number, past every path rule",
        action: NOT_PERMITTED,
        calls: &[call("name_to_handle_at", 303, 264), call("open_by_handle_at", 304, 265)],
    },
    Group {
        why: "watches whole mounts and file systems, beyond the view",
        action: NOT_PERMITTED,
        calls: &[call("fanotify_init", 300, 262), call("fanotify_mark", 301, 263)],
    },
    Group {
        why: "sets flags and quota groups that outlive the box, as the refused ioctl requests do",
        action: NOT_PERMITTED,
        calls: &[shared("file_setattr", 469)],
    },
    // Other processes.
    Group {
        why: "reads and steers other processes; a large surface, at the price of debuggers inside",
        action: NOT_PERMITTED,
        calls: &[
            call("ptrace", 101, 117),
            call("process_vm_readv", 310, 270),
            call("process_vm_writev", 311, 271),
            shared("process_madvise", 440),
            shared("process_mrelease", 448),
            call("kcmp", 312, 272),
            shared("pidfd_getfd", 438),
        ],
    },
    // Kernel surface with a long record of faults.
    Group {
        why: "does files and sockets behind the back of this filter",
        action: NOT_PERMITTED,
        calls: &[shared("io_uring_setup", 425), shared("io_uring_enter", 426), shared("io_uring_register", 427)],
    },
    Group { why: "loads programs into the kernel", action: NOT_PERMITTED, calls: &[call("bpf", 321, 280)] },
    Group {
        why: "counts and samples the machine: a large surface and a side channel",
        action: NOT_PERMITTED,
        calls: &[call("perf_event_open", 298, 241)],
    },
    Group {
        why: "stops the kernel in the middle of a copy, which turns small races into reliable ones",
        action: NOT_PERMITTED,
        calls: &[call("userfaultfd", 323, 282)],
    },
    Group {
        why: "keyrings are not part of any namespace: the host user's keys would be in reach",
        action: NOT_PERMITTED,
        calls: &[call("add_key", 248, 217), call("request_key", 249, 218), call("keyctl", 250, 219)],
    },
    Group {
        why: "cuts locked memory out of the kernel's own mappings, which slows the whole host down",
        action: NOT_PERMITTED,
        calls: &[shared("memfd_secret", 447)],
    },
    Group {
        why: "old asynchronous I/O: little used, replaced, and programs do without it",
        action: NOT_IMPLEMENTED,
        calls: &[
            call("io_setup", 206, 0),
            call("io_destroy", 207, 1),
            call("io_submit", 209, 2),
            call("io_cancel", 210, 3),
            call("io_getevents", 208, 4),
            call("io_pgetevents", 333, 292),
        ],
    },
    Group {
        why: "the box is a machine without NUMA: placement of memory concerns the host. All calls say \
              so, since programs that find one of them expect the others",
        action: NOT_IMPLEMENTED,
        calls: &[
            call("mbind", 237, 235),
            call("set_mempolicy", 238, 237),
            shared("set_mempolicy_home_node", 450),
            call("get_mempolicy", 239, 236),
            call("migrate_pages", 256, 238),
            call("move_pages", 279, 239),
        ],
    },
    Group {
        why: "on some kernels tells which parts of files of others are in memory: a side channel",
        action: NOT_IMPLEMENTED,
        calls: &[shared("cachestat", 451)],
    },
    Group {
        why: "deprecated and emulated by the kernel; mmap does the same",
        action: NOT_IMPLEMENTED,
        calls: &[call("remap_file_pages", 216, 234)],
    },
    Group {
        why: "changes the label that a security module gave to the box",
        action: NOT_PERMITTED,
        calls: &[shared("lsm_set_self_attr", 460)],
    },
    Group {
        why: "only meant for code that the kernel itself puts into a traced process",
        action: NOT_PERMITTED,
        calls: &[x86_64_only("uprobe", 336), x86_64_only("uretprobe", 335)],
    },
    // The machine.
    Group {
        why: "replaces or extends the running kernel",
        action: NOT_PERMITTED,
        calls: &[
            call("kexec_load", 246, 104),
            call("kexec_file_load", 320, 294),
            call("init_module", 175, 105),
            call("finit_module", 313, 273),
            call("delete_module", 176, 106),
        ],
    },
    Group {
        why: "administers the machine",
        action: NOT_PERMITTED,
        calls: &[
            call("reboot", 169, 142),
            call("swapon", 167, 224),
            call("swapoff", 168, 225),
            call("acct", 163, 89),
            call("quotactl", 179, 60),
            shared("quotactl_fd", 443),
            call("vhangup", 153, 58),
            call("sethostname", 170, 161),
            call("setdomainname", 171, 162),
        ],
    },
    Group { why: "reads and clears the kernel's log", action: NOT_PERMITTED, calls: &[call("syslog", 103, 116)] },
    Group {
        why: "sets the machine's clocks; whether a call only reads is in memory, out of sight",
        action: NOT_PERMITTED,
        calls: &[
            call("settimeofday", 164, 170),
            call("clock_settime", 227, 112),
            call("adjtimex", 159, 171),
            call("clock_adjtime", 305, 266),
        ],
    },
    Group {
        why: "reaches hardware ports and descriptor tables of the processor",
        action: NOT_PERMITTED,
        calls: &[x86_64_only("iopl", 172), x86_64_only("ioperm", 173), x86_64_only("modify_ldt", 154)],
    },
    Group {
        why: "maps a library by a way that loaders left decades ago",
        action: NOT_PERMITTED,
        calls: &[x86_64_only("uselib", 134)],
    },
    Group {
        why: "obsolete questions about file systems",
        action: NOT_IMPLEMENTED,
        calls: &[x86_64_only("ustat", 136), x86_64_only("sysfs", 139)],
    },
    Group {
        why: "has a number but, on current kernels, nothing behind it",
        action: NOT_IMPLEMENTED,
        calls: &[
            x86_64_only("_sysctl", 156),
            call("nfsservctl", 180, 42),
            call("lookup_dcookie", 212, 18),
            x86_64_only("create_module", 174),
            x86_64_only("get_kernel_syms", 177),
            x86_64_only("query_module", 178),
            x86_64_only("getpmsg", 181),
            x86_64_only("putpmsg", 182),
            x86_64_only("afs_syscall", 183),
            x86_64_only("tuxcall", 184),
            x86_64_only("security", 185),
            x86_64_only("vserver", 236),
            x86_64_only("epoll_ctl_old", 214),
            x86_64_only("epoll_wait_old", 215),
            x86_64_only("set_thread_area", 205),
            x86_64_only("get_thread_area", 211),
        ],
    },
];
