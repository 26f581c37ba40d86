//! System V and POSIX IPC, which live in the IPC namespace of the box.

use super::{Action, Group, call};

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "System V shared memory, semaphores and queues: databases and older test suites",
        action: Action::Allow,
        calls: &[
            call("shmget", 29, 194),
            call("shmat", 30, 196),
            call("shmctl", 31, 195),
            call("shmdt", 67, 197),
            call("semget", 64, 190),
            call("semop", 65, 193),
            call("semctl", 66, 191),
            call("semtimedop", 220, 192),
            call("msgget", 68, 186),
            call("msgsnd", 69, 189),
            call("msgrcv", 70, 188),
            call("msgctl", 71, 187),
        ],
    },
    Group {
        why: "POSIX message queues",
        action: Action::Allow,
        calls: &[
            call("mq_open", 240, 180),
            call("mq_unlink", 241, 181),
            call("mq_timedsend", 242, 182),
            call("mq_timedreceive", 243, 183),
            call("mq_notify", 244, 184),
            call("mq_getsetattr", 245, 185),
        ],
    },
];
