//! Attacks on files.

pub mod mounts;
pub mod peeking;
pub mod planting;
pub mod reading;
pub mod rights;
pub mod writing;

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::{nr, report, sys};

/// `AT_EMPTY_PATH`: the descriptor itself.
const AT_EMPTY_PATH: usize = 0x1000;
/// `AT_SYMLINK_FOLLOW`: what the link leads to.
const AT_SYMLINK_FOLLOW: usize = 0x400;
const O_DIRECTORY: usize = if cfg!(target_arch = "aarch64") { 0o40000 } else { 0o200000 };
const O_TMPFILE: usize = 0o20000000 | O_DIRECTORY;

/// A path for `{}`.
fn shown(path: &CStr) -> &str {
    path.to_str().unwrap_or_default()
}

/// A string that the kernel takes; empty if there is a NUL in it.
fn c_string(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap_or_default()
}

/// `directory/name`.
fn beneath(directory: &CStr, name: &str) -> CString {
    c_string(format!("{}/{name}", shown(directory)))
}

/// The same path, looked up from however deep one is.
fn from_below(path: &CStr) -> CString {
    c_string(format!("{}{}", "../".repeat(40), shown(path).trim_start_matches('/')))
}

/// The name under which `/proc` has a descriptor of this process.
fn proc_name(fd: sys::Fd) -> CString {
    c_string(format!("/proc/self/fd/{fd}"))
}

/// Opens beneath a descriptor, reads, and prints what was read.
fn read_beneath(what: &str, directory: usize, path: &CStr) {
    let opened = sys::call(nr::OPENAT, &[directory, sys::c(path), sys::O_RDONLY | sys::O_NONBLOCK | sys::O_CLOEXEC]);
    read_opened(what, opened);
}

/// Reads what was opened, if it was, and prints what was read.
fn read_opened(what: &str, opened: sys::Result<usize>) {
    match opened {
        Ok(fd) => {
            match sys::read_all(fd as sys::Fd, 4096) {
                Ok(bytes) => report::content(what, &bytes),
                Err(errno) => report::refused(what, errno),
            }
            sys::close(fd as sys::Fd);
        }
        Err(errno) => report::refused(what, errno),
    }
}

/// Something whose effect on the host is looked for from there: only a refusal is worth a line.
fn tried(what: impl core::fmt::Display, result: sys::Result<usize>) -> bool {
    match result {
        Ok(_) => report::line(format_args!("did {what}")),
        Err(errno) => report::refused(what, errno),
    }
    result.is_ok()
}

/// Opens to change something, and says so.
fn open_to_change(path: &CStr, flags: usize) -> Option<sys::Fd> {
    match sys::open(path, flags | sys::O_NONBLOCK, 0o666) {
        Ok(fd) => Some(fd),
        Err(errno) => {
            report::refused(format_args!("open {} to change it", shown(path)), errno);
            None
        }
    }
}
