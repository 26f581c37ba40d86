//! Compilers that are not in a system directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where the toolchain behind `rustc` is. What is in `PATH` may only be a proxy of it, which boxes cannot use.
pub(super) fn rust() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(ask_rustc).as_deref()
}

fn ask_rustc() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).stdin(Stdio::null()).output().ok()?;
    let place = Path::new(std::str::from_utf8(&output.stdout).ok()?.trim_end()).canonicalize().ok()?;
    place.join("bin/cargo").is_file().then_some(place)
}
