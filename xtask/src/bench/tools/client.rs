//! The smallest client of the Model Context Protocol: a line out, a line in.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bench::machine::kibibytes;
use crate::workspace::forget_hotcell_settings;

/// The version of the protocol that is spoken: the newest with a handshake.
const VERSION: &str = "2025-11-25";

/// `hotcell mcp` on two pipes, ended when this is dropped.
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    pub(super) fn start(hotcell: &Path, workspace: &Path) -> Result<Self> {
        let mut command = Command::new(hotcell);
        command.arg("mcp").arg("--workspace").arg(workspace);
        forget_hotcell_settings(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start hotcell mcp")?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("hotcell mcp has no output")?);
        let mut client = Self { child, input, output, next: 1 };
        let hello = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
        client.ask("initialize", &hello)?;
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(client)
    }

    /// Calls a tool, which has to work; what programs get of it.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let mut result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        if result["isError"] == true {
            bail!("{tool} failed: {result}");
        }
        Ok(result["structuredContent"].take())
    }

    /// The memory of the server that is not shared with files, in bytes.
    pub(super) fn memory(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        kibibytes(&status, "VmRSS").context("the server's memory is not told")
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                bail!("hotcell mcp has ended");
            }
            let mut answer: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
            // What it says besides is not asked for here.
            if answer["id"] == id {
                let result = answer["result"].take();
                return if result.is_null() { bail!("{method}: {answer}") } else { Ok(result) };
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("hotcell mcp has no input")?;
        input.write_all(format!("{message}\n").as_bytes()).context("hotcell mcp does not read")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It ends with its input.
        self.input = None;
        let _ = self.child.wait();
    }
}
