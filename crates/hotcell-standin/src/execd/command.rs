//! `/command`: a command in the foreground, which streams its output, or in the background, which writes a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::process::Child;
use tokio::sync::watch;

use super::event::Events;
use super::paths::{check_directory, expand_with};
use super::tail::follow;
use super::{Execd, Shared, bad_request, failure, locked, missing_query, runtime_error};
use crate::query::Query;
use crate::{clock, go, identity, reply};

/// How long an interrupted command has until it is killed.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Deserialize)]
pub(super) struct Run {
    #[serde(default, deserialize_with = "go::or_default")]
    command: String,
    /// Newer than `command`: a program and its arguments, without a shell.
    #[serde(default, deserialize_with = "go::or_default")]
    argv: Vec<String>,
    #[serde(default, deserialize_with = "go::or_default")]
    cwd: String,
    #[serde(default, deserialize_with = "go::or_default")]
    background: bool,
    #[serde(default, deserialize_with = "go::or_default")]
    timeout: i64,
    uid: Option<u32>,
    gid: Option<u32>,
    #[serde(default, deserialize_with = "go::or_default")]
    envs: BTreeMap<String, String>,
}

impl Run {
    fn check(&self) -> Result<(), String> {
        if self.command.is_empty() && self.argv.is_empty() {
            return Err("Key: 'RunCommandRequest.Command' Error:Field validation for 'Command' failed on the \
                        'required' tag"
                .to_owned());
        }
        if self.timeout < 0 {
            return Err("Key: 'RunCommandRequest.TimeoutMs' Error:Field validation for 'TimeoutMs' failed on the \
                        'gte' tag"
                .to_owned());
        }
        if self.gid.is_some() && self.uid.is_none() {
            return Err("uid is required when gid is provided".to_owned());
        }
        check_directory(&self.cwd)
    }

    /// What is shown as the command.
    fn content(&self) -> String {
        if self.command.is_empty() { self.argv.join(" ") } else { self.command.clone() }
    }

    fn to_process(&self) -> Result<tokio::process::Command, String> {
        let mut process = match self.argv.as_slice() {
            [program, arguments @ ..] if self.command.is_empty() => {
                let mut process = tokio::process::Command::new(program);
                process.args(arguments);
                process
            }
            _ => {
                let mut process = shell();
                process.arg("-c").arg(&self.command);
                process
            }
        };
        let mut variables = from_file();
        variables.extend(self.envs.clone());
        if !self.cwd.is_empty() {
            process.current_dir(expand_with(&self.cwd, &variables)?);
        }
        process.envs(&variables).process_group(0).stdin(Stdio::null());
        if let Some(uid) = self.uid {
            process.uid(uid);
        }
        if let Some(gid) = self.gid {
            process.gid(gid);
        }
        Ok(process)
    }
}

/// bash where there is one, by this program's own PATH: that of the command may be another.
fn shell() -> tokio::process::Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &str| std::env::split_paths(&path).map(|place| place.join(name)).find(|file| file.exists());
    let (name, file) = match found("bash") {
        Some(bash) => ("bash", bash),
        None => ("sh", found("sh").unwrap_or_else(|| PathBuf::from("/bin/sh"))),
    };
    let mut shell = tokio::process::Command::new(file);
    shell.arg0(name);
    shell
}

/// Variables for every command, from the file that EXECD_ENVS names.
fn from_file() -> BTreeMap<String, String> {
    let path = std::env::var_os("EXECD_ENVS").map(PathBuf::from);
    let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A command that was started, running or not.
#[derive(Debug)]
pub(super) struct Command {
    id: String,
    content: String,
    /// The output of a command in the background.
    output: Option<PathBuf>,
    started: SystemTime,
    state: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// While it runs, and has not been waited for: nobody else can have the number then.
    group: Option<Pid>,
    finished: Option<(SystemTime, i32, String)>,
}

impl Command {
    /// A command that runs.
    fn register(execd: &Execd, id: &str, run: &Run, output: Option<PathBuf>, child: &Child) -> Arc<Self> {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let command = Arc::new(Self {
            id: id.to_owned(),
            content: run.content(),
            output,
            started: SystemTime::now(),
            state: Mutex::new(Progress { group, finished: None }),
        });
        locked(&execd.commands).insert(id.to_owned(), Arc::clone(&command));
        command
    }

    pub(super) fn kill(&self) {
        if let Some(group) = locked(&self.state).group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Waits for the end, which comes at the latest after `limit`.
    async fn wait(&self, child: &mut Child, limit: Option<Duration>) -> Result<go::Ended, String> {
        let limit = limit.unwrap_or(Duration::MAX);
        let waited = match tokio::time::timeout(limit, child.wait()).await {
            Ok(waited) => waited,
            Err(_) => {
                self.kill();
                child.wait().await
            }
        };
        let ended = waited.map(go::Ended::from).map_err(|error| go::of_error(&error));
        let (code, text) = match &ended {
            Ok(ended) if ended.is_success() => (0, String::new()),
            Ok(ended) => (ended.code, ended.status.clone()),
            Err(error) => (1, error.clone()),
        };
        let mut state = locked(&self.state);
        state.group = None;
        state.finished = Some((SystemTime::now(), code, text));
        ended
    }
}

/// `POST /command`
pub(super) async fn run(State(execd): Shared, body: Bytes) -> Response {
    let run: Run = match serde_json::from_slice(&body) {
        Ok(run) => run,
        Err(error) => return bad_request(&format!("error parsing request, MAYBE invalid body format. {error}")),
    };
    if let Err(reason) = run.check() {
        return bad_request(&format!("invalid request, validation error {reason}"));
    }
    let id = identity::random_hex(32);
    let made = if run.background { in_background(execd, id, run).await } else { in_foreground(execd, id, run).await };
    made.unwrap_or_else(|reason| runtime_error(&format!("error running commands {reason}")))
}

fn limit(run: &Run) -> Option<Duration> {
    u64::try_from(run.timeout).ok().filter(|limit| *limit > 0).map(Duration::from_millis)
}

fn output_file(id: &str, kind: &str) -> Result<(PathBuf, File), String> {
    let path = std::env::temp_dir().join(format!("{id}.{kind}"));
    let file = File::create(&path).map_err(|error| go::with_path("open", &path, &error))?;
    Ok((path, file))
}

async fn in_foreground(execd: Arc<Execd>, id: String, run: Run) -> Result<Response, String> {
    let (stdout, stdout_file) = output_file(&id, "stdout")?;
    let (stderr, stderr_file) = output_file(&id, "stderr")?;
    let mut process = run.to_process()?;
    let begun = Instant::now();
    let spawned = process.stdout(stdout_file).stderr(stderr_file).spawn();
    drop(process);
    let (events, response) = Events::stream();
    tokio::spawn(async move {
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let reason = format!("fork/exec: {}", go::of_error(&error));
                let _pings = events.init(&id).await;
                events.error(&reason, &reason).await;
                tokio::time::sleep(execd.grace).await;
                return;
            }
        };
        let command = Command::register(&execd, &id, &run, None, &child);
        let _pings = events.init(&id).await;
        let (end, ended) = watch::channel(false);
        let tails = [(stdout, "stdout"), (stderr, "stderr")]
            .map(|(file, kind)| (tokio::spawn(follow(file.clone(), kind, events.clone(), ended.clone())), file));
        let outcome = command.wait(&mut child, limit(&run)).await;
        let _ = end.send(true);
        for (tail, file) in tails {
            let _ = tail.await;
            let _ = std::fs::remove_file(file);
        }
        match outcome {
            Ok(ended) if ended.is_success() => events.complete(begun.elapsed()).await,
            Ok(ended) => events.error(&ended.code.to_string(), &ended.status).await,
            Err(reason) => events.error(&reason, &reason).await,
        }
        tokio::time::sleep(execd.grace).await;
    });
    Ok(response)
}

async fn in_background(execd: Arc<Execd>, id: String, run: Run) -> Result<Response, String> {
    let begun = Instant::now();
    let (path, file) = output_file(&id, "output")?;
    let again = file.try_clone().map_err(|error| go::of_error(&error))?;
    let mut process = run.to_process()?;
    let spawned = process.stdout(file).stderr(again).spawn();
    let mut child = spawned.map_err(|error| format!("failed to start commands: {}", go::of_error(&error)))?;
    drop(process);
    let command = Command::register(&execd, &id, &run, Some(path), &child);
    tokio::spawn(async move { command.wait(&mut child, limit(&run)).await });
    let (events, response) = Events::stream();
    tokio::spawn(async move {
        let _pings = events.init(&id).await;
        events.complete(begun.elapsed()).await;
        tokio::time::sleep(execd.grace).await;
    });
    Ok(response)
}

/// `DELETE /command?id=`
pub(super) async fn interrupt(State(execd): Shared, query: Query) -> Response {
    let Some(id) = query.said("id") else { return missing_query("id") };
    let refusal = |reason: &str| runtime_error(&format!("error interruptting code context. {reason}"));
    let command = locked(&execd.commands).get(id).cloned();
    let Some(command) = command else {
        return match super::session::close(&execd, id) {
            true => reply::empty(StatusCode::OK),
            false => refusal("no such session"),
        };
    };
    let Some(group) = locked(&command.state).group else {
        return refusal(&format!("command session {id} is not running"));
    };
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if test_kill_process_group(group).is_err() {
            return reply::empty(StatusCode::OK);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = kill_process_group(group, Signal::KILL);
    reply::empty(StatusCode::OK)
}

#[derive(Debug, Serialize)]
struct Status {
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    content: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
}

/// `GET /command/status/{id}`
pub(super) async fn status(State(execd): Shared, Path(id): Path<String>) -> Response {
    let Some(command) = locked(&execd.commands).get(&id).cloned() else {
        return failure(StatusCode::NOT_FOUND, super::INVALID_REQUEST, &format!("command not found: {id}"));
    };
    let state = locked(&command.state);
    let finished = state.finished.as_ref();
    let status = Status {
        id: command.id.clone(),
        content: command.content.clone(),
        running: finished.is_none(),
        exit_code: finished.map(|(_, code, _)| *code),
        error: finished.map(|(_, _, error)| error.clone()).unwrap_or_default(),
        started_at: clock::text(command.started),
        finished_at: finished.map(|(time, _, _)| clock::text(*time)),
    };
    reply::json(StatusCode::OK, &status)
}

/// `GET /command/{id}/logs?cursor=`
pub(super) async fn logs(State(execd): Shared, Path(id): Path<String>, query: Query) -> Response {
    let Some(command) = locked(&execd.commands).get(&id).cloned() else {
        return bad_request(&format!("command not found: {id}"));
    };
    let Some(path) = &command.output else {
        return bad_request(&format!("command {id} is not running in background"));
    };
    let cursor = query.get("cursor").and_then(|cursor| cursor.parse::<i64>().ok()).unwrap_or(0);
    let Ok(cursor) = usize::try_from(cursor) else {
        return bad_request(&format!("error seek file: seek {}: invalid argument", path.display()));
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let reason = go::with_path("open", path, &error);
            return bad_request(&format!("error open combined output file for command {id}: {reason}"));
        }
    };
    // Beyond the end there is nothing, and the cursor stays where it was asked for.
    let part = bytes.get(cursor..).unwrap_or_default().to_vec();
    let end = bytes.len().max(cursor).to_string();
    let response = reply::with_type(StatusCode::OK, "text/plain; charset=utf-8", part);
    reply::with_headers(response, &[("execd-commands-tail-cursor", &end)])
}
