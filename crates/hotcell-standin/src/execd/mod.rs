//! OpenSandbox's execd.
//!
//! Left out: `/code` (it needs a Jupyter server there, too) and isolated sessions.

mod command;
mod directories;
mod event;
mod files;
mod glob;
mod metrics;
mod paths;
mod proxy;
mod replay;
mod session;
mod tail;
mod terminal;
mod transfer;
mod websocket;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::Serialize;
use serde_json::json;

use crate::{listen, reply};

/// Where execd listens in a sandbox.
const PORT: u16 = 44772;
const TOKEN_HEADER: &str = "x-execd-access-token";

/// How to run it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen: a loopback address; with port 0 any free one. Standard output says which.
    #[arg(long, required_unless_present = "in_container")]
    listen: Option<SocketAddr>,
    /// Listens on port 44772 of all addresses; refused outside of a sandbox of OpenSandbox.
    #[arg(long, conflicts_with = "listen")]
    in_container: bool,
    /// Sends all output of a terminal before its exit. The real one says that the process has ended as soon as it has,
    /// and what was not sent by then is lost; so does this one without the flag.
    #[arg(long)]
    patient_exit: bool,
    /// Ends when standard input does.
    #[arg(long)]
    lifeline: bool,
}

/// Everything that lives between requests.
#[derive(Debug)]
struct Execd {
    token: Option<String>,
    /// How long a stream of events stays open after the last one.
    grace: Duration,
    patient_exit: bool,
    /// Where it listens itself.
    port: u16,
    commands: Mutex<HashMap<String, Arc<command::Command>>>,
    sessions: Mutex<HashMap<String, Arc<session::Session>>>,
    terminals: Mutex<HashMap<String, Arc<terminal::Terminal>>>,
}

type Shared = State<Arc<Execd>>;

/// The content of a lock, whoever panicked with it.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let listener = match options.listen {
        Some(address) if !options.in_container => listen::on_loopback(address).await?,
        _ => listen::in_container(SocketAddr::new(listen::EVERYWHERE, PORT), "OPENSANDBOX_ID").await?,
    };
    let execd = Arc::new(Execd {
        token: std::env::var("EXECD_ACCESS_TOKEN").ok().filter(|token| !token.is_empty()),
        grace: std::env::var("EXECD_API_GRACE_SHUTDOWN").ok().and_then(|text| duration(&text)).unwrap_or(GRACE),
        patient_exit: options.patient_exit,
        port: listener.local_addr()?.port(),
        commands: Mutex::default(),
        sessions: Mutex::default(),
        terminals: Mutex::default(),
    });
    let served = listen::serve(listener, router(&execd), options.lifeline).await;
    end_everything(&execd);
    served
}

const GRACE: Duration = Duration::from_secs(1);

/// `500ms`, `2s`.
fn duration(text: &str) -> Option<Duration> {
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return milliseconds.parse().ok().map(Duration::from_millis);
    }
    text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).and_then(|s| Duration::try_from_secs_f64(s).ok())
}

fn router(execd: &Arc<Execd>) -> Router {
    let api = Router::new()
        .route("/ping", get(|| async { reply::empty(StatusCode::OK) }))
        .route("/command", post(command::run).delete(command::interrupt))
        .route("/command/status/{id}", get(command::status))
        .route("/command/{id}/logs", get(command::logs))
        .route("/session", post(session::create))
        .route("/session/{id}/run", post(session::run))
        .route("/session/{id}", delete(session::remove))
        .route("/pty", post(terminal::create))
        .route("/pty/{id}", get(terminal::status).delete(terminal::remove))
        .route("/pty/{id}/ws", get(websocket::connect))
        .route("/files", delete(files::remove))
        .route("/files/info", get(files::info))
        .route("/files/mv", post(files::rename))
        .route("/files/permissions", post(files::permissions))
        .route("/files/search", get(files::search))
        .route("/files/replace", post(files::replace))
        .route("/files/upload", post(transfer::upload))
        .route("/files/download", get(transfer::download))
        .route("/directories", post(directories::make).delete(directories::remove))
        .route("/directories/list", get(directories::list))
        .route("/metrics", get(metrics::once))
        .route("/metrics/watch", get(metrics::watch))
        .fallback(reply::not_found)
        .method_not_allowed_fallback(reply::not_found)
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(execd));
    // Around everything, so that what comes through `/proxy/44772` is served by the same routes.
    let through = middleware::from_fn_with_state((Arc::clone(execd), api.clone()), proxy::pass_on);
    let authorised = middleware::from_fn_with_state(Arc::clone(execd), check_token);
    api.layer(through).layer(authorised)
}

async fn check_token(State(execd): Shared, request: Request, next: Next) -> Response {
    let given = request.headers().get(TOKEN_HEADER).map(|value| value.as_bytes());
    match &execd.token {
        Some(token) if given != Some(token.as_bytes()) => reply::json(
            StatusCode::UNAUTHORIZED,
            &json!({ "error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN" }),
        ),
        _ => next.run(request).await,
    }
}

/// The body of an error.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    code: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

const INVALID_REQUEST: &str = "INVALID_REQUEST_BODY";
const MISSING_QUERY: &str = "MISSING_QUERY";
const RUNTIME_ERROR: &str = "RUNTIME_ERROR";
const FILE_NOT_FOUND: &str = "FILE_NOT_FOUND";
const CONTEXT_NOT_FOUND: &str = "CONTEXT_NOT_FOUND";

fn failure(status: StatusCode, code: &str, message: &str) -> Response {
    reply::json(status, &Failure { code, message })
}

fn bad_request(message: &str) -> Response {
    failure(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
}

fn runtime_error(message: &str) -> Response {
    failure(StatusCode::INTERNAL_SERVER_ERROR, RUNTIME_ERROR, message)
}

fn missing_query(name: &str) -> Response {
    failure(StatusCode::BAD_REQUEST, MISSING_QUERY, &format!("missing query parameter '{name}'"))
}

/// Kills what was started; whoever left the group of its command stays.
fn end_everything(execd: &Execd) {
    for command in locked(&execd.commands).values() {
        command.kill();
    }
    for session in locked(&execd.sessions).values() {
        session.kill();
    }
    for terminal in locked(&execd.terminals).values() {
        terminal.kill();
    }
}
