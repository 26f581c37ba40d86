//! Ways to the contents of files.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use super::{beneath, from_below, proc_name, read_beneath, read_opened, shown};
use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("read", read),
    ("climb", climb),
    ("resolve", resolve),
    ("read-inherited", read_inherited),
    ("climb-inherited", climb_inherited),
    ("file-handle", file_handle),
    ("open-handle", open_handle),
    ("read-through-link", read_through_link),
    ("read-through-name", read_through_name),
];

/// `read PATH…`: opens and reads each.
fn read(arguments: Arguments) {
    for path in arguments.all() {
        match sys::read_file(path, 4096) {
            Ok(bytes) => report::content(shown(path), &bytes),
            Err(errno) => report::refused(format_args!("open {}", shown(path)), errno),
        }
    }
}

/// `climb DIRECTORY PATH`: goes up from an open directory and from the working directory, in one step and in many.
fn climb(arguments: Arguments) {
    let (directory, path) = (arguments.c_str(0), arguments.c_str(1));
    let Some(start) = open_directory(directory) else { return };
    read_beneath("up from an open directory", start as usize, &from_below(path));
    if sys::call(nr::FCHDIR, &[start as usize]).is_ok() {
        read_beneath("up from the working directory", sys::AT_FDCWD, &from_below(path));
    }
    let mut at = start;
    for _ in 0..40 {
        match sys::call(nr::OPENAT, &[at as usize, sys::c(c".."), sys::O_PATH | super::O_DIRECTORY]) {
            Ok(parent) => at = parent as sys::Fd,
            Err(errno) => return report::refused("open the parent directory", errno),
        }
    }
    let relative = &path.to_bytes_with_nul()[1.min(path.count_bytes())..];
    read_beneath("up, one directory after the other", at as usize, CStr::from_bytes_with_nul(relative).unwrap_or(c""));
}

fn open_directory(path: &CStr) -> Option<sys::Fd> {
    match sys::open(path, sys::O_PATH | super::O_DIRECTORY, 0) {
        Ok(fd) => Some(fd),
        Err(errno) => {
            report::refused(format_args!("open directory {}", shown(path)), errno);
            None
        }
    }
}

/// `resolve DIRECTORY PATH`: with every way that `openat2` has to resolve a path, from the directory and from the root.
fn resolve(arguments: Arguments) {
    const RESOLVE: [u64; 5] = [0, 0x1, 0x2, 0x8, 0x10];
    let path = arguments.c_str(1);
    for directory in [arguments.c_str(0), c"/"] {
        let Some(start) = open_directory(directory) else { continue };
        for resolve in RESOLVE {
            for way in [from_below(path), super::c_string(shown(path).trim_start_matches('/'))] {
                let how = [(sys::O_RDONLY | sys::O_CLOEXEC) as u64, 0, resolve];
                let size = size_of_val(&how);
                let opened = sys::call(nr::OPENAT2, &[start as usize, sys::c(&way), how.as_ptr() as usize, size]);
                read_opened(&format!("openat2 from {} with {resolve:#x}", shown(directory)), opened);
            }
        }
    }
}

/// Descriptors that this program did not open.
fn inherited() -> impl Iterator<Item = usize> {
    const F_GETFD: usize = 1;
    (3..1024).filter(|fd| sys::call(nr::FCNTL, &[*fd, F_GETFD]).is_ok())
}

/// The type of an open file, as in its mode.
fn file_type(fd: usize) -> u32 {
    // The mode lies at another place on each architecture.
    const MODE: usize = if cfg!(target_arch = "aarch64") { 16 } else { 24 };
    let mut status = [0u8; 256];
    match sys::call(nr::FSTAT, &[fd, status.as_mut_ptr() as usize]) {
        Ok(_) => u32::from_ne_bytes([status[MODE], status[MODE + 1], status[MODE + 2], status[MODE + 3]]) & 0o170000,
        Err(_) => 0,
    }
}

/// `read-inherited`: reads every file that came with the process. Pipes and sockets belong to somebody who waits for
/// their contents, and are left alone.
fn read_inherited(_: Arguments) {
    let found: Vec<usize> = inherited().filter(|fd| file_type(*fd) == 0o100000).collect();
    for fd in &found {
        let mut buffer = [0u8; 4096];
        match sys::call(nr::PREAD64, &[*fd, buffer.as_mut_ptr() as usize, buffer.len(), 0]) {
            Ok(count) => report::content(format_args!("descriptor {fd}"), &buffer[..count]),
            Err(errno) => report::refused(format_args!("read descriptor {fd}"), errno),
        }
    }
    if found.is_empty() {
        report::refused("find a descriptor that came with the process", sys::Errno(9));
    }
}

/// `climb-inherited PATH`: goes up from every directory that came with the process, by descriptor and through `/proc`.
fn climb_inherited(arguments: Arguments) {
    let path = from_below(arguments.c_str(0));
    let found: Vec<usize> = inherited().filter(|fd| file_type(*fd) == 0o040000).collect();
    for fd in &found {
        read_beneath("up from an inherited directory", *fd, &path);
        let way = beneath(&proc_name(*fd as sys::Fd), shown(&path));
        read_beneath("up from an inherited directory, through /proc", sys::AT_FDCWD, &way);
    }
    if found.is_empty() {
        report::refused("find a directory that came with the process", sys::Errno(9));
    }
}

/// A file handle as the kernel has it: its length, its type, its bytes.
const HANDLE: usize = 128;

/// `file-handle PATH`: prints a handle of the file, for somebody who may open it by that.
fn file_handle(arguments: Arguments) {
    match handle_of(arguments.c_str(0)) {
        Ok(handle) => {
            let length = u32::from_ne_bytes([handle[0], handle[1], handle[2], handle[3]]) as usize;
            let digits: Vec<_> = handle[..(8 + length).min(handle.len())].iter().map(|b| format!("{b:02x}")).collect();
            report::line(format_args!("{}", digits.concat()));
        }
        Err(errno) => report::refused("name_to_handle_at", errno),
    }
}

fn handle_of(path: &CStr) -> sys::Result<[u8; 8 + HANDLE]> {
    let mut handle = [0u8; 8 + HANDLE];
    handle[..4].copy_from_slice(&(HANDLE as u32).to_ne_bytes());
    let mut mount = 0i32;
    let arguments =
        [sys::AT_FDCWD, sys::c(path), handle.as_mut_ptr() as usize, &raw mut mount as usize, super::AT_SYMLINK_FOLLOW];
    sys::call(nr::NAME_TO_HANDLE_AT, &arguments)?;
    Ok(handle)
}

/// `open-handle DIRECTORY HANDLE`: makes a handle of a directory that it sees, and opens one that was made outside, on
/// the same file system.
fn open_handle(arguments: Arguments) {
    let directory = arguments.c_str(0);
    report::success("name_to_handle_at", handle_of(directory).map(|_| 0));
    let digits = arguments.text(1);
    let mut handle: Vec<u8> =
        digits.chunks(2).filter_map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()).collect();
    let mount = match sys::open(directory, sys::O_RDONLY | super::O_DIRECTORY, 0) {
        Ok(fd) => fd as usize,
        Err(errno) => return report::refused("open the directory", errno),
    };
    let opened = sys::call(nr::OPEN_BY_HANDLE_AT, &[mount, handle.as_mut_ptr() as usize, sys::O_RDONLY]);
    read_opened("open_by_handle_at", opened);
}

/// `read-through-link DIRECTORY PATH`: makes a symbolic link in the directory and reads through it.
fn read_through_link(arguments: Arguments) {
    let (link, path) = (beneath(arguments.c_str(0), "way-out"), arguments.c_str(1));
    super::tried("symlink", sys::call(nr::SYMLINKAT, &[sys::c(path), sys::AT_FDCWD, sys::c(&link)]));
    read_beneath("through a symbolic link", sys::AT_FDCWD, &link);
}

/// `read-through-name PATH NAME`: gives the file another name, by link and by rename, and reads that.
fn read_through_name(arguments: Arguments) {
    let (path, name) = (arguments.c_str(0), arguments.c_str(1));
    let link = [sys::AT_FDCWD, sys::c(path), sys::AT_FDCWD, sys::c(name)];
    super::tried("link", sys::call(nr::LINKAT, &link));
    read_beneath("through a hard link", sys::AT_FDCWD, name);
    super::tried("rename", sys::call(nr::RENAMEAT2, &link));
    read_beneath("after a rename", sys::AT_FDCWD, name);
}
