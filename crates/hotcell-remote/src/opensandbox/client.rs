//! The lifecycle API.

use std::time::{Duration, SystemTime};

use hotcell_core::secret::Secret;
use hotcell_core::text::Printable;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::super::http::{Address, AddressError, CallError, Method, Server, Why};
use super::endpoint::{Endpoint, Via};
use super::execd::Execd;
use super::network::{NetworkPolicy, NetworkStatus};
use super::sandbox::{Filter, NewSandbox, Sandbox, Snapshot};
use super::{timestamp, wire};

/// The header that carries the key of the server.
const KEY: &str = "open-sandbox-api-key";

/// Where the sidecar that holds the network listens.
const SIDECAR: u16 = 18080;

/// How many are asked for at once, the most that servers give.
const PER_PAGE: &str = "200";

/// How many pages are asked for before a list is taken to have no end.
const MOST_PAGES: u32 = 50;

/// How long making a sandbox may take: the server may have to get its image first.
const CREATING: Duration = Duration::from_secs(300);

/// A client of an OpenSandbox server. Cheap to clone; clones share connections.
///
/// ```no_run
/// use std::time::Duration;
/// use hotcell_remote::http::{Address, PlainHttp};
/// use hotcell_remote::opensandbox::{Client, Command, Event, NewSandbox, Via};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let address = Address::parse("http://localhost:8080", PlainHttp::LoopbackOnly)?;
/// let client = Client::new(address, None)?;
/// let sandbox = client.create(&NewSandbox::image("python:3.12")).await?;
/// let execd = client.ready(&sandbox.id, Via::Direct, None, Duration::from_secs(60)).await?;
/// let mut running = execd.run(&Command::line("echo hello")).await?;
/// while let Some(event) = running.next().await? {
///     if let Event::Stdout(bytes) = event {
///         assert_eq!(&bytes[..], b"hello\n");
///     }
/// }
/// client.delete(&sandbox.id).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    /// Where the API is: below `v1`.
    api: Server,
    /// Where the server's health and version are. Neither wants a key.
    root: Server,
    key: Option<Secret<String>>,
}

impl Client {
    /// A client of the server at this address, with or without its `/v1`.
    pub fn new(address: Address, api_key: Option<&Secret<String>>) -> Result<Self, CallError> {
        let (root, api) = root_and_api(&address).map_err(|error| impossible(&address, error.to_string()))?;
        let root = Server::new("OpenSandbox", root).map_err(|error| impossible(&address, error.to_string()))?;
        let api = root.elsewhere(api).map_err(|error| impossible(&address, error.to_string()))?;
        let api = match api_key {
            Some(key) => api.secret_header(KEY, key)?,
            None => api,
        };
        Ok(Self { api, root, key: api_key.cloned() })
    }

    /// The same, with this much time for each call; making sandboxes and snapshots has its own.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { api: self.api.within(deadline), root: self.root.within(deadline), key: self.key }
    }

    /// Where the API is.
    pub fn address(&self) -> &Address {
        self.api.address()
    }

    /// Asks whether the server is well.
    pub async fn health(&self) -> Result<(), CallError> {
        self.root.get("ask whether the server is well", &["health"]).send().await?.bytes().await.map(drop)
    }

    /// The version of the server.
    pub async fn version(&self) -> Result<String, CallError> {
        let call = self.root.get("ask for the server's version", &["version"]);
        Ok(call.send().await?.json::<wire::VersionAnswer>().await?.version)
    }

    /// Makes a sandbox. It is seldom up when this returns; [`Client::ready`] waits for it. Not repeated: a call that breaks
    /// may have made one, which only its metadata then finds.
    pub async fn create(&self, new: &NewSandbox) -> Result<Sandbox, CallError> {
        let call = self.api.post("make a sandbox", &["sandboxes"]).json(&wire::CreateRequest::new(new));
        Ok(call.deadline(CREATING).send().await?.json::<wire::SandboxAnswer>().await?.read())
    }

    /// A sandbox.
    pub async fn get(&self, id: &str) -> Result<Sandbox, CallError> {
        let call = self.api.get("look at a sandbox", &["sandboxes", id]);
        Ok(call.send().await?.json::<wire::SandboxAnswer>().await?.read())
    }

    /// All sandboxes that match.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Sandbox>, CallError> {
        let states = filter.states.iter().map(|state| ("state", state.to_string()));
        let mut query: Vec<(&str, String)> = states.collect();
        if !filter.metadata.is_empty() {
            query.push(("metadata", encoded(filter.metadata.iter())));
        }
        let found = self.pages("list sandboxes", "sandboxes", &query).await?;
        Ok(found.into_iter().map(wire::SandboxAnswer::read).collect())
    }

    /// Removes a sandbox. One that is not there is as good as removed.
    pub async fn delete(&self, id: &str) -> Result<(), CallError> {
        gone(self.api.delete("remove a sandbox", &["sandboxes", id]).send().await)
    }

    /// Sets when a sandbox ends. Says what the server made of it.
    pub async fn renew(&self, id: &str, until: SystemTime) -> Result<SystemTime, CallError> {
        let operation = "renew a sandbox";
        let call = self.api.post(operation, &["sandboxes", id, "renew-expiration"]);
        // Said twice it is the same.
        let call = call.json(&wire::Expiration { expires_at: timestamp::format(until) }).repeatable(true);
        let answer: wire::Expiration = call.send().await?.json().await?;
        timestamp::parse(&answer.expires_at).ok_or_else(|| {
            self.api.failed(operation, Why::Garbled { what: "the new end of the sandbox is no time".to_owned() })
        })
    }

    /// Begins to pause a sandbox.
    pub async fn pause(&self, id: &str) -> Result<(), CallError> {
        self.api.post("pause a sandbox", &["sandboxes", id, "pause"]).send().await?.bytes().await.map(drop)
    }

    /// Begins to resume a paused sandbox.
    pub async fn resume(&self, id: &str) -> Result<(), CallError> {
        self.api.post("resume a sandbox", &["sandboxes", id, "resume"]).send().await?.bytes().await.map(drop)
    }

    /// Begins to make a snapshot of a sandbox.
    pub async fn snapshot(&self, id: &str, name: Option<&str>) -> Result<Snapshot, CallError> {
        let body = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
        let call = self.api.post("make a snapshot", &["sandboxes", id, "snapshots"]).json(&body);
        Ok(call.deadline(CREATING).send().await?.json::<wire::SnapshotAnswer>().await?.read())
    }

    /// A snapshot.
    pub async fn get_snapshot(&self, id: &str) -> Result<Snapshot, CallError> {
        let call = self.api.get("look at a snapshot", &["snapshots", id]);
        Ok(call.send().await?.json::<wire::SnapshotAnswer>().await?.read())
    }

    /// All snapshots, or those of a sandbox.
    pub async fn snapshots(&self, sandbox: Option<&str>) -> Result<Vec<Snapshot>, CallError> {
        let query: Vec<_> = sandbox.iter().map(|id| ("sandboxId", (*id).to_owned())).collect();
        let found = self.pages("list snapshots", "snapshots", &query).await?;
        Ok(found.into_iter().map(wire::SnapshotAnswer::read).collect())
    }

    /// Removes a snapshot. One that is not there is as good as removed.
    pub async fn delete_snapshot(&self, id: &str) -> Result<(), CallError> {
        gone(self.api.delete("remove a snapshot", &["snapshots", id]).send().await)
    }

    /// The names of the pools of sandboxes that the server keeps ready. Servers that are not on Kubernetes answer 501.
    pub async fn pools(&self) -> Result<Vec<String>, CallError> {
        let answer: wire::Pools = self.api.get("list pools", &["pools"]).send().await?.json().await?;
        Ok(answer.items.into_iter().map(|pool| pool.name).collect())
    }

    /// What the server holds a sandbox to on the network. Servers before 1.1.1 answer 404.
    pub async fn network_policy(&self, id: &str) -> Result<NetworkStatus, CallError> {
        let call = self.api.get("look at a sandbox's network policy", &["sandboxes", id, "networkpolicy"]);
        Ok(call.send().await?.json::<wire::PolicyStatus>().await?.read())
    }

    /// Replaces what the server holds a sandbox to on the network.
    pub async fn set_network_policy(&self, id: &str, policy: &NetworkPolicy) -> Result<(), CallError> {
        let path = ["sandboxes", id, "networkpolicy"];
        let call = self.api.call("set a sandbox's network policy", Method::PUT, &path);
        call.json(&wire::Policy::new(policy)).send().await?.bytes().await.map(drop)
    }

    /// What the sidecar beside a sandbox holds it to on the network, and how: asked of itself, by the way on which `execd` is
    /// reached, whose `access_token` opens it.
    pub async fn sidecar_policy(
        &self,
        id: &str,
        via: Via,
        access_token: Option<&Secret<String>>,
    ) -> Result<NetworkStatus, CallError> {
        let sidecar = self.execd(&self.endpoint(id, SIDECAR, via).await?, access_token)?;
        sidecar.sidecar_policy().await
    }

    /// Where a port of a sandbox is reached.
    pub async fn endpoint(&self, id: &str, port: u16, via: Via) -> Result<Endpoint, CallError> {
        let operation = "find a sandbox's endpoint";
        let mut call = self.api.get(operation, &["sandboxes", id, "endpoints", &port.to_string()]);
        if via == Via::ServerProxy {
            call = call.query("use_server_proxy", "true");
        }
        let answer: wire::EndpointAnswer = call.send().await?.json().await?;
        let address = self.address().given(&answer.endpoint);
        let address = address.map_err(|error| self.api.failed(operation, Why::Garbled { what: error.to_string() }))?;
        let headers = answer.headers.unwrap_or_default();
        if let Some(name) = headers.keys().find(|name| is_of_transport(name)) {
            let what = format!("an endpoint wants the header `{}` to be set", Printable(name));
            return Err(self.api.failed(operation, Why::Garbled { what }));
        }
        let headers = headers.into_iter();
        Ok(Endpoint { address, headers: headers.map(|(name, value)| (name, Secret::new(value))).collect(), via })
    }

    /// The execd behind an endpoint, through this client's connections. Through the server's proxy the server's key goes
    /// along, and only to the server's own origin.
    pub fn execd(&self, endpoint: &Endpoint, access_token: Option<&Secret<String>>) -> Result<Execd, CallError> {
        let operation = "reach a sandbox";
        let server = self
            .root
            .elsewhere(endpoint.address.clone())
            .map_err(|error| self.api.failed(operation, Why::Impossible { reason: error.to_string() }))?;
        let server = match &self.key {
            Some(key) if endpoint.via == Via::ServerProxy => {
                if !endpoint.address.is_same_origin(self.address()) {
                    let reason = format!(
                        "its proxy is at {}, where its key is not sent; use that as the server's address, or reach sandboxes directly",
                        endpoint.address
                    );
                    return Err(self.api.failed(operation, Why::Impossible { reason }));
                }
                server.secret_header(KEY, key)?
            }
            _ => server,
        };
        Execd::at(server, endpoint, access_token)
    }

    pub(super) fn failed(&self, operation: &'static str, why: Why) -> CallError {
        self.api.failed(operation, why)
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Vec<T>, CallError> {
        let mut found = Vec::new();
        for page in 1..=MOST_PAGES {
            let mut call =
                self.api.get(operation, &[path]).query("page", &page.to_string()).query("pageSize", PER_PAGE);
            for (name, value) in query {
                call = call.query(name, value);
            }
            let answer: wire::Page<T> = call.send().await?.json().await?;
            found.extend(answer.items);
            if !answer.pagination.has_next_page {
                return Ok(found);
            }
        }
        Err(self.api.failed(operation, Why::Garbled { what: format!("the list has more than {MOST_PAGES} pages") }))
    }
}

/// Whether a header says how a request is carried, and to whom: that is not for a server to choose.
fn is_of_transport(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["host", "connection", "expect", "te", "trailer", "transfer-encoding", "upgrade"].contains(&name.as_str())
        || ["content-", "proxy-", "sec-"].iter().any(|start| name.starts_with(start))
}

/// Where the server is, and where its API is.
fn root_and_api(address: &Address) -> Result<(Address, Address), AddressError> {
    let text = address.to_string();
    match text.strip_suffix("/v1") {
        Some(root) => Ok((address.given(root)?, address.clone())),
        None => Ok((address.clone(), address.given(&format!("{text}/v1"))?)),
    }
}

/// Pairs in the form of a query: the server decodes what it gets as the value of one parameter.
fn encoded<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn gone<T>(result: Result<T, CallError>) -> Result<(), CallError> {
    match result {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// For what fails before there is a server to speak of.
fn impossible(address: &Address, reason: String) -> CallError {
    CallError {
        operation: "use a server",
        server: format!("OpenSandbox at {address}"),
        why: Why::Impossible { reason },
    }
}
