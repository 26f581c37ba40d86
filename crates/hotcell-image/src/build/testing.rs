//! For tests of this module only.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use super::programs::Program;

/// Whether all programs are there. If not, the test is listed as skipped.
pub(super) fn have(test: &str, programs: &[Program]) -> bool {
    let Some(missing) = programs.iter().find(|program| program.find().is_err()) else { return true };
    if let Some(log) = env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: {} ({}) is not installed", missing.name, missing.package).unwrap();
    }
    false
}
