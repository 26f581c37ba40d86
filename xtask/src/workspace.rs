//! Where this workspace is, and how to call its cargo.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The directory of the root manifest.
pub(crate) fn root() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask's own directory has no parent")
}

/// The cargo that runs us, started in the workspace root.
///
/// Variables that steer Hotcell itself are taken away, so that a developer's own settings decide nothing here.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root()?);
    forget_hotcell_settings(&mut command);
    Ok(command)
}

/// Removes the caller's `HOTCELL_*` settings from what `command` inherits.
pub(crate) fn forget_hotcell_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("HOTCELL_") {
            command.env_remove(name);
        }
    }
}

/// Where cargo puts what it builds: `target/`, unless the user's settings say otherwise.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let output = cargo()?
        .args(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .context("cannot start `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cannot read what `cargo metadata` printed")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("`cargo metadata` printed no target directory")
}
