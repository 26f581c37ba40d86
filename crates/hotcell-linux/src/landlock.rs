//! Landlock: which rights this kernel knows, and the rules of a box.
//!
//! The rules are applied by the helper; here they are only gathered and encoded. Rights that a kernel does not know are
//! left out of what is handled, and [`Abi`] says which: the plan reports it.

use std::path::{Path, PathBuf};

use crate::wire::Writer;

/// The version of Landlock that a kernel has. Zero: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Abi(pub u32);

/// The newest version whose rights this crate handles.
pub const NEWEST: Abi = Abi(7);

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// Removing and making entries of every kind.
const ENTRIES: u64 = 0b1_1111_1111 << 4;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const NET_BIND_TCP: u64 = 1;
const NET_CONNECT_TCP: u64 = 2;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 2;

impl Abi {
    /// Asks the kernel.
    pub fn detect() -> Self {
        const VERSION: u32 = 1;
        // SAFETY: with this flag the call reads no memory.
        let result = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, VERSION)
        };
        Self(u32::try_from(result).unwrap_or(0).min(NEWEST.0))
    }

    /// All rights over files that this version knows.
    pub fn handled_files(self) -> u64 {
        let mut rights = EXECUTE | WRITE_FILE | READ_FILE | READ_DIR | ENTRIES;
        if self >= Self(2) {
            rights |= REFER;
        }
        if self >= Self(3) {
            rights |= TRUNCATE;
        }
        if self >= Self(5) {
            rights |= IOCTL_DEV;
        }
        rights
    }
}

/// What a path may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// List directories.
    List,
    /// Read and execute.
    Read,
    /// Read, execute, write, make and remove (but no device nodes).
    Write,
    /// Read and write devices.
    Device,
}

/// The rules of one box.
#[derive(Debug, Clone)]
pub struct Rules {
    abi: Abi,
    deny_tcp: bool,
    allowed: Vec<(PathBuf, Access, bool)>,
}

impl Rules {
    /// No path is allowed yet. With `deny_tcp`, no TCP address can be bound or reached either.
    pub fn new(abi: Abi, deny_tcp: bool) -> Self {
        Self { abi, deny_tcp, allowed: Vec::new() }
    }

    /// Allows `access` beneath `path`, which must be there when the rules are applied.
    pub fn allow(&mut self, path: &Path, access: Access, directory: bool) {
        self.allowed.push((path.to_owned(), access, directory));
    }

    fn rights(&self, access: Access, directory: bool) -> u64 {
        let rights = match access {
            Access::List => READ_DIR,
            Access::Read => EXECUTE | READ_FILE | READ_DIR,
            Access::Write => {
                EXECUTE | READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REFER | (ENTRIES & !(MAKE_CHAR | MAKE_BLOCK))
            }
            Access::Device => READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV | TRUNCATE,
        };
        let kind = if directory { u64::MAX } else { EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV };
        rights & kind & self.abi.handled_files()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let network = if self.deny_tcp && self.abi >= Abi(4) { NET_BIND_TCP | NET_CONNECT_TCP } else { 0 };
        let scoped = if self.abi >= Abi(6) { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 };
        // The structure that the kernel takes grew by eight bytes with versions 4 and 6.
        let size = match self.abi.0 {
            0..=3 => 8,
            4 | 5 => 16,
            _ => 24,
        };
        let mut record = Vec::new();
        record.extend_from_slice(&self.abi.handled_files().to_le_bytes());
        record.extend_from_slice(&network.to_le_bytes());
        record.extend_from_slice(&u64::to_le_bytes(scoped));
        record.extend_from_slice(&u32::to_le_bytes(size));
        record.extend_from_slice(&(self.allowed.len() as u32).to_le_bytes());
        for (path, access, directory) in &self.allowed {
            let rule = Writer::new(0).path(path).u64(self.rights(*access, *directory)).finish();
            record.extend_from_slice(&rule[1..]);
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_handles_what_the_older_ones_do() {
        for version in 1..NEWEST.0 {
            let (older, newer) = (Abi(version).handled_files(), Abi(version + 1).handled_files());
            assert_eq!(older & newer, older, "version {version}");
        }
    }

    #[test]
    fn reading_grants_no_change_and_files_get_no_directory_rights() {
        let rules = Rules::new(NEWEST, true);
        assert_eq!(rules.rights(Access::Read, true) & (WRITE_FILE | ENTRIES | TRUNCATE | REFER), 0);
        assert_eq!(rules.rights(Access::Write, false) & (READ_DIR | ENTRIES | REFER), 0);
        assert_eq!(rules.rights(Access::Write, true) & (MAKE_CHAR | MAKE_BLOCK), 0);
    }
}
