//! The kernel's interface, as thin as it can be: one function per system call that the helper makes.
//!
//! Every function returns the errno of a failure; none retries, allocates or looks at a global. Strings are byte
//! slices that end in NUL (the wire format brings them that way, literals are written `b"…\0"`), which
//! [`c`] checks before a pointer goes to the kernel.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

use core::sync::atomic::{AtomicU8, Ordering};

pub use arch::clone_onto;
use arch::{nr, syscall6};

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

pub type Result<T> = core::result::Result<T, Errno>;
pub type Fd = i32;

pub const AT_FDCWD: Fd = -100;
pub const EPERM: Errno = Errno(1);
pub const ENOENT: Errno = Errno(2);
pub const ESRCH: Errno = Errno(3);
pub const EINTR: Errno = Errno(4);
pub const EAGAIN: Errno = Errno(11);
pub const EACCES: Errno = Errno(13);
pub const EBUSY: Errno = Errno(16);
pub const EEXIST: Errno = Errno(17);
pub const EISDIR: Errno = Errno(21);
pub const ENOTDIR: Errno = Errno(20);
pub const EINVAL: Errno = Errno(22);
pub const ENOTTY: Errno = Errno(25);
pub const ENAMETOOLONG: Errno = Errno(36);
pub const ENOSYS: Errno = Errno(38);
pub const ENOTEMPTY: Errno = Errno(39);
pub const EPROTO: Errno = Errno(71);
pub const EOPNOTSUPP: Errno = Errno(95);
pub const ESTALE: Errno = Errno(116);

pub const O_RDONLY: usize = 0;
pub const O_WRONLY: usize = 1;
pub const O_RDWR: usize = 2;
pub const O_CREAT: usize = 0o100;
pub const O_EXCL: usize = 0o200;
pub const O_APPEND: usize = 0o2000;
pub const O_NOCTTY: usize = 0o400;
pub const O_NONBLOCK: usize = 0o4000;
pub const O_CLOEXEC: usize = 0o2000000;
pub const O_PATH: usize = 0o10000000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: usize = 0o200000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: usize = 0o400000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: usize = 0o40000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: usize = 0o100000;

pub const RESOLVE_NO_MAGICLINKS: u64 = 2;
pub const RESOLVE_NO_SYMLINKS: u64 = 4;
pub const RESOLVE_BENEATH: u64 = 8;

pub const SIGKILL: i32 = 9;
pub const SIGCHLD: i32 = 17;
pub const SIGSTOP: i32 = 19;

pub const CLONE_VM: usize = 0x100;
pub const CLONE_VFORK: usize = 0x4000;
pub const CLONE_PIDFD: u64 = 0x1000;
pub const CLONE_NEWCGROUP: usize = 0x0200_0000;
pub const CLONE_NEWIPC: u64 = 0x0800_0000;
pub const CLONE_NEWNET: u64 = 0x4000_0000;
pub const CLONE_NEWNS: u64 = 0x0002_0000;
pub const CLONE_NEWPID: u64 = 0x2000_0000;
pub const CLONE_NEWUSER: u64 = 0x1000_0000;
pub const CLONE_NEWUTS: u64 = 0x0400_0000;
pub const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

pub const MS_REC: usize = 0x4000;
pub const MS_PRIVATE: usize = 1 << 18;
pub const MNT_DETACH: usize = 2;

pub const MOUNT_ATTR_RDONLY: u64 = 1;
pub const MOUNT_ATTR_NOSUID: u64 = 2;
pub const MOUNT_ATTR_NODEV: u64 = 4;
pub const MOUNT_ATTR_NOEXEC: u64 = 8;
pub const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;

const AT_EMPTY_PATH: usize = 0x1000;
const AT_RECURSIVE: usize = 0x8000;
pub const AT_REMOVEDIR: usize = 0x200;

pub const LOCK_SH: usize = 1;
pub const LOCK_EX: usize = 2;
pub const LOCK_NB: usize = 4;

pub const PR_SET_PDEATHSIG: usize = 1;
pub const PR_SET_DUMPABLE: usize = 4;
pub const PR_SET_KEEPCAPS: usize = 8;
pub const PR_SET_NAME: usize = 15;
pub const PR_GET_SECCOMP: usize = 21;
pub const PR_CAPBSET_READ: usize = 23;
pub const PR_CAPBSET_DROP: usize = 24;
pub const PR_SET_SECUREBITS: usize = 28;
pub const PR_SET_CHILD_SUBREAPER: usize = 36;
pub const PR_SET_NO_NEW_PRIVS: usize = 38;
pub const PR_CAP_AMBIENT: usize = 47;
pub const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

fn call(number: usize, arguments: [usize; 6]) -> Result<usize> {
    // SAFETY: every caller in this file passes numbers, or pointers to live memory of the size that the call reads
    // or writes.
    let result = unsafe { syscall6(number, arguments) };
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// The pointer of a NUL-terminated string; a slice without its NUL gives the empty string, which no call accepts.
pub fn c(text: &[u8]) -> usize {
    match text.last() {
        Some(0) => text.as_ptr() as usize,
        _ => b"\0".as_ptr() as usize,
    }
}

fn fd(value: Fd) -> usize {
    value as isize as usize
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = call(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]);
    }
}

pub fn close(descriptor: Fd) {
    let _ = call(nr::CLOSE, [fd(descriptor), 0, 0, 0, 0, 0]);
}

/// Closes `first..=last`.
pub fn close_range(first: u32, last: u32) -> Result<usize> {
    call(nr::CLOSE_RANGE, [first as usize, last.min(i32::MAX as u32) as usize, 0, 0, 0, 0])
}

pub fn read(descriptor: Fd, buffer: &mut [u8]) -> Result<usize> {
    call(nr::READ, [fd(descriptor), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
}

pub fn write(descriptor: Fd, bytes: &[u8]) -> Result<usize> {
    call(nr::WRITE, [fd(descriptor), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0])
}

pub fn openat(directory: Fd, path: &[u8], flags: usize, mode: u32) -> Result<Fd> {
    call(nr::OPENAT, [fd(directory), c(path), flags | O_CLOEXEC, mode as usize, 0, 0]).map(|n| n as Fd)
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// `openat2`: as [`openat`], with rules for how the path may be resolved.
pub fn openat2(directory: Fd, path: &[u8], flags: usize, mode: u32, resolve: u64) -> Result<Fd> {
    let how = OpenHow { flags: (flags | O_CLOEXEC) as u64, mode: u64::from(mode), resolve };
    loop {
        let result = call(nr::OPENAT2, [fd(directory), c(path), &raw const how as usize, size_of::<OpenHow>(), 0, 0]);
        // The kernel asks for a retry when a rename raced with a scoped look-up.
        if result != Err(EAGAIN) {
            return result.map(|n| n as Fd);
        }
    }
}

pub fn mkdirat(directory: Fd, path: &[u8], mode: u32) -> Result<usize> {
    call(nr::MKDIRAT, [fd(directory), c(path), mode as usize, 0, 0, 0])
}

pub fn unlinkat(directory: Fd, path: &[u8], flags: usize) -> Result<usize> {
    call(nr::UNLINKAT, [fd(directory), c(path), flags, 0, 0, 0])
}

pub fn renameat2(from: Fd, from_path: &[u8], to: Fd, to_path: &[u8], flags: u32) -> Result<usize> {
    call(nr::RENAMEAT2, [fd(from), c(from_path), fd(to), c(to_path), flags as usize, 0])
}

pub fn symlinkat(target: &[u8], directory: Fd, path: &[u8]) -> Result<usize> {
    call(nr::SYMLINKAT, [c(target), fd(directory), c(path), 0, 0, 0])
}

pub fn fchmod(descriptor: Fd, mode: u32) -> Result<usize> {
    call(nr::FCHMOD, [fd(descriptor), mode as usize, 0, 0, 0, 0])
}

pub fn flock(descriptor: Fd, operation: usize) -> Result<usize> {
    call(nr::FLOCK, [fd(descriptor), operation, 0, 0, 0, 0])
}

pub fn fchdir(descriptor: Fd) -> Result<usize> {
    call(nr::FCHDIR, [fd(descriptor), 0, 0, 0, 0, 0])
}

pub fn chdir(path: &[u8]) -> Result<usize> {
    call(nr::CHDIR, [c(path), 0, 0, 0, 0, 0])
}

/// Reads directory entries in the kernel's `linux_dirent64` form.
pub fn getdents(descriptor: Fd, buffer: &mut [u8]) -> Result<usize> {
    call(nr::GETDENTS64, [fd(descriptor), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
}

/// What the helper needs to know of a file.
pub struct Stat {
    pub device: u64,
    pub inode: u64,
    pub mode: u32,
    pub size: u64,
}

pub fn fstat(descriptor: Fd) -> Result<Stat> {
    let mut raw = [0u64; 18];
    call(nr::FSTAT, [fd(descriptor), raw.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    Ok(read_stat(core::hint::black_box(raw)))
}

/// What is at `path` below `directory`; a link at its end is not followed.
pub fn lstatat(directory: Fd, path: &[u8]) -> Result<Stat> {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    let mut raw = [0u64; 18];
    call(nr::NEWFSTATAT, [fd(directory), c(path), raw.as_mut_ptr() as usize, AT_SYMLINK_NOFOLLOW, 0, 0])?;
    Ok(read_stat(core::hint::black_box(raw)))
}

fn read_stat(raw: [u64; 18]) -> Stat {
    // `struct stat` begins with dev, ino on both; x86_64 has nlink (8 bytes) before mode, aarch64 mode and nlink
    // (4 bytes each). The size is at the same place.
    let mode = if cfg!(target_arch = "x86_64") { raw[3] as u32 } else { raw[2] as u32 };
    Stat { device: raw[0], inode: raw[1], mode, size: raw[6] }
}

/// Cuts a file off at its beginning.
pub fn truncate(descriptor: Fd) -> Result<usize> {
    call(nr::FTRUNCATE, [fd(descriptor), 0, 0, 0, 0, 0])
}

pub fn dup3(from: Fd, to: Fd, flags: usize) -> Result<usize> {
    call(nr::DUP3, [fd(from), fd(to), flags, 0, 0, 0])
}

/// Another descriptor for the same thing, with a number of at least `lowest`.
pub fn dup_above(descriptor: Fd, lowest: Fd) -> Result<Fd> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    call(nr::FCNTL, [fd(descriptor), F_DUPFD_CLOEXEC, fd(lowest), 0, 0, 0]).map(|n| n as Fd)
}

/// Has a descriptor closed by the next execution.
pub fn close_on_exec(descriptor: Fd) -> Result<usize> {
    const F_SETFD: usize = 2;
    const FD_CLOEXEC: usize = 1;
    call(nr::FCNTL, [fd(descriptor), F_SETFD, FD_CLOEXEC, 0, 0, 0])
}

pub fn pipe() -> Result<[Fd; 2]> {
    let mut ends = [0; 2];
    call(nr::PIPE2, [ends.as_mut_ptr() as usize, O_CLOEXEC, 0, 0, 0, 0])?;
    Ok(ends)
}

/// Makes reading and writing return rather than wait.
pub fn set_nonblocking(descriptor: Fd) -> Result<usize> {
    const F_GETFL: usize = 3;
    const F_SETFL: usize = 4;
    let flags = call(nr::FCNTL, [fd(descriptor), F_GETFL, 0, 0, 0, 0])?;
    call(nr::FCNTL, [fd(descriptor), F_SETFL, flags | O_NONBLOCK, 0, 0, 0])
}

/// How much could be read now.
pub fn readable_bytes(descriptor: Fd) -> Result<usize> {
    const FIONREAD: usize = 0x541b;
    let mut count = 0i32;
    ioctl(descriptor, FIONREAD, &raw mut count as usize)?;
    // SAFETY: a live local that the kernel wrote through the pointer above.
    let count = unsafe { (&raw const count).read_volatile() };
    usize::try_from(count).map_err(|_| EINVAL)
}

/// A connected pair of record sockets.
pub fn record_pair() -> Result<[Fd; 2]> {
    const AF_UNIX: usize = 1;
    const SOCK_SEQPACKET: usize = 5;
    let mut ends = [0; 2];
    call(nr::SOCKETPAIR, [AF_UNIX, SOCK_SEQPACKET | O_CLOEXEC, 0, ends.as_mut_ptr() as usize, 0, 0])?;
    Ok(ends)
}

/// A connected pair of sockets for bytes.
pub fn stream_pair() -> Result<[Fd; 2]> {
    const AF_UNIX: usize = 1;
    const SOCK_STREAM: usize = 1;
    let mut ends = [0; 2];
    call(nr::SOCKETPAIR, [AF_UNIX, SOCK_STREAM | O_CLOEXEC, 0, ends.as_mut_ptr() as usize, 0, 0])?;
    Ok(ends)
}

/// Enters a namespace.
pub fn setns(namespace: Fd, kind: usize) -> Result<usize> {
    call(nr::SETNS, [fd(namespace), kind, 0, 0, 0, 0])
}

/// Changes the owner of what an open descriptor refers to.
pub fn fchown(descriptor: Fd, uid: u32, gid: u32) -> Result<usize> {
    call(nr::FCHOWN, [fd(descriptor), uid as usize, gid as usize, 0, 0, 0])
}

/// A datagram socket of the internet family, only good for asking about interfaces.
pub fn interface_socket() -> Result<Fd> {
    const AF_INET: usize = 2;
    const SOCK_DGRAM: usize = 2;
    call(nr::SOCKET, [AF_INET, SOCK_DGRAM | O_CLOEXEC, 0, 0, 0, 0]).map(|n| n as Fd)
}

pub fn ioctl(descriptor: Fd, request: usize, argument: usize) -> Result<usize> {
    call(nr::IOCTL, [fd(descriptor), request, argument, 0, 0, 0])
}

#[repr(C)]
struct IoVec {
    base: usize,
    length: usize,
}

#[repr(C)]
struct MsgHdr {
    name: usize,
    name_length: u32,
    _pad0: u32,
    vectors: usize,
    vector_count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
    _pad1: i32,
}

const CONTROL_HEADER: usize = 16;

#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL_HEADER + 4 * crate::wire::DESCRIPTORS_MAX],
}

/// Sends one record with descriptors.
pub fn send(socket: Fd, record: &[u8], descriptors: &[Fd]) -> Result<usize> {
    const MSG_NOSIGNAL: usize = 0x4000;
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    let mut control = Control { bytes: [0; CONTROL_HEADER + 4 * crate::wire::DESCRIPTORS_MAX] };
    let control_length = CONTROL_HEADER + 4 * descriptors.len();
    if control_length > control.bytes.len() {
        return Err(EINVAL);
    }
    control.bytes[..8].copy_from_slice(&control_length.to_ne_bytes());
    control.bytes[8..12].copy_from_slice(&SOL_SOCKET.to_ne_bytes());
    control.bytes[12..16].copy_from_slice(&SCM_RIGHTS.to_ne_bytes());
    for (index, descriptor) in descriptors.iter().enumerate() {
        let at = CONTROL_HEADER + 4 * index;
        control.bytes[at..at + 4].copy_from_slice(&descriptor.to_ne_bytes());
    }
    let vector = IoVec { base: record.as_ptr() as usize, length: record.len() };
    let header = MsgHdr {
        name: 0,
        name_length: 0,
        _pad0: 0,
        vectors: &raw const vector as usize,
        vector_count: 1,
        control: if descriptors.is_empty() { 0 } else { control.bytes.as_ptr() as usize },
        control_length: if descriptors.is_empty() { 0 } else { control_length },
        flags: 0,
        _pad1: 0,
    };
    loop {
        let result = call(nr::SENDMSG, [fd(socket), &raw const header as usize, MSG_NOSIGNAL, 0, 0, 0]);
        if result != Err(EINTR) {
            return result;
        }
    }
}

/// Receives one record and the descriptors that come with it; returns how much of each. A record or a list of
/// descriptors that did not fit is refused.
pub fn receive(socket: Fd, record: &mut [u8], descriptors: &mut [Fd]) -> Result<(usize, usize)> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    const MSG_CTRUNC: i32 = 8;
    const MSG_TRUNC: i32 = 0x20;
    let mut control = Control { bytes: [0; CONTROL_HEADER + 4 * crate::wire::DESCRIPTORS_MAX] };
    let vector = IoVec { base: record.as_mut_ptr() as usize, length: record.len() };
    let mut header = MsgHdr {
        name: 0,
        name_length: 0,
        _pad0: 0,
        vectors: &raw const vector as usize,
        vector_count: 1,
        control: control.bytes.as_mut_ptr() as usize,
        control_length: control.bytes.len(),
        flags: 0,
        _pad1: 0,
    };
    let length = loop {
        match call(nr::RECVMSG, [fd(socket), &raw mut header as usize, MSG_CMSG_CLOEXEC, 0, 0, 0]) {
            Err(EINTR) => {}
            other => break other?,
        }
    };
    let mut count = 0;
    // The kernel rewrote the control block through the raw pointer: read it back as the kernel left it.
    let control = core::hint::black_box(&control);
    if header.control_length > CONTROL_HEADER {
        let mut size = [0; 8];
        size.copy_from_slice(&control.bytes[..8]);
        let size = usize::from_ne_bytes(size).min(control.bytes.len());
        let mut at = CONTROL_HEADER;
        while at + 4 <= size {
            let mut raw = [0; 4];
            raw.copy_from_slice(&control.bytes[at..at + 4]);
            let descriptor = Fd::from_ne_bytes(raw);
            match descriptors.get_mut(count) {
                Some(place) => {
                    *place = descriptor;
                    count += 1;
                }
                None => close(descriptor),
            }
            at += 4;
        }
    }
    if header.flags & (MSG_CTRUNC | MSG_TRUNC) != 0 {
        for descriptor in &descriptors[..count] {
            close(*descriptor);
        }
        return Err(EPROTO);
    }
    Ok((length, count))
}

/// Maps `length` bytes: of `file` read-only, or fresh memory where `file` is `None`.
pub fn map(file: Option<Fd>, length: usize) -> Result<*mut u8> {
    const PROT_READ: usize = 1;
    const PROT_WRITE: usize = 2;
    const MAP_PRIVATE: usize = 2;
    const MAP_ANONYMOUS: usize = 0x20;
    let arguments = match file {
        Some(file) => [0, length, PROT_READ, MAP_PRIVATE, fd(file), 0],
        None => [0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, usize::MAX, 0],
    };
    call(nr::MMAP, arguments).map(|address| address as *mut u8)
}

pub fn unmap(address: *mut u8, length: usize) {
    let _ = call(nr::MUNMAP, [address as usize, length, 0, 0, 0, 0]);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PollFd {
    pub descriptor: Fd,
    pub events: i16,
    pub returned: i16,
}

pub const POLLIN: i16 = 1;
pub const POLLOUT: i16 = 4;

/// Waits until something can be read, for so many milliseconds; without an end where there is no number.
pub fn poll(set: &mut [PollFd], milliseconds: Option<u64>) -> Result<usize> {
    let time = [0, milliseconds.unwrap_or(0) * 1_000_000];
    let timeout = if milliseconds.is_some() { time.as_ptr() as usize } else { 0 };
    call(nr::PPOLL, [set.as_mut_ptr() as usize, set.len(), timeout, 0, 0, 0])
}

/// Gives way for about a tenth of a millisecond; only where the kernel said "busy".
pub fn pause_briefly() {
    let moment = [0u64, 100_000];
    let _ = call(nr::PPOLL, [0, 0, moment.as_ptr() as usize, 0, 0, 0]);
}

/// Gives every signal its default effect: what a caller ignores would stay ignored, and the end of a child with it.
pub fn default_signals() -> Result<()> {
    // Those that cannot be changed need not be.
    for signal in (1..=64).filter(|signal| ![SIGKILL, SIGSTOP].contains(signal)) {
        let action = [0usize; 4];
        call(nr::RT_SIGACTION, [signal as usize, action.as_ptr() as usize, 0, 8, 0, 0])?;
    }
    Ok(())
}

/// Sets the mask of blocked signals.
pub fn block_signals(mask: u64) -> Result<usize> {
    const SIG_SETMASK: usize = 2;
    call(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const mask as usize, 0, 8, 0, 0])
}

/// A descriptor that can be read when one of the signals in `mask` is pending.
pub fn signal_descriptor(mask: u64) -> Result<Fd> {
    call(nr::SIGNALFD4, [usize::MAX, &raw const mask as usize, 8, O_CLOEXEC | O_NONBLOCK, 0, 0]).map(|n| n as Fd)
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Which side of a fork this is.
pub enum Forked {
    Parent { pid: i32, pidfd: Fd },
    Child,
}

/// Forks into new namespaces (`flags`), and into a v2 cgroup where one is given.
///
/// The child has a copy of the memory, so both sides go on from here.
pub fn fork_into(flags: u64, cgroup: Option<Fd>) -> Result<Forked> {
    let mut pidfd: Fd = -1;
    let mut arguments = CloneArgs {
        flags: flags | CLONE_PIDFD,
        pidfd: &raw mut pidfd as u64,
        exit_signal: SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup as u64;
    }
    let pid = call(nr::CLONE3, [&raw const arguments as usize, size_of::<CloneArgs>(), 0, 0, 0, 0])?;
    // The kernel wrote it through the pointer in `arguments`.
    // SAFETY: `pidfd` is a live local.
    let pidfd = unsafe { (&raw const pidfd).read_volatile() };
    Ok(if pid == 0 { Forked::Child } else { Forked::Parent { pid: pid as i32, pidfd } })
}

/// Clock ticks (hundredths of a second, in which `/proc` tells when a process started) since boot.
pub fn ticks_since_boot() -> u64 {
    const CLOCK_BOOTTIME: usize = 7;
    let mut time = [0u64; 2];
    match call(nr::CLOCK_GETTIME, [CLOCK_BOOTTIME, time.as_mut_ptr() as usize, 0, 0, 0, 0]) {
        Ok(_) => time[0] * 100 + time[1] / 10_000_000,
        // Zero means that everything is taken for younger.
        Err(_) => 0,
    }
}

/// Resource use of a process that was waited for.
#[derive(Default)]
#[repr(C)]
pub struct Rusage {
    pub user: [i64; 2],
    pub system: [i64; 2],
    pub max_resident: i64,
    _rest: [i64; 13],
}

/// Reaps one child that has ended: its pid and wait status; `None` when none has.
pub fn reap(usage: &mut Rusage) -> Result<Option<(i32, i32)>> {
    const WNOHANG: usize = 1;
    let mut status = 0i32;
    let pid =
        call(nr::WAIT4, [usize::MAX, &raw mut status as usize, WNOHANG, core::ptr::from_mut(usage) as usize, 0, 0])?;
    // SAFETY: `status` is a live local that the kernel wrote through the pointer above.
    let status = unsafe { (&raw const status).read_volatile() };
    Ok(if pid == 0 { None } else { Some((pid as i32, status)) })
}

/// Waits for one particular child to end.
pub fn wait_for(pid: i32) {
    while call(nr::WAIT4, [pid as usize, 0, 0, 0, 0, 0]) == Err(EINTR) {}
}

pub fn kill(pid: i32, signal: i32) -> Result<usize> {
    call(nr::KILL, [pid as isize as usize, signal as usize, 0, 0, 0, 0])
}

pub fn pidfd_kill(pidfd: Fd) -> Result<usize> {
    call(nr::PIDFD_SEND_SIGNAL, [fd(pidfd), SIGKILL as usize, 0, 0, 0, 0])
}

pub fn getpid() -> i32 {
    // Never fails; no process has the number that stands for a failure.
    call(nr::GETPID, [0; 6]).map_or(-1, |pid| pid as i32)
}

pub fn setsid() -> Result<usize> {
    call(nr::SETSID, [0; 6])
}

pub fn umask(mask: u32) {
    let _ = call(nr::UMASK, [mask as usize, 0, 0, 0, 0, 0]);
}

pub fn getuid() -> u32 {
    call(nr::GETUID, [0; 6]).map_or(u32::MAX, |uid| uid as u32)
}

pub fn getgid() -> u32 {
    call(nr::GETGID, [0; 6]).map_or(u32::MAX, |gid| gid as u32)
}

pub fn clear_groups() -> Result<usize> {
    call(nr::SETGROUPS, [0; 6])
}

pub fn setresgid(gid: u32) -> Result<usize> {
    let gid = gid as usize;
    call(nr::SETRESGID, [gid, gid, gid, 0, 0, 0])
}

pub fn setresuid(uid: u32) -> Result<usize> {
    let uid = uid as usize;
    call(nr::SETRESUID, [uid, uid, uid, 0, 0, 0])
}

/// Sets the three capability sets of this process to the same 64 bits.
pub fn capset(bits: u64) -> Result<usize> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    call(nr::CAPSET, [header.as_ptr() as usize, data.as_ptr() as usize, 0, 0, 0, 0])
}

/// The permitted capabilities of this process.
pub fn permitted_capabilities() -> Result<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let mut data = [0u32; 6];
    call(nr::CAPGET, [header.as_ptr() as usize, data.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    let data = core::hint::black_box(data);
    Ok(u64::from(data[1]) | u64::from(data[4]) << 32)
}

pub fn prctl(option: usize, a: usize, b: usize) -> Result<usize> {
    call(nr::PRCTL, [option, a, b, 0, 0, 0])
}

pub fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<usize> {
    let limit = [soft, hard];
    call(nr::PRLIMIT64, [0, resource as usize, limit.as_ptr() as usize, 0, 0, 0])
}

/// Lets this process have as many descriptors open as it may at all.
pub fn raise_descriptor_limit() -> Result<usize> {
    const RLIMIT_NOFILE: usize = 7;
    let mut limit = [0u64; 2];
    call(nr::PRLIMIT64, [0, RLIMIT_NOFILE, 0, limit.as_mut_ptr() as usize, 0, 0])?;
    let hard = core::hint::black_box(limit)[1];
    set_limit(RLIMIT_NOFILE as u32, hard, hard)
}

pub fn sethostname(name: &[u8]) -> Result<usize> {
    call(nr::SETHOSTNAME, [name.as_ptr() as usize, name.len(), 0, 0, 0, 0])
}

pub fn unshare(flags: usize) -> Result<usize> {
    call(nr::UNSHARE, [flags, 0, 0, 0, 0, 0])
}

/// `execve`: returns only the reason why not.
///
/// # Safety
/// `arguments` and `environment` must be NULL-terminated arrays of pointers to NUL-terminated strings.
pub unsafe fn execve(path: &[u8], arguments: *const usize, environment: *const usize) -> Errno {
    match call(nr::EXECVE, [c(path), arguments as usize, environment as usize, 0, 0, 0]) {
        Err(errno) => errno,
        Ok(_) => EINVAL,
    }
}

/// Makes a mount, and with `MS_REC` everything below it, private to this namespace.
pub fn make_private(path: &[u8]) -> Result<usize> {
    call(nr::MOUNT, [0, c(path), 0, MS_REC | MS_PRIVATE, 0, 0])
}

/// Whether this kernel has `mount_setattr` (Linux 5.12); asked once.
pub fn has_mount_setattr() -> bool {
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let has = mount_setattr(-1, 0, false, None) != Err(ENOSYS);
            ANSWER.store(1 + u8::from(has), Ordering::Relaxed);
            has
        }
        answer => answer == 2,
    }
}

/// What [`mount_setattr`] does, on kernels without it: for one attached mount, at `path`, without what is below it.
///
/// Restrictions that the mount has already are kept: taking one away would be refused.
pub fn restrict_mount(path: &[u8], attributes: u64) -> Result<usize> {
    const MS_REMOUNT: usize = 32;
    const MS_BIND: usize = 4096;
    const MS_RELATIME: usize = 1 << 21;
    /// Read-only, nosuid, nodev, noexec, noatime and nodiratime: the same numbers here and there.
    const SAME: usize = 0xc0f;
    const ST_RELATIME: usize = 4096;
    call(nr::MOUNT, [0, c(path), 0, MS_PRIVATE, 0, 0])?;
    let mount = openat(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0)?;
    // `struct statfs`: eleven words, of which the eleventh is the flags.
    let mut found = [0usize; 15];
    let result = call(nr::FSTATFS, [fd(mount), found.as_mut_ptr() as usize, 0, 0, 0, 0]);
    close(mount);
    result?;
    let flags = core::hint::black_box(found)[10];
    let mut wanted = (flags & SAME) | attributes as usize;
    if flags & ST_RELATIME != 0 {
        wanted |= MS_RELATIME;
    }
    call(nr::MOUNT, [0, c(path), 0, MS_REMOUNT | MS_BIND | wanted, 0, 0])
}

pub fn umount_detach(path: &[u8]) -> Result<usize> {
    call(nr::UMOUNT2, [c(path), MNT_DETACH, 0, 0, 0, 0])
}

pub fn pivot_root(new: &[u8], old: &[u8]) -> Result<usize> {
    call(nr::PIVOT_ROOT, [c(new), c(old), 0, 0, 0, 0])
}

/// Clones the mount at `path` (relative to `directory`, or `directory` itself where `path` is empty) as a detached one.
pub fn open_tree(directory: Fd, path: &[u8], recursive: bool) -> Result<Fd> {
    const OPEN_TREE_CLONE: usize = 1;
    let recursive = if recursive { AT_RECURSIVE } else { 0 };
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | recursive;
    call(nr::OPEN_TREE, [fd(directory), c(path), flags, 0, 0, 0]).map(|n| n as Fd)
}

/// Attaches a detached mount on the open place `onto`.
pub fn move_mount(mount: Fd, onto: Fd) -> Result<usize> {
    const EMPTY_PATHS: usize = 0x04 | 0x40;
    call(nr::MOVE_MOUNT, [fd(mount), c(b"\0"), fd(onto), c(b"\0"), EMPTY_PATHS, 0])
}

/// Attaches a detached mount at `path` below `directory`; a link at its end is not followed.
pub fn move_mount_to(mount: Fd, directory: Fd, path: &[u8]) -> Result<usize> {
    const FROM_EMPTY_PATH: usize = 0x04;
    call(nr::MOVE_MOUNT, [fd(mount), c(b"\0"), fd(directory), c(path), FROM_EMPTY_PATH, 0])
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets mount attributes and makes the mount private, so that nothing mounted below it shows on the host.
pub fn mount_setattr(mount: Fd, set: u64, recursive: bool, user_namespace: Option<Fd>) -> Result<usize> {
    let attributes = MountAttr {
        set,
        clear: 0,
        propagation: MS_PRIVATE as u64,
        user_namespace: user_namespace.map_or(0, |namespace| namespace as u64),
    };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    call(nr::MOUNT_SETATTR, [fd(mount), c(b"\0"), flags, &raw const attributes as usize, size_of::<MountAttr>(), 0])
}

/// Starts the configuration of a new file system.
pub fn fsopen(kind: &[u8]) -> Result<Fd> {
    const FSOPEN_CLOEXEC: usize = 1;
    call(nr::FSOPEN, [c(kind), FSOPEN_CLOEXEC, 0, 0, 0, 0]).map(|n| n as Fd)
}

/// Sets one option of a file system that is being configured; a flag where `value` is `None`.
pub fn fsconfig(context: Fd, key: &[u8], value: Option<&[u8]>) -> Result<usize> {
    const SET_FLAG: usize = 0;
    const SET_STRING: usize = 1;
    match value {
        None => call(nr::FSCONFIG, [fd(context), SET_FLAG, c(key), 0, 0, 0]),
        Some(value) => call(nr::FSCONFIG, [fd(context), SET_STRING, c(key), c(value), 0, 0]),
    }
}

/// Creates the configured file system and gives a detached mount of it.
pub fn fsmount(context: Fd, attributes: u64) -> Result<Fd> {
    const CMD_CREATE: usize = 6;
    const FSMOUNT_CLOEXEC: usize = 1;
    call(nr::FSCONFIG, [fd(context), CMD_CREATE, 0, 0, 0, 0])?;
    call(nr::FSMOUNT, [fd(context), FSMOUNT_CLOEXEC, attributes as usize, 0, 0, 0]).map(|n| n as Fd)
}

#[repr(C)]
struct LandlockRuleset {
    handled_files: u64,
    handled_network: u64,
    scoped: u64,
}

/// Makes a Landlock ruleset; `size` is the length of the structure that the kernel's version knows.
pub fn landlock_ruleset(files: u64, network: u64, scoped: u64, size: usize) -> Result<Fd> {
    let ruleset = LandlockRuleset { handled_files: files, handled_network: network, scoped };
    let size = size.min(size_of::<LandlockRuleset>());
    call(nr::LANDLOCK_CREATE_RULESET, [&raw const ruleset as usize, size, 0, 0, 0, 0]).map(|n| n as Fd)
}

#[repr(C, packed)]
struct LandlockPathBeneath {
    allowed: u64,
    parent: Fd,
}

/// Allows `access` beneath `parent`.
pub fn landlock_allow(ruleset: Fd, parent: Fd, access: u64) -> Result<usize> {
    const PATH_BENEATH: usize = 1;
    let rule = LandlockPathBeneath { allowed: access, parent };
    call(nr::LANDLOCK_ADD_RULE, [fd(ruleset), PATH_BENEATH, &raw const rule as usize, 0, 0, 0])
}

pub fn landlock_restrict(ruleset: Fd) -> Result<usize> {
    call(nr::LANDLOCK_RESTRICT_SELF, [fd(ruleset), 0, 0, 0, 0, 0])
}

#[repr(C)]
struct SockFprog {
    length: u16,
    filter: usize,
}

/// Loads a seccomp filter; with `listen`, returns the descriptor on which refused calls are announced.
pub fn seccomp_load(instructions: &[u8], listen: bool) -> Result<usize> {
    const SET_MODE_FILTER: usize = 1;
    const NEW_LISTENER: usize = 8;
    let Ok(length) = u16::try_from(instructions.len() / 8) else { return Err(EINVAL) };
    let program = SockFprog { length, filter: instructions.as_ptr() as usize };
    let flags = if listen { NEW_LISTENER } else { 0 };
    call(nr::SECCOMP, [SET_MODE_FILTER, flags, &raw const program as usize, 0, 0, 0])
}
