//! The engine's own calls, made by the smallest client there is: what a container costs without Hotcell.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::spec::Spec;
use super::{LIMIT, Surroundings};
use crate::bench::latency::Variant;
use crate::test::containers::api::{Body, Connection};

/// Creates, attaches, starts, waits, removes.
pub(super) struct Raw {
    socket: PathBuf,
    engine: Connection,
    body: Value,
}

impl Raw {
    pub(super) fn new(around: &Surroundings, spec: &Spec, program: &str) -> Result<Self> {
        Ok(Self { socket: around.socket.clone(), engine: around.connect()?, body: spec.create(program) })
    }

    fn run(&mut self) -> Result<()> {
        let created = self.engine.ask("POST", "/containers/create", Body::Json(&self.body))?.success("create")?;
        let created: Value = serde_json::from_slice(&created).context("the answer to create is not JSON")?;
        let id = created["Id"].as_str().context("the engine created something without an id")?;
        let result = self.attend(id);
        self.engine.ask("DELETE", &format!("/containers/{id}?force=true"), Body::None)?.success("remove")?;
        result
    }

    fn attend(&mut self, id: &str) -> Result<()> {
        let attach = format!("/containers/{id}/attach?stream=true&stdout=true&stderr=true");
        let mut output = Connection::open(&self.socket, LIMIT)?.hijack(&attach)?;
        self.engine.ask("POST", &format!("/containers/{id}/start"), Body::None)?.success("start")?;
        let mut said = Vec::new();
        output.read_to_end(&mut said).context("the container's output breaks off")?;
        let waited = self.engine.ask("POST", &format!("/containers/{id}/wait"), Body::None)?.success("wait")?;
        let waited: Value = serde_json::from_slice(&waited).context("the answer to wait is not JSON")?;
        match waited["StatusCode"].as_i64() {
            Some(0) => Ok(()),
            status => bail!("the command ended with {status:?}: {}", String::from_utf8_lossy(&said)),
        }
    }
}

impl Variant for Raw {
    fn once(&mut self) -> Result<Duration> {
        let started = Instant::now();
        self.run()?;
        Ok(started.elapsed())
    }
}
