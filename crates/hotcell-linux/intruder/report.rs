//! What the intruder says.

use alloc::string::String;
use core::fmt::{self, Display, Write};

use crate::sys::{self, Errno};

/// Writes one line in one piece, so that lines of several processes do not mix.
pub fn line(text: fmt::Arguments<'_>) {
    let mut line = String::new();
    let _ = writeln!(line, "{text}");
    sys::write_all(1, line.as_bytes());
}

/// The attack got somewhere.
pub fn reached(what: impl Display, detail: impl Display) {
    line(format_args!("reached {what}: {detail}"));
}

/// The attack got nowhere.
pub fn refused(what: impl Display, errno: Errno) {
    line(format_args!("refused {what}: {errno}"));
}

/// A system call whose own code must not be reached: anything but a refusal means that it was.
///
/// `EPERM`, `EACCES` and `ENOSYS` are how filters and permission checks refuse; `EBADF`, `EFAULT`, `EINVAL` and the like
/// come from code that looked at the arguments.
pub fn call(what: impl Display, result: sys::Result<usize>) {
    match result {
        Ok(value) => reached(what, value as isize),
        Err(errno @ (sys::EPERM | sys::EACCES | sys::ENOSYS)) => refused(what, errno),
        Err(errno) => reached(what, errno),
    }
}

/// Something that must not succeed: every error is a refusal.
pub fn success(what: impl Display, result: sys::Result<usize>) -> bool {
    match result {
        Ok(value) => reached(what, value as isize),
        Err(errno) => refused(what, errno),
    }
    result.is_ok()
}

/// Prints what was read: a planted secret in it is found by whoever planted it.
pub fn content(what: impl Display, bytes: &[u8]) {
    let mut shown = String::new();
    for &byte in bytes {
        shown.push(if byte.is_ascii_graphic() || byte == b' ' { byte as char } else { '.' });
    }
    line(format_args!("read {what}: {shown}"));
}

const NAMES: &[(i32, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (15, "ENOTBLK"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (36, "ENAMETOOLONG"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (75, "EOVERFLOW"),
    (87, "EUSERS"),
    (88, "ENOTSOCK"),
    (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"),
    (94, "ESOCKTNOSUPPORT"),
    (95, "EOPNOTSUPP"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (101, "ENETUNREACH"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (107, "ENOTCONN"),
    (109, "ETOOMANYREFS"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (113, "EHOSTUNREACH"),
    (115, "EINPROGRESS"),
    (116, "ESTALE"),
    (122, "EDQUOT"),
    (126, "ENOKEY"),
    (128, "EKEYREVOKED"),
];

impl Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}
