//! Boxes on a stand-in for a server: processes of this machine, in a mount namespace with a `/tmp` of its own.

mod boxes;
mod interrupted;
mod local;
mod scripts;
mod wrapper;

use std::fs::File;
use std::io::Write;

/// Notes that a test could not run here.
fn skip(test: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = File::options().append(true).create(true).open(log).unwrap();
        log.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
    }
}
