//! The control plane: sandboxes made, found and removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use hotcell_core::secret::Secret;
use serde_json::json;

use super::envd::Envd;
use super::interpreter::CodeInterpreter;
use super::wire::{Create, Created, Listed, whole_seconds};
use super::{Data, Details, Filter, Flavour, IdError, NewSandbox, Options, Sandbox, SandboxId};
use crate::http::{Address, Call, CallError, Server, Why};

/// Where `envd` listens in every sandbox.
const ENVD_PORT: u16 = 49983;

/// Where the code interpreter listens, in templates that have one.
const INTERPRETER_PORT: u16 = 49999;

/// How many sandboxes are asked for at once.
const PAGE: usize = 100;

/// After this many pages a list counts as endless.
const MOST_PAGES: usize = 1000;

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Which version of the calls the server has; found out by the first that tells.
const UNKNOWN: u8 = 0;
const V1: u8 = 1;
const V2: u8 = 2;

/// The control plane of one server. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) api: Server,
    pub(super) key: Option<Secret<String>>,
    pub(super) data: Data,
    pub(super) flavour: Flavour,
    keepalive: Duration,
    pub(super) deadline: Duration,
    version: Arc<AtomicU8>,
}

impl Client {
    /// A client of this server. No call is made.
    pub fn new(options: Options) -> Result<Self, CallError> {
        let Options { api, api_key: key, data, flavour, keepalive } = options;
        let server = format!("{} at {api}", flavour.product());
        let mut api = Server::new(flavour.product(), api).map_err(|error| CallError {
            operation: "connect",
            server,
            why: Why::Impossible { reason: error.to_string() },
        })?;
        if let Some(key) = &key {
            api = api.secret_header("x-api-key", key)?;
        }
        // CubeSandbox has the first version alone; its own clients use nothing else.
        let version = if flavour == Flavour::Cube { V1 } else { UNKNOWN };
        let version = Arc::new(AtomicU8::new(version));
        // Less than a second cannot be asked for.
        let keepalive = keepalive.max(Duration::from_secs(1));
        Ok(Self { api, key, data, flavour, keepalive, deadline: DEADLINE, version })
    }

    /// The same, with this much time for each call.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where the control plane is.
    pub fn address(&self) -> &Address {
        self.api.address()
    }

    /// Creates a sandbox.
    pub async fn create(&self, new: &NewSandbox) -> Result<Sandbox, CallError> {
        let operation = "create a sandbox";
        // With this a repetition is the same sandbox, not another.
        let key = self.api.unique(operation)?;
        let newer = || {
            let call = self.api.post(operation, &["v2", "sandboxes"]).header("idempotency-key", &key);
            call.json(&Create::new(new, None)).repeatable(true)
        };
        let older = || self.api.post(operation, &["sandboxes"]).json(&Create::new(new, Some(true)));
        let created: Created = self.either(newer, older).await?;
        created.into_sandbox().map_err(|error| self.garbled(operation, &error))
    }

    /// Talks to a sandbox that exists, wakes it if it is paused, and lets it live at least this long from now on.
    pub async fn connect(&self, id: &SandboxId, timeout: Duration) -> Result<Sandbox, CallError> {
        let operation = "connect to the sandbox";
        let body = json!({ "timeout": whole_seconds(timeout) });
        let newer = || {
            let call = self.api.post(operation, &["v2", "sandboxes", id.as_str(), "connect"]);
            call.json(&body).repeatable(true)
        };
        let older = || {
            let call = self.api.post(operation, &["sandboxes", id.as_str(), "connect"]);
            call.json(&body).repeatable(true)
        };
        let connected: Created = self.either(newer, older).await?;
        let sandbox = connected.into_sandbox().map_err(|error| self.garbled(operation, &error))?;
        if sandbox.id != *id {
            let what = format!("it names the sandbox {} and not {id}", sandbox.id);
            return Err(self.api.failed(operation, Why::Garbled { what }));
        }
        Ok(sandbox)
    }

    /// What the server says of a sandbox.
    pub async fn get(&self, id: &SandboxId) -> Result<Details, CallError> {
        let operation = "look at the sandbox";
        let listed: Listed = self.ask(self.api.get(operation, &["sandboxes", id.as_str()])).await?;
        listed.into_details().map_err(|error| self.garbled(operation, &error))
    }

    /// Sandboxes, running and paused.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Details>, CallError> {
        let operation = "list sandboxes";
        if filter.most == 0 {
            return Ok(Vec::new());
        }
        // Gone before the first call: it may not go from one thread to another.
        let wanted = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&filter.metadata).finish();
        let mut call = self.page(operation, &["v2", "sandboxes"], &wanted, filter, None);
        let mut found = Vec::new();
        let mut seen: Option<String> = None;
        for page in 0..MOST_PAGES {
            let answer = match call.deadline(self.deadline).send().await {
                // Before there were pages.
                Err(error) if page == 0 && is_without_route(&error) => {
                    let call = self.page(operation, &["sandboxes"], &wanted, filter, None);
                    call.deadline(self.deadline).send().await?
                }
                answer => answer?,
            };
            let next = answer.header("x-next-token").filter(|token| !token.is_empty()).map(str::to_owned);
            let listed: Option<Vec<Listed>> = answer.json().await?;
            for listed in listed.unwrap_or_default() {
                let details = listed.into_details().map_err(|error| self.garbled(operation, &error))?;
                // Some servers do not know the filter and answer with everybody's.
                if has(&details.metadata, &filter.metadata) {
                    found.push(details);
                }
                if found.len() >= filter.most {
                    return Ok(found);
                }
            }
            match next {
                None => return Ok(found),
                Some(token) if seen.as_ref() == Some(&token) => break,
                Some(token) => {
                    call = self.page(operation, &["v2", "sandboxes"], &wanted, filter, Some(&token));
                    seen = Some(token);
                }
            }
        }
        Err(self.api.failed(operation, Why::Garbled { what: "its list has no end".to_owned() }))
    }

    fn page(&self, operation: &'static str, path: &[&str], wanted: &str, filter: &Filter, token: Option<&str>) -> Call {
        let mut call = self.api.get(operation, path).query("limit", &filter.most.clamp(1, PAGE).to_string());
        if !wanted.is_empty() {
            call = call.query("metadata", wanted);
        }
        match token {
            Some(token) => call.query("nextToken", token),
            None => call,
        }
    }

    /// Removes a sandbox. One that is gone is removed.
    pub async fn delete(&self, id: &SandboxId) -> Result<(), CallError> {
        match self.tell(self.api.delete("remove the sandbox", &["sandboxes", id.as_str()])).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// The `envd` in a sandbox. No call is made.
    pub fn envd(&self, sandbox: &Sandbox) -> Result<Envd, CallError> {
        let server = self.inside(sandbox, ENVD_PORT)?;
        let server = match &sandbox.access_token {
            Some(token) => server.secret_header("x-access-token", token)?,
            None => server,
        };
        let version = sandbox.version.clone();
        Ok(Envd::new(server, version, sandbox.access_token.clone(), self.flavour, self.keepalive))
    }

    /// The code interpreter in a sandbox. No call is made, so it is not known whether there is one.
    pub fn interpreter(&self, sandbox: &Sandbox) -> Result<CodeInterpreter, CallError> {
        let server = self.inside(sandbox, INTERPRETER_PORT)?;
        Ok(CodeInterpreter::new(server, sandbox.access_token.clone()))
    }

    /// Makes the newer call, or the older one where the server does not have that.
    async fn either(&self, newer: impl Fn() -> Call, older: impl Fn() -> Call) -> Result<Created, CallError> {
        let known = self.version.load(Ordering::Relaxed);
        if known != V1 {
            match self.ask(newer()).await {
                // It may as well be the template or the sandbox that is not there; the older call tells.
                Err(error) if known == UNKNOWN && matches!(error.status(), Some(404 | 405)) => {}
                result => {
                    if result.is_ok() {
                        self.version.store(V2, Ordering::Relaxed);
                    }
                    return result;
                }
            }
        }
        let result = self.ask(older()).await;
        if result.is_ok() {
            self.version.store(V1, Ordering::Relaxed);
        }
        result
    }

    pub(super) async fn ask<T: serde::de::DeserializeOwned>(&self, call: Call) -> Result<T, CallError> {
        call.deadline(self.deadline).send().await?.json().await
    }

    pub(super) async fn tell(&self, call: Call) -> Result<(), CallError> {
        call.deadline(self.deadline).send().await?.bytes().await.map(drop)
    }

    fn garbled(&self, operation: &'static str, error: &IdError) -> CallError {
        self.api.failed(operation, Why::Garbled { what: error.to_string() })
    }
}

fn has(metadata: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| metadata.get(key) == Some(value))
}

/// Whether a failure means that the server has no such call, as far as that can be told from one that names no such thing.
pub(super) fn is_without_route(error: &CallError) -> bool {
    match &error.why {
        Why::Answered { status: 405 | 501, .. } => true,
        Why::Answered { status: 404, message, .. } => {
            // What routers say when nobody else does.
            ["", "404 page not found", "not found", "404: not found"].contains(&message.to_lowercase().as_str())
        }
        _ => false,
    }
}
