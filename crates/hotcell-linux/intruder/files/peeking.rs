//! What can be learned about files without reading them, and what else can be opened.

use alloc::string::String;
use core::ffi::CStr;

use super::shown;
use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("metadata", metadata),
    ("list", list),
    ("read-link", read_link),
    ("read-attribute", read_attribute),
    ("watch", watch),
    ("open", open),
    ("open-to-write", open_to_write),
    ("peek", peek),
    ("peek-directory", peek_directory),
    ("kernel-addresses", kernel_addresses),
    ("lease", lease),
    ("lock", lock),
    ("mount-flags", mount_flags),
    ("connect-path", connect_path),
    ("knock", knock),
];

/// `metadata PATH…`: asks whether it is there, and what it is.
fn metadata(arguments: Arguments) {
    let mut buffer = [0u8; 512];
    let place = buffer.as_mut_ptr() as usize;
    for path in arguments.all() {
        let named = [sys::AT_FDCWD, sys::c(path)];
        const BASIC: usize = 0x7ff;
        report::success("stat", sys::call(nr::NEWFSTATAT, &[named[0], named[1], place]));
        report::success("statx", sys::call(nr::STATX, &[named[0], named[1], 0, BASIC, place]));
        report::success("access", sys::call(nr::FACCESSAT, &named));
        report::success("open as a mere path", sys::open(path, sys::O_PATH, 0).map(|fd| fd as usize));
        report::success("statfs", sys::call(nr::STATFS, &[named[1], place]));
    }
}

/// `list DIRECTORY…`: prints the names in it, from its path and from within.
fn list(arguments: Arguments) {
    for path in arguments.all() {
        match names(path) {
            Ok(names) => report::content(format_args!("the names in {}", shown(path)), names.as_bytes()),
            Err(errno) => report::refused(format_args!("list {}", shown(path)), errno),
        }
        match sys::call(nr::CHDIR, &[sys::c(path)]).and_then(|_| names(c".")) {
            Ok(names) => report::content("the names in the working directory", names.as_bytes()),
            Err(errno) => report::refused(format_args!("enter {}", shown(path)), errno),
        }
    }
}

fn names(path: &CStr) -> sys::Result<String> {
    let fd = sys::open(path, sys::O_RDONLY | super::O_DIRECTORY, 0)?;
    let mut buffer = [0u8; 4096];
    let mut names = String::new();
    while let count @ 1.. = sys::call(nr::GETDENTS64, &[fd as usize, buffer.as_mut_ptr() as usize, buffer.len()])? {
        let mut rest = &buffer[..count];
        // Each entry: two numbers of eight bytes, its length in two, its type in one, then its name.
        while rest.len() > 19 {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]])).clamp(19, rest.len());
            let name = CStr::from_bytes_until_nul(&rest[19..length]).unwrap_or_default().to_str().unwrap_or_default();
            if name != "." && name != ".." {
                names.push_str(name);
                names.push(' ');
            }
            rest = &rest[length..];
        }
    }
    sys::close(fd);
    Ok(names)
}

/// `read-link PATH…`: prints where symbolic links lead.
fn read_link(arguments: Arguments) {
    for path in arguments.all() {
        let mut buffer = [0u8; 4096];
        let place = [sys::AT_FDCWD, sys::c(path), buffer.as_mut_ptr() as usize, buffer.len()];
        match sys::call(nr::READLINKAT, &place) {
            Ok(count) => report::content(format_args!("the link {}", shown(path)), &buffer[..count]),
            Err(errno) => report::refused("readlink", errno),
        }
    }
}

/// `read-attribute PATH NAME`: prints an extended attribute.
fn read_attribute(arguments: Arguments) {
    let mut buffer = [0u8; 4096];
    let place = [sys::c(arguments.c_str(0)), sys::c(arguments.c_str(1)), buffer.as_mut_ptr() as usize, buffer.len()];
    match sys::call(nr::GETXATTR, &place) {
        Ok(count) => report::content("the attribute", &buffer[..count]),
        Err(errno) => report::refused("getxattr", errno),
    }
}

/// `watch PATH…`: asks to hear of everything that happens there.
fn watch(arguments: Arguments) {
    const ALL_EVENTS: usize = 0xfff;
    // Open, access and modify; FAN_MARK_ADD.
    const SOME_EVENTS: usize = 0x23;
    const FAN_REPORT_FID: usize = 0x200;
    let inotify = sys::call(nr::INOTIFY_INIT1, &[sys::O_CLOEXEC]);
    let fanotify = sys::call(nr::FANOTIFY_INIT, &[FAN_REPORT_FID, 0]);
    for path in arguments.all() {
        let watched = inotify.and_then(|fd| sys::call(nr::INOTIFY_ADD_WATCH, &[fd, sys::c(path), ALL_EVENTS]));
        report::success("inotify_add_watch", watched);
        let marked =
            fanotify.and_then(|fd| sys::call(nr::FANOTIFY_MARK, &[fd, 1, SOME_EVENTS, sys::AT_FDCWD, sys::c(path)]));
        report::success("fanotify_mark", marked);
    }
}

/// `open PATH…`: opens each to read, and reads nothing.
fn open(arguments: Arguments) {
    open_each(arguments, sys::O_RDONLY);
}

/// `open-to-write PATH…`: opens each to write, and writes nothing.
fn open_to_write(arguments: Arguments) {
    open_each(arguments, sys::O_WRONLY);
}

fn open_each(arguments: Arguments, flags: usize) {
    for path in arguments.all() {
        let opened = sys::open(path, flags | sys::O_NONBLOCK, 0);
        report::success(format_args!("open {}", shown(path)), opened.map(|fd| fd as usize));
        if let Ok(fd) = opened {
            sys::close(fd);
        }
    }
}

/// `peek PATH…`: finds out whether there is anything in it; an empty mask is as good as no file.
fn peek(arguments: Arguments) {
    for path in arguments.all() {
        match sys::read_file(path, 1) {
            Ok(bytes) if bytes.is_empty() => report::line(format_args!("{} is empty", shown(path))),
            Ok(_) => report::reached(format_args!("read {}", shown(path)), "there is something in it"),
            Err(errno) => report::refused(format_args!("read {}", shown(path)), errno),
        }
    }
}

/// `peek-directory PATH…`: the same for directories.
fn peek_directory(arguments: Arguments) {
    for path in arguments.all() {
        match names(path) {
            Ok(names) if names.is_empty() => report::line(format_args!("{} is empty", shown(path))),
            Ok(_) => report::reached(format_args!("list {}", shown(path)), "there is something in it"),
            Err(errno) => report::refused(format_args!("list {}", shown(path)), errno),
        }
    }
}

/// `kernel-addresses`: the table is there for everybody; what counts is whether it says where things are.
fn kernel_addresses(_: Arguments) {
    match sys::read_file(c"/proc/kallsyms", 4096) {
        Ok(bytes) => {
            // Some symbols of the start lie at 0 anyway, so one address is enough.
            let lines = bytes.split(|byte| *byte == b'\n');
            let known = lines.filter(|line| line.get(..16).is_some_and(|digits| digits.iter().any(|d| *d != b'0')));
            match known.count() {
                0 => report::line(format_args!("/proc/kallsyms tells no address")),
                count => report::reached("read /proc/kallsyms", format_args!("{count} addresses")),
            }
        }
        Err(errno) => report::refused("read /proc/kallsyms", errno),
    }
}

/// `lease PATH…`: asks to be told before anybody else opens the file, who then has to wait.
fn lease(arguments: Arguments) {
    const F_SETLEASE: usize = 1024;
    const READ_LEASE: usize = 0;
    for path in arguments.all() {
        let leased = sys::open(path, sys::O_RDONLY, 0);
        let leased = leased.and_then(|fd| sys::call(nr::FCNTL, &[fd as usize, F_SETLEASE, READ_LEASE]));
        report::success("fcntl F_SETLEASE", leased);
    }
}

/// `lock PATH…`: asks for a lock that somebody on the host holds. If it is not free, both mean the same file, and holding
/// it would have kept the other one waiting.
fn lock(arguments: Arguments) {
    const EXCLUSIVE_OR_NEVER: usize = 2 | 4;
    const TAKEN: sys::Errno = sys::Errno(11);
    for path in arguments.all() {
        let fd = sys::open(path, sys::O_RDONLY, 0);
        match fd.and_then(|fd| sys::call(nr::FLOCK, &[fd as usize, EXCLUSIVE_OR_NEVER])) {
            Err(TAKEN) => report::reached("flock", "a lock of the host's is in the way"),
            Ok(_) => report::line(format_args!("the lock is the box's own")),
            Err(errno) => report::refused("flock", errno),
        }
    }
}

/// `mount-flags PATH…`: finds mounts on which set-user-ID programs and file capabilities count.
fn mount_flags(arguments: Arguments) {
    const NO_SET_USER_ID: u64 = 2;
    // The flags are the eleventh word.
    let mut words = [0u64; 32];
    for path in arguments.all() {
        match sys::call(nr::STATFS, &[sys::c(path), words.as_mut_ptr() as usize]) {
            Ok(_) if words[10] & NO_SET_USER_ID == 0 => {
                report::reached(format_args!("the mount of {}", shown(path)), "it honours set-user-ID programs");
            }
            Ok(_) => report::line(format_args!("{} is mounted nosuid", shown(path))),
            Err(errno) => report::refused("statfs", errno),
        }
    }
}

/// `connect-path PATH…`: connects to sockets by their paths.
fn connect_path(arguments: Arguments) {
    const AF_UNIX: usize = 1;
    const STREAM: usize = 1;
    for path in arguments.all() {
        let mut address = [0u8; 110];
        address[..2].copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
        let bytes = path.to_bytes();
        let Some(place) = address.get_mut(2..2 + bytes.len()).filter(|_| bytes.len() < 108) else {
            // A long path is reached through its directory.
            report::refused("connect", sys::Errno(36));
            continue;
        };
        place.copy_from_slice(bytes);
        let length = 2 + bytes.len() + 1;
        let connected = sys::call(nr::SOCKET, &[AF_UNIX, STREAM, 0])
            .and_then(|socket| sys::call(nr::CONNECT, &[socket, address.as_ptr() as usize, length]));
        super::tried("connect", connected);
    }
}

/// `knock PATH…`: writes to pipes that have a name and a reader.
fn knock(arguments: Arguments) {
    for path in arguments.all() {
        match sys::open(path, sys::O_WRONLY | sys::O_NONBLOCK, 0) {
            Ok(fd) => _ = super::tried("write to the pipe", sys::write(fd, b"knock")),
            Err(errno) => report::refused("open the pipe to write", errno),
        }
    }
}
