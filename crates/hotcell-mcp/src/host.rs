//! What all connections share.

use std::sync::{Mutex, PoisonError};

use hotcell::Engine;
use hotcell::policy::NetworkMode;
use hotcell::tools::{OpenError, Toolbox, ToolboxOptions};

use crate::instructions;

/// The engine, and what the box of a connection is made of.
#[derive(Debug)]
pub struct Host {
    engine: Engine,
    options: ToolboxOptions,
    instructions: String,
    /// The first box, which nobody has yet.
    first: Mutex<Option<Toolbox>>,
}

impl Host {
    /// Makes the box of the first connection, so that what cannot be held, found or started is known before anybody connects.
    pub async fn new(engine: Engine, options: ToolboxOptions) -> Result<Self, OpenError> {
        let first = Toolbox::open(&engine, options.clone()).await?;
        let instructions = instructions::for_model(&options.policy, &options.workspace, first.report());
        Ok(Self { engine, options, instructions, first: Mutex::new(Some(first)) })
    }

    /// What a model is told about the box.
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    pub(crate) fn network(&self) -> NetworkMode {
        self.options.policy.network
    }

    /// A box that nobody else has.
    pub(crate) async fn open(&self) -> Result<Toolbox, OpenError> {
        match self.take_first() {
            Some(first) => Ok(first),
            None => Toolbox::open(&self.engine, self.options.clone()).await,
        }
    }

    /// Ends the engine and every box that is left.
    pub async fn close(self) {
        if let Some(first) = self.take_first() {
            first.close().await;
        }
        self.engine.close().await;
    }

    fn take_first(&self) -> Option<Toolbox> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
