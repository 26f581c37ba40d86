//! A tree that the policy lets the box read: changing it.

use hotcell::Control;

use crate::arena::Arena;
use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, check};
use hotcell::policy::PolicyBuilder;

fn read_shown(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    policy.read(arena.shown())
}

pub(super) const CHECKS: &[Check] = &[
    check("filesystem.modify-shown", Filesystem, "write to, append to and cut a file in a tree that may only be read")
        .safe("it stays as it was")
        .grant(read_shown)
        .intruder(&["modify", "{shown}/file"]),
    check(
        "filesystem.create-in-shown",
        Filesystem,
        "make a file, a directory, a link and a pipe in a tree that may only be read",
    )
    .safe("nothing appears there")
    .grant(read_shown)
    .intruder(&["create", "{shown}"]),
    check("filesystem.rename-shown", Filesystem, "rename a file in a tree that may only be read")
        .safe("it keeps its name")
        .grant(read_shown)
        .intruder(&["rename-away", "{shown}/file"]),
    check("filesystem.remove-shown", Filesystem, "remove a file in a tree that may only be read")
        .safe("it stays")
        .grant(read_shown)
        .intruder(&["remove", "{shown}/file"]),
    check("filesystem.mode-of-shown", Filesystem, "change the mode of a file in a tree that may only be read")
        .safe("it stays as it was")
        .grant(read_shown)
        .intruder(&["set-mode", "{shown}/file"]),
    check("filesystem.times-of-shown", Filesystem, "change the times of a file in a tree that may only be read")
        .safe("they stay as they were")
        .impact(Impact::Integrity)
        .grant(read_shown)
        .intruder(&["set-times", "{shown}/file"]),
    check(
        "filesystem.attribute-of-shown",
        Filesystem,
        "give a file in a tree that may only be read an extended attribute",
    )
    .safe("it stays as it was")
    .impact(Impact::Integrity)
    .grant(read_shown)
    .intruder(&["set-attribute", "{shown}/file", "user.changed", "yes"]),
    check("filesystem.flags-of-shown", Filesystem, "set inode flags of a file in a tree that may only be read")
        .safe("they stay as they were")
        .impact(Impact::Integrity)
        .grant(read_shown)
        .intruder(&["set-flags", "{shown}/file"]),
    check("filesystem.map-shown", Filesystem, "write through shared memory to a file that may only be read")
        .safe("it can only be mapped to read")
        .grant(read_shown)
        .intruder(&["map", "{shown}/file"]),
    check("filesystem.reopen-shown", Filesystem, "open a file that may only be read again through /proc, to write")
        .safe("it opens to read only")
        .grant(read_shown)
        .intruder(&["reopen", "{shown}/file"]),
    check(
        "filesystem.transfer-into-shown",
        Filesystem,
        "write to a file that may only be read with copies inside of the kernel and by punching a hole",
    )
    .safe("it stays as it was")
    .grant(read_shown)
    .intruder(&["transfer", "{shown}/file"]),
    check(
        "filesystem.page-cache",
        Filesystem,
        "write to a file that may only be read through a pipe that holds a page of it",
    )
    .safe("it stays as it was")
    .cves(&["CVE-2022-0847"])
    .grant(read_shown)
    .intruder(&["splice-over", "{shown}/file"]),
    check(
        "filesystem.remount-shown",
        Filesystem,
        "make a read-only mount writable, with a user namespace of its own if it can get one",
    )
    .safe("mounts stay as they were made")
    .cves(&["CVE-2026-46695"])
    .grant(read_shown)
    .intruder(&["nested", "remount", "{shown}", "{shown}/file"]),
    check(
        "filesystem.program-overwrite",
        Filesystem,
        "write to the program that it was started from, once nobody runs it any more",
    )
    .safe("the program stays as it was")
    .cves(&["CVE-2019-5736"])
    .intruder(&["overwrite-program"]),
    check("filesystem.socket-in-shown", Filesystem, "connect to a socket in a tree that may only be read")
        .safe("nobody outside hears of it")
        .grant(read_shown)
        .control(Control::Sockets)
        .intruder(&["connect-path", "{shown-socket}"]),
    check("filesystem.pipe-in-shown", Filesystem, "write to a named pipe in a tree that may only be read")
        .safe("nobody outside hears of it")
        .grant(read_shown)
        .control(Control::Sockets)
        .intruder(&["knock", "{fifo}"]),
    check("filesystem.socket-in-overlay", Filesystem, "connect to a socket in an overlay tree")
        .safe("nobody outside hears of it")
        .grant(|policy, arena| policy.overlay(arena.shown()))
        .intruder(&["connect-path", "{shown-socket}"]),
    check(
        "filesystem.lock-in-overlay",
        Filesystem,
        "contend for the lock that a host program holds on a file in an overlay tree",
    )
    .safe("locks do not reach the host")
    .impact(Impact::HostDoS)
    .grant(|policy, arena| policy.overlay(arena.shown()))
    .intruder(&["lock", "{locked}"]),
];
