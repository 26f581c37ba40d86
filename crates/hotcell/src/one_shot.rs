//! One command in a box of its own.

use hotcell_core::backend::{ProcessError, ProcessId, ProcessIo, Sandbox, SandboxedProcess, Signal, TtySize};
use hotcell_core::outcome::Outcome;
use hotcell_core::plan::EnforcementReport;

use crate::EngineError;

/// A command and the box that was made for it. Dropping it ends both.
pub struct OneShot {
    // Dropped in this order: the command before its box.
    process: Box<dyn SandboxedProcess>,
    sandbox: Box<dyn Sandbox>,
}

impl std::fmt::Debug for OneShot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneShot").field("sandbox", self.sandbox.id()).field("process", &self.process.id()).finish()
    }
}

impl OneShot {
    pub(crate) fn new(sandbox: Box<dyn Sandbox>, process: Box<dyn SandboxedProcess>) -> Self {
        Self { process, sandbox }
    }

    pub(crate) fn process_mut(&mut self) -> &mut dyn SandboxedProcess {
        &mut *self.process
    }

    /// The number of the command.
    pub fn id(&self) -> ProcessId {
        self.process.id()
    }

    /// The box.
    pub fn sandbox(&self) -> &dyn Sandbox {
        &*self.sandbox
    }

    /// What is enforced, and how.
    pub fn report(&self) -> &EnforcementReport {
        self.sandbox.report()
    }

    /// Takes the command's input and output; the second time there is nothing left to take.
    pub fn take_io(&mut self) -> ProcessIo {
        self.process.take_io()
    }

    /// Sends a signal to the command's process group.
    pub async fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        self.process.signal(signal).await
    }

    /// Ends the command; its outcome will be `canceled`.
    pub async fn kill(&self) -> Result<(), ProcessError> {
        self.process.kill().await
    }

    /// Changes the size of its terminal.
    pub async fn resize(&self, size: TtySize) -> Result<(), ProcessError> {
        self.process.resize(size).await
    }

    /// Waits for the command to end; the box stays. Cancel-safe.
    pub async fn wait(&self) -> Result<Outcome, EngineError> {
        Ok(self.process.wait().await?)
    }

    /// Waits for the command, then ends the box and everything else in it.
    pub async fn finish(self) -> Result<Outcome, EngineError> {
        let outcome = self.process.wait().await;
        self.destroy().await?;
        Ok(outcome?)
    }

    /// Ends the box and everything in it.
    pub async fn destroy(self) -> Result<(), EngineError> {
        drop(self.process);
        Ok(self.sandbox.destroy().await?)
    }
}
