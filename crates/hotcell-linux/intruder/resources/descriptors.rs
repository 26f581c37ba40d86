//! Descriptors, timers, and the limits of a process.

use super::memory::pipe;
use crate::arguments::Arguments;
use crate::sys::{self, Fd};
use crate::{nr, report};

/// `descriptors COUNT MOST`: opens so many, and says so if there are more than MOST.
pub fn descriptors(arguments: Arguments) {
    const DUPLICATE: usize = 0;
    let mut count = 0;
    while count < arguments.number(0) {
        match sys::call(nr::FCNTL, &[1, DUPLICATE, 0]) {
            Ok(_) => count += 1,
            Err(errno) => {
                report::refused("fcntl", errno);
                break;
            }
        }
    }
    tell(count, arguments.number(1), "open descriptors");
}

fn tell(count: usize, most: usize, what: &str) {
    if count > most {
        report::reached(what, count);
    } else {
        report::line(format_args!("there were {count} {what}"));
    }
}

/// `in-flight COUNT MOST`: sends descriptors into sockets that nobody reads and closes its own: the files stay open, and
/// belong to no process.
pub fn in_flight(arguments: Arguments) {
    let mut count = 0;
    while count < arguments.number(0) {
        match send_descriptors() {
            Ok(sent) => count += sent,
            Err(errno) => {
                report::refused("sendmsg", errno);
                break;
            }
        }
    }
    tell(count, arguments.number(1), "descriptors in flight");
}

/// Sends both ends of a fresh pipe, many times over, to a socket whose only descriptor is the one it is sent from.
fn send_descriptors() -> sys::Result<usize> {
    const AF_UNIX: usize = 1;
    const SOCK_DGRAM: usize = 2;
    const COUNT: usize = 16;
    const SOL_SOCKET: u32 = 1;
    const SCM_RIGHTS: u32 = 1;
    let mut ends = [0 as Fd; 2];
    sys::call(nr::SOCKETPAIR, &[AF_UNIX, SOCK_DGRAM | sys::O_NONBLOCK, 0, ends.as_mut_ptr() as usize])?;
    let sent = pipe()?;
    // struct cmsghdr: length in 8 bytes, level, type; then the descriptors.
    let mut control = [0u32; 4 + COUNT];
    control[0] = size_of_val(&control) as u32;
    (control[2], control[3]) = (SOL_SOCKET, SCM_RIGHTS);
    control[4..].iter_mut().for_each(|descriptor| *descriptor = sent[0] as u32);
    let byte = b"x";
    let vector = [byte.as_ptr() as usize, 1];
    // struct msghdr: name and its length, vector and its length, control and its length, flags.
    let message = [0, 0, vector.as_ptr() as usize, 1, control.as_ptr() as usize, size_of_val(&control), 0];
    let result = sys::call(nr::SENDMSG, &[ends[0] as usize, message.as_ptr() as usize, 0]);
    sent.into_iter().for_each(sys::close);
    result.map(|_| COUNT)
}

/// `set-limit NUMBER VALUE`: sets one of the process's own limits, and the most that it can be raised to.
pub fn set_limit(arguments: Arguments) {
    let (resource, value) = (arguments.number(0), arguments.number(1));
    let mut limits = [0usize; 2];
    let set = sys::call(nr::PRLIMIT64, &[0, resource, 0, limits.as_mut_ptr() as usize]).and_then(|_| {
        let wanted = [value, limits[1].max(value)];
        sys::call(nr::PRLIMIT64, &[0, resource, wanted.as_ptr() as usize, 0])
    });
    report::success(format_args!("limit {resource} set to {value}"), set);
}

/// `timers COUNT MOST`: makes so many timers; each keeps a signal of the kernel's at hand.
pub fn timers(arguments: Arguments) {
    const MONOTONIC: usize = 1;
    let mut count = 0;
    while count < arguments.number(0) {
        let mut timer = 0i32;
        match sys::call(nr::TIMER_CREATE, &[MONOTONIC, 0, &raw mut timer as usize]) {
            Ok(_) => count += 1,
            Err(errno) => {
                report::refused("timer_create", errno);
                break;
            }
        }
    }
    tell(count, arguments.number(1), "timers");
}
