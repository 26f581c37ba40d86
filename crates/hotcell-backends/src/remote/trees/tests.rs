//! Archives, honest and hostile, and what is sent.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hotcell_core::backend::{CreateError, FileKind};
use hotcell_core::policy::{FilesystemPolicy, Policy};
use tar::{Builder, EntryType, Header};

use super::index::{Files, Root, index};
use super::{BringError, Caps, pack};
use crate::cell::workspace::copied::{Content, Fingerprints};

const CAPS: Caps = Caps { bytes: 10_000, entries: 20, path_bytes: 2000 };

struct Archive(Builder<File>);

impl Archive {
    fn new() -> Self {
        Self(Builder::new(tempfile::tempfile().unwrap()))
    }

    /// An archive that has the tree `/t` itself.
    fn of_tree() -> Self {
        Self::new().entry(b"./t/", EntryType::Directory, b"", 0)
    }

    /// An entry whose name is not looked at by whoever writes it.
    fn entry(mut self, path: &[u8], kind: EntryType, link: &[u8], size: usize) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size as u64);
        header.set_mode(0o644);
        header.as_mut_bytes()[..path.len()].copy_from_slice(path);
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link);
        header.set_cksum();
        self.0.append(&header, &vec![b'x'; size][..]).unwrap();
        self
    }

    fn file(self, path: &str) -> Self {
        self.entry(path.as_bytes(), EntryType::Regular, b"", 3)
    }

    fn finish(self) -> File {
        self.0.into_inner().unwrap()
    }
}

fn filesystem() -> FilesystemPolicy {
    Policy::builder().overlay("/t").deny("/t/denied").read("/t/read").write("/w/single").build().unwrap().filesystem
}

fn root(path: &str, is_directory: bool) -> Root {
    Root { path: path.into(), is_directory }
}

fn indexed(archive: Archive) -> Result<Files, BringError> {
    indexed_of(&archive.finish(), &[root("/t", true)]).map(|mut found| found.remove(0))
}

fn indexed_of(archive: &File, roots: &[Root]) -> Result<Vec<Files>, BringError> {
    index(archive, &filesystem(), roots, CAPS, &Fingerprints::default())
}

#[track_caller]
fn refused(archive: Archive, why: &str) {
    let error = indexed(archive).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn an_honest_archive_is_listed() {
    let archive = Archive::of_tree()
        .file("./t/file")
        .entry(b"./t/directory/", EntryType::Directory, b"", 0)
        .file("./t/directory/inner")
        .entry(b"./t/link", EntryType::Symlink, b"/etc/passwd", 0)
        .entry(b"./t/second", EntryType::Link, b"./t/file", 0)
        .entry(b"./t/pipe", EntryType::Fifo, b"", 0);
    let found = indexed(archive).unwrap();
    let kinds: Vec<_> = found.iter().map(|(path, (record, _))| (path.to_str().unwrap(), record.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("directory", FileKind::Directory),
            ("directory/inner", FileKind::File),
            ("file", FileKind::File),
            ("link", FileKind::Link),
            ("pipe", FileKind::Other),
            ("second", FileKind::File),
        ]
    );
    assert_eq!(found[Path::new("link")].0.content, Content::Target("/etc/passwd".into()));
    // Another name is a file of its own with the same content.
    assert_eq!(found[Path::new("second")].0, found[Path::new("file")].0);
    assert_eq!(found[Path::new("second")].1, found[Path::new("file")].1);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    refused(Archive::of_tree().file("./t/../../etc/passwd"), "`..`");
    refused(Archive::of_tree().file("t/.."), "`..`");
    refused(Archive::of_tree().file("/t/absolute"), "absolute");
    refused(Archive::of_tree().file("./etc/passwd"), "not asked for");
    refused(Archive::of_tree().file("./tt"), "not asked for");
    refused(Archive::of_tree().file("./w/single"), "not asked for");
    let mut long = Builder::new(tempfile::tempfile().unwrap());
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(5001);
    header.set_cksum();
    long.append(&header, &[vec![b'a'; 5000], vec![0]].concat()[..]).unwrap();
    refused(Archive(long).file("./t/x"), "bytes of paths");
}

#[test]
fn nothing_is_beneath_a_link_or_a_file_or_nothing() {
    let link = Archive::of_tree().entry(b"./t/link", EntryType::Symlink, b"/etc", 0);
    refused(link.file("./t/link/passwd"), "not a directory");
    refused(Archive::of_tree().file("./t/file").file("./t/file/inner"), "not a directory");
    refused(Archive::of_tree().file("./t/missing/inner"), "not in the archive");
    refused(Archive::new().file("./t/before-the-tree"), "not in the archive");
}

#[test]
fn an_archive_that_contradicts_itself_is_refused() {
    refused(Archive::of_tree().file("./t/twice").file("./t/twice"), "twice");
    refused(Archive::of_tree().file("./t/twice").file("t/./twice"), "twice");
    refused(Archive::of_tree().entry(b"./t/", EntryType::Directory, b"", 0), "twice");
    refused(Archive::new().entry(b"./t", EntryType::Symlink, b"/", 0), "directory and is none");
    refused(Archive::new().entry(b"./t", EntryType::Regular, b"", 1), "directory and is none");
    refused(Archive::new(), "not in it");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::Link, b"./etc/passwd", 0), "not asked for");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::Link, b"./t/later", 0), "did not come before");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::Link, b"../etc/passwd", 0), "`..`");
    let to_link = Archive::of_tree().entry(b"./t/l", EntryType::Symlink, b"/etc/passwd", 0);
    refused(to_link.entry(b"./t/x", EntryType::Link, b"./t/l", 0), "did not come before");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::Symlink, b"", 0), "link to nothing");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::GNUSparse, b"", 0), "holes");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::new(b'Q'), b"", 0), "unknown kind");
}

#[test]
fn too_much_is_refused_and_the_limit_is_named() {
    let within = (0..18).fold(Archive::of_tree(), |archive, number| archive.file(&format!("./t/{number}")));
    assert_eq!(indexed(within).unwrap().len(), 18);
    let many = (0..20).fold(Archive::of_tree(), |archive, number| archive.file(&format!("./t/{number}")));
    refused(many, "more than 20 files");
    refused(Archive::of_tree().entry(b"./t/x", EntryType::Regular, b"", 10_001), "more than 10000 bytes");
    // Files that are one in the archive are many on the host.
    let large = Archive::of_tree().entry(b"./t/x", EntryType::Regular, b"", 4000);
    let linked = large.entry(b"./t/y", EntryType::Link, b"./t/x", 0).entry(b"./t/z", EntryType::Link, b"./t/x", 0);
    refused(linked, "more than 10000 bytes");
    // Targets of links are kept like paths.
    let links = |count| {
        (0..count).fold(Archive::of_tree(), |archive, number| {
            archive.entry(format!("./t/{number:02}").as_bytes(), EntryType::Symlink, &[b'a'; 100], 0)
        })
    };
    assert_eq!(indexed(links(18)).unwrap().len(), 18);
    refused(links(19), "more than 2000 bytes of paths");
}

#[test]
fn an_archive_that_was_cut_is_refused_wherever_that_was() {
    let mut whole = Archive::of_tree().file("./t/a").entry(b"./t/b", EntryType::Regular, b"", 0).finish();
    let mut bytes = Vec::new();
    whole.rewind().unwrap();
    whole.read_to_end(&mut bytes).unwrap();
    for length in 0..bytes.len() {
        let mut cut = tempfile::tempfile().unwrap();
        cut.write_all(&bytes[..length]).unwrap();
        assert!(indexed_of(&cut, &[root("/t", true)]).is_err(), "{length} of {}", bytes.len());
    }
    assert!(indexed_of(&whole, &[root("/t", true)]).is_ok());
}

#[test]
fn what_has_another_rule_is_not_of_the_tree() {
    let archive = Archive::of_tree()
        .entry(b"./t/denied/", EntryType::Directory, b"", 0)
        .file("./t/denied/planted")
        .file("./t/read")
        .file("./t/own");
    let found = indexed(archive).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), [Path::new("own")]);
}

#[test]
fn a_single_file_stays_one() {
    let roots = [root("/w/single", false)];
    let found = indexed_of(&Archive::new().file("./w/single").finish(), &roots).unwrap();
    assert_eq!(found[0].keys().collect::<Vec<_>>(), [Path::new("single")]);
    for kind in [EntryType::Directory, EntryType::Symlink, EntryType::Fifo] {
        let archive = Archive::new().entry(b"./w/single", kind, b"x", 0).finish();
        assert!(indexed_of(&archive, &roots).unwrap_err().to_string().contains("none any more"));
    }
    assert!(indexed_of(&Archive::new().finish(), &roots).is_err());
}

/// A tree of the host's with something of every kind.
fn host() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().canonicalize().unwrap().join("tree");
    fs::create_dir_all(tree.join("inner/deep")).unwrap();
    fs::create_dir(tree.join("secret")).unwrap();
    fs::write(tree.join("secret/key"), "SECRET").unwrap();
    fs::write(tree.join("inner/deep/file"), "content").unwrap();
    fs::set_permissions(tree.join("inner/deep/file"), fs::Permissions::from_mode(0o754)).unwrap();
    fs::write(place.path().join("outside"), "OUTSIDE").unwrap();
    symlink("../outside", tree.join("link")).unwrap();
    symlink(place.path(), tree.join("inner/up")).unwrap();
    let _ = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    (place, tree)
}

fn listed(policy: &FilesystemPolicy, caps: Caps) -> Result<(Vec<String>, Vec<u8>), CreateError> {
    let mut packed = pack(policy, caps, &Fingerprints::default())?;
    packed.archive.rewind().unwrap();
    let mut bytes = Vec::new();
    packed.archive.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, packed.length);
    let mut names = Vec::new();
    let mut archive = tar::Archive::new(&bytes[..]);
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        names.push(format!("{} {:o}", entry.path().unwrap().display(), entry.header().mode().unwrap()));
    }
    Ok((names, bytes))
}

#[test]
fn what_is_sent_is_the_tree_and_nothing_else() {
    let (_place, tree) = host();
    let policy = Policy::builder().read(&tree).deny(tree.join("secret")).build().unwrap().filesystem;
    let (names, bytes) = listed(&policy, Caps { bytes: 1 << 20, ..CAPS }).unwrap();
    let top = tree.strip_prefix("/").unwrap().display().to_string();
    let short: Vec<String> = names.iter().map(|name| name.replace(&top, "T")).collect();
    let expected =
        ["T 755", "T/inner 755", "T/link 777", "T/inner/deep 755", "T/inner/up 777", "T/inner/deep/file 754"];
    assert_eq!(short, expected);
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("SECRET") && !text.contains("OUTSIDE") && !text.contains("socket"));
}

#[test]
fn what_is_too_much_to_send_is_refused_with_the_limit() {
    let (_place, tree) = host();
    let policy = Policy::builder().read(&tree).build().unwrap().filesystem;
    for (caps, named) in [
        (Caps { bytes: 8, ..CAPS }, "8 bytes, which is the disk limit"),
        (Caps { entries: 4, ..CAPS }, "4 files and directories"),
        (Caps { path_bytes: 20, ..CAPS }, "20 bytes of paths"),
    ] {
        let error = listed(&policy, caps).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn what_leads_elsewhere_is_not_sent() {
    let (place, tree) = host();
    let real = place.path().canonicalize().unwrap();
    symlink(&tree, real.join("alias")).unwrap();
    let through = Policy::builder().read(real.join("alias/inner")).build().unwrap().filesystem;
    assert!(listed(&through, CAPS).unwrap_err().to_string().contains("a link leads from it"));
    let other_name = Policy::builder().read(&tree).deny(real.join("alias/secret")).build().unwrap().filesystem;
    assert!(listed(&other_name, CAPS).unwrap_err().to_string().contains("it is denied"));
    for own in ["/", "/proc", "/dev/null", "/sys"] {
        let policy = Policy::builder().read(own).build().unwrap().filesystem;
        assert!(matches!(listed(&policy, CAPS), Err(CreateError::Path { .. })), "{own}");
    }
}
