//! Files and directories.
//!
//! Which files exist and which may be written is decided by the mount view, Landlock and ordinary
//! permissions. The filter only keeps the box from making things that mean something outside of it:
//! device nodes, overlay whiteouts and set-user-ID programs.

use super::super::condition::Argument::{self, Fifth, Fourth, Second, Third};
use super::super::condition::{Condition, int_bits};
use super::{Action, Group, call, shared, x86_64_only};

/// The file type within a mode.
const FILE_TYPE: u32 = 0o170_000;
/// No type (which means a regular file), FIFO, regular file, socket. Not among them: block and
/// character devices, even the character device 0/0, which anybody may make and which an overlay
/// reads as "this name is deleted".
const ORDINARY_TYPES: &[u32] = &[0, 0o010_000, 0o100_000, 0o140_000];

/// `S_ISUID` and `S_ISGID`. On a directory the latter is a way to share a tree, but the filter cannot tell directories
/// from files, and a program with it is as bad as with the former. Creating a file with one of them is refused too: the
/// kernel takes them away at the first write, but leaves the set-group-ID bit of a file that its group may not execute,
/// and an access list can let the group execute it afterwards.
const SET_ID: u32 = 0o6000;

/// `RENAME_WHITEOUT`, which leaves a character device 0/0 behind.
const WHITEOUT: u32 = 4;

/// `umode_t` is 16 bits wide, so a mode lies in the lower half wherever the kernel takes one.
const fn sets_id(mode: Argument) -> Condition {
    int_bits(mode, SET_ID, &[0o2000, 0o4000, 0o6000])
}

/// `O_CREAT`, and the bit of `O_TMPFILE` that is its own: without them the kernel ignores the mode.
const CREATES: u32 = 0o100 | 0o20_000_000;

const fn creates(flags: Argument) -> Condition {
    int_bits(flags, CREATES, &[0o100, 0o20_000_000, CREATES])
}

const WHY_NO_SET_ID: &str = "a set-user-ID or set-group-ID program made in a shared directory would run with its owner's rights \
                                  outside of the box; all other mode bits are ordinary work";

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "opening is what programs do, and the view decides what there is to open; a new file with a set-ID bit \
              could be made a program that runs with its owner's rights outside of the box",
        // open(path, int flags, umode_t mode)
        action: Action::AllowUnless(Condition::All(&[creates(Second), sets_id(Third)])),
        calls: &[x86_64_only("open", 2)],
    },
    Group {
        why: "as open, relative to a directory",
        // openat(dirfd, path, int flags, umode_t mode)
        action: Action::AllowUnless(Condition::All(&[creates(Third), sets_id(Fourth)])),
        calls: &[call("openat", 257, 56)],
    },
    Group {
        why: WHY_NO_SET_ID,
        // creat(path, umode_t mode)
        action: Action::AllowUnless(sets_id(Second)),
        calls: &[x86_64_only("creat", 85)],
    },
    Group {
        why: "the init opens files with it for the host; its mode lies in memory, so every command has a filter of its own on \
              top that says the kernel does not know it",
        action: Action::Allow,
        calls: &[shared("openat2", 437)],
    },
    Group {
        why: "closes what the box has open",
        action: Action::Allow,
        calls: &[call("close", 3, 57), shared("close_range", 436)],
    },
    Group {
        why: "moves bytes between memory and descriptors that the box already holds",
        action: Action::Allow,
        calls: &[
            call("read", 0, 63),
            call("write", 1, 64),
            call("pread64", 17, 67),
            call("pwrite64", 18, 68),
            call("readv", 19, 65),
            call("writev", 20, 66),
            call("preadv", 295, 69),
            call("pwritev", 296, 70),
            call("preadv2", 327, 286),
            call("pwritev2", 328, 287),
            call("lseek", 8, 62),
            call("sendfile", 40, 71),
            call("copy_file_range", 326, 285),
            call("splice", 275, 76),
            call("tee", 276, 77),
            call("vmsplice", 278, 75),
            call("readahead", 187, 213),
            call("fadvise64", 221, 223),
        ],
    },
    Group {
        why: "reads metadata and names within the view",
        action: Action::Allow,
        calls: &[
            x86_64_only("stat", 4),
            call("fstat", 5, 80),
            x86_64_only("lstat", 6),
            call("newfstatat", 262, 79),
            call("statx", 332, 291),
            x86_64_only("access", 21),
            call("faccessat", 269, 48),
            shared("faccessat2", 439),
            x86_64_only("readlink", 89),
            call("readlinkat", 267, 78),
            call("statfs", 137, 43),
            call("fstatfs", 138, 44),
            x86_64_only("getdents", 78),
            call("getdents64", 217, 61),
            call("getcwd", 79, 17),
            call("chdir", 80, 49),
            call("fchdir", 81, 50),
            shared("file_getattr", 468),
        ],
    },
    Group {
        why: "makes, moves and removes names; read-only mounts and Landlock say where",
        action: Action::Allow,
        calls: &[
            x86_64_only("rename", 82),
            call("renameat", 264, 38),
            x86_64_only("mkdir", 83),
            call("mkdirat", 258, 34),
            x86_64_only("rmdir", 84),
            x86_64_only("link", 86),
            call("linkat", 265, 37),
            x86_64_only("unlink", 87),
            call("unlinkat", 263, 35),
            x86_64_only("symlink", 88),
            call("symlinkat", 266, 36),
        ],
    },
    Group {
        why: "renames with flags, except that a whiteout is a device node that hides a file in an overlay",
        // renameat2(olddirfd, oldpath, newdirfd, newpath, unsigned int flags)
        action: Action::AllowUnless(int_bits(Fifth, WHITEOUT, &[WHITEOUT])),
        calls: &[call("renameat2", 316, 276)],
    },
    Group {
        why: "changes size, times and owner of files that may be written; the box maps one user, so \
              ownership cannot go elsewhere",
        action: Action::Allow,
        calls: &[
            call("truncate", 76, 45),
            call("ftruncate", 77, 46),
            call("fallocate", 285, 47),
            x86_64_only("utime", 132),
            x86_64_only("utimes", 235),
            call("utimensat", 280, 88),
            x86_64_only("futimesat", 261),
            x86_64_only("chown", 92),
            call("fchown", 93, 55),
            x86_64_only("lchown", 94),
            call("fchownat", 260, 54),
            call("umask", 95, 166),
        ],
    },
    Group {
        why: WHY_NO_SET_ID,
        // chmod(path, umode_t mode), fchmod(fd, umode_t mode)
        action: Action::AllowUnless(sets_id(Second)),
        calls: &[x86_64_only("chmod", 90), call("fchmod", 91, 52)],
    },
    Group {
        why: WHY_NO_SET_ID,
        // fchmodat(dirfd, path, umode_t mode), fchmodat2 likewise
        action: Action::AllowUnless(sets_id(Third)),
        calls: &[call("fchmodat", 268, 53), shared("fchmodat2", 452)],
    },
    Group {
        why: "makes FIFOs, sockets and regular files; a device node would be a door to a driver, and a set-ID bit is refused \
              as in open",
        // mknod(path, umode_t mode, dev)
        action: Action::AllowIf(Condition::All(&[
            int_bits(Second, FILE_TYPE, ORDINARY_TYPES),
            Condition::Not(&sets_id(Second)),
        ])),
        calls: &[x86_64_only("mknod", 133)],
    },
    Group {
        why: "as mknod, relative to a directory",
        // mknodat(dirfd, path, umode_t mode, dev)
        action: Action::AllowIf(Condition::All(&[
            int_bits(Third, FILE_TYPE, ORDINARY_TYPES),
            Condition::Not(&sets_id(Third)),
        ])),
        calls: &[call("mknodat", 259, 33)],
    },
    Group {
        why: "archivers, package managers and coreutils keep extended attributes; the privileged kinds \
              need capabilities that the box does not have",
        action: Action::Allow,
        calls: &[
            call("setxattr", 188, 5),
            call("lsetxattr", 189, 6),
            call("fsetxattr", 190, 7),
            call("getxattr", 191, 8),
            call("lgetxattr", 192, 9),
            call("fgetxattr", 193, 10),
            call("listxattr", 194, 11),
            call("llistxattr", 195, 12),
            call("flistxattr", 196, 13),
            call("removexattr", 197, 14),
            call("lremovexattr", 198, 15),
            call("fremovexattr", 199, 16),
            shared("setxattrat", 463),
            shared("getxattrat", 464),
            shared("listxattrat", 465),
            shared("removexattrat", 466),
        ],
    },
    Group {
        why: "databases, git and package managers make their data durable",
        action: Action::Allow,
        calls: &[
            call("fsync", 74, 82),
            call("fdatasync", 75, 83),
            call("sync", 162, 81),
            call("syncfs", 306, 267),
            call("sync_file_range", 277, 84),
        ],
    },
    Group { why: "git, cargo and databases lock files", action: Action::Allow, calls: &[call("flock", 73, 32)] },
    Group {
        why: "file watchers of development servers and build tools",
        action: Action::Allow,
        calls: &[
            x86_64_only("inotify_init", 253),
            call("inotify_init1", 294, 26),
            call("inotify_add_watch", 254, 27),
            call("inotify_rm_watch", 255, 28),
        ],
    },
];
