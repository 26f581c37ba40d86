//! `/session`: commands that share variables and a directory.
//!
//! Each command is a bash of its own, which is given what the one before it left.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
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
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::event::Events;
use super::paths::{check_directory, expand};
use super::{CONTEXT_NOT_FOUND, Execd, Failure, RUNTIME_ERROR, Shared, bad_request, failure, locked, runtime_error};
use crate::{go, identity, reply};

/// Runs the command, with both outputs as one, and writes down what it left. Arguments: the command, and two files.
const SCRIPT: &str = r#"exec 2>&1; hotcell_command=$1 hotcell_variables=$2 hotcell_place=$3; set --
eval "$hotcell_command"
hotcell_status=$?
env -0 > "$hotcell_variables"; pwd > "$hotcell_place"
exit "$hotcell_status""#;

/// What a session keeps.
#[derive(Debug)]
pub(super) struct Session {
    id: String,
    state: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    variables: BTreeMap<OsString, OsString>,
    directory: Option<PathBuf>,
    /// The command that runs.
    group: Option<Pid>,
}

impl Session {
    pub(super) fn new(id: String, directory: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os().collect();
        Self { id, state: Mutex::new(Kept { variables, directory, group: None }) }
    }

    pub(super) fn kill(&self) {
        if let Some(group) = locked(&self.state).group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Create {
    #[serde(default)]
    cwd: String,
}

/// `POST /session`
pub(super) async fn create(State(execd): Shared, body: Bytes) -> Response {
    let create: Create = match serde_json::from_slice(&body) {
        Ok(create) => create,
        Err(_) if body.is_empty() => Create::default(),
        Err(error) => return bad_request(&format!("error parsing request. {error}")),
    };
    let directory = match expand(&create.cwd) {
        Ok(directory) if directory.as_os_str().is_empty() => None,
        Ok(directory) => match std::fs::create_dir_all(&directory) {
            Ok(()) => Some(directory),
            Err(error) => {
                let reason = go::with_path("mkdir", &directory, &error);
                return runtime_error(&format!("error creating session. {reason}"));
            }
        },
        Err(reason) => return runtime_error(&format!("error creating session. {reason}")),
    };
    let id = identity::uuid();
    locked(&execd.sessions).insert(id.clone(), Arc::new(Session::new(id.clone(), directory)));
    reply::json(StatusCode::OK, &json!({ "session_id": id }))
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
    #[serde(default)]
    command: String,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
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
        let said = |error: std::io::Error| go::of_error(&error);
        let left = tempfile::tempdir().map_err(said)?;
        let (variables, place) = (left.path().join("variables"), left.path().join("place"));
        let mut process = Command::new("bash");
        process.args(["--noprofile", "--norc", "-c", SCRIPT, "bash", &run.command]).arg(&variables).arg(&place);
        let asked = if run.cwd.is_empty() { None } else { Some(expand(&run.cwd)?) };
        {
            let kept = locked(&self.state);
            process.env_clear().envs(&kept.variables);
            if let Some(directory) = asked.as_ref().or(kept.directory.as_ref()) {
                process.current_dir(directory);
            }
        }
        process.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = process.spawn().map_err(|error| format!("start bash: {}", go::of_error(&error)))?;
        locked(&self.state).group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);

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
        locked(&self.state).group = None;
        let ended = ended.map(go::Ended::from).map_err(said)?;
        if !in_time {
            return Err(format!("timeout after {}", in_go(limit)));
        }
        self.keep(&variables, &place);
        Ok(ended)
    }

    /// Takes over what a command left; one that ended the shell left nothing.
    fn keep(&self, variables: &std::path::Path, place: &std::path::Path) {
        let mut kept = locked(&self.state);
        if let Ok(bytes) = std::fs::read(variables) {
            let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
                let equals = pair.iter().position(|byte| *byte == b'=')?;
                let (name, value) = pair.split_at(equals);
                let value = value.get(1..)?;
                Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())))
            });
            kept.variables = pairs.collect();
        }
        if let Ok(mut bytes) = std::fs::read(place)
            && bytes.pop().is_some()
        {
            kept.directory = Some(OsString::from_vec(bytes).into());
        }
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
