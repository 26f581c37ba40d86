//! Refused system calls, as the kernel announces them.
//!
//! A filter can hand the calls that it refuses to a supervisor instead of answering by itself. The supervisor here gives
//! every one of them the same answer (`EPERM`) and counts: nothing is decided on arguments, which the caller could change
//! meanwhile, and nothing is ever allowed. If the supervisor stops listening, the kernel answers `ENOSYS`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;

/// A system call that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCall {
    /// Its number on this architecture.
    pub number: u32,
    /// Its first argument: enough to tell a socket family or an ioctl.
    pub first_argument: u64,
}

/// Receives and answers refused calls of one box.
#[derive(Debug)]
pub struct Listener {
    descriptor: AsyncFd<OwnedFd>,
}

impl Listener {
    /// Listens on the descriptor that came with the box.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        crate::socket::set_nonblocking(&descriptor)?;
        Ok(Self { descriptor: crate::socket::register(descriptor)? })
    }

    /// The next refused call, already answered. `None`: nothing that runs can make one any more.
    pub async fn next(&self) -> Option<RefusedCall> {
        self.descriptor.async_io(Interest::READABLE, |inner| answer(inner.as_raw_fd())).await.ok().flatten()
    }
}

fn answer(listener: RawFd) -> io::Result<Option<RefusedCall>> {
    let mut poll = libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd, and no waiting. The ioctl below would wait.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if poll.revents & libc::POLLIN == 0 {
        let ended = poll.revents & (libc::POLLHUP | libc::POLLERR) != 0;
        return if ended { Ok(None) } else { Err(io::ErrorKind::WouldBlock.into()) };
    }
    let mut call = Notification::default();
    // SAFETY: the ioctl writes one `seccomp_notif`, which `Notification` is.
    if unsafe { libc::ioctl(listener, RECEIVE as _, &raw mut call) } < 0 {
        let error = io::Error::last_os_error();
        // The caller was killed between our looking and our taking.
        let vanished = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR));
        return Err(if vanished { io::ErrorKind::WouldBlock.into() } else { error });
    }
    let response = Response { id: call.id, value: 0, error: -libc::EPERM, flags: 0 };
    // SAFETY: the ioctl reads one `seccomp_notif_resp`. It fails if the caller is gone, which changes nothing.
    unsafe { libc::ioctl(listener, SEND as _, &raw const response) };
    Ok(Some(RefusedCall { number: call.number as u32, first_argument: call.arguments[0] }))
}
