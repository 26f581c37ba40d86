//! The tool for files, as a program of its own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use hotcell_linux::wire::{Reader, tool};

use crate::common::helper;

/// A directory that is removed with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hotcell-tool-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(order: &str, path: &Path, number: Option<u64>, input: &[u8]) -> Output {
    let mut command = helper("file");
    command.arg(order).arg(path).args(number.map(|number| number.to_string()));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn code(order: &str, path: &Path, number: Option<u64>) -> i32 {
    run(order, path, number, b"").status.code().unwrap()
}

fn done(order: &str, path: &Path, number: Option<u64>, input: &[u8]) -> Vec<u8> {
    let output = run(order, path, number, input);
    assert_eq!(output.status.code(), Some(0), "{order} {}", path.display());
    output.stdout
}

#[test]
fn a_file_is_written_and_read() {
    let place = Place::new("written");
    let (path, bytes) = (place.at("file"), vec![7; 300_000]);
    done("write", &path, Some(0o640), &bytes);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(done("read", &path, Some(300_000), b"") == bytes);
    assert_eq!(code("read", &path, Some(299_999)), tool::TOO_LARGE);
    // What is there keeps its mode and loses its content; a link leads to it.
    symlink(&path, place.at("link")).unwrap();
    done("write", &place.at("link"), Some(0o777), b"short");
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
}

#[test]
fn only_regular_files_and_permission_bits_are_accepted() {
    let place = Place::new("regular");
    for mode in [0o4755, 0o2755, 0o1777, 0o100_644] {
        assert_eq!(code("write", &place.at("set"), Some(mode)), libc::EINVAL);
    }
    assert!(!place.at("set").exists());
    assert_eq!(code("read", Path::new("/dev/zero"), Some(10)), tool::NOT_REGULAR);
    assert_eq!(code("write", Path::new("/dev/null"), Some(0o644)), tool::NOT_REGULAR);
    assert_eq!(code("read", &place.0, Some(10)), tool::NOT_REGULAR);
    assert_eq!(code("write", &place.0, Some(0o644)), libc::EISDIR);
    // A pipe has another end, for which nobody waits.
    let pipe = place.at("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(code("read", &pipe, Some(10)), tool::NOT_REGULAR);
    assert_eq!(code("write", &pipe, Some(0o644)), libc::ENXIO);
    // A file that says it is empty.
    assert_eq!(code("read", Path::new("/proc/self/status"), Some(10)), tool::TOO_LARGE);
}

#[test]
fn a_directory_is_listed() {
    let place = Place::new("listed");
    for number in 0..3000 {
        fs::write(place.at(&format!("file-with-a-rather-long-name-{number:05}")), vec![0; number % 7]).unwrap();
    }
    let listed = done("list", &place.0, Some(3000), b"");
    let mut reader = Reader::new(&listed);
    let mut names = Vec::new();
    while !reader.is_empty() {
        let (mode, size) = (reader.u32().unwrap(), reader.u64().unwrap());
        let name = String::from_utf8(reader.bytes().unwrap().to_vec()).unwrap();
        let number: u64 = name.rsplit('-').next().unwrap().parse().unwrap();
        assert_eq!((mode & 0o170_000, size), (0o100_000, number % 7));
        names.push(name);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3000);
    assert_eq!(code("list", &place.0, Some(2999)), tool::TOO_LARGE);
    assert_eq!(code("list", &place.at("no-such"), Some(1)), libc::ENOENT);
    assert_eq!(code("list", Path::new("/etc/passwd"), Some(1)), libc::ENOTDIR);
}

#[test]
fn a_link_is_looked_at_and_not_followed() {
    let place = Place::new("looked-at");
    symlink("/etc", place.at("link")).unwrap();
    let seen = done("stat", &place.at("link"), None, b"");
    assert_eq!(Reader::new(&seen).u32().unwrap() & 0o170_000, 0o120_000);
    assert_eq!(code("stat", &place.at("no-such"), None), libc::ENOENT);
}

#[test]
fn directories_are_made_with_those_above() {
    let place = Place::new("made");
    done("mkdir", &place.at("a/b//c/d/"), None, b"");
    done("mkdir", &place.at("a/b/c/d"), None, b"");
    assert!(place.at("a/b/c/d").is_dir());
    fs::write(place.at("file"), b"").unwrap();
    symlink("nowhere", place.at("dangling")).unwrap();
    for name in ["file", "file/x", "dangling"] {
        assert_eq!(code("mkdir", &place.at(name), None), libc::ENOTDIR, "{name}");
    }
    assert_eq!(code("mkdir", &place.at(&"long/".repeat(1000)), None), libc::ENAMETOOLONG);
}

#[test]
fn a_tree_is_removed_and_nothing_that_it_links_to() {
    let place = Place::new("removed");
    fs::create_dir(place.at("kept")).unwrap();
    fs::write(place.at("kept/file"), b"precious").unwrap();
    let tree = place.at("tree");
    for branch in 0..20 {
        let deep = tree.join(format!("{branch}/a/b/c"));
        fs::create_dir_all(&deep).unwrap();
        for leaf in 0..30 {
            fs::write(deep.join(leaf.to_string()), b"").unwrap();
        }
        symlink("../../../../../kept", deep.join("link")).unwrap();
        symlink(place.at("kept"), tree.join(format!("{branch}/link"))).unwrap();
    }
    done("remove", &tree, None, b"");
    assert!(!tree.exists());
    assert_eq!(fs::read(place.at("kept/file")).unwrap(), b"precious");
    // A link is removed itself.
    symlink(place.at("kept"), place.at("link")).unwrap();
    done("remove", &place.at("link"), None, b"");
    assert!(place.at("kept/file").exists() && !place.at("link").is_symlink());
    assert_eq!(code("remove", &place.at("no-such"), None), libc::ENOENT);
}

#[test]
fn a_tree_of_any_depth_is_removed() {
    let place = Place::new("deep");
    // Too deep for a path: two halves, one put into the other.
    let half = "d/".repeat(1500);
    fs::create_dir_all(place.at(&half)).unwrap();
    fs::create_dir_all(place.at("other").join(&half)).unwrap();
    fs::rename(place.at("other/d"), place.at(&half).join("e")).unwrap();
    done("remove", &place.at("d"), None, b"");
    assert!(!place.at("d").exists());
}

#[test]
fn orders_that_there_are_not_are_refused() {
    assert_eq!(code("nonsense", Path::new("/"), None), libc::EINVAL);
    assert_eq!(code("read", Path::new("/etc/passwd"), None), libc::EINVAL);
    assert_eq!(helper("file").status().unwrap().code(), Some(libc::EINVAL));
    assert_eq!(helper("file").arg("stat").status().unwrap().code(), Some(libc::EINVAL));
}
