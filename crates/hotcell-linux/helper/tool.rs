//! The tool for files, for boxes into which no descriptor gets: a program of the box like any other, with no more rights.
//!
//! ```text
//! file read PATH LIMIT    file write PATH MODE    file list PATH LIMIT    file stat PATH    file mkdir PATH    file remove PATH
//! ```
//!
//! Numbers are decimal. `wire::tool` has what it writes and how it ends. What is at a path is whatever the code in the box
//! put there, so nothing here waits for the other end of anything, and only regular files are read and written.

use crate::launch::text_at;
use crate::sys::{self, Errno, Fd};
use crate::text::{Text, parse_number};
use crate::transport::write_all;
use crate::wire::tool::{NOT_REGULAR, TOO_LARGE};

const INPUT: Fd = 0;
const OUTPUT: Fd = 1;
const BUFFER: usize = 64 * 1024;
const PATH_MAX: usize = 4096;
/// How often a directory is looked through while it is removed. Something in the box may be adding to it.
const LOOKS_MAX: u32 = 4_000_000;

/// Why the tool ends as it does: an error of the kernel's, or one of its own numbers.
type Outcome = Result<(), Errno>;

pub fn run(arguments: &[usize]) -> ! {
    // What it reads and writes is not for others of the same user to change on the way.
    let outcome = sys::prctl(sys::PR_SET_DUMPABLE, 0, 0).and_then(|_| {
        sys::umask(0);
        act(arguments)
    });
    match outcome {
        Ok(()) => sys::exit(0),
        Err(errno) => sys::exit(errno.0),
    }
}

fn act(arguments: &[usize]) -> Outcome {
    // SAFETY: the kernel put pointers to NUL-terminated strings there, which live as long as the process.
    let argument = |index: usize| arguments.get(index).map(|at| unsafe { text_at(*at as *const u8) });
    let path = argument(1).ok_or(sys::EINVAL)?;
    let number = || argument(2).and_then(parse_number).ok_or(sys::EINVAL);
    match argument(0).unwrap_or_default() {
        b"read\0" => read(path, number()?),
        b"write\0" => write(path, number()?),
        b"list\0" => list(path, number()?),
        b"stat\0" => stat(path),
        b"mkdir\0" => make_directory(path),
        b"remove\0" => remove(path),
        _ => Err(sys::EINVAL),
    }
}

fn buffer() -> sys::Result<&'static mut [u8]> {
    // SAFETY: a fresh mapping of that length that nobody else has, and that is never unmapped.
    sys::map(None, BUFFER).map(|start| unsafe { core::slice::from_raw_parts_mut(start, BUFFER) })
}

/// Opens a regular file. Gives its size, too.
fn open_regular(path: &[u8], flags: usize, mode: u32) -> sys::Result<(Fd, u64)> {
    const S_IFMT: u32 = 0o170000;
    const S_IFREG: u32 = 0o100000;
    let file = sys::openat(sys::AT_FDCWD, path, flags | sys::O_NONBLOCK | sys::O_NOCTTY, mode)?;
    let found = sys::fstat(file)?;
    if found.mode & S_IFMT == S_IFREG { Ok((file, found.size)) } else { Err(Errno(NOT_REGULAR)) }
}

fn read(path: &[u8], limit: u64) -> Outcome {
    let (file, size) = open_regular(path, sys::O_RDONLY, 0)?;
    if size > limit {
        return Err(Errno(TOO_LARGE));
    }
    let buffer = buffer()?;
    let mut left = limit;
    loop {
        let length = sys::read(file, buffer)?;
        if length == 0 {
            return Ok(());
        }
        // It may grow, or have lied about its size.
        left = left.checked_sub(length as u64).ok_or(Errno(TOO_LARGE))?;
        write_all(OUTPUT, &buffer[..length])?;
    }
}

fn write(path: &[u8], mode: u64) -> Outcome {
    // No set-ID bits, and nothing else that is not a permission.
    let mode = u32::try_from(mode).ok().filter(|mode| mode & !0o777 == 0).ok_or(sys::EINVAL)?;
    let (file, _) = open_regular(path, sys::O_WRONLY | sys::O_CREAT, mode)?;
    sys::truncate(file)?;
    let buffer = buffer()?;
    loop {
        match sys::read(INPUT, buffer)? {
            0 => return Ok(()),
            length => write_all(file, &buffer[..length])?,
        }
    }
}

fn list(path: &[u8], limit: u64) -> Outcome {
    let directory = sys::openat(sys::AT_FDCWD, path, sys::O_RDONLY | sys::O_DIRECTORY | sys::O_NONBLOCK, 0)?;
    let mut count = 0;
    each_name(directory, buffer()?, |name| {
        if count == limit {
            return Err(Errno(TOO_LARGE));
        }
        match sys::lstatat(directory, name) {
            Ok(found) => {
                count += 1;
                let length = (name.len() as u32 - 1).to_le_bytes();
                write_all(OUTPUT, entry(&found).push(&length).name(name).as_bytes())?;
            }
            // Removed meanwhile.
            Err(sys::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        Ok(true)
    })
    .map(|_| ())
}

fn stat(path: &[u8]) -> Outcome {
    write_all(OUTPUT, entry(&sys::lstatat(sys::AT_FDCWD, path)?).as_bytes())
}

/// Mode and size, and room for the longest name.
fn entry(found: &sys::Stat) -> Text<1100> {
    Text::new().push(&found.mode.to_le_bytes()).push(&found.size.to_le_bytes())
}

/// Calls `visit` with each name in a directory, NUL included, until that says `false`. Whether it always said `true`.
fn each_name(directory: Fd, buffer: &mut [u8], mut visit: impl FnMut(&[u8]) -> sys::Result<bool>) -> sys::Result<bool> {
    // struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
    const NAME: usize = 19;
    loop {
        let length = sys::getdents(directory, buffer)?;
        if length == 0 {
            return Ok(true);
        }
        let mut at = 0;
        while at + NAME < length {
            let size = usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
            let entry = buffer.get(at + NAME..at + size).ok_or(sys::EINVAL)?;
            let end = entry.iter().position(|byte| *byte == 0).ok_or(sys::EINVAL)?;
            let name = &entry[..=end];
            if !matches!(name, b".\0" | b"..\0") && !visit(name)? {
                return Ok(false);
            }
            at += size;
        }
    }
}

/// A directory and those above it: up to the first that can be made or is there, and down again.
fn make_directory(path: &[u8]) -> Outcome {
    const MODE: u32 = 0o755;
    let mut memory = [0; PATH_MAX];
    let whole = path.len() - 1;
    memory.get_mut(..whole).ok_or(sys::ENAMETOOLONG)?.copy_from_slice(&path[..whole]);
    let mut end = whole;
    // Something in the box may be removing what is made here.
    let mut attempts = 4 * PATH_MAX;
    loop {
        attempts = usize::saturating_sub(attempts, 1);
        let rest = memory[end];
        memory[end] = 0;
        let at = &memory[..=end];
        let made = match sys::mkdirat(sys::AT_FDCWD, at, MODE) {
            Err(sys::EEXIST) => match sys::openat(sys::AT_FDCWD, at, sys::O_PATH | sys::O_DIRECTORY, 0) {
                Ok(found) => {
                    sys::close(found);
                    Ok(0)
                }
                // A link that leads nowhere is no directory.
                Err(sys::ENOENT) => Err(sys::ENOTDIR),
                Err(errno) => Err(errno),
            },
            other => other,
        };
        memory[end] = rest;
        match made {
            Ok(_) if end == whole => return Ok(()),
            Ok(_) => {
                let below = memory[end + 1..whole].iter().position(|byte| *byte == b'/');
                end = below.map_or(whole, |below| end + 1 + below);
            }
            Err(sys::ENOENT) if attempts > 0 => {
                let above = memory[..end].iter().rposition(|byte| *byte == b'/').filter(|above| *above > 0);
                end = above.ok_or(sys::ENOENT)?;
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// What is at a path, and all that is in it. No link is followed but those on the way to it.
fn remove(path: &[u8]) -> Outcome {
    match remove_one(sys::AT_FDCWD, path) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(errno) => return Err(errno),
    }
    let directory = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_NOFOLLOW | sys::O_NONBLOCK;
    empty(sys::openat(sys::AT_FDCWD, path, directory, 0)?)?;
    if remove_one(sys::AT_FDCWD, path)? { Ok(()) } else { Err(sys::ENOTEMPTY) }
}

/// `Ok(false)`: it is a directory that is not empty.
fn remove_one(directory: Fd, name: &[u8]) -> sys::Result<bool> {
    match sys::unlinkat(directory, name, 0) {
        Ok(_) => return Ok(true),
        // What some file systems say of a directory.
        Err(sys::EISDIR | sys::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    match sys::unlinkat(directory, name, sys::AT_REMOVEDIR) {
        Ok(_) => Ok(true),
        Err(sys::ENOTEMPTY | sys::EEXIST) => Ok(false),
        // It was no directory after all, so what was refused was refused.
        Err(sys::ENOTDIR) => Err(sys::EPERM),
        Err(errno) => Err(errno),
    }
}

/// Where a directory is, to be known again.
type Identity = [u64; 2];

/// Removes all that is in a directory: goes down to the first that has nothing but files, and up again by `..`, as long as
/// that is the directory that it came from.
fn empty(top: Fd) -> Outcome {
    /// Memory is taken only as deep as it goes.
    const DEPTH_MAX: usize = 1 << 20;
    let above = sys::map(None, DEPTH_MAX * size_of::<Identity>())?.cast::<Identity>();
    let buffer = buffer()?;
    let flags = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_NOFOLLOW | sys::O_NONBLOCK;
    let (mut current, mut depth) = (top, 0);
    for _ in 0..LOOKS_MAX {
        let looked_at = sys::openat(current, b".\0", flags, 0)?;
        let mut below = None;
        let emptied = each_name(looked_at, buffer, |name| match remove_one(current, name) {
            Ok(false) => {
                below = Some(sys::openat(current, name, flags, 0)?);
                Ok(false)
            }
            // Somebody else removed it.
            Ok(true) | Err(sys::ENOENT) => Ok(true),
            Err(errno) => Err(errno),
        });
        sys::close(looked_at);
        emptied?;
        let next = match below {
            Some(below) => {
                if depth == DEPTH_MAX {
                    return Err(sys::EBUSY);
                }
                let found = sys::fstat(current)?;
                // SAFETY: below DEPTH_MAX, the number of entries of the mapping.
                unsafe { above.add(depth).write([found.device, found.inode]) };
                depth += 1;
                below
            }
            None if depth == 0 => return Ok(()),
            None => {
                let up = sys::openat(current, b"..\0", flags, 0)?;
                depth -= 1;
                let found = sys::fstat(up)?;
                // SAFETY: an entry that was written on the way down.
                if unsafe { above.add(depth).read() } != [found.device, found.inode] {
                    // Moved meanwhile: what is above it now is not ours to remove.
                    return Err(sys::EBUSY);
                }
                up
            }
        };
        sys::close(current);
        current = next;
    }
    Err(sys::EBUSY)
}
