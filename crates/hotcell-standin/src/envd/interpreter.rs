//! The code interpreter: Python and bash.
//!
//! The real one has Jupyter's kernels. Here Python is one process that keeps its names and shows the value of the last
//! expression as text; bash is a shell that keeps variables and its directory. There are no other languages and no
//! other kinds of results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use super::{Envd, Shared, locked, resolve};
use crate::shell::Shell;
use crate::{clock, identity, reply};

const DRIVER: &str = include_str!("driver.py");

/// Contexts by their names.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    all: Mutex<BTreeMap<String, Arc<Context>>>,
    /// What is used where none is named, by language.
    usual: tokio::sync::Mutex<BTreeMap<&'static str, Arc<Context>>>,
}

/// Something that runs code and remembers.
#[derive(Debug)]
struct Context {
    id: String,
    language: &'static str,
    directory: PathBuf,
    runner: tokio::sync::Mutex<Option<Runner>>,
}

#[derive(Debug)]
enum Runner {
    Python(Box<Python>),
    Bash { shell: Shell, count: u64 },
}

/// A process that runs the driver.
#[derive(Debug)]
struct Python {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    id: &'a str,
    language: &'a str,
    cwd: &'a std::path::Path,
}

impl Context {
    fn shown(&self) -> Shown<'_> {
        Shown { id: &self.id, language: self.language, cwd: &self.directory }
    }
}

fn known(language: &str) -> Option<&'static str> {
    ["python", "bash"].into_iter().find(|known| *known == language)
}

fn detail(status: StatusCode, reason: &str) -> Response {
    reply::with_type(status, "text/plain; charset=utf-8", reason.to_owned())
}

fn make(envd: &Envd, language: &str, cwd: &str) -> Result<Arc<Context>, String> {
    let language = known(language).ok_or_else(|| format!("the stand-in has no {language}"))?;
    let context = Arc::new(Context {
        id: identity::uuid(),
        language,
        directory: resolve(envd, cwd)?,
        runner: tokio::sync::Mutex::default(),
    });
    locked(&envd.contexts.all).insert(context.id.clone(), Arc::clone(&context));
    Ok(context)
}

#[derive(Debug, Default, Deserialize)]
struct Create {
    language: Option<String>,
    cwd: Option<String>,
}

/// `POST /contexts`
pub(super) async fn create(State(envd): Shared, body: Bytes) -> Response {
    let create: Create = serde_json::from_slice(&body).unwrap_or_default();
    let made = make(&envd, create.language.as_deref().unwrap_or("python"), create.cwd.as_deref().unwrap_or(""));
    match made {
        Ok(context) => reply::json(StatusCode::OK, &context.shown()),
        Err(reason) => detail(StatusCode::INTERNAL_SERVER_ERROR, &reason),
    }
}

/// `GET /contexts`
pub(super) async fn list(State(envd): Shared) -> Response {
    let all = locked(&envd.contexts.all);
    let shown: Vec<Shown<'_>> = all.values().map(|context| context.shown()).collect();
    reply::json(StatusCode::OK, &shown)
}

/// `DELETE /contexts/{id}`
pub(super) async fn remove(State(envd): Shared, method: Method, Path(id): Path<String>) -> Response {
    if method != Method::DELETE {
        return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let removed = locked(&envd.contexts.all).remove(&id);
    let Some(context) = removed else { return detail(StatusCode::NOT_FOUND, &format!("Context {id} not found")) };
    envd.contexts.usual.lock().await.retain(|_, usual| !Arc::ptr_eq(usual, &context));
    // Dropping it kills it.
    *context.runner.lock().await = None;
    reply::empty(StatusCode::OK)
}

/// `POST /contexts/{id}/restart`
pub(super) async fn restart(State(envd): Shared, Path(id): Path<String>) -> Response {
    let context = locked(&envd.contexts.all).get(&id).cloned();
    let Some(context) = context else { return detail(StatusCode::NOT_FOUND, &format!("Context {id} not found")) };
    *context.runner.lock().await = None;
    reply::empty(StatusCode::OK)
}

#[derive(Debug, Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

/// `POST /execute`
pub(super) async fn execute(State(envd): Shared, body: Bytes) -> Response {
    let execute: Execute = match serde_json::from_slice(&body) {
        Ok(execute) => execute,
        Err(error) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string()),
    };
    let context = match (&execute.context_id, &execute.language) {
        (Some(_), Some(_)) => {
            return detail(StatusCode::BAD_REQUEST, "Only one of context_id or language can be provided");
        }
        (Some(id), None) => match locked(&envd.contexts.all).get(id).cloned() {
            Some(context) => context,
            None => return detail(StatusCode::NOT_FOUND, &format!("Context {id} not found")),
        },
        (None, language) => {
            let asked = language.as_deref().unwrap_or("python");
            let mut usual = envd.contexts.usual.lock().await;
            match usual.get(asked).cloned().map_or_else(|| make(&envd, asked, ""), Ok) {
                Ok(context) => {
                    usual.insert(context.language, Arc::clone(&context));
                    context
                }
                Err(reason) => return detail(StatusCode::INTERNAL_SERVER_ERROR, &reason),
            }
        }
    };
    let (sender, receiver) = mpsc::channel(16);
    let variables = envd.orders.variables.clone();
    tokio::spawn(async move {
        let mut runner = context.runner.lock().await;
        if let Err(error) = context.run(&mut runner, &execute, variables, &sender).await {
            *runner = None;
            let reason = format!("{error:#}");
            say(&sender, &json!({ "type": "error", "name": "StandIn", "value": reason, "traceback": "" })).await;
            say(&sender, &json!({ "type": "unexpected_end_of_execution" })).await;
        }
    });
    reply::with_type(StatusCode::OK, "application/x-ndjson", reply::chunks(receiver))
}

async fn say(to: &mpsc::Sender<Bytes>, event: &Value) {
    let _ = to.send(Bytes::from(format!("{event}\n"))).await;
}

impl Context {
    async fn run(
        &self,
        runner: &mut Option<Runner>,
        execute: &Execute,
        variables: BTreeMap<String, String>,
        to: &mpsc::Sender<Bytes>,
    ) -> anyhow::Result<()> {
        if runner.is_none() {
            *runner = Some(self.start(variables)?);
        }
        match runner {
            Some(Runner::Python(python)) => {
                let Python { child, input, output } = &mut **python;
                let request = json!({ "code": execute.code, "env_vars": execute.env_vars });
                input.write_all(format!("{request}\n").as_bytes()).await?;
                let mut interrupted = false;
                loop {
                    let line = tokio::select! {
                        line = output.next_line() => line?.ok_or_else(|| anyhow::anyhow!("python3 has ended"))?,
                        // Whoever goes does not want the rest.
                        () = to.closed(), if !interrupted => {
                            interrupted = true;
                            signal(child, Signal::INT);
                            continue;
                        }
                    };
                    let is_last = line.contains(r#""type": "end_of_execution""#);
                    let _ = to.send(Bytes::from(line + "\n")).await;
                    if is_last {
                        return Ok(());
                    }
                }
            }
            Some(Runner::Bash { shell, count }) => {
                *count += 1;
                say(to, &json!({ "type": "number_of_executions", "execution_count": *count })).await;
                let mut with_variables = shell.clone();
                for (name, value) in execute.env_vars.iter().flatten() {
                    with_variables.variables.insert(name.into(), value.into());
                }
                let (mut process, left) = with_variables.process(&execute.code)?;
                let mut child = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
                let outputs = async {
                    tokio::join!(forward(child.stdout.take(), "stdout", to), forward(child.stderr.take(), "stderr", to))
                };
                tokio::select! {
                    _ = outputs => {}
                    () = to.closed() => {}
                }
                if to.is_closed() {
                    signal(&child, Signal::KILL);
                }
                child.wait().await?;
                shell.keep(&left);
                say(to, &json!({ "type": "end_of_execution" })).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn start(&self, variables: BTreeMap<String, String>) -> anyhow::Result<Runner> {
        if self.language == "bash" {
            let mut shell = Shell::new(Some(self.directory.clone()));
            shell.variables.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
            return Ok(Runner::Bash { shell, count: 0 });
        }
        let mut command = Command::new("python3");
        command.args(["-u", "-c", DRIVER]).current_dir(&self.directory).envs(variables).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            anyhow::bail!("python3 has no pipes");
        };
        Ok(Runner::Python(Box::new(Python { child, input, output: BufReader::new(output).lines() })))
    }
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

async fn forward(from: Option<impl AsyncRead + Unpin>, kind: &str, to: &mpsc::Sender<Bytes>) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while matches!(from.read_until(b'\n', &mut line).await, Ok(1..)) {
        let text = String::from_utf8_lossy(&line).into_owned();
        say(to, &json!({ "type": kind, "text": text, "timestamp": clock::now() })).await;
        line.clear();
    }
}
