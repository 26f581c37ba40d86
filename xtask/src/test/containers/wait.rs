//! Waiting for a descriptor, for a limited time.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until there is something to read, or an end: for a process descriptor, that of the process. False when the
/// deadline came first.
pub(super) fn until_readable(descriptor: BorrowedFd<'_>, deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: i64::try_from(left.as_secs())?, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut looked = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        match poll(&mut looked, Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(count) => return Ok(count > 0),
            Err(error) => return Err(error).context("cannot wait for a descriptor"),
        }
    }
}
