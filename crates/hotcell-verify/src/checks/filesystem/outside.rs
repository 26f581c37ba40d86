//! Changing files of the host's that no policy shows.

use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, check};

pub(super) const CHECKS: &[Check] = &[
    check(
        "filesystem.create-outside",
        Filesystem,
        "make a file, a directory, a link and a pipe in a directory of the host's",
    )
    .safe("nothing appears there")
    .intruder(&["create", "{host}"]),
    check("filesystem.modify-outside", Filesystem, "write to, append to and cut a file of the host's")
        .safe("it stays as it was")
        .intruder(&["modify", "{target}"]),
    check("filesystem.rename-outside", Filesystem, "rename a file of the host's")
        .safe("it keeps its name")
        .intruder(&["rename-away", "{target}"]),
    check("filesystem.remove-outside", Filesystem, "remove a file of the host's")
        .safe("it stays")
        .intruder(&["remove", "{target}"]),
    check(
        "filesystem.mode-outside",
        Filesystem,
        "change the mode of a file of the host's, which Landlock does not cover",
    )
    .safe("it stays as it was")
    .intruder(&["set-mode", "{target}"]),
    check(
        "filesystem.times-outside",
        Filesystem,
        "change the times of a file of the host's, which Landlock does not cover",
    )
    .safe("they stay as they were")
    .impact(Impact::Integrity)
    .intruder(&["set-times", "{target}"]),
    check(
        "filesystem.attribute-outside",
        Filesystem,
        "give a file of the host's an extended attribute, which Landlock does not cover",
    )
    .safe("it stays as it was")
    .impact(Impact::Integrity)
    .intruder(&["set-attribute", "{target}", "user.changed", "yes"]),
    check("filesystem.flags-outside", Filesystem, "set inode flags of a file of the host's")
        .safe("they stay as they were")
        .impact(Impact::Integrity)
        .intruder(&["set-flags", "{target}"]),
    check(
        "filesystem.modify-temporary-files",
        Filesystem,
        "write to what other programs put in /tmp, /var/tmp and /dev/shm",
    )
    .safe("the box has its own")
    .intruder(&["put", "{tmp-file}", "{var-tmp-file}", "{shm-file}"]),
    check(
        "filesystem.hard-link",
        Filesystem,
        "give a file of the host's a name in the workspace, and a nameless file of the workspace one outside",
    )
    .safe("no name leads from one to the other")
    .grant(|policy, arena| policy.write(arena.workspace()))
    .intruder(&["link", "{target}", "{workspace}", "{host}"]),
    check("filesystem.socket", Filesystem, "connect to a socket of the host's by its path, as to a container engine's")
        .safe("the path does not exist in the box")
        .cves(&["CVE-2026-6406"])
        .intruder(&["connect-path", "{socket}"]),
    check("filesystem.lease", Filesystem, "hold a lease on a shown file, which keeps others waiting who open it")
        .safe("leases are refused")
        .impact(Impact::HostDoS)
        .grant(|policy, arena| policy.read(arena.shown()))
        .intruder(&["lease", "{shown}/file"]),
];
