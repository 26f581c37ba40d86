//! envd and the code interpreter of one sandbox of `e2b`.
//!
//! Started inside the sandbox with what it has to know in one line of JSON on standard input, whose end is its end.
//! Left out: watching directories, and metadata of files.

mod connect;
mod entry;
mod event;
mod filesystem;
mod interpreter;
mod process;
mod rpc;
mod transfer;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, get, post};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{listen, reply};

/// The version of the real one whose abilities these are. Later ones know metadata of files.
pub(crate) const VERSION: &str = "0.5.7";

/// Where envd and the code interpreter are reached in a sandbox.
pub(crate) const PORT: u16 = 49983;
pub(crate) const INTERPRETER_PORT: u16 = 49999;

/// The header in which the caller says which of the two it means.
pub(crate) const PORT_HEADER: &str = "e2b-sandbox-port";

/// What envd has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// What a caller has to show.
    pub(crate) token: Option<String>,
    /// Variables for every process.
    pub(crate) variables: BTreeMap<String, String>,
    /// How often a stream shows that it is alive, whatever its client asks for.
    pub(crate) keepalive: Option<Duration>,
    /// The directory that paths and processes start in.
    pub(crate) home: PathBuf,
}

/// Everything that lives between requests.
#[derive(Debug)]
struct Envd {
    orders: Orders,
    processes: Mutex<BTreeMap<u32, Arc<process::Process>>>,
    contexts: interpreter::Contexts,
}

type Shared = State<Arc<Envd>>;

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) async fn run() -> Result<()> {
    let mut line = String::new();
    let mut input = BufReader::new(tokio::io::stdin());
    input.read_line(&mut line).await.context("cannot read what to serve")?;
    let orders: Orders = serde_json::from_str(&line).context("cannot understand what to serve")?;
    let listener = listen::on_loopback(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let envd = Arc::new(Envd { orders, processes: Mutex::default(), contexts: interpreter::Contexts::default() });
    listen::serve(listener, router(envd), true).await
}

fn router(envd: Arc<Envd>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/envs", get(|State(envd): Shared| async move { reply::json(StatusCode::OK, &envd.orders.variables) }))
        .route("/metrics", get(metrics))
        .route("/files", get(transfer::download).post(transfer::upload))
        .route("/process.Process/List", post(rpc::list))
        .route("/process.Process/Start", post(rpc::start))
        .route("/process.Process/Connect", post(rpc::connect))
        .route("/process.Process/Update", post(rpc::update))
        .route("/process.Process/SendInput", post(rpc::send_input))
        .route("/process.Process/StreamInput", post(rpc::stream_input))
        .route("/process.Process/SendSignal", post(rpc::send_signal))
        .route("/process.Process/CloseStdin", post(rpc::close_stdin))
        .route("/filesystem.Filesystem/{method}", post(filesystem::call))
        .route("/execute", post(interpreter::execute))
        .route("/contexts", get(interpreter::list).post(interpreter::create))
        .route("/contexts/{id}", any(interpreter::remove))
        .route("/contexts/{id}/restart", post(interpreter::restart))
        .fallback(|| async {
            reply::with_type(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
        })
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(&envd), check_token))
        .with_state(envd)
}

/// Everybody may see whether it lives; files have signatures of their own; the interpreter never asks.
async fn check_token(State(envd): Shared, request: Request, next: Next) -> Response {
    let free = match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") | (&Method::GET | &Method::POST, "/files") => true,
        _ => is_for_interpreter(request.headers()),
    };
    if free || has_token(&envd, request.headers()) {
        return next.run(request).await;
    }
    fault(
        StatusCode::UNAUTHORIZED,
        "unauthorized access, please provide a valid access token or method signing if supported",
    )
}

fn is_for_interpreter(headers: &HeaderMap) -> bool {
    headers.get(PORT_HEADER).and_then(|port| port.to_str().ok()) == Some(&INTERPRETER_PORT.to_string())
}

/// True as well where none is asked for.
fn has_token(envd: &Envd, headers: &HeaderMap) -> bool {
    let given = headers.get("x-access-token").map(|token| token.as_bytes());
    envd.orders.token.as_ref().is_none_or(|token| given == Some(token.as_bytes()))
}

/// An error of what is not Connect.
fn fault(status: StatusCode, message: &str) -> Response {
    let body = reply::json(status, &json!({ "code": status.as_u16(), "message": message }));
    reply::with_headers(body, &[("x-content-type-options", "nosniff")])
}

async fn health(headers: HeaderMap) -> Response {
    if is_for_interpreter(&headers) {
        return reply::with_type(StatusCode::OK, "text/plain; charset=utf-8", "OK");
    }
    reply::with_headers(reply::empty(StatusCode::NO_CONTENT), &[("cache-control", "no-store")])
}

async fn metrics() -> Response {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = |name: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let (total, available) = (kibibytes("MemTotal:"), kibibytes("MemAvailable:"));
    let answer = json!({
        "ts": crate::clock::milliseconds() / 1000,
        "cpu_count": std::thread::available_parallelism().map_or(1, usize::from),
        "cpu_used_pct": 0.0,
        "mem_total": total * 1024,
        "mem_used": total.saturating_sub(available) * 1024,
        "disk_used": 0,
        "disk_total": 0,
    });
    reply::json(StatusCode::OK, &answer)
}

/// Users that there are: one, by two names.
fn is_known_user(name: &str) -> bool {
    ["user", "root"].contains(&name)
}

/// An absolute path for one that a client gave: relative to the home directory, which `~` stands for as well.
fn resolve(envd: &Envd, path: &str) -> Result<PathBuf, String> {
    let home = &envd.orders.home;
    match path.strip_prefix('~') {
        Some("") => Ok(home.clone()),
        Some(rest) if rest.starts_with('/') => Ok(home.join(rest.trim_start_matches('/'))),
        Some(_) => {
            Err(format!("failed to expand path '' for user 'user': cannot expand user-specific home dir ({path})"))
        }
        None => Ok(clean(&home.join(path))),
    }
}

/// Without `.`, and without `..` as far as there is something to leave.
fn clean(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut cleaned = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => cleaned.push(name),
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    cleaned
}
