//! Files of the host's that no policy shows: reading them, and learning of them.

use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, check};

pub(super) const CHECKS: &[Check] = &[
    check("filesystem.read-secret", Filesystem, "read keys of the host's user by their paths")
        .safe("the files do not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["read", "{secret}", "{host}/home/.aws/credentials"]),
    check(
        "filesystem.proc-root",
        Filesystem,
        "read a secret through the root directories that /proc shows of processes in the box",
    )
    .safe("they are the root of the box")
    .impact(Impact::HostLeak)
    .intruder(&[
        "read",
        "/proc/self/root{secret}",
        "/proc/1/root{secret}",
        "/proc/thread-self/root{secret}",
        "/proc/self/task/1/root{secret}",
    ]),
    check("filesystem.proc-of-host", Filesystem, "read a secret through /proc entries of processes on the host")
        .safe("those processes are not in the box's /proc")
        .impact(Impact::HostLeak)
        .intruder(&[
            "read",
            "/proc/{victim}/root{secret}",
            "/proc/{victim}/cwd/../../../../../../../..{secret}",
            "/proc/{victim}/fd/{victim-fd}",
            "/proc/{supervisor}/root{secret}",
        ]),
    check(
        "filesystem.parent-directories",
        Filesystem,
        "go up from a shown directory and from the working directory to a secret",
    )
    .safe("the way up ends at the root of the box")
    .impact(Impact::HostLeak)
    .intruder(&["climb", "{program}", "{secret}"]),
    check("filesystem.openat2", Filesystem, "open a secret with every way to resolve a path that openat2 has")
        .safe("none leaves the box")
        .impact(Impact::HostLeak)
        .intruder(&["resolve", "{program}", "{secret}"]),
    check("filesystem.file-handle", Filesystem, "open a secret by its file handle, past every path")
        .safe("handles can be neither made nor opened")
        .impact(Impact::HostLeak)
        .intruder(&["open-handle", "{program}", "{handle}"]),
    check("filesystem.inherited-file", Filesystem, "read a file that the supervisor had open when the box was made")
        .safe("the command has its three standard streams and nothing else")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2016-9962"])
        .intruder(&["read-inherited", "{fd}"]),
    check(
        "filesystem.inherited-directory",
        Filesystem,
        "go up from a directory that the supervisor had open when the box was made",
    )
    .safe("the command has its three standard streams and nothing else")
    .impact(Impact::Escape)
    .cves(&["CVE-2024-21626"])
    .intruder(&["climb-inherited", "{secret}", "{directory-fd}"]),
    check("filesystem.symlink-out", Filesystem, "read a secret through a symbolic link made in the workspace")
        .safe("the link leads to a path that does not exist in the box")
        .impact(Impact::HostLeak)
        .grant(|policy, arena| policy.write(arena.workspace()))
        .intruder(&["read-through-link", "{workspace}", "{secret}"]),
    check("filesystem.execute-host-program", Filesystem, "run a program of the host's that is not shown")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .shell("{tool} || echo refused: $?; echo done"),
    check("filesystem.metadata", Filesystem, "find out that a file exists, how large it is and when it was changed")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["metadata", "{secret}", "{host}"]),
    check("filesystem.list-directory", Filesystem, "list the names in a directory that is not shown")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["list", "{named}"]),
    check("filesystem.read-link", Filesystem, "find out where a symbolic link leads")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["read-link", "{link}"]),
    check("filesystem.read-attribute", Filesystem, "read an extended attribute of a file that is not shown")
        .safe("it does not exist in the box")
        .impact(Impact::HostLeak)
        .intruder(&["read-attribute", "{attribute}", "user.secret"]),
    check("filesystem.watch", Filesystem, "watch what others do with the files of the host")
        .safe("there is nothing to watch")
        .impact(Impact::HostLeak)
        .intruder(&["watch", "{host}", "{secret}"]),
    check("filesystem.temporary-files", Filesystem, "read what other programs put in /tmp, /var/tmp and /dev/shm")
        .safe("the box has its own")
        .impact(Impact::HostLeak)
        .intruder(&["read", "{tmp-file}", "{var-tmp-file}", "{shm-file}"]),
];
