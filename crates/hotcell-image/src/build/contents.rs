//! What of the packages' files goes into the image, and what is added to them.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::error::BuildError;
use super::lock::Lock;
use super::tree::{Data, Entry, Kind, Tree, normal};

/// The user that boxes run as.
pub(super) const USER: &str = "hotcell";
/// Its number, and that of its group.
pub(super) const UID: u32 = 1000;
/// Its home directory.
pub(super) const HOME: &str = "/home/hotcell";

/// Where npm lives: not in the places of Debian's own packages.
const NPM: &str = "usr/local/lib/node_modules/npm";

/// The largest npm that is unpacked. The archive's hash is pinned, so this only bounds mistakes.
const NPM_LIMIT: u64 = 64 * 1024 * 1024;

/// Directories whose contents belong to a running system, or to the machine that built the image.
const EMPTIED: &[&str] = &["dev", "proc", "run", "sys", "tmp", "var/tmp"];

/// Directories in which only directories stay: caches and logs say when and where the image was built.
const WITHOUT_FILES: &[&str] = &["var/cache", "var/lib/apt", "var/log"];

/// What nobody reads in a box. The packages' licences stay.
const UNREAD: &[&str] = &[
    "usr/share/bug",
    "usr/share/doc-base",
    "usr/share/gitweb",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/menu",
    "usr/share/pixmaps",
];

/// Files that tell of the build, locks, and older copies of files.
const DROPPED: &[&str] = &[
    "etc/.pwd.lock",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/sources.list",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "etc/group-",
    "etc/gshadow-",
    "etc/machine-id",
    "etc/passwd-",
    "etc/shadow-",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/triggers/Lock",
];

/// Small files that are the same in every image.
const ADDED: &[(&str, &str)] = &[
    // These are made by whoever starts a box. They exist so that a read-only root file system has a place for them.
    ("etc/hostname", "hotcell\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/resolv.conf", ""),
    // Trees that are shown to a box often belong to another user; there is nobody in the box to be protected from them.
    ("etc/gitconfig", "[safe]\n\tdirectory = *\n"),
    // There is one user and no package manager to get in the way of.
    ("etc/pip.conf", "[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\n"),
    ("usr/local/lib/node_modules/npm/npmrc", "prefix=${HOME}/.local\nupdate-notifier=false\n"),
];

/// Whether an entry of the packages' root file system stays.
pub(super) fn keep(path: &str) -> bool {
    let beneath = |directories: &[&str]| directories.iter().any(|directory| is_beneath(path, directory));
    if let Some(inner) = path.strip_prefix("usr/share/doc/") {
        // A package's directory (or link to another's), and the licence in it.
        return inner.split_once('/').is_none_or(|(_, file)| file == "copyright");
    }
    !(beneath(EMPTIED) || beneath(UNREAD) || DROPPED.contains(&path))
}

fn is_beneath(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a file (not a directory) stays.
fn keep_file(path: &str) -> bool {
    !WITHOUT_FILES.iter().any(|directory| is_beneath(path, directory))
}

/// Makes the image's root file system from that of the packages.
pub(super) fn complete(tree: &mut Tree, lock: &Lock, npm: &Path) -> Result<(), BuildError> {
    tree.retain(|path, entry| matches!(entry.kind, Kind::Directory) || keep_file(path));
    check_packages(tree, lock)?;
    add_user(tree, lock.epoch)?;
    add_npm(tree, npm, lock.epoch)?;
    for (path, text) in ADDED {
        tree.put(path, Entry::new(Kind::File(Data::Memory(text.as_bytes().to_vec())), 0o644, lock.epoch));
    }
    Ok(())
}

/// The package manager's own list must be the lock file's.
fn check_packages(tree: &Tree, lock: &Lock) -> Result<(), BuildError> {
    let wrong = |why: String| BuildError::WrongPackages { why };
    let status = tree.contents("var/lib/dpkg/status")?.ok_or_else(|| wrong("it has no list of packages".into()))?;
    let status = String::from_utf8_lossy(&status);
    let mut installed: Vec<(&str, &str)> = Vec::new();
    for stanza in status.split("\n\n").filter(|stanza| !stanza.trim().is_empty()) {
        let field = |name: &str| {
            stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
        };
        if field("Status") != "install ok installed" {
            return Err(wrong(format!("`{}` is `{}`", field("Package"), field("Status"))));
        }
        installed.push((field("Package"), field("Version")));
    }
    installed.sort_unstable();
    let locked: Vec<(&str, &str)> =
        lock.packages.iter().map(|package| (package.name.as_str(), package.version.as_str())).collect();
    let first_not_in = |some: &[(&str, &str)], others: &[(&str, &str)]| {
        some.iter().find(|package| !others.contains(package)).map(|(name, version)| format!("{name} {version}"))
    };
    if let Some(package) = first_not_in(&locked, &installed) {
        return Err(wrong(format!("{package} is not installed")));
    }
    if let Some(package) = first_not_in(&installed, &locked) {
        return Err(wrong(format!("{package} is not locked")));
    }
    Ok(())
}

fn add_user(tree: &mut Tree, epoch: u64) -> Result<(), BuildError> {
    for (path, line) in [
        ("etc/passwd", format!("{USER}:*:{UID}:{UID}:{USER}:{HOME}:/bin/bash\n")),
        ("etc/group", format!("{USER}:*:{UID}:\n")),
    ] {
        let mut bytes = tree.contents(path)?.unwrap_or_default();
        bytes.extend_from_slice(line.as_bytes());
        tree.put(path, Entry::new(Kind::File(Data::Memory(bytes)), 0o644, epoch));
    }
    let home = HOME.trim_start_matches('/');
    tree.make_directories(home, epoch);
    let id = u64::from(UID);
    tree.put(home, Entry { kind: Kind::Directory, mode: 0o755, uid: id, gid: id, mtime: epoch });
    Ok(())
}

/// Unpacks npm's own archive, and puts its two commands on the path.
fn add_npm(tree: &mut Tree, archive: &Path, epoch: u64) -> Result<(), BuildError> {
    let unusable = |why: String| BuildError::Archive { archive: archive.to_owned(), why };
    let broken = |error: std::io::Error| unusable(error.to_string());
    let file = std::fs::File::open(archive).map_err(BuildError::file("open", archive))?;
    let mut unpacked = Archive::new(GzDecoder::new(file).take(NPM_LIMIT));
    for entry in unpacked.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = normal(&name).map_err(unusable)?;
        let Some(name) = name.strip_prefix("package/") else { continue };
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory || is_beneath(name, "docs") || is_beneath(name, "man") {
            continue;
        }
        if kind != EntryType::Regular {
            return Err(unusable(format!("`{}` is no file", name.escape_debug())));
        }
        let runs = entry.header().mode().map_err(broken)? & 0o100 != 0;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        let path = format!("{NPM}/{name}");
        tree.make_directories(path.rsplit_once('/').map_or(NPM, |(above, _)| above), epoch);
        tree.put(&path, Entry::new(Kind::File(Data::Memory(bytes)), if runs { 0o755 } else { 0o644 }, epoch));
    }
    for command in ["npm", "npx"] {
        let target = format!("{NPM}/bin/{command}-cli.js");
        if tree.contents(&target)?.is_none() {
            return Err(unusable(format!("it has no {command}")));
        }
        tree.make_directories("usr/local/bin", epoch);
        let link = format!("../lib/node_modules/npm/bin/{command}-cli.js");
        tree.put(&format!("usr/local/bin/{command}"), Entry::new(Kind::Symlink(link), 0o777, epoch));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
