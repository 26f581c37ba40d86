//! `process.Process`

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::connect::{Fault, Incoming, Outgoing, answer, check_user, parse};
use super::event;
use super::process::{Piece, Process, Start};
use super::{Envd, Shared, locked, resolve};

/// How often a stream shows that it is alive, if its client does not say.
const KEEPALIVE: Duration = Duration::from_secs(90);
/// How long the end of a process can be asked for.
const RETENTION: Duration = Duration::from_secs(30);

/// `List`
pub(super) async fn list(State(envd): Shared) -> Response {
    let processes: Vec<Value> = locked(&envd.processes)
        .values()
        .filter(|process| !process.has_ended())
        .map(|process| {
            let mut entry = json!({ "config": process.config, "pid": process.pid });
            if let Some(tag) = &process.tag {
                entry["tag"] = tag.clone().into();
            }
            entry
        })
        .collect();
    answer(Ok(if processes.is_empty() { json!({}) } else { json!({ "processes": processes }) }))
}

/// `Start`
pub(super) async fn start(State(envd): Shared, headers: HeaderMap, body: Body) -> Response {
    let (out, response) = Outgoing::stream();
    tokio::spawn(async move {
        let limit = number(&headers, "connect-timeout-ms").map(Duration::from_millis);
        let started = async {
            check_user(&headers)?;
            let message = Incoming::new(body).next().await?.unwrap_or_default();
            Process::start(what(&envd, &message, limit)?)
        };
        match started.await {
            Ok((process, output)) => {
                register(&envd, &process);
                follow(&envd, &headers, &process, output, out, limit).await;
            }
            Err(fault) => out.end(Err(fault)).await,
        }
    });
    response
}

/// Keeps a process in the list until some time after its end.
fn register(envd: &Arc<Envd>, process: &Arc<Process>) {
    locked(&envd.processes).insert(process.pid, Arc::clone(process));
    let (envd, process) = (Arc::clone(envd), Arc::clone(process));
    tokio::spawn(async move {
        process.ended().await;
        tokio::time::sleep(RETENTION).await;
        let mut processes = locked(&envd.processes);
        if processes.get(&process.pid).is_some_and(|there| Arc::ptr_eq(there, &process)) {
            processes.remove(&process.pid);
        }
    });
}

fn what(envd: &Envd, message: &Value, limit: Option<Duration>) -> Result<Start, Fault> {
    let config = &message["process"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut words = vec![text(&config["cmd"])];
    words.extend(config["args"].as_array().into_iter().flatten().map(text));
    let directory =
        resolve(envd, config["cwd"].as_str().unwrap_or("")).map_err(|reason| Fault::new("invalid_argument", reason))?;
    if !directory.exists() {
        return Err(Fault::new("invalid_argument", format!("cwd '{}' does not exist", directory.display())));
    }
    let home = envd.orders.home.to_string_lossy().into_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut variables: Vec<(String, String)> =
        [("PATH", path), ("HOME", home), ("USER", "user".to_owned()), ("LOGNAME", "user".to_owned())]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec();
    variables.extend(envd.orders.variables.clone());
    let asked = config["envs"].as_object().into_iter().flatten();
    variables.extend(asked.map(|(name, value)| (name.clone(), text(value))));
    Ok(Start {
        words,
        variables,
        directory,
        terminal: message.get("pty").map(size),
        stdin: message["stdin"].as_bool().unwrap_or(true),
        tag: message["tag"].as_str().map(str::to_owned),
        config: config.clone(),
        limit,
    })
}

/// Columns and rows.
fn size(terminal: &Value) -> (u16, u16) {
    let number =
        |name: &str| terminal["size"][name].as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or(0);
    (number("cols"), number("rows"))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok().filter(|number| *number > 0)
}

/// `Connect`
pub(super) async fn connect(State(envd): Shared, headers: HeaderMap, body: Body) -> Response {
    let (out, response) = Outgoing::stream();
    tokio::spawn(async move {
        let found = async {
            let message = Incoming::new(body).next().await?.unwrap_or_default();
            find(&envd, &message)
        };
        match found.await {
            Ok(process) => {
                let output = process.listen();
                let limit = number(&headers, "connect-timeout-ms").map(Duration::from_millis);
                follow(&envd, &headers, &process, output, out, limit).await;
            }
            Err(fault) => out.end(Err(fault)).await,
        }
    });
    response
}

fn find(envd: &Envd, message: &Value) -> Result<Arc<Process>, Fault> {
    let processes = locked(&envd.processes);
    let selector = &message["process"];
    if let Some(pid) = selector["pid"].as_u64() {
        let found = u32::try_from(pid).ok().and_then(|pid| processes.get(&pid));
        return found.cloned().ok_or_else(|| Fault::new("not_found", format!("process with pid {pid} not found")));
    }
    if let Some(tag) = selector["tag"].as_str() {
        let found = processes.values().find(|process| process.tag.as_deref() == Some(tag));
        return found.cloned().ok_or_else(|| Fault::new("not_found", format!("process with tag {tag} not found")));
    }
    Err(Fault::new("unimplemented", "invalid input type *process.ProcessSelector"))
}

/// One that still runs.
fn find_running(envd: &Envd, message: &Value) -> Result<Arc<Process>, Fault> {
    let process = find(envd, message)?;
    if process.has_ended() {
        return Err(Fault::new("not_found", format!("process with pid {} not found", process.pid)));
    }
    Ok(process)
}

/// Tells a client of a process until that has ended or the client is gone. The process goes on without it.
async fn follow(
    envd: &Envd,
    headers: &HeaderMap,
    process: &Process,
    mut output: mpsc::Receiver<Piece>,
    out: Outgoing,
    limit: Option<Duration>,
) {
    let asked = number(headers, "keepalive-ping-interval").map(Duration::from_secs);
    let every = envd.orders.keepalive.or(asked).unwrap_or(KEEPALIVE);
    let told = async {
        if !out.send(&event::start(process.pid)).await {
            return;
        }
        loop {
            let goes_on = tokio::select! {
                biased;
                piece = output.recv() => match piece {
                    Some((source, bytes)) => out.send(&event::data(source, &bytes)).await,
                    None => break,
                },
                () = out.closed() => false,
                () = tokio::time::sleep(every) => out.send(&event::keepalive()).await,
            };
            if !goes_on {
                return;
            }
        }
        if let Some(ended) = process.ended().await {
            out.send(&event::end(&ended)).await;
        }
    };
    match tokio::time::timeout(limit.unwrap_or(Duration::MAX), told).await {
        Ok(()) => out.end(Ok(())).await,
        Err(_) => out.end(Err(Fault::new("deadline_exceeded", "context deadline exceeded"))).await,
    }
}

/// `SendInput`
pub(super) async fn send_input(State(envd): Shared, body: Bytes) -> Response {
    let sent = async {
        let message = parse(&body)?;
        let process = find_running(&envd, &message)?;
        feed(&process, &message["input"]).await
    };
    answer(sent.await.map(|()| json!({})))
}

async fn feed(process: &Process, input: &Value) -> Result<(), Fault> {
    let decode = |value: &Value| {
        let decoded = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        decoded.ok_or_else(|| Fault::new("invalid_argument", "unmarshal message: proto: invalid value for bytes field"))
    };
    if let Some(bytes) = input.get("pty") {
        process.write_terminal(&decode(bytes)?).await
    } else if let Some(bytes) = input.get("stdin") {
        process.write_stdin(&decode(bytes)?).await
    } else {
        Err(Fault::new("unimplemented", "invalid input type <nil>"))
    }
}

/// `StreamInput`
pub(super) async fn stream_input(State(envd): Shared, body: Body) -> Response {
    let mut incoming = Incoming::new(body);
    let fed = async {
        let mut process = None;
        while let Some(message) = incoming.next().await? {
            if let Some(start) = message.get("start") {
                process = Some(find_running(&envd, start)?);
            } else if let Some(data) = message.get("data") {
                let process = process.as_ref().ok_or_else(|| Fault::new("invalid_argument", "no process selected"))?;
                feed(process, &data["input"]).await?;
            } else if message.get("keepalive").is_none() {
                return Err(Fault::new("unimplemented", "invalid event type <nil>"));
            }
        }
        Ok(())
    };
    let fed = fed.await;
    let (out, response) = Outgoing::stream();
    tokio::spawn(async move {
        if fed.is_ok() {
            out.send(&json!({})).await;
        }
        out.end(fed).await;
    });
    response
}

/// `SendSignal`
pub(super) async fn send_signal(State(envd): Shared, body: Bytes) -> Response {
    let sent = || {
        let message = parse(&body)?;
        let process = find_running(&envd, &message)?;
        let signal = match (&message["signal"].as_str(), message["signal"].as_u64()) {
            (Some("SIGNAL_SIGKILL"), _) | (_, Some(9)) => Signal::KILL,
            (Some("SIGNAL_SIGTERM"), _) | (_, Some(15)) => Signal::TERM,
            _ => return Err(Fault::new("unimplemented", "invalid signal: SIGNAL_UNSPECIFIED")),
        };
        process.signal(signal)
    };
    answer(sent().map(|()| json!({})))
}

/// `CloseStdin`
pub(super) async fn close_stdin(State(envd): Shared, body: Bytes) -> Response {
    let closed = async {
        let process = find_running(&envd, &parse(&body)?)?;
        process.close_stdin().await
    };
    answer(closed.await.map(|()| json!({})))
}

/// `Update`
pub(super) async fn update(State(envd): Shared, body: Bytes) -> Response {
    let updated = async {
        let message = parse(&body)?;
        let process = find_running(&envd, &message)?;
        match message.get("pty") {
            Some(terminal) => {
                let (columns, rows) = size(terminal);
                process.resize(columns, rows).await
            }
            None => Ok(()),
        }
    };
    answer(updated.await.map(|()| json!({})))
}
