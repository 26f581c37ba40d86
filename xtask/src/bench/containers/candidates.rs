//! Every way to run a command in a container that is compared, in the order of the table.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hotcell::policy::PullPolicy;
use hotcell::{Engine, Policy, RuntimeKind};

use super::Surroundings;
use super::raw::Raw;
use super::spec::Spec;
use crate::bench::boxes::{Kept, OneShot};
use crate::bench::latency::{self, Candidate, Pace, Row, Variant};
use crate::bench::spawned::Spawned;
use crate::bench::variants::boxed;
use crate::bench::{Measured, in_words};
use crate::test::containers::image;
use crate::workspace::forget_hotcell_settings;

pub(super) const ONE_SHOT: &str = "docker-one-shot";
pub(super) const CLI: &str = "docker-cli";
pub(super) const RAW: &str = "raw";
pub(super) const RUN: &str = "run-hardened";
pub(super) const RUN_PLAIN: &str = "run-plain";
pub(super) const KEPT: &str = "docker-kept";
pub(super) const NATIVE_KEPT: &str = "native-kept";
pub(super) const EXEC: &str = "docker-exec";
pub(super) const OCI: &str = "runc-cli";
pub(super) const GVISOR: &str = "gvisor-cli";
pub(super) const RUN_RUNSC: &str = "run-runsc";

/// The variants that are Hotcell's.
pub(super) const OURS: &[&str] = &[ONE_SHOT, CLI, KEPT, NATIVE_KEPT, OCI, GVISOR];

/// What is run: it is there on the machine, and in the image.
const PROGRAM: &str = "/usr/bin/true";

/// What was measured, and with what kind of container.
pub(super) struct Done {
    pub(super) rows: Vec<Row>,
    pub(super) spec: &'static str,
}

/// Measures every variant, interleaved.
pub(super) fn measure(around: &Surroundings, scratch: &Path, rounds: usize) -> Result<Done> {
    let program = Path::new(PROGRAM);
    // A runtime of one thread, as the `hotcell` command has.
    let runtime = Rc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
    let engine = runtime.block_on(Engine::new())?;
    let policy = Policy::builder().runtime(RuntimeKind::Docker).image(image::NAME).pull(PullPolicy::Never).build()?;

    // First, because its container is the model of what it is compared with.
    let kept = shown(Kept::new(&runtime, &engine, &policy, program));
    let spec = match &kept {
        Ok(_) => Spec::of_a_box(&mut around.connect()?)?,
        Err(_) => Spec::usual(),
    };
    let flags = spec.flags(scratch)?;
    let imported = import(around);
    let daemonless = |runtime: &str, program: Option<&Path>| -> Measured<Box<dyn Variant>> {
        imported.clone()?;
        let path = program.ok_or_else(|| format!("there is no OCI runtime for {runtime}"))?;
        let path = path.to_string_lossy();
        Ok(Box::new(hotcell(around, scratch, &["--runtime", runtime, "--oci-runtime", &path])))
    };
    let started = shown(Sleeper::start(around, &flags));
    let exec = started.as_ref().map(|sleeper| sleeper.exec()).map_err(Clone::clone);
    let of = |name, about, variant: Measured<Box<dyn Variant>>| Candidate { name, about, variant };
    let candidates = vec![
        of(
            ONE_SHOT,
            "library: a docker box per command",
            Ok(Box::new(OneShot::new(&runtime, &engine, policy.clone(), program))),
        ),
        of(CLI, "`hotcell run --runtime docker`", Ok(Box::new(hotcell(around, scratch, &["--runtime", "docker"])))),
        of(RAW, "the same calls to the engine", boxed(shown(Raw::new(around, &spec, PROGRAM)))),
        of(RUN, "`docker run --rm`, the same hardening", Ok(Box::new(docker_run(around, &flags, &[])))),
        of(RUN_PLAIN, "`docker run --rm`, nothing else", Ok(Box::new(docker_run(around, &[], &[])))),
        of(KEPT, "library: exec in a kept docker box", boxed(kept)),
        of(
            NATIVE_KEPT,
            "library: exec in a kept native box",
            boxed(shown(Kept::new(&runtime, &engine, &Policy::default(), program))),
        ),
        of(EXEC, "`docker exec`", boxed(exec)),
        of(OCI, "`hotcell run --runtime oci`, runc", daemonless("oci", around.runc.as_deref())),
        of(GVISOR, "`hotcell run --runtime gvisor`", daemonless("gvisor", around.runsc.as_deref())),
        of(
            RUN_RUNSC,
            "`docker run --rm --runtime=runsc`, the same hardening",
            Ok(Box::new(docker_run(around, &flags, &["--runtime=runsc"]))),
        ),
    ];
    let pace = Pace { rounds, warm_up: 3, pause: Duration::from_millis(30) };
    let rows = latency::measure(candidates, pace, &[]);
    runtime.block_on(engine.close());
    Ok(Done { rows: rows?, spec: spec.source })
}

/// What went wrong, in words.
fn shown<T>(result: Result<T>) -> Measured<T> {
    result.map_err(|error| in_words(&error))
}

/// `hotcell run` with the test image.
fn hotcell(around: &Surroundings, scratch: &Path, flags: &[&str]) -> Spawned {
    let mut command = Command::new(&around.hotcell);
    command.arg("run").args(flags).args(["--image", image::NAME, "--pull", "never", "--", PROGRAM]);
    command.current_dir(scratch);
    forget_hotcell_settings(&mut command);
    Spawned::command(command)
}

/// `docker run` with the test image.
fn docker_run(around: &Surroundings, flags: &[String], more: &[&str]) -> Spawned {
    let mut command = Command::new(&around.docker);
    command.args(["run", "--rm"]).args(flags).args(more).args(["--entrypoint", PROGRAM, image::NAME]);
    Spawned::command(command)
}

/// Puts the test image where boxes without an engine find it.
fn import(around: &Surroundings) -> Measured<()> {
    let mut command = Command::new(&around.hotcell);
    command.args(["image", "import"]).arg(&around.image_tar);
    forget_hotcell_settings(&mut command);
    shown(Spawned::command(command).run().context("the image cannot be imported"))
}

/// A container that does nothing, to execute in.
#[derive(Debug)]
struct Sleeper<'a> {
    around: &'a Surroundings,
    id: String,
}

impl<'a> Sleeper<'a> {
    fn start(around: &'a Surroundings, flags: &[String]) -> Result<Self> {
        let mut command = Command::new(&around.docker);
        command.args(["run", "--detach"]).args(flags);
        command.args(["--entrypoint", "/usr/bin/sleep", image::NAME, "infinity"]);
        let output = command.output().context("cannot start docker")?;
        if !output.status.success() {
            bail!("`docker run` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Self { around, id: String::from_utf8_lossy(&output.stdout).trim().to_owned() })
    }

    fn exec(&self) -> Spawned {
        let mut command = Command::new(&self.around.docker);
        command.args(["exec", &self.id, PROGRAM]);
        Spawned::command(command)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        // Should it fail, the container is named among what was left.
        let _ = Command::new(&self.around.docker).args(["rm", "--force", &self.id]).output();
    }
}
