//! Archives as the kernel unpacks them into its first file system: cpio, the "newc" format.

use anyhow::{Context, Result};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// The entry that ends an archive.
const END: &str = "TRAILER!!!";

/// An archive in the making.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory; its parents must be there already.
    pub(super) fn directory(&mut self, name: &str) -> Result<()> {
        self.entry(name, DIRECTORY, &[])
    }

    /// Adds a file that everybody may read and run.
    pub(super) fn file(&mut self, name: &str, contents: &[u8]) -> Result<()> {
        self.entry(name, PROGRAM, contents)
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry(END, 0, &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(contents.len()).with_context(|| format!("{name} is too large for an archive"))?;
        let name_size = u32::try_from(name.len() + 1).context("a name is too long for an archive")?;
        self.bytes.extend_from_slice(b"070701");
        // Inode, mode, uid, gid, links, time, size, device, device of a device file, size of the name, checksum.
        for field in [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0] {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_the_end_is_marked() {
        let mut archive = Archive::default();
        archive.directory("bin").unwrap();
        archive.file("bin/sh", b"12345").unwrap();
        let bytes = archive.finish().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // A header has 110 bytes; with its name and padding each part begins at a multiple of four.
        assert_eq!(&text[..14], "07070100000001");
        assert_eq!(&text[14..22], "000041ED");
        assert_eq!(&text[94..102], "00000004");
        assert_eq!(&text[110..116], "bin\0\0\0");
        let file = 116;
        assert_eq!(&text[file..file + 6], "070701");
        assert_eq!(&text[file + 14..file + 22], "000081ED");
        assert_eq!(&text[file + 54..file + 62], "00000005");
        assert_eq!(&text[file + 110..file + 128], "bin/sh\0\0\0\x0012345\0\0\0");
        assert!(text[file + 128..].starts_with("070701"));
        assert!(text.trim_end_matches('\0').ends_with(END));
        assert_eq!(bytes.len() % 4, 0);
    }
}
