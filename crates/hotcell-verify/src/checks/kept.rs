//! A box that is kept while the host's side of it is tried.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotcell::policy::PolicyBuilder;
use hotcell::{CaptureLimits, Engine, Files, Policy, Sandbox, SandboxOutput, SandboxedProcess, SpawnConfig, Workspace};

use crate::arena::Arena;
use crate::target::{Boxed, in_full};

/// Longer than anything here takes; what has not come to its end by then is hanging.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// What a naive program may take before it counts as hanging: it has nothing to do.
pub(super) const SHORT: Duration = Duration::from_millis(300);

/// The policy that most attempts start from: the default one, which shows the intruder.
pub(super) fn policy(arena: &Arena) -> PolicyBuilder {
    Policy::builder().read(arena.program()).cwd("/").timeout(Duration::from_secs(20))
}

/// An engine of its own and a box.
pub(super) struct Kept {
    pub(super) engine: Engine,
    pub(super) sandbox: Box<dyn Sandbox>,
}

impl Kept {
    pub(super) async fn new(boxed: &Boxed, policy: PolicyBuilder) -> Result<Self, String> {
        let policy = policy.build().map_err(|error| in_full(&error))?;
        let engine = boxed.engine().await?;
        let sandbox = boxed.sandbox(&engine, policy).await?;
        Ok(Self { engine, sandbox })
    }

    pub(super) async fn spawn(&self, config: SpawnConfig) -> Result<Box<dyn SandboxedProcess>, String> {
        self.sandbox.spawn(config).await.map_err(|error| in_full(&error))
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, config: SpawnConfig) -> Result<SandboxOutput, String> {
        let mut process = self.spawn(config).await?;
        let output = SandboxOutput::collect(&mut *process, CaptureLimits::default()).await;
        output.map_err(|error| in_full(&error))
    }

    /// Runs a script with `{name}`s of the arena's; what it said, on both streams.
    pub(super) async fn script(&self, arena: &Arena, script: &str) -> Result<String, String> {
        let script = arena.expand(script).map_err(|error| error.to_string())?;
        Ok(said(&self.run(sh(script)).await?))
    }

    /// Runs a script that prepares the attack: if it fails, there is none.
    pub(super) async fn prepare(&self, arena: &Arena, script: &str) -> Result<(), String> {
        let script = arena.expand(script).map_err(|error| error.to_string())?;
        let output = self.run(sh(script)).await?;
        if output.status().success() {
            return Ok(());
        }
        Err(format!("the guest could not prepare its attack: {}: {}", output.status(), said(&output)))
    }

    pub(super) fn files(&self) -> Result<&dyn Files, String> {
        self.sandbox.files().ok_or_else(|| "this box has no access to its files".to_owned())
    }

    pub(super) fn workspace(&self) -> Result<&dyn Workspace, String> {
        self.sandbox.workspace().ok_or_else(|| "this box has no overlay".to_owned())
    }

    /// Removes the box and ends the engine.
    pub(super) async fn close(self) -> Result<(), String> {
        let destroyed = self.sandbox.destroy().await;
        self.engine.close().await;
        destroyed.map_err(|error| in_full(&error))
    }
}

/// A shell script as a command.
pub(super) fn sh(script: impl AsRef<OsStr>) -> SpawnConfig {
    SpawnConfig::new("/bin/sh").arg("-c").arg(script.as_ref())
}

/// What a command said, on both streams.
pub(super) fn said(output: &SandboxOutput) -> String {
    let bytes = [output.stdout.bytes(), output.stderr.bytes()].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A shell script on the host, as the naive program would run it.
pub(super) fn host_shell(arena: &Arena, script: &str) -> Result<Command, String> {
    let script = arena.expand(script).map_err(|error| error.to_string())?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).current_dir("/").stdin(Stdio::null());
    Ok(command)
}

/// Runs a script on the host to its end; what it said, on both streams.
pub(super) fn on_host(arena: &Arena, script: &str) -> Result<String, String> {
    let output = host_shell(arena, script)?.output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// An error of the standard library's, as text.
pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
