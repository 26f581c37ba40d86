//! What all connections share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hotcell::Engine;
use hotcell::policy::NetworkMode;
use hotcell::tools::{OpenError, Toolbox, ToolboxOptions};
use rmcp::ErrorData;

use crate::instructions;

/// The engine, and what the box of a connection is made of.
#[derive(Debug)]
pub struct Host {
    /// None when the host is closed.
    engine: Mutex<Option<Engine>>,
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
        Ok(Self { engine: Mutex::new(Some(engine)), options, instructions, first: Mutex::new(Some(first)) })
    }

    /// What a model is told about the box.
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    pub(crate) fn network(&self) -> NetworkMode {
        self.options.policy.network
    }

    /// A box that nobody else has.
    pub(crate) async fn open(&self) -> Result<Toolbox, ErrorData> {
        if let Some(first) = lock(&self.first).take() {
            return Ok(first);
        }
        let engine = lock(&self.engine).clone();
        let Some(engine) = engine else {
            return Err(ErrorData::internal_error("the server is ending", None));
        };
        Toolbox::open(&engine, self.options.clone())
            .await
            .map_err(|error| ErrorData::internal_error(format!("the box could not be made: {error}"), None))
    }

    /// Ends the engine and the box that nobody had. Connections end before this, with their boxes.
    pub async fn close(&self) {
        let first = lock(&self.first).take();
        if let Some(first) = first {
            first.close().await;
        }
        let engine = lock(&self.engine).take();
        if let Some(engine) = engine {
            engine.close().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
