//! The profile for container engines, written down, so that a change of the table shows in review as a change of what
//! engines are told.
//!
//! `UPDATE_GOLDEN=1 cargo test -p hotcell-linux --test seccomp_profile` writes the files anew.
#![allow(clippy::expect_used, reason = "tests assert by panicking")]

use std::path::PathBuf;

use hotcell_linux::seccomp::profile::profile;
use hotcell_linux::seccomp::{Arch, FilterOptions};

fn compare(arch: Arch, file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let rendered = profile(arch, &FilterOptions::default()).to_json();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, rendered).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file exists");
    for (found, expected) in rendered.lines().zip(golden.lines()) {
        assert_eq!(found, expected, "{file} differs; if that is meant, run again with UPDATE_GOLDEN=1 and review");
    }
    assert_eq!(rendered.lines().count(), golden.lines().count(), "{file}");
}

#[test]
fn the_x86_64_profile_is_as_written_down() {
    compare(Arch::X86_64, "profile_x86_64.json");
}

#[test]
fn the_aarch64_profile_is_as_written_down() {
    compare(Arch::Aarch64, "profile_aarch64.json");
}
