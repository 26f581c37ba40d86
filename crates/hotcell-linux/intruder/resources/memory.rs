//! Memory, by all the ways that lead to some.

use alloc::vec::Vec;

use super::{MIB, PAGE};
use crate::arguments::Arguments;
use crate::sys::{self, Errno, Fd};
use crate::{nr, report};

const READ: usize = 1;
const READ_WRITE: usize = 3;
const SHARED: usize = 1;
const PRIVATE_ANONYMOUS: usize = 0x22;
const NO_RESERVE: usize = 0x4000;
const NO_FILE: usize = usize::MAX;
const IPC_CREATE: usize = 0o1000;
const IPC_REMOVE: usize = 0;

/// `memory KIND MIB [MILLISECONDS]`: takes so much, writes to every page of it, and keeps it for so long. KIND is `anonymous`, `memfd`, `dev-shm`, `sysv`, or
/// `children`: eight processes with a part each.
pub fn memory(arguments: Arguments) {
    let size = arguments.number(1) * MIB;
    let taken = match arguments.text(0) {
        b"anonymous" => anonymous(size),
        b"memfd" => {
            sys::call(nr::MEMFD_CREATE, &[sys::c(c"intruder"), 0]).and_then(|file| file_memory(file as Fd, size))
        }
        b"dev-shm" => unlinked(c"/dev/shm").and_then(|file| file_memory(file, size)),
        b"sysv" => sysv(size),
        _ => children(size),
    };
    if arguments.number(2) > 0 {
        sys::sleep_ms(arguments.number(2));
    }
    match taken {
        Ok(()) => report::reached("memory", format_args!("{} MiB of {}", arguments.number(1), arguments.display(0))),
        Err(errno) => report::refused(format_args!("memory by {}", arguments.display(0)), errno),
    }
}

fn map(size: usize, protection: usize, flags: usize, file: usize) -> sys::Result<usize> {
    sys::call(nr::MMAP, &[0, size, protection, flags, file, 0])
}

/// Writes to every page of memory that was mapped for this.
fn touch(start: usize, size: usize) {
    for page in (start..start + size).step_by(PAGE) {
        // SAFETY: nobody else knows of this mapping.
        unsafe { (page as *mut u8).write_volatile(1) };
    }
}

fn anonymous(size: usize) -> sys::Result<()> {
    touch(map(size, READ_WRITE, PRIVATE_ANONYMOUS, NO_FILE)?, size);
    Ok(())
}

fn file_memory(file: Fd, size: usize) -> sys::Result<()> {
    sys::call(nr::FTRUNCATE, &[file as usize, size])?;
    touch(map(size, READ_WRITE, SHARED, file as usize)?, size);
    Ok(())
}

/// A file in this directory that has no name any more.
pub fn unlinked(directory: &core::ffi::CStr) -> sys::Result<Fd> {
    let process = sys::call(nr::GETPID, &[])?;
    let path = alloc::format!("{}/intruder-{process}\0", directory.to_str().unwrap_or_default());
    let path = core::ffi::CStr::from_bytes_with_nul(path.as_bytes()).unwrap_or_default();
    let file = sys::open(path, sys::O_RDWR | sys::O_CREAT | sys::O_EXCL, 0o600)?;
    sys::call(nr::UNLINKAT, &[sys::AT_FDCWD, sys::c(path), 0])?;
    Ok(file)
}

fn sysv(size: usize) -> sys::Result<()> {
    let segment = sys::call(nr::SHMGET, &[0, size, IPC_CREATE | 0o600])?;
    let attached = sys::call(nr::SHMAT, &[segment, 0, 0]);
    // It goes when nobody is attached any more.
    sys::call(nr::SHMCTL, &[segment, IPC_REMOVE, 0])?;
    touch(attached?, size);
    Ok(())
}

/// Children that each hold a part, at the same time.
fn children(size: usize) -> sys::Result<()> {
    const COUNT: usize = 8;
    const ENOMEM: Errno = Errno(12);
    let (ready, hold) = (pipe()?, pipe()?);
    let mut children = Vec::new();
    for _ in 0..COUNT {
        match sys::fork()? {
            0 => {
                sys::close(hold[1]);
                if anonymous(size / COUNT).is_ok() {
                    sys::write_all(ready[1], b"x");
                }
                sys::close(ready[1]);
                let _ = sys::read(hold[0], &mut [0]);
                sys::exit(0)
            }
            child => children.push(child),
        }
    }
    sys::close(ready[1]);
    let holding = sys::read_all(ready[0], COUNT)?.len();
    sys::close(hold[1]);
    for child in children {
        sys::wait(child)?;
    }
    if holding == COUNT { Ok(()) } else { Err(ENOMEM) }
}

pub fn pipe() -> sys::Result<[Fd; 2]> {
    let mut ends = [0; 2];
    sys::call(nr::PIPE2, &[ends.as_mut_ptr() as usize, 0])?;
    Ok(ends)
}

/// `kernel-memory KIND MIB`: makes the kernel hold so much for this process. KIND is `pipes`, `sockets` or
/// `page-tables`.
pub fn kernel_memory(arguments: Arguments) {
    let wanted = arguments.number(1) * MIB;
    let held = match arguments.text(0) {
        b"pipes" => fill(wanted, || {
            const SET_SIZE: usize = 1031;
            let mut ends = [0 as Fd; 2];
            sys::call(nr::PIPE2, &[ends.as_mut_ptr() as usize, sys::O_NONBLOCK])?;
            sys::call(nr::FCNTL, &[ends[1] as usize, SET_SIZE, MIB])?;
            Ok(ends[1])
        }),
        b"sockets" => fill(wanted, || {
            const AF_UNIX: usize = 1;
            const SOCK_STREAM: usize = 1;
            let mut ends = [0 as Fd; 2];
            let kind = SOCK_STREAM | sys::O_NONBLOCK;
            sys::call(nr::SOCKETPAIR, &[AF_UNIX, kind, 0, ends.as_mut_ptr() as usize])?;
            Ok(ends[1])
        }),
        _ => page_tables(wanted),
    };
    match held {
        Ok(()) => report::reached("memory", format_args!("{} MiB of {}", arguments.number(1), arguments.display(0))),
        Err(errno) => report::refused(format_args!("memory by {}", arguments.display(0)), errno),
    }
}

/// Writes into one buffer of the kernel's after the other until they hold so much.
fn fill(wanted: usize, open: impl Fn() -> sys::Result<Fd>) -> sys::Result<()> {
    let block = [1u8; 65536];
    let mut held = 0;
    while held < wanted {
        let end = open()?;
        while let Ok(count) = sys::write(end, &block) {
            held += count;
        }
    }
    Ok(())
}

/// Reads one byte of every two megabytes of nothing: each needs a page of tables, and no page of memory.
fn page_tables(wanted: usize) -> sys::Result<()> {
    const COVERED: usize = 2 * MIB;
    const NO_HUGE_PAGES: usize = 15;
    let size = wanted / PAGE * COVERED;
    let start = map(size, READ, PRIVATE_ANONYMOUS | NO_RESERVE, NO_FILE)?;
    sys::call(nr::MADVISE, &[start, size, NO_HUGE_PAGES])?;
    for place in (start..start + size).step_by(COVERED) {
        // SAFETY: part of the mapping made above.
        unsafe { (place as *const u8).read_volatile() };
    }
    Ok(())
}

/// `lock-memory MIB`: takes memory that cannot be swapped out.
pub fn lock(arguments: Arguments) {
    let size = arguments.number(0) * MIB;
    let locked =
        map(size, READ_WRITE, PRIVATE_ANONYMOUS, NO_FILE).and_then(|start| sys::call(nr::MLOCK, &[start, size]));
    report::success(format_args!("lock {} MiB", arguments.number(0)), locked);
}

/// `leave-memory KEY`: makes shared memory that stays when its processes are gone.
pub fn leave(arguments: Arguments) {
    match sys::call(nr::SHMGET, &[arguments.number(0), PAGE, IPC_CREATE | 0o600]) {
        Ok(_) => report::line(format_args!("left shared memory behind")),
        Err(errno) => report::refused("shmget", errno),
    }
}

/// `show-left-memory KEY`: says whether there is such shared memory.
pub fn show_left(arguments: Arguments) {
    let found = sys::call(nr::SHMGET, &[arguments.number(0), PAGE, 0]).is_ok();
    report::line(format_args!("{}", if found { "there" } else { "none" }));
}

/// `remove-left-memory KEY`: removes it.
pub fn remove_left(arguments: Arguments) {
    if let Ok(segment) = sys::call(nr::SHMGET, &[arguments.number(0), PAGE, 0]) {
        let _ = sys::call(nr::SHMCTL, &[segment, IPC_REMOVE, 0]);
    }
}
