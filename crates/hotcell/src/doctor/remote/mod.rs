//! The server of the remote runtime that is configured: whether it answers, whether it takes the key, what it can do.
//! Nothing is made there and nothing is removed.

mod e2b;
mod opensandbox;

use std::future::Future;
use std::time::Duration;

use hotcell_backends::e2b::E2bBackend;
use hotcell_backends::opensandbox::OpenSandboxBackend;
use hotcell_core::policy::RemotePolicy;
use hotcell_core::runtime::RuntimeKind;
use hotcell_remote::http::{Address, CallError, PlainHttp};

use super::{Examined, Finding, State, finding};
use crate::settings::RemoteRuntime;

/// How long a server may take for everything that it is asked: on this machine, and elsewhere.
const NEAR: Duration = Duration::from_secs(2);
const FAR: Duration = Duration::from_secs(5);

/// Asks the server. Takes no longer than a server of its kind of distance may.
pub(super) async fn examine(runtime: &RemoteRuntime) -> Examined {
    let RemoteRuntime { kind, remote } = runtime;
    let asked = match address_of(*kind, remote) {
        Ok(address) => match kind {
            RuntimeKind::Opensandbox => opensandbox::ask(address, remote).await,
            RuntimeKind::E2b | RuntimeKind::Cube => e2b::ask(*kind, address, remote).await,
            kind => Err(Problem::new(format!("the `{kind}` backend is not part of this build"), None)),
        },
        Err(problem) => Err(problem),
    };
    let name = format!("{kind} server");
    match asked {
        Ok(Answers { detail, more }) => {
            let server = finding(&name, State::Good, detail, None);
            let boxes = match kind {
                RuntimeKind::Opensandbox => OpenSandboxBackend::capabilities(),
                kind => E2bBackend::capabilities(*kind),
            };
            Examined { findings: [server].into_iter().chain(more).collect(), boxes: Ok(boxes) }
        }
        Err(Problem { what, fix }) => {
            let boxes = Err(what.clone());
            Examined { findings: vec![finding(&name, State::Missing, what, fix)], boxes }
        }
    }
}

/// What a server that can be used said.
struct Answers {
    /// Where and what it is.
    detail: String,
    /// What else was found.
    more: Vec<Finding>,
}

/// Why a server cannot be used.
struct Problem {
    what: String,
    fix: Option<String>,
}

impl Problem {
    fn new(what: String, fix: Option<String>) -> Self {
        Self { what, fix }
    }

    /// Of a server that said nothing.
    fn silent(address: &Address, patience: Duration) -> Self {
        let what = format!("{address} did not answer within {} s", patience.as_secs());
        Self { what, fix: Some("look at the server and the network between, and try again".to_owned()) }
    }

    /// Of a call that failed, by somebody with this key, or none.
    fn of(error: &CallError, remote: &RemotePolicy) -> Self {
        let fix = match (error.status(), &remote.api_key) {
            (Some(401 | 403), None) => NO_KEY.to_owned(),
            _ => error.hint().to_owned(),
        };
        Self { what: format!("{} {}", error.server, error.why), fix: Some(fix) }
    }
}

const NO_KEY: &str = "give it a key: HOTCELL_SANDBOX_API_KEY, --sandbox-key-file, or `api_key_file` under [remote]";

fn address_of(kind: RuntimeKind, remote: &RemotePolicy) -> Result<Address, Problem> {
    // What is missing says itself what to do.
    let url = remote.server(kind).map_err(|error| Problem::new(error.to_string(), None))?;
    parse(&url, remote)
}

fn parse(url: &str, remote: &RemotePolicy) -> Result<Address, Problem> {
    let plain = if remote.plain_http { PlainHttp::Allowed } else { PlainHttp::LoopbackOnly };
    Address::parse(url, plain).map_err(|error| Problem::new(error.to_string(), None))
}

fn patience(address: &Address) -> Duration {
    if address.is_loopback() { NEAR } else { FAR }
}

/// Waits for an answer, and for all pages of one, no longer than this; none if it has not come by then.
async fn in_time<T>(patience: Duration, call: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(patience, call).await.ok()
}

/// What a key is, as far as it can be told.
fn with_key(remote: &RemotePolicy) -> &'static str {
    if remote.api_key.is_some() { "takes the key" } else { "wants no key" }
}
