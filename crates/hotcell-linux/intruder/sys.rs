//! The kernel's interface: any system call by its number, and the few that most attacks need.

#[cfg(target_arch = "aarch64")]
#[path = "../helper/sys/aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "../helper/sys/x86_64.rs"]
mod arch;

use alloc::vec::Vec;
use core::ffi::CStr;

use crate::nr;

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

pub type Result<T> = core::result::Result<T, Errno>;
pub type Fd = i32;

pub const EPERM: Errno = Errno(1);
pub const ESRCH: Errno = Errno(3);
pub const EACCES: Errno = Errno(13);
pub const ENOSYS: Errno = Errno(38);

pub const AT_FDCWD: usize = -100isize as usize;
pub const O_RDONLY: usize = 0;
pub const O_WRONLY: usize = 1;
pub const O_RDWR: usize = 2;
pub const O_CREAT: usize = 0o100;
pub const O_EXCL: usize = 0o200;
pub const O_TRUNC: usize = 0o1000;
pub const O_APPEND: usize = 0o2000;
pub const O_NONBLOCK: usize = 0o4000;
pub const O_CLOEXEC: usize = 0o2000000;
pub const O_PATH: usize = 0o10000000;

pub const SIGKILL: usize = 9;
pub const SIGCHLD: usize = 17;

/// Any system call. What is not given is 0.
///
/// This program is the attacker: it calls with wrong arguments on purpose. Pointers among them lead to memory that is
/// its own or to nowhere, which the kernel answers with `EFAULT`; no reference of Rust's is behind one unless it was made
/// from a live buffer by the caller.
pub fn call(number: usize, arguments: &[usize]) -> Result<usize> {
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(arguments) {
        *to = *from;
    }
    // SAFETY: see above; a call that changes this process's memory elsewhere only harms this process.
    let result = unsafe { arch::syscall6(number, all) };
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

pub fn c(text: &CStr) -> usize {
    text.as_ptr() as usize
}

pub fn exit(code: usize) -> ! {
    loop {
        let _ = call(nr::EXIT_GROUP, &[code]);
    }
}

pub fn open(path: &CStr, flags: usize, mode: usize) -> Result<Fd> {
    call(nr::OPENAT, &[AT_FDCWD, c(path), flags | O_CLOEXEC, mode]).map(|fd| fd as Fd)
}

pub fn close(fd: Fd) {
    let _ = call(nr::CLOSE, &[fd as usize]);
}

pub fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    call(nr::READ, &[fd as usize, buffer.as_mut_ptr() as usize, buffer.len()])
}

pub fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    call(nr::WRITE, &[fd as usize, bytes.as_ptr() as usize, bytes.len()])
}

/// Writes all of it, or as much as can be written.
pub fn write_all(fd: Fd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(count) => bytes = &bytes[count.min(bytes.len())..],
            Err(_) => return,
        }
    }
}

/// The first `limit` bytes of a file.
pub fn read_file(path: &CStr, limit: usize) -> Result<Vec<u8>> {
    let fd = open(path, O_RDONLY | O_NONBLOCK, 0)?;
    let bytes = read_all(fd, limit);
    close(fd);
    bytes
}

/// What can be read from a descriptor, at most `limit` bytes.
pub fn read_all(fd: Fd, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < limit {
        match read(fd, &mut buffer)? {
            0 => break,
            count => bytes.extend_from_slice(&buffer[..count.min(limit - bytes.len())]),
        }
    }
    Ok(bytes)
}

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signaled(i32),
}

/// A copy of this process; 0 in the copy.
pub fn fork() -> Result<usize> {
    call(nr::CLONE, &[SIGCHLD])
}

/// Runs something in a child, which may end as it likes.
pub fn in_child(job: impl FnOnce()) -> Result<Ended> {
    match fork()? {
        0 => {
            job();
            exit(0)
        }
        child => wait(child),
    }
}

pub fn wait(child: usize) -> Result<Ended> {
    let mut status = 0i32;
    call(nr::WAIT4, &[child, &raw mut status as usize])?;
    Ok(match status & 0x7f {
        0 => Ended::Exited((status >> 8) & 0xff),
        signal => Ended::Signaled(signal),
    })
}

/// Sleeps; attacks that wait for something poll it with this.
pub fn sleep_ms(milliseconds: usize) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    let _ = call(nr::NANOSLEEP, &[time.as_ptr() as usize, 0]);
}

pub fn prctl(arguments: &[usize]) -> Result<usize> {
    call(nr::PRCTL, arguments)
}

/// Starts a thread of this process on a stack of its own. `entry` must not allocate.
pub fn thread(entry: extern "C" fn() -> !) -> Result<usize> {
    const STACK: usize = 64 << 10;
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM: what a thread shares.
    const THREAD: usize = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000;
    let stack = call(nr::MMAP, &[0, STACK, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0])?;
    // SAFETY: the top of fresh memory that nobody else knows of; `entry` never returns.
    let result = unsafe { arch::clone_onto(THREAD, (stack + STACK) as *mut u8, entry) };
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}
