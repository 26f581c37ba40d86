//! Changing the view. These attacks are made after `nested`, so that outside of a box they happen in a private
//! namespace.

use core::ffi::CStr;

use super::{beneath, open_to_change, read_beneath, tried};
use crate::arguments::Arguments;
use crate::{Attack, nr, sys};

pub const ATTACKS: &[Attack] =
    &[("remount", remount), ("unmask", unmask), ("alias", alias), ("leave-root", leave_root)];

const MS_REMOUNT: usize = 32;
const MS_BIND: usize = 4096;
const MNT_DETACH: usize = 2;
const AT_RECURSIVE: usize = 0x8000;
const MOUNT_ATTR_RDONLY: u64 = 1;

fn mount(source: &CStr, place: &CStr, kind: &CStr, flags: usize) -> sys::Result<usize> {
    sys::call(nr::MOUNT, &[sys::c(source), sys::c(place), sys::c(kind), flags, 0])
}

/// `remount DIRECTORY FILE`: makes the mount writable, in every way there is, and writes to a file on it.
fn remount(arguments: Arguments) {
    let (directory, file) = (arguments.c_str(0), arguments.c_str(1));
    tried("mount to remount", mount(c"", directory, c"", MS_REMOUNT | MS_BIND));
    // Set nothing, clear read-only; no propagation, no user namespace.
    let attributes = [0, MOUNT_ATTR_RDONLY, 0, 0];
    let rest = [attributes.as_ptr() as usize, size_of_val(&attributes)];
    let set = [sys::AT_FDCWD, sys::c(directory), AT_RECURSIVE, rest[0], rest[1]];
    tried("mount_setattr", sys::call(nr::MOUNT_SETATTR, &set));
    if let Some(fd) = open_to_change(file, sys::O_WRONLY) {
        tried("write", sys::write(fd, b"changed"));
    }
}

/// `unmask PATH FILE…`: takes away what covers a path, and reads the files.
fn unmask(arguments: Arguments) {
    let path = arguments.c_str(0);
    for flags in [MNT_DETACH, 0] {
        tried("umount2", sys::call(nr::UMOUNT2, &[sys::c(path), flags]));
    }
    for file in arguments.skip(1).all() {
        read_beneath("what was masked", sys::AT_FDCWD, file);
    }
}

/// `alias DIRECTORY PLACE FILE`: mounts the directory elsewhere without what is mounted in it, and reads a file there.
fn alias(arguments: Arguments) {
    const CLONE: usize = 1;
    const MOVE_FROM_DESCRIPTOR: usize = 4;
    let (directory, place) = (arguments.c_str(0), arguments.c_str(1));
    let file = arguments.display(2);
    let _ = sys::call(nr::MKDIRAT, &[sys::AT_FDCWD, sys::c(place), 0o777]);
    tried("mount to bind", mount(directory, place, c"", MS_BIND));
    read_beneath("what was masked, in a bind mount", sys::AT_FDCWD, &beneath(place, file));
    let tree = sys::call(nr::OPEN_TREE, &[sys::AT_FDCWD, sys::c(directory), CLONE]);
    if tried("open_tree", tree)
        && let Ok(tree) = tree
    {
        read_beneath("what was masked, in a detached mount", tree, &super::c_string(file));
        let moved = [tree, sys::c(c""), sys::AT_FDCWD, sys::c(place), MOVE_FROM_DESCRIPTOR];
        tried("move_mount", sys::call(nr::MOVE_MOUNT, &moved));
        read_beneath("what was masked, in a moved mount", sys::AT_FDCWD, &beneath(place, file));
    }
}

/// `leave-root PLACE FILE`: gets out of the root that it was given, by `chroot` with an open directory, and by pivoting
/// away from it.
fn leave_root(arguments: Arguments) {
    let (place, file) = (arguments.c_str(0), arguments.c_str(1));
    let _ = sys::call(nr::MKDIRAT, &[sys::AT_FDCWD, sys::c(place), 0o777]);
    let root = sys::open(c"/", sys::O_RDONLY | super::O_DIRECTORY, 0);
    if tried("chroot", sys::call(nr::CHROOT, &[sys::c(place)]))
        && let Ok(root) = root
    {
        tried("fchdir", sys::call(nr::FCHDIR, &[root as usize]));
    }
    for _ in 0..40 {
        let _ = sys::call(nr::CHDIR, &[sys::c(c"..")]);
    }
    tried("chroot to what is above", sys::call(nr::CHROOT, &[sys::c(c".")]));
    read_beneath("above the root", sys::AT_FDCWD, file);
    tried("mount to bind", mount(c"/", place, c"", MS_BIND));
    if sys::call(nr::CHDIR, &[sys::c(place)]).is_ok() {
        tried("pivot_root", sys::call(nr::PIVOT_ROOT, &[sys::c(c"."), sys::c(c".")]));
    }
    tried("umount2", sys::call(nr::UMOUNT2, &[sys::c(c"."), MNT_DETACH]));
    read_beneath("after pivot_root", sys::AT_FDCWD, file);
}
