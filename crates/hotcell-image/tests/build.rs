//! The whole build of the reference image, and its exports.
//!
//! It takes minutes and downloads 100 MB, so it runs only when it is asked for:
//!
//! ```console
//! $ HOTCELL_TEST_IMAGE_BUILD=1 cargo test -p hotcell-image --test build
//! ```
//!
//! The archive stays in `~/.cache/hotcell/image-build`, where tests that need an image find it.

#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use hotcell_image::build::{self, BuildOptions, Lock};
use tar::EntryType;

/// The most that the image may need when it is unpacked.
const SIZE_LIMIT: u64 = 500_000_000;

fn asked_for(test: &str) -> bool {
    let asked = env::var_os("HOTCELL_TEST_IMAGE_BUILD").is_some_and(|value| value == "1");
    if !asked && let Some(log) = env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: slow; HOTCELL_TEST_IMAGE_BUILD=1 runs it").unwrap();
    }
    asked
}

fn same_bytes(one: &Path, other: &Path) -> bool {
    let status = Command::new("cmp").arg("--silent").arg(one).arg(other).status().unwrap();
    status.success()
}

#[test]
fn two_builds_give_the_recorded_archive() {
    if !asked_for("two_builds_give_the_recorded_archive") {
        return;
    }
    let options = BuildOptions::from_environment().unwrap();
    let mut lines = Vec::new();
    let first = build::build(&options, &mut |line| lines.push(line.to_owned())).unwrap();
    assert!(!lines.is_empty());
    assert_eq!(first.as_recorded, Some(true), "the lock file records {:?}", Lock::of_code().unwrap().rootfs);

    let elsewhere = tempfile::TempDir::new().unwrap();
    let mut other = options.clone();
    other.output = Some(elsewhere.path().join("again.tar"));
    let second = build::build(&other, &mut |_| ()).unwrap();
    assert_eq!(first.sha256, second.sha256);
    assert_eq!(build::find_built(&options).unwrap().unwrap().sha256, first.sha256);

    let mut unpacked = 0;
    for entry in tar::Archive::new(File::open(&first.tar).unwrap()).entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        let path = entry.path().unwrap().into_owned();
        let plain = [EntryType::Regular, EntryType::Directory, EntryType::Symlink, EntryType::Link];
        assert!(plain.contains(&header.entry_type()), "{}", path.display());
        assert_eq!(header.mode().unwrap() & 0o6000, 0, "{}", path.display());
        unpacked += header.size().unwrap().next_multiple_of(4096).max(4096);
    }
    assert!(unpacked < SIZE_LIMIT, "{unpacked} bytes unpacked");

    for (kind, export) in [
        ("ext4", build::export_ext4 as fn(&Path, &Path) -> Result<(), build::BuildError>),
        ("squashfs", build::export_squashfs),
    ] {
        let [one, two] = ["one", "two"].map(|name| elsewhere.path().join(format!("{name}.{kind}")));
        export(&first.tar, &one).unwrap();
        export(&second.tar, &two).unwrap();
        assert!(same_bytes(&one, &two), "two {kind} file systems differ");
    }
}
