//! Encoding, which only the library does: the helper's own records are fixed in size.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Builds one record.
#[derive(Debug, Clone)]
pub struct Writer {
    record: Vec<u8>,
}

impl Writer {
    /// Starts a record of the kind `tag`.
    #[must_use]
    pub fn new(tag: u8) -> Self {
        Self { record: vec![tag] }
    }

    /// Appends one byte.
    #[must_use]
    pub fn u8(mut self, value: u8) -> Self {
        self.record.push(value);
        self
    }

    /// Appends four bytes.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Self {
        self.record.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends four bytes with a sign.
    #[must_use]
    pub fn i32(mut self, value: i32) -> Self {
        self.record.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends eight bytes.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.record.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a byte string.
    #[must_use]
    pub fn bytes(mut self, value: &[u8]) -> Self {
        // Records are capped far below 4 GiB (RECORD_MAX) before they are sent.
        self.record.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.record.extend_from_slice(value);
        self
    }

    /// Appends a string and the NUL that ends it. The caller has made sure that there is no NUL inside; the helper
    /// refuses the record otherwise.
    #[must_use]
    pub fn text(mut self, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref().as_bytes();
        self.record.extend_from_slice(&(value.len() as u32 + 1).to_le_bytes());
        self.record.extend_from_slice(value);
        self.record.push(0);
        self
    }

    /// Appends a path as a NUL-terminated string.
    #[must_use]
    pub fn path(self, value: &Path) -> Self {
        self.text(value.as_os_str())
    }

    /// Appends another record's bytes, without a length.
    #[must_use]
    pub fn append(mut self, other: &[u8]) -> Self {
        self.record.extend_from_slice(other);
        self
    }

    /// The record.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.record
    }
}
