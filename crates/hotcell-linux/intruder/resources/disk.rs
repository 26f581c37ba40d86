//! Disk space, and files.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;

use super::MIB;
use super::memory::unlinked;
use crate::arguments::Arguments;
use crate::sys::{self, Errno, Fd};
use crate::{nr, report};

const ENOSPC: Errno = Errno(28);

/// `disk HOW MIB DIRECTORY OTHER…`: fills a file in the directory, or, where there is none, one in each of the others. HOW
/// is `write` or `allocate`.
pub fn disk(arguments: Arguments) {
    let (how, mib) = (arguments.text(0), arguments.number(1));
    for directory in places(arguments.skip(2)) {
        let name = directory.to_str().unwrap_or_default();
        let filled = unlinked(directory).and_then(|file| {
            let filled = if how == b"allocate" { allocate(file, mib) } else { write(file, mib) };
            sys::close(file);
            filled
        });
        match filled {
            Ok(()) => report::reached("disk", format_args!("{mib} MiB in {name}")),
            Err(errno) => report::refused(format_args!("fill {name}"), errno),
        }
    }
}

/// The first directory, if there is such a thing here, else all others.
fn places(directories: Arguments) -> Vec<&'static CStr> {
    let first = directories.c_str(0);
    match sys::open(first, sys::O_PATH, 0) {
        Ok(directory) => {
            sys::close(directory);
            alloc::vec![first]
        }
        Err(_) => directories.skip(1).all(),
    }
}

fn write(file: Fd, mib: usize) -> sys::Result<()> {
    let block = [1u8; 65536];
    let mut left = mib * MIB;
    while left > 0 {
        match sys::write(file, &block)? {
            0 => return Err(ENOSPC),
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

fn allocate(file: Fd, mib: usize) -> sys::Result<()> {
    sys::call(nr::FALLOCATE, &[file as usize, 0, 0, mib * MIB]).map(drop)
}

/// `files COUNT DIRECTORY OTHER…`: makes so many empty files, and removes them.
pub fn files(arguments: Arguments) {
    let count = arguments.number(0);
    for directory in places(arguments.skip(1)) {
        let name = directory.to_str().unwrap_or_default();
        let path = |index: usize| format!("{name}/intruder-file-{index}\0");
        let mut made = 0;
        let mut end = Ok(());
        while made < count && end.is_ok() {
            end = make(&path(made));
            made += usize::from(end.is_ok());
        }
        match end {
            Ok(()) => report::reached("files", format_args!("{made} in {name}")),
            Err(errno) => report::refused(format_args!("file {made} in {name}"), errno),
        }
        for index in 0..made {
            let path = path(index);
            let _ = sys::call(nr::UNLINKAT, &[sys::AT_FDCWD, path.as_ptr() as usize, 0]);
        }
    }
}

fn make(path: &str) -> sys::Result<()> {
    let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap_or_default();
    sys::open(path, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, 0o600).map(sys::close)
}
