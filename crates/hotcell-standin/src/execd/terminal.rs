//! `/pty`: bash, or one command of it, with a terminal or with pipes, started by the first client that connects.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use pty_process::{OwnedWritePty, Size};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::paths::expand;
use super::replay::Replay;
use super::{CONTEXT_NOT_FOUND, Shared, bad_request, failure, locked, runtime_error};
use crate::{go, identity, reply};

/// The mark of standard output, and of everything that a terminal shows.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

/// Pieces of output that may wait for a slow client.
const WAITING: usize = 16;

/// How long the output of a process that has ended may take: what it left in the background may hold it open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// A piece of output: the mark, and the bytes.
pub(super) type Piece = (u8, Bytes);

/// Where input goes.
enum Input {
    Terminal(OwnedWritePty),
    Pipe(ChildStdin),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Terminal(_) => "Terminal",
            Self::Pipe(_) => "Pipe",
        })
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) id: String,
    directory: Option<PathBuf>,
    command: String,
    /// Is all output sent before the exit?
    pub(super) patient_exit: bool,
    /// While it runs and has not been waited for.
    group: Mutex<Option<Pid>>,
    is_terminal: AtomicBool,
    input: tokio::sync::Mutex<Option<Input>>,
    output: Mutex<Output>,
    /// The exit code of the last process, once there is one.
    exit: watch::Sender<Option<i32>>,
    /// Is a client connected?
    taken: AtomicBool,
    /// Tells the client that is connected to go.
    pub(super) evict: Notify,
}

#[derive(Debug, Default)]
struct Output {
    replay: Replay,
    live: Option<mpsc::Sender<Piece>>,
}

impl Terminal {
    /// Becomes the one client; false if there is another.
    pub(super) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::SeqCst)
    }

    pub(super) fn release(&self) {
        locked(&self.output).live = None;
        self.taken.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_running(&self) -> bool {
        locked(&self.group).is_some()
    }

    pub(super) fn mode(&self) -> &'static str {
        if self.is_terminal.load(Ordering::SeqCst) { "pty" } else { "pipe" }
    }

    pub(super) fn exit(&self) -> watch::Receiver<Option<i32>> {
        self.exit.subscribe()
    }

    /// What came after `offset`, where that begins, and everything from now on; nothing is lost or comes twice.
    pub(super) fn attach(&self, offset: u64) -> (Vec<u8>, u64, mpsc::Receiver<Piece>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut output = locked(&self.output);
        output.live = Some(sender);
        let (missed, from) = output.replay.since(offset);
        (missed, from, receiver)
    }

    pub(super) async fn write(&self, bytes: &[u8]) -> Result<(), String> {
        let mut input = self.input.lock().await;
        let written = match input.as_mut() {
            Some(Input::Terminal(terminal)) => terminal.write_all(bytes).await,
            Some(Input::Pipe(pipe)) => pipe.write_all(bytes).await,
            None => return Err("write |1: file already closed".to_owned()),
        };
        written.map_err(|error| format!("write |1: {}", go::of_error(&error)))
    }

    pub(super) async fn resize(&self, columns: u16, rows: u16) {
        if let Some(Input::Terminal(terminal)) = self.input.lock().await.as_ref() {
            // The real one only writes a failure to its log, too.
            let _ = terminal.resize(Size::new(rows, columns));
        }
    }

    pub(super) fn signal(&self, name: &str) {
        let signal = match name {
            "SIGINT" => Signal::INT,
            "SIGTERM" => Signal::TERM,
            "SIGKILL" => Signal::KILL,
            "SIGQUIT" => Signal::QUIT,
            "SIGHUP" => Signal::HUP,
            _ => return,
        };
        if let Some(group) = *locked(&self.group) {
            let _ = kill_process_group(group, signal);
        }
    }

    pub(super) fn kill(&self) {
        self.signal("SIGKILL");
        locked(&self.output).live = None;
    }

    /// Starts the process, with a terminal or with pipes.
    pub(super) async fn start(self: &Arc<Self>, terminal: bool) -> Result<(), String> {
        let mut arguments = vec!["--norc", "--noprofile"];
        if !self.command.is_empty() {
            arguments.extend(["-c", self.command.as_str()]);
        }
        let (child, input, readers) =
            if terminal { self.with_terminal(&arguments)? } else { self.with_pipes(&arguments)? };
        *locked(&self.group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        *self.input.lock().await = Some(input);
        self.is_terminal.store(terminal, Ordering::SeqCst);
        let _ = self.exit.send(None);
        tokio::spawn(Arc::clone(self).wait(child, readers));
        Ok(())
    }

    fn with_terminal(self: &Arc<Self>, arguments: &[&str]) -> Result<(Child, Input, Vec<JoinHandle<()>>), String> {
        let said = |error: pty_process::Error| format!("pty.StartWithSize: {error}");
        let (terminal, other_end) = pty_process::open().map_err(said)?;
        terminal.resize(Size::new(24, 80)).map_err(said)?;
        let mut command = pty_process::Command::new("bash").args(arguments);
        if let Some(directory) = &self.directory {
            command = command.current_dir(directory);
        }
        let child = command.spawn(other_end).map_err(said)?;
        let (read, write) = terminal.into_split();
        let reader = tokio::spawn(Arc::clone(self).pump(read, STDOUT));
        Ok((child, Input::Terminal(write), vec![reader]))
    }

    fn with_pipes(self: &Arc<Self>, arguments: &[&str]) -> Result<(Child, Input, Vec<JoinHandle<()>>), String> {
        let mut command = tokio::process::Command::new("bash");
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = command.spawn().map_err(|error| format!("cmd.Start: {}", go::of_error(&error)))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("cmd.Start: no pipes".to_owned());
        };
        let readers = vec![
            tokio::spawn(Arc::clone(self).pump(stdout, STDOUT)),
            tokio::spawn(Arc::clone(self).pump(stderr, STDERR)),
        ];
        Ok((child, Input::Pipe(stdin), readers))
    }

    /// Moves output to the memory of it and to the client.
    async fn pump(self: Arc<Self>, mut from: impl AsyncRead + Unpin, mark: u8) {
        let mut buffer = vec![0; 32 * 1024];
        // A terminal whose other end is closed gives an error.
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let bytes = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
            let live = {
                let mut output = locked(&self.output);
                output.replay.write(&bytes);
                output.live.clone()
            };
            if let Some(live) = live {
                let _ = live.send((mark, bytes)).await;
            }
        }
    }

    async fn wait(self: Arc<Self>, mut child: Child, readers: Vec<JoinHandle<()>>) {
        let code = child.wait().await.map(|status| go::Ended::from(status).code).unwrap_or(-1);
        *locked(&self.group) = None;
        *self.input.lock().await = None;
        if self.patient_exit {
            let all = async {
                for reader in readers {
                    let _ = reader.await;
                }
            };
            let _ = tokio::time::timeout(LAST_OUTPUT, all).await;
        }
        let _ = self.exit.send(Some(code));
    }
}

#[derive(Debug, Default, Deserialize)]
struct Create {
    #[serde(default, deserialize_with = "go::or_default")]
    cwd: String,
    #[serde(default, deserialize_with = "go::or_default")]
    command: String,
}

/// `POST /pty`
pub(super) async fn create(State(execd): Shared, body: Bytes) -> Response {
    let create: Create = match serde_json::from_slice(&body) {
        Ok(create) => create,
        Err(_) if body.is_empty() => Create::default(),
        Err(error) => return bad_request(&format!("error parsing request: {error}")),
    };
    let directory = match expand(&create.cwd) {
        Ok(directory) if directory.as_os_str().is_empty() => None,
        Ok(directory) => Some(directory),
        Err(reason) => return runtime_error(&format!("error creating pty session: {reason}")),
    };
    if let Some(directory) = &directory
        && let Err(error) = std::fs::create_dir_all(directory)
    {
        let reason = go::with_path("mkdir", directory, &error);
        return runtime_error(&format!(
            "error creating pty session: error creating PTY session work directory: {reason}"
        ));
    }
    let id = identity::uuid();
    let terminal = Terminal {
        id: id.clone(),
        directory,
        command: create.command,
        patient_exit: execd.patient_exit,
        group: Mutex::default(),
        is_terminal: AtomicBool::new(false),
        input: tokio::sync::Mutex::default(),
        output: Mutex::default(),
        exit: watch::Sender::new(None),
        taken: AtomicBool::new(false),
        evict: Notify::new(),
    };
    locked(&execd.terminals).insert(id.clone(), Arc::new(terminal));
    reply::json(StatusCode::CREATED, &json!({ "session_id": id }))
}

/// What is said where there is none.
pub(super) fn not_found(id: &str) -> Response {
    failure(StatusCode::NOT_FOUND, CONTEXT_NOT_FOUND, &format!("pty session {id} not found"))
}

#[derive(serde::Serialize)]
struct Status<'a> {
    session_id: &'a str,
    running: bool,
    output_offset: u64,
}

/// `GET /pty/{id}`
pub(super) async fn status(State(execd): Shared, Path(id): Path<String>) -> Response {
    let Some(terminal) = locked(&execd.terminals).get(&id).cloned() else { return not_found(&id) };
    let output_offset = locked(&terminal.output).replay.total();
    reply::json(StatusCode::OK, &Status { session_id: &id, running: terminal.is_running(), output_offset })
}

/// `DELETE /pty/{id}`
pub(super) async fn remove(State(execd): Shared, Path(id): Path<String>) -> Response {
    let Some(terminal) = locked(&execd.terminals).remove(&id) else { return not_found(&id) };
    terminal.kill();
    reply::empty(StatusCode::OK)
}
