//! What a policy denies inside of a tree that it shows.

use crate::arena::Arena;
use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, check};
use hotcell::policy::PolicyBuilder;

fn deny_in_shown(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    policy.read(arena.shown()).deny(arena.shown().join("denied"))
}

fn deny_in_workspace(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    policy.write(arena.workspace()).deny(arena.workspace().join("deep/private"))
}

pub(super) const CHECKS: &[Check] = &[
    check("filesystem.denied", Filesystem, "read a denied file in a shown tree, by all the paths that lead to it")
        .safe("an empty mask lies over it")
        .impact(Impact::HostLeak)
        .grant(deny_in_shown)
        .intruder(&[
            "read",
            "{denied}",
            "{shown}/./denied/../denied/file",
            "{shown}/denied/../../shown/denied/file",
            "/proc/self/root{denied}",
            "/proc/self/cwd{denied}",
        ]),
    check(
        "filesystem.denied-metadata",
        Filesystem,
        "find out that a denied file exists, how large it is and when it was changed",
    )
    .safe("an empty mask lies over it")
    .impact(Impact::HostLeak)
    .grant(deny_in_shown)
    .intruder(&["metadata", "{denied}"]),
    check("filesystem.denied-by-link", Filesystem, "read a denied file through a symbolic link made in the workspace")
        .safe("the link leads to the mask")
        .impact(Impact::HostLeak)
        .grant(|policy, arena| deny_in_shown(policy, arena).write(arena.workspace()))
        .intruder(&["read-through-link", "{workspace}", "{denied}"]),
    check(
        "filesystem.denied-renamed",
        Filesystem,
        "read a denied file of the workspace under another name, by link and by rename",
    )
    .safe("it can be given no other name")
    .impact(Impact::HostLeak)
    .grant(deny_in_workspace)
    .intruder(&["read-through-name", "{private}", "{workspace}/found"]),
    check(
        "filesystem.denied-parent-moved",
        Filesystem,
        "move the parent of a denied directory of the workspace away, and read there",
    )
    .safe("the mask moves with it, or it cannot be moved")
    .impact(Impact::HostLeak)
    .grant(deny_in_workspace)
    .shell(
        "i={program}/intruder; [ -e {private} ] || echo masked; \
         $i rename-away {workspace}/deep; $i read {workspace}/deep-moved/private/file; \
         $i rename-away {workspace}/deep-moved/private; $i read {workspace}/deep-moved/private-moved/file",
    ),
    check(
        "filesystem.denied-unmasked",
        Filesystem,
        "take away what covers a denied directory, with a user namespace of its own if it can get one",
    )
    .safe("mounts stay as they were made")
    .impact(Impact::HostLeak)
    .grant(deny_in_shown)
    .intruder(&["nested", "unmask", "{shown}/denied", "{denied}"]),
    check(
        "filesystem.denied-in-alias",
        Filesystem,
        "mount a shown tree elsewhere without the masks in it, with a user namespace of its own if it can get one",
    )
    .safe("mounts stay as they were made")
    .impact(Impact::HostLeak)
    .cves(&["CVE-2021-41133"])
    .grant(|policy, arena| deny_in_shown(policy, arena).write(arena.workspace()))
    .intruder(&["nested", "alias", "{shown}", "{workspace}/alias", "denied/file", "{denied}"]),
];
