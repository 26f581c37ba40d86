//! `/session`: commands that share variables and a directory.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::event::Events;
use super::paths::{check_directory, expand};
use super::{CONTEXT_NOT_FOUND, Execd, Failure, RUNTIME_ERROR, Shared, bad_request, failure, locked, runtime_error};
use crate::shell::Shell;
use crate::{go, identity, reply};

/// What a session keeps.
#[derive(Debug)]
pub(super) struct Session {
    id: String,
    shell: Mutex<Shell>,
    /// The command that runs, until it has been waited for.
    group: Mutex<Option<Pid>>,
}

impl Session {
    pub(super) fn kill(&self) {
        if let Some(group) = *locked(&self.group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Create {
    #[serde(default, deserialize_with = "go::or_default")]
    cwd: String,
}

/// `POST /session`
pub(super) async fn create(State(execd): Shared, body: Bytes) -> Response {
    let create: Create = match serde_json::from_slice(&body) {
        Ok(create) => create,
        Err(_) if body.is_empty() => Create::default(),
        Err(error) => return bad_request(&format!("error parsing request. {error}")),
    };
    let directory = match made(&create.cwd) {
        Ok(directory) => directory,
        Err(reason) => return runtime_error(&format!("error creating session. {reason}")),
    };
    let id = identity::uuid();
    let session = Session { id: id.clone(), shell: Mutex::new(Shell::new(directory)), group: Mutex::default() };
    locked(&execd.sessions).insert(id.clone(), Arc::new(session));
    reply::json(StatusCode::OK, &json!({ "session_id": id }))
}

/// The directory of that name, made if it is not there.
fn made(name: &str) -> Result<Option<PathBuf>, String> {
    let directory = expand(name)?;
    if directory.as_os_str().is_empty() {
        return Ok(None);
    }
    std::fs::create_dir_all(&directory).map_err(|error| go::with_path("mkdir", &directory, &error))?;
    Ok(Some(directory))
}

/// Ends a session; false if there is none.
pub(super) fn close(execd: &Execd, id: &str) -> bool {
    let session = locked(&execd.sessions).remove(id);
    session.inspect(|session| session.kill()).is_some()
}

/// `DELETE /session/{id}`
pub(super) async fn remove(State(execd): Shared, Path(id): Path<String>) -> Response {
    if close(&execd, &id) {
        reply::empty(StatusCode::OK)
    } else {
        failure(StatusCode::NOT_FOUND, CONTEXT_NOT_FOUND, &format!("session {id} not found"))
    }
}

#[derive(Debug, Deserialize)]
struct Run {
    #[serde(default, deserialize_with = "go::or_default")]
    command: String,
    #[serde(default, deserialize_with = "go::or_default")]
    cwd: String,
    #[serde(default, deserialize_with = "go::or_default")]
    timeout: u64,
}

/// `POST /session/{id}/run`
pub(super) async fn run(State(execd): Shared, Path(id): Path<String>, body: Bytes) -> Response {
    let run: Run = match serde_json::from_slice(&body) {
        Ok(run) => run,
        Err(error) => return bad_request(&format!("error parsing request. {error}")),
    };
    if run.command.is_empty() {
        return bad_request(
            "invalid request. Key: 'RunInSessionRequest.Command' Error:Field validation for 'Command' failed on the \
             'required' tag",
        );
    }
    if let Err(reason) = check_directory(&run.cwd) {
        return bad_request(&format!("invalid request. {reason}"));
    }
    let Some(session) = locked(&execd.sessions).get(&id).cloned() else {
        return runtime_error("error running in session. context not found");
    };
    let (events, response) = Events::stream();
    tokio::spawn(async move {
        let _pings = events.init(&session.id).await;
        let begun = Instant::now();
        match session.execute(&run, &events).await {
            Ok(ended) if ended.is_success() => events.complete(begun.elapsed()).await,
            Ok(ended) => events.error(&ended.code.to_string(), &ended.status).await,
            // The real one has sent its headers by then; its error comes as it would have come without.
            Err(reason) => {
                let message = format!("error running in session. {reason}");
                events.raw(go::json(&Failure { code: RUNTIME_ERROR, message: &message })).await;
            }
        }
    });
    response
}

impl Session {
    async fn execute(&self, run: &Run, events: &Events) -> Result<go::Ended, String> {
        let mut shell = locked(&self.shell).clone();
        if !run.cwd.is_empty() {
            shell.directory = Some(expand(&run.cwd)?);
        }
        // Both outputs are one.
        let command = format!("exec 2>&1\n{}", run.command);
        let (mut process, left) = shell.process(&command).map_err(|error| error.to_string())?;
        process.stdout(Stdio::piped());
        let mut child = process.spawn().map_err(|error| format!("start bash: {}", go::of_error(&error)))?;
        *locked(&self.group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);

        let limit = if run.timeout == 0 { Duration::MAX } else { Duration::from_millis(run.timeout) };
        let output = child.stdout.take();
        let read = async {
            let Some(output) = output else { return };
            let mut lines = BufReader::new(output).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                events.output("stdout", &line).await;
            }
        };
        let in_time = tokio::time::timeout(limit, read).await.is_ok();
        if !in_time {
            self.kill();
        }
        let ended = child.wait().await;
        *locked(&self.group) = None;
        let ended = ended.map(go::Ended::from).map_err(|error| go::of_error(&error))?;
        if !in_time {
            return Err(format!("timeout after {}", in_go(limit)));
        }
        locked(&self.shell).keep(&left);
        Ok(ended)
    }
}

/// `1s`, `1.5s`, `300ms`.
fn in_go(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{}ms", duration.as_millis())
    } else {
        format!("{}s", duration.as_secs_f64())
    }
}
