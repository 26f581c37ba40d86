//! A command in a box.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use hotcell_core::backend::{ProcessError, ProcessId, ProcessIo, ProcessStdin, SandboxedProcess, Signal, TtySize};
use hotcell_core::outcome::{Outcome, Status};
use hotcell_linux::{CellError, Running, Signaler, Terminal};
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, watch};

use super::asked::{self, Asker};
use super::output::{Meter, Output, PipeInput, Source, TerminalInput};
use super::watch::Watch;

/// How the command ended, once it has.
type Ending = Option<Result<Outcome, ProcessError>>;

/// A command, watched by a task of its own until it ends.
pub(super) struct CellProcess {
    id: ProcessId,
    signaler: Signaler,
    terminal: Option<Arc<Terminal>>,
    /// Whether the terminal itself is on the far side of a stream.
    bridged: bool,
    /// Until somebody takes it; whoever only waits has it read and thrown away.
    io: Mutex<Option<ProcessIo>>,
    unread: Mutex<Option<Output>>,
    meter: Arc<Meter>,
    asker: Asker,
    ending: watch::Receiver<Ending>,
}

/// What a command is started with, besides the command itself.
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) watch: Watch,
}

impl CellProcess {
    /// Starts watching a command that has just been started.
    pub(super) fn new(started: Started) -> Result<Self, std::io::Error> {
        let Started { mut running, watch } = started;
        let (asker, asked) = asked::channel();
        let (said_ended, ended) = watch::channel(false);
        let terminal = running.take_terminal().map(Terminal::new).transpose()?.map(Arc::new);
        let (source, stdin): (Source, Option<Box<dyn ProcessStdin>>) = match &terminal {
            Some(terminal) => {
                let input = TerminalInput { terminal: Arc::clone(terminal) };
                (Source::Terminal(Arc::clone(terminal)), Some(Box::new(input)))
            }
            None => {
                let stdout = running.take_output().map(pipe::Receiver::from_owned_fd).transpose()?;
                let stderr = running.take_error().map(pipe::Receiver::from_owned_fd).transpose()?;
                let input = running.take_input().map(pipe::Sender::from_owned_fd).transpose()?;
                let input = input.map(|pipe| Box::new(PipeInput::new(pipe)) as Box<dyn ProcessStdin>);
                (Source::Pipes { stdout, stderr }, input)
            }
        };
        let bridged = running.output_ends();
        let output = Output::new(source, Arc::clone(&watch.meter), ended, bridged);
        let (id, signaler) = (ProcessId(u64::from(running.token())), running.signaler());
        let meter = Arc::clone(&watch.meter);
        let (send_ending, ending) = watch::channel(None);
        let running_commands = Arc::clone(&watch.shared.running);
        running_commands.fetch_add(1, Ordering::Relaxed);
        let count = CountDown(running_commands);
        // It is never aborted: when the handle is dropped it hears that nobody can ask any more, and kills what is left of the command, also
        // where the command itself has ended already.
        tokio::spawn(async move {
            let outcome = watch.run(running, asked).await;
            drop(count);
            // In this order: whoever sees the ending finds the output complete.
            let _ = said_ended.send(true);
            let _ = send_ending.send(Some(outcome));
        });
        Ok(Self {
            id,
            signaler,
            terminal,
            bridged,
            io: Mutex::new(Some(ProcessIo { stdin, output: None })),
            unread: Mutex::new(Some(output)),
            meter,
            asker,
            ending,
        })
    }

    fn has_ended(&self) -> bool {
        self.ending.borrow().is_some()
    }
}

/// Counts one running command down, however its watcher ends.
struct CountDown(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for CountDown {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl SandboxedProcess for CellProcess {
    fn id(&self) -> ProcessId {
        self.id
    }

    fn take_io(&mut self) -> ProcessIo {
        let mut io = self.io.get_mut().take().unwrap_or_default();
        io.output = self.unread.get_mut().take().map(|output| Box::new(output) as _);
        io
    }

    async fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        if self.has_ended() {
            return Err(ProcessError::Ended);
        }
        self.signaler.signal(signal.number()).await.map_err(|error| lost("signal", &error))
    }

    async fn kill(&self) -> Result<(), ProcessError> {
        // To what has ended this means nothing.
        self.asker.kill();
        Ok(())
    }

    async fn stop(&self, grace: Duration) -> Result<(), ProcessError> {
        self.asker.stop(grace);
        Ok(())
    }

    async fn resize(&self, size: TtySize) -> Result<(), ProcessError> {
        let terminal = self.terminal.as_ref().ok_or(ProcessError::NoTerminal)?;
        if self.bridged {
            let resized = self.signaler.resize(size.rows, size.columns).await;
            return resized.map_err(|error| lost("resize", &error));
        }
        terminal
            .resize(size.rows, size.columns)
            .map_err(|error| ProcessError::Failed { operation: "resize".into(), reason: error.to_string() })
    }

    async fn wait(&self) -> Result<Outcome, ProcessError> {
        // Nobody took the output: it is read and counted, so that the command does not wait for a reader. It stays in
        // its place: whoever waits next goes on where this one is dropped.
        let drain = async {
            let mut unread = self.unread.lock().await;
            if let Some(output) = unread.as_mut() {
                output.drain().await;
            }
            *unread = None;
        };
        let mut ending = self.ending.clone();
        let end = async move {
            match ending.wait_for(Option::is_some).await {
                Ok(ending) => ending.clone().unwrap_or_else(|| Err(gone())),
                Err(_) => Err(gone()),
            }
        };
        let mut outcome = tokio::join!(drain, end).1?;
        // It ended by itself, and then more turned out to be in its pipes than it may write.
        if self.meter.is_over() && matches!(outcome.status, Status::Exited(_) | Status::Signaled(_)) {
            outcome.status = Status::Output;
        }
        Ok(outcome)
    }
}

fn gone() -> ProcessError {
    ProcessError::Lost { reason: "its watcher ended".into() }
}

fn lost(operation: &str, error: &CellError) -> ProcessError {
    match error {
        CellError::Gone => ProcessError::Lost { reason: error.to_string() },
        other => ProcessError::Failed { operation: operation.to_owned(), reason: crate::registry::with_causes(other) },
    }
}
