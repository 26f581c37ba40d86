//! The image that test containers are made of: a small Debian with a shell and Python, made without a registry.
//!
//! It is kept in the user's cache in the format of `docker save`, which both engines load, under a name that says from
//! what recipe it was made.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::runsc::architecture;
use crate::debian::{self, run};

/// The name that it has in both engines.
pub(crate) const NAME: &str = "hotcell-test:latest";

/// What it is made from, whatever this machine runs, so that tests have the same programs everywhere.
const SUITE: &str = "trixie";

/// The moment at which everything in the image was made, so that the same files give the same image.
const CREATED: &str = "2000-01-01T00:00:00Z";

/// What nobody reads in a test.
const LEFT_OUT: &[&str] = &["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"];

/// The image's file, made if it is not there yet: half a minute.
pub(super) fn provide() -> Result<PathBuf> {
    let cache = debian::cache("test-image")?;
    let recipe = recipe()?;
    let staging = tempfile::Builder::new().prefix(".image-").tempdir_in(&cache)?;
    let written = staging.path().join("recipe");
    fs::write(&written, format!("{recipe:?} {CREATED} {}", config(architecture()?, "")))?;
    let digest = sha256(&written)?;
    let place = cache.join(format!("{}.tar", digest.get(..16).unwrap_or(&digest)));
    if place.is_file() {
        return Ok(place);
    }
    // Only one process makes it; the kernel ends the lock with the process.
    let lock = File::create(cache.join("lock"))?;
    lock.lock().context("cannot lock the cache of test images")?;
    if !place.is_file() {
        let made = make(&recipe, staging.path())?;
        fs::rename(&made, &place).with_context(|| format!("cannot move the image to {}", place.display()))?;
    }
    Ok(place)
}

/// What mmdebstrap is asked for.
fn recipe() -> Result<Vec<String>> {
    let mut words = vec!["--variant=essential".to_owned(), "--include=python3-minimal,libpython3-stdlib".to_owned()];
    words.extend(LEFT_OUT.iter().map(|pattern| format!("--dpkgopt=path-exclude={pattern}")));
    words.push("--aptopt=Acquire::Languages \"none\"".to_owned());
    words.push(format!("--architectures={}", architecture()?));
    words.push(SUITE.to_owned());
    Ok(words)
}

fn make(recipe: &[String], staging: &Path) -> Result<PathBuf> {
    let layer = staging.join("layer.tar");
    let mut command = Command::new("mmdebstrap");
    command.arg("--quiet").args(recipe).arg(&layer).arg(debian::mirror()?);
    run(&mut command).context("cannot make the root file system of the test image")?;

    let config = config(architecture()?, &sha256(&layer)?).to_string();
    fs::write(staging.join("config"), &config)?;
    let config_name = format!("{}.json", sha256(&staging.join("config"))?);
    fs::rename(staging.join("config"), staging.join(&config_name))?;
    let manifest = json!([{ "Config": config_name, "RepoTags": [NAME], "Layers": ["layer.tar"] }]);
    fs::write(staging.join("manifest.json"), manifest.to_string())?;

    let image = staging.join("image.tar");
    let mut command = Command::new("tar");
    command.arg("--create").arg("--file").arg(&image).arg("--directory").arg(staging);
    command.args(["manifest.json", &config_name, "layer.tar"]);
    run(&mut command).context("cannot pack the test image")?;
    Ok(image)
}

fn config(architecture: &str, layer: &str) -> serde_json::Value {
    json!({
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["/bin/sh"],
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": CREATED }],
    })
}

fn sha256(path: &Path) -> Result<String> {
    let said = run(Command::new("sha256sum").arg("--").arg(path))?;
    let digest = said.split_whitespace().next().filter(|digest| digest.len() == 64);
    digest.map(str::to_owned).with_context(|| format!("`sha256sum` printed `{}`", said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "abc").unwrap();
        assert_eq!(sha256(&path).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(sha256(&directory.path().join("none")).is_err());
    }
}
