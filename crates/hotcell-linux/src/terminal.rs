//! Our end of a terminal in a box.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::socket;

/// The side of a terminal that shows what the program writes and types what it reads.
#[derive(Debug)]
pub struct Terminal {
    descriptor: AsyncFd<OwnedFd>,
}

impl Terminal {
    /// Takes over the descriptor that came with the program.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        socket::set_nonblocking(&descriptor)?;
        Ok(Self { descriptor: socket::register(descriptor)? })
    }

    /// Reads what the program wrote; zero when nothing has the terminal open any more.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.descriptor.async_io(Interest::READABLE, |inner| read_now(inner.as_raw_fd(), buffer)).await;
        hang_up_is_end(result)
    }

    /// Like [`Terminal::read`], but does not wait.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        hang_up_is_end(read_now(self.descriptor.as_raw_fd(), buffer))
    }

    /// Types something; returns how much of it was taken.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.descriptor
            .async_io(Interest::WRITABLE, |inner| {
                // SAFETY: the call reads `bytes.len()` bytes from a live slice.
                check(unsafe { libc::write(inner.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
            })
            .await
    }

    /// Sets its size.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call reads one winsize.
        let result = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn read_now(descriptor: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the call writes at most `buffer.len()` bytes to a live slice.
    check(unsafe { libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len()) })
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The kernel says EIO when the last program has closed the terminal.
fn hang_up_is_end(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
        other => other,
    }
}
