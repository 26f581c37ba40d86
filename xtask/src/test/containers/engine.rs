//! The two engines, and what each is started with.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::api::{Body, Connection};
use super::daemon::Daemon;
use super::leftovers::Inventory;
use super::realm::Realm;
use crate::test::setup;

/// Longer than an engine takes for anything that we ask of it; loading an image takes longest.
const LIMIT: Duration = Duration::from_secs(120);

/// An engine that runs and has the test image.
#[derive(Debug)]
pub(super) struct Engine {
    daemon: Daemon,
    /// What it had when it was ready.
    before: Inventory,
}

impl Engine {
    /// Docker, with `runsc` as a second runtime if there is one.
    pub(super) fn docker(realm: &Realm, image: &Path, runsc: Option<&Path>) -> Result<Self> {
        let place = realm.memory().join("docker");
        // gVisor has no network stack of its own on every kernel, and no test needs one.
        let runtimes = runsc.map(|path| json!({ "runsc": { "path": path, "runtimeArgs": ["--network=none"] } }));
        let configuration = realm.directory().join("docker.json");
        fs::write(&configuration, json!({ "runtimes": runtimes.unwrap_or_else(|| json!({})) }).to_string())?;
        let mut words = vec!["dockerd".to_owned(), "--host=fd://".to_owned()];
        for (flag, path) in [
            ("config-file", configuration),
            ("data-root", place.join("data")),
            ("exec-root", place.join("exec")),
            ("pidfile", place.join("pid")),
        ] {
            words.push(format!("--{flag}={}", path.display()));
        }
        Self::ready(Daemon::start(realm, "docker", &words)?, image)
    }

    pub(super) fn podman(realm: &Realm, image: &Path) -> Result<Self> {
        let place = realm.memory().join("podman");
        let runtime = setup::program("runc").context("runc is not installed")?;
        let mut words = vec!["podman".to_owned()];
        for (flag, path) in [("root", place.join("root")), ("runroot", place.join("run")), ("runtime", runtime)] {
            words.push(format!("--{flag}={}", path.display()));
        }
        words.extend(
            ["--storage-driver=overlay", "--cgroup-manager=cgroupfs", "--events-backend=file"].map(str::to_owned),
        );
        words.extend(["system", "service", "--time=0"].map(str::to_owned));
        Self::ready(Daemon::start(realm, "podman", &words)?, image)
    }

    fn ready(daemon: Daemon, image: &Path) -> Result<Self> {
        let look = || -> Result<Inventory> {
            let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
            let mut connection = Connection::open(daemon.socket(), LIMIT)?;
            connection.ask("POST", "/images/load", Body::Tar(file))?.success("the test image")?;
            Inventory::take(&mut connection)
        };
        match look() {
            Ok(before) => Ok(Self { daemon, before }),
            Err(error) => {
                let log = daemon.log_tail();
                Err(error.context(format!("{} cannot be used; its log ends with:\n{log}", daemon.name())))
            }
        }
    }

    /// How a client names it.
    pub(super) fn host(&self) -> String {
        format!("unix://{}", self.daemon.socket().display())
    }

    /// What it has that it did not have when it was ready; an engine that does not answer is an error.
    pub(super) fn leftovers(&self) -> Result<Vec<String>> {
        let now = Connection::open(self.daemon.socket(), LIMIT).and_then(|mut to| Inventory::take(&mut to));
        let now = now.with_context(|| format!("{} does not answer any more", self.daemon.name()))?;
        let left = now.beyond(&self.before).into_iter();
        Ok(left.map(|what| format!("{}: {what}", self.daemon.name())).collect())
    }

    /// Ends it.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.daemon.stop()
    }

    /// The end of its log, with its name.
    pub(super) fn log_tail(&self) -> String {
        format!("{}'s log ends with:\n{}", self.daemon.name(), self.daemon.log_tail())
    }
}

/// Where the OCI runtimes are, for tests that need no engine.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    pub(super) runc: Option<PathBuf>,
    pub(super) crun: Option<PathBuf>,
    pub(super) runsc: Option<PathBuf>,
}
