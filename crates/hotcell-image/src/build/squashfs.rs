//! The image as a squashfs: small, compressed, read-only.

use std::fs::File;
use std::path::Path;

use super::error::BuildError;
use super::programs::TAR2SQFS;
use super::staging::write_whole;

/// Writes the files of an archive to a squashfs file system. The same archive and the same tar2sqfs give the same bytes.
pub fn export_squashfs(tar: &Path, output: &Path) -> Result<(), BuildError> {
    write_whole(output, |file| {
        // The archive is read directly, so no owner or mode has to exist on this machine's disk. mksquashfs can do that too,
        // but not twice the same.
        let archive = File::open(tar).map_err(BuildError::file("open", tar))?;
        let mut command = TAR2SQFS.command()?;
        command
            .args(["--quiet", "--force", "--no-xattr", "--compressor", "zstd", "--comp-extra", "level=9"])
            .arg(file)
            .stdin(archive);
        TAR2SQFS.run("make the squashfs", &mut command)?;
        Ok(())
    })
}
