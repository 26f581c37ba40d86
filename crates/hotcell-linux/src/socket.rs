//! Record sockets with descriptors: the library's side of the wire.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::helper::sealed_file;
use crate::wire::{DESCRIPTORS_MAX, IN_MEMORY_FILE, INLINE_MAX, RECORD_MAX};

/// A connected pair of record sockets: the first for the library (it never blocks), the second for the helper.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    let result =
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made both and nobody else has them.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    set_nonblocking(&ours)?;
    Ok((ours, theirs))
}

/// Has the runtime tell when something can be read from `descriptor` or written to it.
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // Registering panics outside a runtime; an embedding program gets an error instead.
    tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    // SAFETY: an OwnedFd names the same open descriptor for as long as it lives, and the AsyncFd owns it.
    unsafe { AsyncFd::register(descriptor) }.map_err(|error| error.into_parts().1)
}

/// Makes operations on `descriptor` return rather than wait.
pub(crate) fn set_nonblocking(descriptor: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: plain numbers on a descriptor that the caller owns.
    let result = unsafe {
        let flags = libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A pipe, neither end of which is inherited by programs that somebody starts meanwhile.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made both and nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

const CONTROL_SPACE: usize = size_of::<libc::cmsghdr>() + size_of::<RawFd>() * (DESCRIPTORS_MAX + 1);

#[repr(C, align(8))]
struct Control([u8; CONTROL_SPACE]);

/// Sends one record, through a memory file where it is large. Does not wait.
pub(crate) fn send(socket: RawFd, record: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if record.len() > RECORD_MAX {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let mut raw: Vec<RawFd> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    if record.len() <= INLINE_MAX {
        return send_raw(socket, record, &raw);
    }
    let file = sealed_file(c"hotcell-record", record, false)?;
    raw.push(file.as_raw_fd());
    send_raw(socket, &[IN_MEMORY_FILE], &raw)
}

fn send_raw(socket: RawFd, record: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    let mut control = Control([0; CONTROL_SPACE]);
    let mut vector = libc::iovec { iov_base: record.as_ptr().cast_mut().cast(), iov_len: record.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if !descriptors.is_empty() {
        if descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let bytes = size_of_val(descriptors);
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_* compute places inside `control`, which has room for DESCRIPTORS_MAX descriptors and is
        // aligned for a cmsghdr.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
            std::ptr::copy_nonoverlapping(descriptors.as_ptr().cast::<u8>(), libc::CMSG_DATA(message), bytes);
        }
    }
    loop {
        // SAFETY: `header` points to live buffers of the lengths that it names.
        let sent = unsafe { libc::sendmsg(socket, &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Sends one record, waiting for room as long as it takes; for places that cannot await.
pub(crate) fn send_blocking(socket: RawFd, record: &[u8]) -> io::Result<()> {
    loop {
        match send(socket, record, &[]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut poll = libc::pollfd { fd: socket, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one live pollfd.
                if unsafe { libc::poll(&raw mut poll, 1, -1) } < 0 {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
            other => return other,
        }
    }
}

/// Sends one record, waiting for room without blocking the thread.
pub(crate) async fn send_async(
    socket: &AsyncFd<OwnedFd>,
    record: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    // Nearly always there is room, and then there is nothing to wait for.
    match send(socket.as_raw_fd(), record, descriptors) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        other => return other,
    }
    socket.async_io(Interest::WRITABLE, |inner| send(inner.as_raw_fd(), record, descriptors)).await
}

/// The longest record that is received here as it is. What the helper has to say is short.
const NOTICE_MAX: usize = 512;

/// One record as it was received.
pub(crate) struct Received {
    pub(crate) record: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Receives one record. `None`: the other side is gone.
pub(crate) async fn receive(socket: &AsyncFd<OwnedFd>) -> io::Result<Option<Received>> {
    socket.async_io(Interest::READABLE, |inner| receive_now(inner.as_raw_fd(), &mut [0; NOTICE_MAX])).await
}

/// Receives one record of any size, from somebody in this process.
pub(crate) async fn receive_large(socket: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    let received = socket.async_io(Interest::READABLE, |inner| receive_now(inner.as_raw_fd(), buffer)).await?;
    let Some(mut received) = received else { return Ok(None) };
    if received.record == [IN_MEMORY_FILE] {
        let file = received.descriptors.pop().ok_or(io::ErrorKind::InvalidData)?;
        received.record.clear();
        let mut file = File::from(file);
        file.rewind()?;
        file.take(RECORD_MAX as u64).read_to_end(&mut received.record)?;
    }
    Ok(Some(received))
}

fn receive_now(socket: RawFd, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    let mut control = Control([0; CONTROL_SPACE]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_SPACE;
    // SAFETY: `header` points to live buffers of the lengths that it names.
    let length = unsafe { libc::recvmsg(socket, &raw mut header, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) };
    if length < 0 {
        let error = io::Error::last_os_error();
        // The helper's end may have been reset rather than closed.
        return if error.raw_os_error() == Some(libc::ECONNRESET) { Ok(None) } else { Err(error) };
    }
    let descriptors = received_descriptors(&header);
    if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the helper sent a record that is too long"));
    }
    if length == 0 {
        return Ok(None);
    }
    Ok(Some(Received { record: buffer[..length as usize].to_vec(), descriptors }))
}

fn received_descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: the kernel filled the control buffer; CMSG_* stay inside `msg_controllen`. Every descriptor in an
    // SCM_RIGHTS message is new and ours.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*message).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(message).cast::<RawFd>();
                for index in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    descriptors
}
