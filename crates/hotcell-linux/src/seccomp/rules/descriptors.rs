//! Descriptors: duplicating, waiting, and the two calls that do a hundred things.
//!
//! `fcntl` has a short, stable set of commands and gets an allow-list. `ioctl` cannot have one: the
//! same number means different things on different descriptors, programs probe with numbers that
//! fail harmlessly (`ENOTTY`), and an allow-list would turn those probes into errors. What an `ioctl`
//! can reach depends on the descriptor, and the box has no device nodes but terminals and the
//! harmless ones. So it passes by default, and the requests that do harm on descriptors that a box
//! *does* have (terminals, and files on the host's file systems) are refused.

use super::super::condition::Argument::Second;
use super::super::condition::{Condition, int, int_bits};
use super::{Action, Group, call, shared, x86_64_only};

/// Commands of `fcntl(fd, unsigned int cmd, …)`. Not among them: `F_SETLEASE`, by which the owner of
/// a file stalls everybody who opens it, on the host too; its successor for delegations; and
/// `F_NOTIFY`, which inotify replaced.
const FCNTL_COMMANDS: &[u32] = &[
    3,    // F_GETFL
    4,    // F_SETFL
    1,    // F_GETFD
    2,    // F_SETFD
    1030, // F_DUPFD_CLOEXEC
    0,    // F_DUPFD
    5,    // F_GETLK
    6,    // F_SETLK
    7,    // F_SETLKW
    36,   // F_OFD_GETLK
    37,   // F_OFD_SETLK
    38,   // F_OFD_SETLKW
    8,    // F_SETOWN: signals stay within the box's processes
    9,    // F_GETOWN
    10,   // F_SETSIG
    11,   // F_GETSIG
    15,   // F_SETOWN_EX
    16,   // F_GETOWN_EX
    1025, // F_GETLEASE
    1027, // F_DUPFD_QUERY
    1028, // F_CREATED_QUERY
    1031, // F_SETPIPE_SZ
    1032, // F_GETPIPE_SZ
    1033, // F_ADD_SEALS
    1034, // F_GET_SEALS
    1035, // F_GET_RW_HINT
    1036, // F_SET_RW_HINT
    1037, // F_GET_FILE_RW_HINT
    1038, // F_SET_FILE_RW_HINT
];

/// Requests of `ioctl(fd, unsigned int cmd, …)` that are refused. The kernel ignores the upper half
/// of the register, and so does the comparison; otherwise one upper bit would be the way around it
/// (CVE-2019-10063).
const HARMFUL_IOCTLS: Condition = Condition::Any(&[
    int(
        Second,
        &[
            0x5412,      // TIOCSTI: types into the terminal on the user's behalf
            0x541c,      // TIOCLINUX: pastes into a console
            0x541d,      // TIOCCONS: takes over the system console's output
            0x5423,      // TIOCSETD: loads a line discipline, seldom tested kernel code
            0x5437,      // TIOCVHANGUP: cuts off others who use the terminal
            0x4008_6602, // FS_IOC_SETFLAGS: flags such as immutable outlive the box
            0x401c_5820, // FS_IOC_FSSETXATTR: moves a file to another disk quota
            0x4080_6685, // FS_IOC_ENABLE_VERITY: makes a file unwritable for good
            0x800c_6613, // FS_IOC_SET_ENCRYPTION_POLICY: makes a directory unreadable without a key
        ],
    ),
    // The private requests of btrfs (subvolumes, snapshots, quota groups) escape the accounting of
    // disk use and outlive a clean-up. Three copy-on-write requests of all file systems share its
    // letter, and `cp` uses them.
    Condition::All(&[
        int_bits(Second, 0xff00, &[0x9400]),
        Condition::Not(&int(
            Second,
            &[
                0x4004_9409, // FICLONE
                0x4020_940d, // FICLONERANGE
                0xc018_9436, // FIDEDUPERANGE
            ],
        )),
    ]),
]);

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "copies descriptors and makes pipes",
        action: Action::Allow,
        calls: &[
            call("dup", 32, 23),
            x86_64_only("dup2", 33),
            call("dup3", 292, 24),
            x86_64_only("pipe", 22),
            call("pipe2", 293, 59),
        ],
    },
    Group {
        why: "flags, locks, pipe sizes and seals; leases would stall the host's own programs",
        action: Action::AllowIf(int(Second, FCNTL_COMMANDS)),
        calls: &[call("fcntl", 72, 25)],
    },
    Group {
        why: "terminals, sockets and copy-on-write copies need it; requests that type into a terminal \
              or change host files for good are refused",
        action: Action::AllowUnless(HARMFUL_IOCTLS),
        calls: &[call("ioctl", 16, 29)],
    },
    Group {
        why: "waits for descriptors; every event loop",
        action: Action::Allow,
        calls: &[
            x86_64_only("poll", 7),
            call("ppoll", 271, 73),
            x86_64_only("select", 23),
            call("pselect6", 270, 72),
            x86_64_only("epoll_create", 213),
            call("epoll_create1", 291, 20),
            call("epoll_ctl", 233, 21),
            x86_64_only("epoll_wait", 232),
            call("epoll_pwait", 281, 22),
            shared("epoll_pwait2", 441),
        ],
    },
    Group {
        why: "events, signals and timers as descriptors; every event loop",
        action: Action::Allow,
        calls: &[
            x86_64_only("eventfd", 284),
            call("eventfd2", 290, 19),
            x86_64_only("signalfd", 282),
            call("signalfd4", 289, 74),
            call("timerfd_create", 283, 85),
            call("timerfd_settime", 286, 86),
            call("timerfd_gettime", 287, 87),
        ],
    },
];
