//! The image as an ext4 file system.
//!
//! Copying a directory into a new file system gives other bytes each time: the order of names and the times of change are those
//! of the directory. So the entries are written one by one, in their order, by debugfs. That needs no root either, since no
//! owner has to exist on this machine's disk.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::error::BuildError;
use super::programs::{DEBUGFS, E2FSCK, MKE2FS, Program};
use super::staging::{Staging, write_whole};
use super::tree::{Kind, Tree};

/// What would otherwise be random: the file system's name, and what its directories are hashed with.
const UUID: &str = "6d1f1d0e-8c51-5f0c-9a55-686f7463656c";

/// Named one by one, so that the machine's own defaults do not show. There is no journal: the image is read, or thrown away.
const FEATURES: &str = "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,\
                        metadata_csum,sparse_super";

const BLOCK: u64 = 4096;

/// Room for what a box writes before somebody makes the file system larger.
const SPARE_BYTES: u64 = 64 * 1024 * 1024;
const SPARE_INODES: usize = 16 * 1024;

/// Writes the files of an archive to an ext4 file system. The same archive and the same e2fsprogs give the same bytes.
///
/// The file is sparse. It has some 64 MB of room; `truncate` and `resize2fs` make more.
pub fn export_ext4(tar: &Path, output: &Path) -> Result<(), BuildError> {
    let mut tree = Tree::read(tar, &|_| true)?;
    let epoch = tree.newest();
    tree.settle(epoch)?;
    let staging = Staging::new()?;
    let script = make_script(&tree, tar, staging.path())?;
    let script_file = staging.path().join("script");
    fs::write(&script_file, script).map_err(BuildError::file("write", &script_file))?;

    write_whole(output, |file| {
        let (bytes, inodes) = dimensions(&tree);
        let mut make = command(MKE2FS, epoch)?;
        make.args(["-q", "-F", "-t", "ext4", "-b", &BLOCK.to_string(), "-I", "256", "-m", "0", "-L", "hotcell-code"])
            .args(["-O", FEATURES, "-U", UUID, "-N", &inodes.to_string()])
            .args(["-E", &format!("hash_seed={UUID},root_owner=0:0,lazy_itable_init=0,nodiscard")])
            .arg(file)
            .arg((bytes / BLOCK).to_string());
        MKE2FS.run("make an ext4 file system", &mut make)?;

        let step = "write files to the ext4 file system";
        let finished = DEBUGFS.run(step, command(DEBUGFS, epoch)?.arg("-w").arg("-f").arg(&script_file).arg(file))?;
        // It goes on after errors and succeeds in the end; the version is all that it says when all is well.
        if finished.stderr.lines().any(|line| !line.starts_with("debugfs 1.")) {
            return Err(DEBUGFS.failed(step, &finished));
        }
        let check = "check the ext4 file system";
        E2FSCK.run(check, command(E2FSCK, epoch)?.args(["-f", "-n"]).arg(file))?;
        Ok(())
    })
}

/// The time is told to the programs, and the machine's configuration is not.
fn command(program: Program, epoch: u64) -> Result<Command, BuildError> {
    let mut command = program.command()?;
    command.env("E2FSPROGS_FAKE_TIME", epoch.to_string()).env("SOURCE_DATE_EPOCH", epoch.to_string());
    command.env("MKE2FS_CONFIG", "/dev/null").env("DEBUGFS_PAGER", "cat");
    Ok(command)
}

/// How many bytes and inodes the file system gets: a function of the entries alone.
fn dimensions(tree: &Tree) -> (u64, usize) {
    let mut blocks: u64 = 0;
    let mut entries: usize = 0;
    for (_, entry) in tree.iter() {
        entries += 1;
        blocks += match &entry.kind {
            // A large file needs some more blocks to say where it is.
            Kind::File(data) => data.size().div_ceil(BLOCK) + data.size() / (64 * 1024 * 1024),
            Kind::Directory | Kind::Symlink(_) => 1,
            Kind::HardLink(_) => 0,
        };
    }
    let inodes = entries + SPARE_INODES;
    let bytes = blocks * BLOCK + inodes as u64 * 256 + SPARE_BYTES;
    // Directories of more than one block, bitmaps and the like: two hundredths.
    ((bytes + bytes / 50).next_multiple_of(4 * 1024 * 1024), inodes)
}

/// The commands for debugfs. It copies contents from files of this machine, which are numbered: their names there mean
/// nothing.
fn make_script(tree: &Tree, tar: &Path, staging: &Path) -> Result<String, BuildError> {
    let unusable = |why: String| BuildError::Archive { archive: tar.to_owned(), why };
    let mut names_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, entry) in tree.iter() {
        if let Kind::HardLink(file) = &entry.kind {
            *names_of.entry(file).or_insert(1) += 1;
        }
    }
    let mut contents = tree.open()?;
    let mut script = String::new();
    let mut here = String::new();
    for (number, (path, entry)) in tree.iter().enumerate() {
        if path.contains(['"', '\n', '\r']) {
            return Err(unusable(format!("debugfs cannot write the name `{}`", path.escape_debug())));
        }
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        // New names are given without a directory: debugfs takes `/name` for one in the directory that it is in.
        if here != above {
            let _ = writeln!(script, "cd \"/{above}\"");
            above.clone_into(&mut here);
        }
        let kind = match &entry.kind {
            Kind::Directory => {
                if !path.is_empty() {
                    let _ = writeln!(script, "mkdir \"{name}\"");
                }
                0o040_000
            }
            Kind::File(data) => {
                let source = staging.join(number.to_string());
                let mut file = File::create(&source).map_err(BuildError::file("write", &source))?;
                contents.copy(data, &mut file).map_err(BuildError::file("write", &source))?;
                let _ = writeln!(script, "write \"{}\" \"{name}\"", source.display());
                0o100_000
            }
            Kind::Symlink(target) => {
                if target.contains(['"', '\n', '\r']) {
                    return Err(unusable(format!("debugfs cannot write the link `{}`", path.escape_debug())));
                }
                let _ = writeln!(script, "symlink \"{name}\" \"{target}\"");
                0o120_000
            }
            Kind::HardLink(file) => {
                let _ = writeln!(script, "link \"/{file}\" \"{name}\"");
                continue;
            }
        };
        let mut set = |field: &str, value: String| {
            let _ = writeln!(script, "set_inode_field \"/{path}\" {field} {value}");
        };
        set("mode", format!("0{:o}", kind | entry.mode));
        if entry.uid != 0 {
            set("uid", entry.uid.to_string());
        }
        if entry.gid != 0 {
            set("gid", entry.gid.to_string());
        }
        set("mtime", format!("@{}", entry.mtime));
        if let Some(names) = names_of.get(path) {
            set("links_count", names.to_string());
        }
    }
    // Making an entry changes the time of the directory that it is in.
    for (path, entry) in tree.iter().filter(|(_, entry)| matches!(entry.kind, Kind::Directory)) {
        let _ = writeln!(script, "set_inode_field \"/{path}\" mtime @{}", entry.mtime);
    }
    Ok(script)
}

#[cfg(test)]
mod tests;
