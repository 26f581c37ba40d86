//! Owners, modes, times, attributes: what a file is, apart from its contents.

use core::ffi::CStr;

use super::{beneath, open_to_change, proc_name, tried};
use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("set-mode", set_mode),
    ("set-owner", set_owner),
    ("set-times", set_times),
    ("set-attribute", set_attribute),
    ("set-flags", set_flags),
    ("set-user-id", set_user_id),
    ("set-group-id-by-list", set_group_id_by_list),
    ("file-capability", file_capability),
    ("device-node", device_node),
];

/// `set-mode PATH`: by name, by descriptor and through `/proc`.
fn set_mode(arguments: Arguments) {
    let path = arguments.c_str(0);
    tried("fchmodat", sys::call(nr::FCHMODAT, &[sys::AT_FDCWD, sys::c(path), 0o604]));
    tried("fchmodat2", sys::call(nr::FCHMODAT2, &[sys::AT_FDCWD, sys::c(path), 0o640, 0]));
    if let Ok(fd) = sys::open(path, sys::O_RDONLY, 0) {
        tried("fchmod", sys::call(nr::FCHMOD, &[fd as usize, 0o606]));
    }
    if let Ok(fd) = sys::open(path, sys::O_PATH, 0) {
        tried("chmod through /proc", sys::call(nr::FCHMODAT, &[sys::AT_FDCWD, sys::c(&proc_name(fd)), 0o646]));
    }
}

/// `set-owner PATH`: gives it to users that it may and may not be given to.
fn set_owner(arguments: Arguments) {
    for user in [12345, 0, 1] {
        tried("fchownat", sys::call(nr::FCHOWNAT, &[sys::AT_FDCWD, sys::c(arguments.c_str(0)), user, user, 0]));
    }
}

/// `set-times PATH`
fn set_times(arguments: Arguments) {
    let times = [1usize, 0, 1, 0];
    let path = arguments.c_str(0);
    tried("utimensat", sys::call(nr::UTIMENSAT, &[sys::AT_FDCWD, sys::c(path), times.as_ptr() as usize, 0]));
    if let Ok(fd) = sys::open(path, sys::O_RDONLY, 0) {
        tried("futimens", sys::call(nr::UTIMENSAT, &[fd as usize, 0, times.as_ptr() as usize, 0]));
    }
}

/// `set-attribute PATH NAME VALUE`: by name and by descriptor.
fn set_attribute(arguments: Arguments) {
    let (path, name, value) = (arguments.c_str(0), arguments.c_str(1), arguments.text(2));
    let rest = [sys::c(name), value.as_ptr() as usize, value.len(), 0];
    tried("setxattr", sys::call(nr::SETXATTR, &[sys::c(path), rest[0], rest[1], rest[2], rest[3]]));
    if let Ok(fd) = sys::open(path, sys::O_RDONLY, 0) {
        tried("fsetxattr", sys::call(nr::FSETXATTR, &[fd as usize, rest[0], rest[1], rest[2], rest[3]]));
    }
}

/// `set-flags PATH`: marks the file as not worth a backup, a flag that every owner may set.
fn set_flags(arguments: Arguments) {
    const FS_IOC_GETFLAGS: usize = 0x8008_6601;
    const FS_IOC_SETFLAGS: usize = 0x4008_6602;
    const NO_DUMP: u64 = 0x40;
    let Some(fd) = open_to_change(arguments.c_str(0), sys::O_RDONLY) else { return };
    let mut flags = 0u64;
    let place = &raw mut flags as usize;
    let _ = sys::call(nr::IOCTL, &[fd as usize, FS_IOC_GETFLAGS, place]);
    flags |= NO_DUMP;
    let place = &raw mut flags as usize;
    tried("ioctl FS_IOC_SETFLAGS", sys::call(nr::IOCTL, &[fd as usize, FS_IOC_SETFLAGS, place]));
    // The same request with an upper bit that the kernel ignores.
    let disguised = FS_IOC_SETFLAGS | 1 << 40;
    tried("ioctl FS_IOC_SETFLAGS in disguise", sys::call(nr::IOCTL, &[fd as usize, disguised, place]));
}

/// A program that does nothing, but is not empty.
const SCRIPT: &[u8] = b"#!/bin/true\n";

/// `set-user-id DIRECTORY`: leaves programs there that run with their owner's rights.
fn set_user_id(arguments: Arguments) {
    let directory = arguments.c_str(0);
    for (name, mode) in [("user", 0o4755), ("group", 0o2755)] {
        let path = beneath(directory, name);
        let Some(fd) = open_to_change(&path, sys::O_WRONLY | sys::O_CREAT) else { continue };
        sys::write_all(fd, SCRIPT);
        tried("fchmodat", sys::call(nr::FCHMODAT, &[sys::AT_FDCWD, sys::c(&path), mode]));
        tried("fchmodat2", sys::call(nr::FCHMODAT2, &[sys::AT_FDCWD, sys::c(&path), mode, 0]));
        tried("fchmod", sys::call(nr::FCHMOD, &[fd as usize, mode]));
        tried("fchmod with upper bits", sys::call(nr::FCHMOD, &[fd as usize, mode | 1 << 40]));
        // With the bits from the start, and the contents afterwards.
        let early = beneath(directory, if mode == 0o4755 { "early-user" } else { "early-group" });
        match sys::open(&early, sys::O_RDWR | sys::O_CREAT | sys::O_EXCL, mode) {
            Ok(fd) => {
                tried("fallocate", sys::call(nr::FALLOCATE, &[fd as usize, 0, 0, SCRIPT.len()]));
                tried("write", sys::write(fd, SCRIPT));
            }
            Err(errno) => report::refused("open with a set-ID mode", errno),
        }
    }
}

/// `set-group-id-by-list DIRECTORY`: a set-group-ID file that its group may not execute keeps the bit when it is written
/// to; then an access list, which no mode goes with, lets the group execute it.
fn set_group_id_by_list(arguments: Arguments) {
    let path = beneath(arguments.c_str(0), "group-by-list");
    for (what, opened) in [("openat", open_with_mode(&path)), ("openat2", open_with_hidden_mode(&path))] {
        match opened {
            Ok(fd) => {
                sys::write_all(fd as sys::Fd, SCRIPT);
                let list = access_list();
                let place = [sys::c(&path), sys::c(c"system.posix_acl_access"), list.as_ptr() as usize, list.len()];
                tried("setxattr of an access list", sys::call(nr::SETXATTR, &place));
                return;
            }
            Err(errno) => report::refused(format_args!("{what} with a set-ID mode"), errno),
        }
    }
}

const SET_GROUP_ID_WITHOUT_EXECUTION: usize = 0o2745;

fn open_with_mode(path: &CStr) -> sys::Result<usize> {
    let flags = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL;
    sys::open(path, flags, SET_GROUP_ID_WITHOUT_EXECUTION).map(|fd| fd as usize)
}

/// `openat2` takes its mode from memory, where no filter sees it.
fn open_with_hidden_mode(path: &CStr) -> sys::Result<usize> {
    let how = [(sys::O_RDWR | sys::O_CREAT | sys::O_EXCL) as u64, SET_GROUP_ID_WITHOUT_EXECUTION as u64, 0];
    sys::call(nr::OPENAT2, &[sys::AT_FDCWD, sys::c(path), how.as_ptr() as usize, size_of_val(&how)])
}

/// rwx for the owner, r-x for the group, r-x for others, in the kernel's format: a version, then for each entry its
/// kind, its permissions and a name that these kinds do not have.
fn access_list() -> [u8; 28] {
    const ENTRIES: [(u16, u16); 3] = [(0x01, 7), (0x04, 5), (0x20, 5)];
    let mut list = [0xff; 28];
    list[..4].copy_from_slice(&2u32.to_le_bytes());
    for (index, (kind, permissions)) in ENTRIES.into_iter().enumerate() {
        let at = 4 + 8 * index;
        list[at..at + 2].copy_from_slice(&kind.to_le_bytes());
        list[at + 2..at + 4].copy_from_slice(&permissions.to_le_bytes());
    }
    list
}

/// `file-capability PATH`: lets whoever runs the file have a capability.
fn file_capability(arguments: Arguments) {
    // Revision 2, effective; CAP_NET_RAW permitted, nothing inheritable.
    let capability = [0x0200_0001u32, 1 << 13, 0, 0, 0];
    let place = [
        sys::c(arguments.c_str(0)),
        sys::c(c"security.capability"),
        capability.as_ptr() as usize,
        size_of_val(&capability),
    ];
    tried("setxattr of a capability", sys::call(nr::SETXATTR, &place));
}

/// `device-node DIRECTORY…`: makes the null device under a name of its own, a disk that does not exist, and the device
/// that an overlay takes for a deleted file. Nothing is done with them.
fn device_node(arguments: Arguments) {
    const CHARACTER: usize = 0o020666;
    const BLOCK: usize = 0o060666;
    const NULL: usize = 1 << 8 | 3;
    const NO_SUCH_DISK: usize = 0xff << 8 | 0xff;
    for directory in arguments.all() {
        for (name, mode, device) in
            [("null", CHARACTER, NULL), ("disk", BLOCK, NO_SUCH_DISK), ("whiteout", CHARACTER, 0)]
        {
            let path = beneath(directory, name);
            let made = sys::call(nr::MKNODAT, &[sys::AT_FDCWD, sys::c(&path), mode, device]);
            tried(format_args!("mknod {name}"), made);
        }
        const WHITEOUT: usize = 4;
        let file = beneath(directory, "renamed");
        let _ = sys::open(&file, sys::O_WRONLY | sys::O_CREAT, 0o666);
        let renamed = beneath(directory, "renamed-away");
        let arguments = [sys::AT_FDCWD, sys::c(&file), sys::AT_FDCWD, sys::c(&renamed), WHITEOUT];
        tried("rename with a whiteout", sys::call(nr::RENAMEAT2, &arguments));
    }
}
