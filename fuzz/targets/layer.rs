//! Layers that are unpacked, as bytes of a tar or as a list of entries.
//!
//! An input that begins with `tar` and a new line is one layer, byte by byte. Any other is lines, each an entry:
//!
//! ```text
//! d PATH          a directory that everybody may write, with all special bits
//! f PATH          a file, likewise
//! s PATH TARGET   a symbolic link
//! h PATH TARGET   a hard link
//! c PATH          a device
//! n PATH          the path of the next entry, as an extended header
//! -               the next layer
//! ```
//!
//! Holds: nothing outside of the directory changes; inside are only files, directories and links, without set-id bits; what is
//! there can be removed; and an error can be shown on a terminal.
#![no_main]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_fuzz::assert_printable;
use hotcell_image::Limits;
use hotcell_image::unpack::{Unpacker, remove_tree};
use libfuzzer_sys::fuzz_target;
use tar::{Builder, EntryType, Header};

/// More of them take time and show nothing new.
const ENTRIES: usize = 60;

fuzz_target!(|data: &[u8]| {
    let layers = match data.strip_prefix(b"tar\n") {
        Some(tar) => vec![tar.to_vec()],
        None => layers(data),
    };
    let arena = Arena::new();
    let mut limits = Limits::default();
    limits.unpacked_bytes = 1 << 20;
    limits.depth = 20;
    if let Ok(mut unpacker) = Unpacker::new(&arena.root(), limits) {
        for layer in layers {
            if let Err(error) = unpacker.layer(&layer[..], "the layer") {
                assert_printable(&error.to_string());
                break;
            }
        }
    }
    arena.assert_untouched();
    assert_plain(&arena.root(), 0);
    remove_tree(&arena.root()).expect("what was unpacked can be removed");
});

fn layers(script: &[u8]) -> Vec<Vec<u8>> {
    let mut layers = vec![Builder::new(Vec::new())];
    for line in script.split(|byte| *byte == b'\n').take(ENTRIES) {
        let mut words = line.split(|byte| *byte == b' ');
        let (kind, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let target = words.next().unwrap_or_default();
        let Some(layer) = layers.last_mut() else { return Vec::new() };
        match kind {
            b"-" => layers.push(Builder::new(Vec::new())),
            b"d" => append(layer, EntryType::Directory, path, b"", b""),
            b"f" => append(layer, EntryType::Regular, path, b"", b"content"),
            b"s" => append(layer, EntryType::Symlink, path, target, b""),
            b"h" => append(layer, EntryType::Link, path, target, b""),
            b"c" => append(layer, EntryType::Char, path, b"", b""),
            b"n" => append(layer, EntryType::XHeader, b"x", b"", &record(path)),
            _ => {}
        }
    }
    layers.into_iter().filter_map(|layer| layer.into_inner().ok()).collect()
}

fn append(layer: &mut Builder<Vec<u8>>, kind: EntryType, path: &[u8], link: &[u8], content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o7777);
    let old = header.as_old_mut();
    for (field, text) in [(&mut old.name, path), (&mut old.linkname, link)] {
        let length = text.len().min(field.len());
        field[..length].copy_from_slice(&text[..length]);
    }
    header.set_cksum();
    layer.append(&header, content).expect("memory can be written");
}

fn record(path: &[u8]) -> Vec<u8> {
    let rest = [b" path=", path, b"\n"].concat();
    let fits = |length: &usize| length.to_string().len() + rest.len() == *length;
    let length = (1..9999).find(fits).unwrap_or(0);
    [length.to_string().as_bytes(), &rest].concat()
}

/// A directory to unpack into, with something beside it.
struct Arena(PathBuf);

impl Arena {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let place = place.join(format!("hotcell-fuzz-layer-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(place.join("root")).expect("a directory can be made");
        fs::create_dir(place.join("outside")).expect("a directory can be made");
        fs::write(place.join("outside/secret"), "secret").expect("a file can be made");
        Self(place)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn assert_untouched(&self) {
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

fn assert_plain(directory: &Path, depth: u32) {
    assert!(depth <= 20, "the tree is too deep");
    for entry in fs::read_dir(directory).expect("it is a directory") {
        let path = entry.expect("it is an entry").path();
        let status = fs::symlink_metadata(&path).expect("it is there");
        let kind = status.file_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{path:?} is something else");
        assert!(kind.is_symlink() || status.mode() & 0o6000 == 0, "{path:?} has set-id bits");
        if kind.is_dir() {
            assert_plain(&path, depth + 1);
        }
    }
}
