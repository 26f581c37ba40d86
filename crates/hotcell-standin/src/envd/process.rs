//! A process, and everybody who listens to it.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use pty_process::{OwnedWritePty, Size};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use super::connect::Fault;
use super::event::Source;
use super::locked;
use crate::go::{self, Ended};

/// A command that is not there is then an exit status, and not an error; the real one has a shell in front, too.
const IN_FRONT: &[&str] = &["-c", r#"exec "$@""#, "--"];

const PIPE_CHUNK: usize = 32 << 10;
const TERMINAL_CHUNK: usize = 16 << 10;

/// What to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) words: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) directory: std::path::PathBuf,
    /// Columns and rows, for a terminal.
    pub(super) terminal: Option<(u16, u16)>,
    pub(super) stdin: bool,
    pub(super) tag: Option<String>,
    /// The request's own words, for the list of processes.
    pub(super) config: Value,
    pub(super) limit: Option<Duration>,
}

/// Where input goes.
enum Input {
    None,
    Pipe(ChildStdin),
    Terminal(OwnedWritePty),
}

/// A piece of output.
pub(super) type Piece = (Source, Bytes);

/// A process that was started.
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) tag: Option<String>,
    pub(super) config: Value,
    is_terminal: bool,
    input: tokio::sync::Mutex<Input>,
    /// Who listens; nobody can any more once output has ended.
    listeners: Mutex<Option<Vec<mpsc::Sender<Piece>>>>,
    /// True until it was waited for: nobody else can have the number then.
    alive: Mutex<bool>,
    /// Its output is not waited for any longer.
    cut: Notify,
    end: watch::Sender<Option<Ended>>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("pid", &self.pid).field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Process {
    /// Starts it. The first listener is there from the beginning.
    pub(super) fn start(start: Start) -> Result<(Arc<Self>, mpsc::Receiver<Piece>), Fault> {
        let (first, output) = mpsc::channel(1);
        let mut pumps = JoinSet::new();
        let (child, input, sources) = match start.terminal {
            Some(size) => with_terminal(&start, size)?,
            None => with_pipes(&start)?,
        };
        let Some(pid) = child.id() else { return Err(Fault::new("internal", "process not started")) };
        let process = Arc::new(Self {
            pid,
            tag: start.tag,
            config: start.config,
            is_terminal: start.terminal.is_some(),
            input: tokio::sync::Mutex::new(input),
            listeners: Mutex::new(Some(vec![first])),
            alive: Mutex::new(true),
            cut: Notify::new(),
            end: watch::Sender::new(None),
        });
        // One task for both: what was written to one stream before the other is usually read before it, as by a Go program, whose
        // readers are woken in the order in which their pipes have something.
        let readers: Vec<_> =
            sources.into_iter().map(|(source, from)| Arc::clone(&process).pump(source, from)).collect();
        pumps.spawn(join_all(readers).map(drop));
        tokio::spawn(Arc::clone(&process).wait(child, pumps, start.limit));
        Ok((process, output))
    }

    /// Everything from now on; nothing if its output has ended.
    pub(super) fn listen(&self) -> mpsc::Receiver<Piece> {
        let (sender, receiver) = mpsc::channel(1);
        if let Some(listeners) = locked(&self.listeners).as_mut() {
            listeners.push(sender);
        }
        receiver
    }

    /// How it ended, once it has.
    pub(super) async fn ended(&self) -> Option<Ended> {
        self.end.subscribe().wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// A process waits for those who listen, and loses its output if nobody does.
    async fn pump(self: Arc<Self>, source: Source, mut from: Box<dyn AsyncRead + Send + Unpin>) {
        let size = if self.is_terminal { TERMINAL_CHUNK } else { PIPE_CHUNK };
        let mut buffer = vec![0; size];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let bytes = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
            let listeners = locked(&self.listeners).clone().unwrap_or_default();
            for listener in listeners {
                let _ = listener.send((source, bytes.clone())).await;
            }
            if let Some(listeners) = locked(&self.listeners).as_mut() {
                listeners.retain(|listener| !listener.is_closed());
            }
        }
    }

    async fn wait(self: Arc<Self>, mut child: Child, mut pumps: JoinSet<()>, limit: Option<Duration>) {
        let all = async { while pumps.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = self.cut.notified() => {}
            () = tokio::time::sleep(limit.unwrap_or(Duration::MAX)) => { let _ = child.start_kill(); }
        }
        let ended = child.wait().await.map(Ended::from);
        *locked(&self.alive) = false;
        pumps.shutdown().await;
        *self.input.lock().await = Input::None;
        let lost = || Ended { code: -1, exited: false, status: "lost".to_owned() };
        self.end.send_replace(Some(ended.unwrap_or_else(|_| lost())));
        *locked(&self.listeners) = None;
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Fault> {
        self.cut.notify_one();
        let alive = locked(&self.alive);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| *alive);
        let sent = pid
            .ok_or("os: process already finished".to_owned())
            .and_then(|pid| kill_process(pid, signal).map_err(|error| go::of_error(&error.into())));
        sent.map_err(|reason| Fault::new("internal", format!("error sending signal: {reason}")))
    }

    pub(super) async fn write_stdin(&self, bytes: &[u8]) -> Result<(), Fault> {
        let refused = |reason: &str| Fault::new("internal", format!("error writing to stdin: {reason}"));
        match &mut *self.input.lock().await {
            Input::Pipe(pipe) => pipe.write_all(bytes).await.map_err(|error| {
                let reason = go::of_error(&error);
                refused(&format!("error writing to stdin of process '{}': write |1: {reason}", self.pid))
            }),
            Input::Terminal(_) => {
                Err(refused("tty assigned to process — input should be written to the pty, not the stdin"))
            }
            Input::None => Err(refused("stdin not enabled or closed")),
        }
    }

    pub(super) async fn write_terminal(&self, bytes: &[u8]) -> Result<(), Fault> {
        let refused = |reason: &str| Fault::new("internal", format!("error writing to tty: {reason}"));
        match &mut *self.input.lock().await {
            Input::Terminal(terminal) => {
                terminal.write_all(bytes).await.map_err(|error| refused(&go::of_error(&error)))
            }
            _ => Err(refused("tty not assigned to process — input should be written to the stdin, not the tty")),
        }
    }

    pub(super) async fn close_stdin(&self) -> Result<(), Fault> {
        let mut input = self.input.lock().await;
        if matches!(*input, Input::Terminal(_)) {
            let reason = "cannot close stdin for PTY process — send Ctrl+D (0x04) instead";
            return Err(Fault::new("unknown", format!("error closing stdin: {reason}")));
        }
        *input = Input::None;
        Ok(())
    }

    pub(super) async fn resize(&self, columns: u16, rows: u16) -> Result<(), Fault> {
        let refused = |reason: String| Fault::new("internal", format!("error resizing tty: {reason}"));
        match &*self.input.lock().await {
            Input::Terminal(terminal) => {
                terminal.resize(Size::new(rows, columns)).map_err(|error| refused(error.to_string()))
            }
            _ => Err(refused("tty not assigned to process".to_owned())),
        }
    }
}

type Sources = Vec<(Source, Box<dyn AsyncRead + Send + Unpin>)>;

fn with_terminal(start: &Start, (columns, rows): (u16, u16)) -> Result<(Child, Input, Sources), Fault> {
    let said = |error: pty_process::Error| Fault::new("invalid_argument", format!("error starting pty: {error}"));
    let (terminal, other_end) = pty_process::open().map_err(said)?;
    terminal.resize(Size::new(rows, columns)).map_err(said)?;
    let command = pty_process::Command::new("/bin/sh").args(IN_FRONT).args(&start.words);
    let command = command.env_clear().envs(start.variables.iter().cloned()).current_dir(&start.directory);
    let child = command.spawn(other_end).map_err(said)?;
    let (read, write) = terminal.into_split();
    Ok((child, Input::Terminal(write), vec![(Source::Terminal, Box::new(read))]))
}

fn with_pipes(start: &Start) -> Result<(Child, Input, Sources), Fault> {
    let mut command = tokio::process::Command::new("/bin/sh");
    command.args(IN_FRONT).args(&start.words).current_dir(&start.directory);
    command.env_clear().envs(start.variables.iter().cloned());
    command.stdin(if start.stdin { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        let command = start.words.join(" ");
        Fault::new("invalid_argument", format!("error starting process '{command}': {}", go::of_error(&error)))
    })?;
    let mut sources: Sources = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        sources.push((Source::Stdout, Box::new(stdout)));
    }
    if let Some(stderr) = child.stderr.take() {
        sources.push((Source::Stderr, Box::new(stderr)));
    }
    let input = child.stdin.take().map_or(Input::None, Input::Pipe);
    Ok((child, input, sources))
}
