//! Archives that come back from a box on a server, and what becomes of the host's files.
//!
//! The input is lines, each an entry; `~` stands for the tree that may be written, as archives name it:
//!
//! ```text
//! d PATH          a directory that everybody may write, with all special bits
//! f PATH TEXT     a file, likewise
//! s PATH TARGET   a symbolic link
//! h PATH TARGET   a hard link
//! c PATH          a device
//! p PATH          a pipe
//! b PATH SIZE     a file that says that it is so large, without content
//! n PATH          the path of the next entry, as an extended header
//! x               the archive ends here, without its end
//! ```
//!
//! Holds: nothing outside of the tree changes, nor what is denied, only read or protected in it; inside are only files, directories
//! and links, without set-id bits, and no more of them than allowed; an archive that is refused changes nothing; and an error can be
//! shown on a terminal.
#![no_main]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use hotcell_backends::remote::fuzzing::{NotBrought, bring_back};
use hotcell_core::policy::{FilesystemPolicy, Policy};
use hotcell_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;
use tar::{Builder, EntryType, Header};

/// What may come back.
const BYTES: u64 = 4096;
const ENTRIES: usize = 40;

/// What is in the tree, and what the box must not change of it.
const FILES: [&str; 6] = ["a", "d/b", ".git/hooks/hook", ".git/config", "denied/secret", "read/text"];
const KEPT: [&str; 4] = [".git/hooks", ".git/config", "denied", "read"];

fuzz_target!(|data: &[u8]| {
    let arena = Arena::new();
    let before = arena.look("");
    let kept: Vec<Vec<Seen>> = KEPT.iter().map(|path| arena.look(path)).collect();
    let Some(archive) = arena.archive(data) else { return };

    let brought = bring_back(&arena.filesystem(), BYTES, ENTRIES, archive);

    match &brought {
        Err(NotBrought::Refused(error)) => {
            assert_printable(error);
            assert_eq!(arena.look(""), before, "it was refused, and files changed: {error}");
        }
        Err(NotBrought::Failed(error)) => assert_printable(error),
        Ok(_) => {}
    }
    arena.assert_outside_untouched();
    for (path, before) in KEPT.iter().zip(&kept) {
        assert_eq!(&arena.look(path), before, "{path} has changed");
    }
    let now = arena.look("");
    assert!(now.len() <= before.len() + ENTRIES, "there are too many files");
    let files = now.iter().filter(|seen| seen.mode & 0o170_000 == 0o100_000);
    let bytes: usize = files.map(|seen| seen.content.len()).sum();
    assert!(bytes as u64 <= BYTES + 100, "there are {bytes} bytes");
});

/// A tree to bring back into, with something beside it.
struct Arena(PathBuf);

/// What a file is.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    mode: u32,
    content: Vec<u8>,
}

impl Arena {
    fn new() -> Self {
        let place = std::env::temp_dir().canonicalize().expect("there is a place for files");
        let arena = Self(place.join(format!("hotcell-fuzz-{}", std::process::id())));
        let _ = fs::remove_dir_all(&arena.0);
        for path in FILES {
            let path = arena.tree().join(path);
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory can be made");
            fs::write(path, "text").expect("a file can be made");
        }
        fs::create_dir(arena.0.join("outside")).expect("a directory can be made");
        fs::write(arena.0.join("outside/secret"), "secret").expect("a file can be made");
        symlink("../outside", arena.tree().join("link")).expect("a link can be made");
        arena
    }

    fn tree(&self) -> PathBuf {
        self.0.join("t")
    }

    fn filesystem(&self) -> FilesystemPolicy {
        let tree = self.tree();
        let policy = Policy::builder().write(&tree).deny(tree.join("denied")).read(tree.join("read")).build();
        policy.expect("it is a policy").filesystem
    }

    /// The archive of a script; none if it has nothing in it.
    fn archive(&self, script: &[u8]) -> Option<File> {
        let mut archive = Builder::new(Vec::new());
        let mut cut = false;
        for line in script.split(|byte| *byte == b'\n').take(ENTRIES + 10) {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let kind = words.next().unwrap_or_default();
            let path = self.named(words.next().unwrap_or_default());
            let last = words.next().unwrap_or_default();
            match kind {
                b"d" => append(&mut archive, EntryType::Directory, &path, b"", b"", 0),
                b"f" => append(&mut archive, EntryType::Regular, &path, b"", last, last.len() as u64),
                b"s" => append(&mut archive, EntryType::Symlink, &path, last, b"", 0),
                b"h" => append(&mut archive, EntryType::Link, &path, &self.named(last), b"", 0),
                b"c" => append(&mut archive, EntryType::Char, &path, b"", b"", 0),
                b"p" => append(&mut archive, EntryType::Fifo, &path, b"", b"", 0),
                b"b" => append(&mut archive, EntryType::Regular, &path, b"", b"", number(last)),
                b"n" => {
                    let record = record(&path);
                    append(&mut archive, EntryType::XHeader, b"x", b"", &record, record.len() as u64);
                }
                b"x" => {
                    cut = true;
                    break;
                }
                _ => {}
            }
        }
        let mut bytes = if cut { archive.get_ref().clone() } else { archive.into_inner().ok()? };
        if bytes.is_empty() {
            return None;
        }
        let name = self.0.join("archive");
        // Nothing that an entry announces is longer than what is left of the file.
        bytes.truncate(1 << 20);
        File::create(&name).and_then(|mut file| file.write_all(&bytes)).expect("a file can be made");
        let archive = File::open(&name).expect("it is there");
        fs::remove_file(&name).expect("it is there");
        Some(archive)
    }

    /// A path as archives have it, with the tree in the place of `~`.
    fn named(&self, path: &[u8]) -> Vec<u8> {
        match path.strip_prefix(b"~") {
            Some(rest) => [b".", self.tree().as_os_str().as_encoded_bytes(), rest].concat(),
            None => path.to_vec(),
        }
    }

    /// Everything at and below a path of the tree.
    fn look(&self, path: &str) -> Vec<Seen> {
        let mut found = Vec::new();
        look(&self.tree().join(path), &mut found);
        found
    }

    fn assert_outside_untouched(&self) {
        let names = |path: &Path| fs::read_dir(path).expect("it is a directory").count();
        assert_eq!((names(&self.0), names(&self.0.join("outside"))), (2, 1), "something outside was made or removed");
        let secret = self.0.join("outside/secret");
        assert_eq!(fs::read(&secret).expect("it is there"), b"secret", "a file outside was written");
        let status = fs::symlink_metadata(&secret).expect("it is there");
        assert!(status.is_file() && status.nlink() == 1, "a file outside was replaced or linked to");
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn look(path: &Path, found: &mut Vec<Seen>) {
    let status = fs::symlink_metadata(path).expect("it is there");
    let kind = status.file_type();
    assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{path:?} is something else");
    assert!(kind.is_symlink() || status.mode() & 0o6000 == 0, "{path:?} has set-id bits");
    assert!(!kind.is_file() || status.nlink() == 1, "{path:?} has another name");
    let content = match kind {
        kind if kind.is_file() => fs::read(path).expect("it can be read"),
        kind if kind.is_symlink() => fs::read_link(path).expect("it is a link").into_os_string().into_encoded_bytes(),
        _ => Vec::new(),
    };
    found.push(Seen { path: path.to_owned(), mode: status.mode(), content });
    if kind.is_dir() {
        let entries = fs::read_dir(path).expect("it is a directory");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is an entry").path()).collect();
        paths.sort();
        paths.iter().for_each(|path| look(path, found));
    }
}

fn append(archive: &mut Builder<Vec<u8>>, kind: EntryType, path: &[u8], link: &[u8], content: &[u8], size: u64) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o7777);
    let old = header.as_old_mut();
    for (field, text) in [(&mut old.name, path), (&mut old.linkname, link)] {
        let length = text.len().min(field.len());
        field[..length].copy_from_slice(&text[..length]);
    }
    header.set_cksum();
    archive.append(&header, content).expect("memory can be written");
}

/// An extended header that names the next entry.
fn record(path: &[u8]) -> Vec<u8> {
    let rest = [b" path=", path, b"\n"].concat();
    let fits = |length: &usize| length.to_string().len() + rest.len() == *length;
    let length = (1..9999).find(fits).unwrap_or(0);
    [length.to_string().as_bytes(), &rest].concat()
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(1 << 40)
}
