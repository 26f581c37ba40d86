//! The servers' own calls, made by the smallest client there is: what a command costs without Hotcell.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Place;
use super::candidates::PROGRAM;
use crate::bench::latency::Variant;
use crate::test::containers::api::{Body, Connection};

/// A server that takes longer for one answer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// What is run of what Hotcell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// The program alone.
    Bare,
    /// Everything that Hotcell asks for, to start the program and to have all of its output.
    Same,
}

/// What starts a command of Hotcell's in a sandbox.
const START: &str = include_str!("../../../../crates/hotcell-backends/src/remote/scripts/start.sh");

/// A program and its arguments.
fn words(calls: Calls) -> Vec<&'static str> {
    match calls {
        Calls::Bare => vec![PROGRAM],
        Calls::Same => vec!["/bin/sh", "-c", START, "sh", "nonce", "/", "/usr/bin:/bin", "--", "0", PROGRAM],
    }
}

/// A command in a sandbox of E2B's API.
pub(super) struct E2bRaw {
    calls: Calls,
    place: Place,
    sandbox: String,
    headers: String,
    connection: Connection<TcpStream>,
}

impl E2bRaw {
    pub(super) fn new(place: &Place, calls: Calls) -> Result<Self> {
        let mut connection = Connection::tcp(place.authority(), LIMIT)?;
        let body = json!({"templateID": "base", "timeout": 600});
        let key = format!("X-API-Key: {}\r\n", place.key);
        let made = connection.ask_with("POST", "/v2/sandboxes", &key, Body::Json(&body))?.success("create")?;
        let made: Value = serde_json::from_slice(&made).context("the answer to create is not JSON")?;
        let sandbox = made["sandboxID"].as_str().context("a sandbox without an id")?.to_owned();
        let token = made["envdAccessToken"].as_str().map(|token| format!("X-Access-Token: {token}\r\n"));
        let headers = format!(
            "E2b-Sandbox-Id: {sandbox}\r\nE2b-Sandbox-Port: 49983\r\nConnect-Protocol-Version: 1\r\n{}",
            token.unwrap_or_default()
        );
        Ok(Self { calls, place: place.clone(), sandbox, headers, connection })
    }
}

impl Variant for E2bRaw {
    fn once(&mut self) -> Result<Duration> {
        let started = Instant::now();
        let words = words(self.calls);
        let text = json!({"process": {"cmd": words[0], "args": words[1..], "envs": {}}, "stdin": false}).to_string();
        let length = u32::try_from(text.len()).context("a long request")?;
        let envelope = [&[0][..], &length.to_be_bytes(), text.as_bytes()].concat();
        let body = Body::Bytes("application/connect+json", &envelope);
        let answer =
            self.connection.ask_with("POST", "/process.Process/Start", &self.headers, body)?.success("start")?;
        let took = started.elapsed();
        let said = String::from_utf8_lossy(&answer);
        if !said.contains("\"end\"") || said.contains("\"exitCode\"") && !said.contains("\"exitCode\":0") {
            bail!("the command did not succeed: {said}");
        }
        Ok(took)
    }
}

impl Drop for E2bRaw {
    fn drop(&mut self) {
        // Should it fail, the server ends with the sandbox in it.
        let key = format!("X-API-Key: {}\r\n", self.place.key);
        let _ = self.connection.ask_with("DELETE", &format!("/sandboxes/{}", self.sandbox), &key, Body::None);
    }
}

/// A command in a sandbox of OpenSandbox.
pub(super) struct OpensandboxRaw {
    calls: Calls,
    /// How many commands were run.
    count: usize,
    lifecycle: Connection<TcpStream>,
    key: String,
    sandbox: String,
    /// What is before the paths of execd.
    prefix: String,
    headers: String,
    /// Where execd listens.
    execd: String,
    /// The connection for files.
    files: Connection<TcpStream>,
}

impl OpensandboxRaw {
    pub(super) fn new(place: &Place, image: &str, calls: Calls) -> Result<Self> {
        let mut lifecycle = Connection::tcp(place.authority(), LIMIT)?;
        let key = format!("OPEN-SANDBOX-API-KEY: {}\r\n", place.key);
        let body = json!({
            "image": {"uri": image},
            "timeout": 600,
            "resourceLimits": {"cpu": "1", "memory": "512Mi"},
            "entrypoint": ["tail", "-f", "/dev/null"],
        });
        let made = lifecycle.ask_with("POST", "/v1/sandboxes", &key, Body::Json(&body))?.success("create")?;
        let made: Value = serde_json::from_slice(&made).context("the answer to create is not JSON")?;
        let sandbox = made["id"].as_str().context("a sandbox without an id")?.to_owned();
        let path = format!("/v1/sandboxes/{sandbox}/endpoints/44772");
        let endpoint = lifecycle.ask_with("GET", &path, &key, Body::None)?.success("endpoint")?;
        let endpoint: Value = serde_json::from_slice(&endpoint).context("the answer to endpoint is not JSON")?;
        let address = endpoint["endpoint"].as_str().context("an endpoint without an address")?;
        let (authority, prefix) = address.split_once('/').unwrap_or((address, ""));
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        let headers = endpoint["headers"].as_object().into_iter().flatten();
        let headers =
            headers.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap_or_default())).collect();
        until_it_answers(authority, &format!("{prefix}/ping"))?;
        let files = Connection::tcp(authority, LIMIT)?;
        Ok(Self { calls, count: 0, lifecycle, key, sandbox, prefix, headers, execd: authority.to_owned(), files })
    }
}

fn until_it_answers(authority: &str, path: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let asked =
            Connection::tcp(authority, LIMIT).and_then(|mut to| to.ask("GET", path, Body::None)?.success("ping"));
        match asked {
            Err(error) if started.elapsed() > LIMIT => return Err(error.context("the sandbox does not answer")),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
            Ok(_) => return Ok(()),
        }
    }
}

impl Variant for OpensandboxRaw {
    fn once(&mut self) -> Result<Duration> {
        self.count += 1;
        let directory = format!("/tmp/raw-{}", self.count);
        let line = match self.calls {
            Calls::Bare => PROGRAM.to_owned(),
            Calls::Same => {
                let words: Vec<String> =
                    words(self.calls).iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
                let command = words.join(" ");
                format!(
                    "mkdir -m 700 {directory} && : >{directory}/err && exec >{directory}/out 2>{directory}/err && exec {command}"
                )
            }
        };
        let started = Instant::now();
        let (path, body) = (format!("{}/command", self.prefix), json!({"command": line}));
        // Execd keeps the answer open for a second after its last event, so each command takes a connection of its own.
        let execd = Connection::tcp(&self.execd, LIMIT)?;
        execd.ask_until(&path, &self.headers, Body::Json(&body), "execution_complete")?;
        if self.calls == Calls::Bare {
            return Ok(started.elapsed());
        }
        for name in ["out", "err"] {
            let path = format!("{}/files/download?path={directory}/{name}", self.prefix);
            self.files.ask_with("GET", &path, &self.headers, Body::None)?.success("download")?;
        }
        let took = started.elapsed();
        let path = format!("{}/directories?path={directory}", self.prefix);
        self.files.ask_with("DELETE", &path, &self.headers, Body::None)?.success("remove")?;
        Ok(took)
    }
}

impl Drop for OpensandboxRaw {
    fn drop(&mut self) {
        // Should it fail, the sandbox is named among what was left.
        let path = format!("/v1/sandboxes/{}", self.sandbox);
        let _ = self.lifecycle.ask_with("DELETE", &path, &self.key, Body::None);
    }
}
