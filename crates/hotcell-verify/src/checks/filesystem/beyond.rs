//! Out of the root directory.

use crate::check::Group::Filesystem;
use crate::check::{Check, check};

pub(super) const CHECKS: &[Check] = &[
    check(
        "filesystem.leave-root",
        Filesystem,
        "get above the root with chroot and pivot_root, with a user namespace of its own if it can get one",
    )
    .safe("the root stays, and nothing is above it")
    .grant(|policy, arena| policy.write(arena.workspace()))
    .intruder(&["nested", "leave-root", "{workspace}/place", "{secret}"]),
    check(
        "filesystem.honoured-set-user-id",
        Filesystem,
        "find a mount on which set-user-ID programs have their owner's rights",
    )
    .safe("there is none")
    .impact(crate::check::Impact::InternalEsc)
    .grant(|policy, arena| policy.read(arena.shown()).write(arena.workspace()))
    .intruder(&[
        "mount-flags",
        "/",
        "/usr/bin",
        "/tmp",
        "/proc",
        "/dev/shm",
        "{program}",
        "{shown}",
        "{workspace}",
    ]),
];
