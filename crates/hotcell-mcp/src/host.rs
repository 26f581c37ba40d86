//! What all connections share.

use hotcell::plan::EnforcementReport;
use hotcell::policy::NetworkMode;
use hotcell::tools::{Toolbox, ToolboxOptions};
use hotcell::{Engine, EngineError};

use crate::instructions;

/// The engine, and what the box of a connection is made of.
#[derive(Debug)]
pub struct Host {
    engine: Engine,
    options: ToolboxOptions,
    report: EnforcementReport,
    instructions: String,
}

impl Host {
    /// Plans a box, so that what cannot be held is known before anybody connects.
    pub async fn new(engine: Engine, options: ToolboxOptions) -> Result<Self, EngineError> {
        let report = engine.plan(&options.policy).await?.report();
        let instructions = instructions::for_model(&options.policy, &options.workspace, &report);
        Ok(Self { engine, options, report, instructions })
    }

    /// How the boxes will be held.
    pub fn report(&self) -> &EnforcementReport {
        &self.report
    }

    /// What a model is told about the box.
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    pub(crate) fn network(&self) -> NetworkMode {
        self.options.policy.network
    }

    /// Makes a box.
    pub(crate) async fn open(&self) -> Result<Toolbox, EngineError> {
        Toolbox::open(&self.engine, self.options.clone()).await
    }

    /// Ends the engine and every box that is left.
    pub async fn close(self) {
        self.engine.close().await;
    }
}
