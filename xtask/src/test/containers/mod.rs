//! Real engines and runtimes for tests and benchmarks: Docker, Podman, runc, crun and gVisor.
//!
//! They are installed where that may be done without asking, started in a [`realm`] of their own with an image that is
//! made here, and stopped with a look at what was left in them. What cannot be had is said by name.

pub(crate) mod api;
pub(crate) mod command;
mod daemon;
mod engine;
pub(crate) mod image;
mod leftovers;
mod packages;
pub(crate) mod realm;
mod runsc;
mod wait;

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::binaries::TestBinary;
use super::is_root;
use super::setup::{self, Missing};
use super::tally::Tally;
use crate::progress;

use engine::{Engine, Runtimes};
use realm::Realm;

/// Where Docker listens, as a client names it.
pub(crate) const DOCKER: &str = "HOTCELL_TEST_DOCKER";
/// Where Podman listens, as a client names it.
pub(crate) const PODMAN: &str = "HOTCELL_TEST_PODMAN";
/// The paths of the OCI runtimes.
pub(crate) const RUNC: &str = "HOTCELL_TEST_RUNC";
pub(crate) const CRUN: &str = "HOTCELL_TEST_CRUN";
pub(crate) const RUNSC: &str = "HOTCELL_TEST_RUNSC";
/// The test image, in the format of `docker save`.
pub(crate) const IMAGE_TAR: &str = "HOTCELL_TEST_IMAGE_TAR";

/// Variables for tests.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// What engines are made from.
#[derive(Debug)]
pub(crate) struct Supplies {
    runtimes: Runtimes,
    image: PathBuf,
}

/// Engines that run, and what else tests of containers use.
#[derive(Debug)]
pub(crate) struct Engines {
    realm: Realm,
    docker: Engine,
    podman: Engine,
    runtimes: Runtimes,
    image: PathBuf,
}

impl Supplies {
    /// Gets the programs and the image. `missing` is told of everything that cannot be had; without what the engines
    /// themselves need, there are none.
    pub(crate) fn get(missing: &mut dyn FnMut(&str, Missing)) -> Result<Option<Self>> {
        if !is_root() {
            let reason = "only root can have engines installed and start them".to_owned();
            missing("container engines", Missing { reason, avoidable: false });
            return Ok(None);
        }
        let line = progress::begin("container engines and runtimes");
        let mut complete = true;
        if let Some(shortage) = setup::bring(packages::NEEDS)? {
            for need in shortage.needs {
                let name = format!("{} ({})", need.package, need.purpose);
                missing(&name, Missing { reason: shortage.hint.clone(), avoidable: true });
            }
            complete = false;
        }
        let runsc = match runsc::provide()? {
            Ok(program) => Some(program),
            Err(shortage) => {
                missing("runsc (gVisor)", Missing { reason: shortage.hint, avoidable: true });
                None
            }
        };
        line.end(if complete && runsc.is_some() { "all there" } else { "incomplete" });
        if !complete {
            return Ok(None);
        }
        let line = progress::begin("an image for test containers");
        match image::provide() {
            Ok(image) => {
                line.end("there");
                let runtimes = Runtimes { runc: setup::program("runc"), crun: setup::program("crun"), runsc };
                Ok(Some(Self { runtimes, image }))
            }
            Err(error) => {
                line.end("missing");
                missing("container engines", Missing { reason: format!("no test image: {error:#}"), avoidable: false });
                Ok(None)
            }
        }
    }

    /// Starts the engines.
    pub(crate) fn start(self) -> Result<Engines> {
        let realm = Realm::create()?;
        // The cache is in somebody's home directory, which an ordinary user's tests may not pass.
        let image = publish(&self.image, realm.directory(), "image.tar", 0o644)?;
        let runsc = self.runtimes.runsc.as_deref();
        let runsc = runsc.map(|program| publish(program, realm.directory(), "runsc", 0o755)).transpose()?;
        let docker = Engine::docker(&realm, &image, runsc.as_deref())?;
        let podman = Engine::podman(&realm, &image)?;
        Ok(Engines { realm, docker, podman, runtimes: Runtimes { runsc, ..self.runtimes }, image })
    }
}

fn publish(file: &Path, directory: &Path, name: &str, mode: u32) -> Result<PathBuf> {
    let copy = directory.join(name);
    fs::copy(file, &copy).with_context(|| format!("cannot copy {} to {}", file.display(), copy.display()))?;
    fs::set_permissions(&copy, Permissions::from_mode(mode))?;
    Ok(copy)
}

impl Engines {
    /// What tells root's tests where everything is.
    pub(crate) fn environment(&self) -> Environment {
        let mut variables = self.environment_without_engines();
        variables.push((DOCKER, self.docker_host().into()));
        variables.push((PODMAN, self.podman.host().into()));
        variables.push(("DOCKER_HOST", self.docker_host().into()));
        // The realm has overlays elsewhere, and those know no mounts whose owners are mapped.
        variables.push(("HOTCELL_TEST_ARENA", "/opt".into()));
        variables
    }

    /// The same for who may not use root's engines.
    pub(crate) fn environment_without_engines(&self) -> Environment {
        let runtimes = &self.runtimes;
        let paths = [(RUNC, &runtimes.runc), (CRUN, &runtimes.crun), (RUNSC, &runtimes.runsc)];
        let mut variables: Environment =
            paths.into_iter().filter_map(|(name, path)| Some((name, path.clone()?.into_os_string()))).collect();
        variables.push((IMAGE_TAR, self.image.clone().into_os_string()));
        variables
    }

    /// Where Docker listens, as a client names it.
    pub(crate) fn docker_host(&self) -> String {
        self.docker.host()
    }

    pub(crate) fn realm(&self) -> &Realm {
        &self.realm
    }

    /// Ends everything; what was left behind, one line each.
    pub(crate) fn stop(mut self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for engine in [&mut self.docker, &mut self.podman] {
            match engine.leftovers() {
                Ok(mut found) => left.append(&mut found),
                Err(error) => left.push(format!("{error:#}; {}", engine.log_tail())),
            }
        }
        for engine in [&mut self.docker, &mut self.podman] {
            if let Err(error) = engine.stop() {
                left.push(format!("{error:#}; {}", engine.log_tail()));
            }
        }
        left.append(&mut leftovers::in_realm(&self.realm));
        let name = self.realm.name().to_owned();
        left.append(&mut self.realm.end()?);
        left.append(&mut leftovers::on_host(&name));
        Ok(left)
    }

    /// The ends of the engines' logs.
    pub(crate) fn log_tails(&self) -> String {
        format!("{}\n{}", self.docker.log_tail(), self.podman.log_tail())
    }
}

/// Starts engines if one of `tests` uses them or what comes with them; counts why there are none.
pub(super) fn start_for(tests: &[TestBinary], tally: &mut Tally) -> Result<Option<Engines>> {
    let mut used = false;
    for binary in tests {
        used = used || speaks_of(binary, &[DOCKER, PODMAN, RUNC, CRUN, RUNSC, IMAGE_TAR])?;
    }
    if !used {
        return Ok(None);
    }
    progress::heading("Containers");
    let mut missing = |name: &str, missing: Missing| tally.skip(name, &missing.reason, missing.avoidable);
    let Some(supplies) = Supplies::get(&mut missing)? else { return Ok(None) };
    let line = progress::begin("Docker and Podman");
    match supplies.start() {
        Ok(engines) => {
            line.end("started");
            Ok(Some(engines))
        }
        Err(error) => {
            line.end_failed("FAILED", &format!("{error:#}"));
            tally.fail("start Docker and Podman");
            Ok(None)
        }
    }
}

/// Does `binary` use engines?
pub(super) fn are_used_by(binary: &TestBinary) -> Result<bool> {
    speaks_of(binary, &[DOCKER, PODMAN])
}

/// Does `binary` read one of `variables`? Then it has the name in it.
pub(super) fn speaks_of(binary: &TestBinary, variables: &[&str]) -> Result<bool> {
    // The tests of this program have the names in them, too, and start what they need themselves.
    if binary.package == env!("CARGO_PKG_NAME") {
        return Ok(false);
    }
    let mut command = Command::new("grep");
    command.args(["--quiet", "--fixed-strings"]);
    for variable in variables {
        command.args(["-e", variable]);
    }
    let status = command.arg("--").arg(&binary.executable).status().context("cannot start `grep`")?;
    Ok(status.success())
}

/// Stops the engines of a run of tests, and counts what was left in them as a failure.
pub(super) fn stop(engines: Engines, tally: &mut Tally) -> Result<()> {
    let name = "nothing left by containers";
    let line = progress::begin(name);
    let left = engines.stop()?;
    if left.is_empty() {
        line.end("ok");
    } else {
        line.end_failed("FAILED", &left.join("\n"));
        tally.fail(name);
    }
    Ok(())
}
