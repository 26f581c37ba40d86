//! Every way to call a tool that is compared.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hotcell::tools::{Toolbox, ToolboxOptions};
use hotcell::{Engine, Policy};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::client::Client;
use crate::bench::latency::{self, Candidate, Pace, Row, Variant};

pub(super) const SHELL: &str = "exec_shell";
pub(super) const SHELL_MCP: &str = "exec_shell-mcp";
pub(super) const CODE: &str = "run_code";
pub(super) const CODE_MCP: &str = "run_code-mcp";

/// A call, and what it has to print.
#[derive(Clone)]
pub(super) struct Call {
    tool: &'static str,
    arguments: Value,
    prints: &'static str,
}

impl Call {
    pub(super) fn shell() -> Self {
        Self { tool: "exec_shell", arguments: json!({ "command": "echo hello" }), prints: "hello\n" }
    }

    pub(super) fn code() -> Self {
        let arguments = json!({ "language": "python", "code": "print('hello')", "context": "bench" });
        Self { tool: "run_code", arguments, prints: "hello\n" }
    }

    fn check(&self, result: &Value) -> Result<()> {
        match result["stdout"].as_str() {
            Some(printed) if printed == self.prints => Ok(()),
            _ => bail!("{} printed something else: {result}", self.tool),
        }
    }

    /// Through a server.
    pub(super) fn through(&self, client: &mut Client) -> Result<Duration> {
        let started = Instant::now();
        let result = client.call(self.tool, &self.arguments)?;
        let took = started.elapsed();
        self.check(&result)?;
        Ok(took)
    }
}

/// In this process.
struct Library {
    runtime: Rc<Runtime>,
    toolbox: Toolbox,
    call: Call,
}

impl Variant for Library {
    fn once(&mut self) -> Result<Duration> {
        let Call { tool, arguments, .. } = &self.call;
        let started = Instant::now();
        let result = self.runtime.block_on(self.toolbox.call(tool, arguments.clone(), None));
        let took = started.elapsed();
        self.call.check(&result.structured)?;
        Ok(took)
    }
}

/// Through `hotcell mcp` on stdin and stdout.
struct Protocol {
    client: Client,
    call: Call,
}

impl Variant for Protocol {
    fn once(&mut self) -> Result<Duration> {
        self.call.through(&mut self.client)
    }
}

/// Measures every variant, interleaved.
pub(super) fn measure(hotcell: &Path, workspace: &Path, rounds: usize) -> Result<Vec<Row>> {
    // As `hotcell mcp` has it.
    let runtime = Rc::new(Runtime::new()?);
    let engine = runtime.block_on(Engine::new())?;
    let policy = Policy::builder().overlay(workspace).cwd(workspace).build()?;
    let toolbox = runtime.block_on(Toolbox::open(&engine, ToolboxOptions::new(policy, workspace)))?;
    let library = |name, about, call| Candidate {
        name,
        about,
        variant: Ok(Box::new(Library { runtime: Rc::clone(&runtime), toolbox: toolbox.clone(), call })),
    };
    let protocol = |name, about, call| -> Result<Candidate> {
        let client = Client::start(hotcell, workspace)?;
        Ok(Candidate { name, about, variant: Ok(Box::new(Protocol { client, call })) })
    };
    let candidates = vec![
        library(SHELL, "library: a command that prints", Call::shell()),
        protocol(SHELL_MCP, "the same through `hotcell mcp` on stdin and stdout", Call::shell())?,
        library(CODE, "library: Python that prints, in a context that is there", Call::code()),
        protocol(CODE_MCP, "the same through `hotcell mcp` on stdin and stdout", Call::code())?,
    ];
    let pace = Pace { rounds, warm_up: 5, pause: Duration::from_millis(10) };
    let rows = latency::measure(candidates, pace, &[SHELL, SHELL_MCP, CODE, CODE_MCP]);
    runtime.block_on(toolbox.close());
    runtime.block_on(engine.close());
    rows
}
