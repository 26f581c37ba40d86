//! A command in a box on a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hotcell_core::backend::{
    OutputEvent, OutputEvents, ProcessError, ProcessId, ProcessIo, ProcessStdin, SandboxedProcess, Signal, SpawnConfig,
    StdinMode, Stream, TtySize,
};
use hotcell_core::outcome::{Outcome, Status};
use hotcell_remote::http::{CallError, Why};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::inside::{self, Process};
use super::link::{Control, Event, Events, Started};
use super::sandbox::Shared;
use super::watch::{Told, Watch};
use crate::cell::asked::{self, Asker};
use crate::cell::output::Meter;

/// How many pieces of output are kept for a reader that is slow. More is not read from the server, which then waits.
const KEPT: usize = 16;

/// How long a server may go on about a command that is known to be gone.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How much input is sent at once.
const INPUT: usize = 32 << 10;

/// How the command ended, once it has.
type Ending = Option<Result<Outcome, ProcessError>>;

/// A command, read and watched by tasks of its own until it ends.
pub(super) struct RemoteProcess {
    id: ProcessId,
    shared: Arc<Shared>,
    process: Process,
    control: Arc<dyn Control>,
    has_terminal: bool,
    stdin: Mutex<Option<Box<dyn ProcessStdin>>>,
    /// Until somebody takes it; whoever only waits has it read and thrown away.
    unread: Mutex<Option<RemoteOutput>>,
    meter: Arc<Meter>,
    asker: Asker,
    ending: watch::Receiver<Ending>,
}

/// A command's output that has come until the word that it starts was read.
#[derive(Debug, Default)]
pub(super) struct Begun {
    pub(super) output: Vec<u8>,
    pub(super) error: Vec<u8>,
}

impl RemoteProcess {
    /// Starts reading and watching a command.
    pub(super) fn new(id: ProcessId, started: Started, begun: Begun, config: &SpawnConfig, watch: Watch) -> Self {
        let control: Arc<dyn Control> = Arc::from(started.control);
        let (shared, process) = (Arc::clone(&watch.shared), watch.process);
        let meter = Arc::clone(&watch.meter);
        let (asker, asked) = asked::channel();
        let (send_output, output) = mpsc::channel(KEPT);
        let (send_told, told) = oneshot::channel();
        let (send_ending, ending) = watch::channel(None);
        let (send_silent_at, silent_at) = watch::channel(None);
        let pump = Pump { events: started.events, output: Some(send_output), meter: Arc::clone(&meter), silent_at };
        shared.runtime.spawn(pump.run(begun, send_told));
        shared.runtime.spawn(async move {
            let outcome = watch
                .run(told, asked, || {
                    let _ = send_silent_at.send(Some(Instant::now() + LAST_WORDS));
                })
                .await;
            let _ = send_ending.send(Some(outcome));
        });
        let piped = config.tty.is_some() || config.stdin == StdinMode::Piped;
        let stdin = piped.then(|| {
            let input = RemoteInput { control: Some(Arc::clone(&control)), runtime: shared.runtime.clone() };
            Box::new(input) as Box<dyn ProcessStdin>
        });
        Self {
            id,
            shared,
            process,
            control,
            has_terminal: config.tty.is_some(),
            stdin: Mutex::new(stdin),
            unread: Mutex::new(Some(RemoteOutput(output))),
            meter,
            asker,
            ending,
        }
    }

    fn has_ended(&self) -> bool {
        self.ending.borrow().is_some()
    }

    fn failed(&self, operation: &str, error: &CallError) -> ProcessError {
        match self.shared.lost() {
            Some(reason) => ProcessError::Lost { reason },
            None => ProcessError::Failed { operation: operation.to_owned(), reason: error.to_string() },
        }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        // Its watcher ends it, unless it has ended; both tasks end with it.
        self.asker.kill();
    }
}

#[async_trait]
impl SandboxedProcess for RemoteProcess {
    fn id(&self) -> ProcessId {
        self.id
    }

    fn take_io(&mut self) -> ProcessIo {
        let output = self.unread.get_mut().take().map(|output| Box::new(output) as Box<dyn OutputEvents>);
        ProcessIo { stdin: self.stdin.get_mut().take(), output }
    }

    async fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        if self.has_ended() {
            return Err(ProcessError::Ended);
        }
        match inside::signal(&*self.shared.link, self.process, signal.number()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ProcessError::Ended),
            Err(error) => Err(self.failed("signal", &error)),
        }
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
        if !self.has_terminal {
            return Err(ProcessError::NoTerminal);
        }
        self.control.resize(size).await.map_err(|error| self.failed("resize", &error))
    }

    async fn wait(&self) -> Result<Outcome, ProcessError> {
        // Nobody took the output: it is read and counted, so that the command does not wait for a reader. It stays in its place:
        // whoever waits next goes on where this one is dropped.
        let drain = async {
            let mut unread = self.unread.lock().await;
            if let Some(output) = unread.as_mut() {
                while output.next().await.is_some() {}
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
        // It ended by itself, and had then written more than it may.
        if self.meter.is_over() && matches!(outcome.status, Status::Exited(_) | Status::Signaled(_)) {
            outcome.status = Status::Output;
        }
        Ok(outcome)
    }
}

fn gone() -> ProcessError {
    ProcessError::Lost { reason: "its watcher ended".into() }
}

/// Carries a command's output from the server to its reader, as fast as that reads.
struct Pump {
    events: Box<dyn Events>,
    /// None once nobody wants more.
    output: Option<mpsc::Sender<OutputEvent>>,
    meter: Arc<Meter>,
    /// From when on nothing more is heard, once the command is known to be gone.
    silent_at: watch::Receiver<Option<Instant>>,
}

impl Pump {
    async fn run(mut self, begun: Begun, told: oneshot::Sender<Told>) {
        self.forward(Stream::Stderr, &begun.error).await;
        self.forward(Stream::Stdout, &begun.output).await;
        let said = loop {
            match self.next().await {
                Some(Ok(Event::Output(stream, bytes))) => self.forward(stream, &bytes).await,
                Some(Ok(Event::Ended(ended))) => break Ok(ended),
                Some(Err(error)) => break Err(error.to_string()),
                None => break Err("the server did not say how it ended".to_owned()),
            }
        };
        // In this order: whoever hears of the end finds the output complete.
        self.output = None;
        let _ = told.send(said);
    }

    /// The next event; none once the command is gone and the server has had its time to tell the rest.
    async fn next(&mut self) -> Option<Result<Event, CallError>> {
        let over = async {
            let by = self.silent_at.wait_for(Option::is_some).await.ok().and_then(|by| *by);
            match by {
                Some(by) => tokio::time::sleep_until(by).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // First: whoever never stops talking is not listened to for ever.
            () = over => None,
            event = self.events.next() => Some(event),
        }
    }

    async fn forward(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let within = self.meter.count(bytes.len());
        let Some(output) = &self.output else { return };
        let sent = match bytes.get(..within) {
            Some(bytes) if within > 0 => output.send(OutputEvent { stream, bytes: bytes.to_vec() }).await.is_ok(),
            _ => false,
        };
        // It may write no more, or nobody reads any more: the rest is counted and thrown away.
        if !sent || within < bytes.len() {
            self.output = None;
        }
    }
}

/// A command's output.
struct RemoteOutput(mpsc::Receiver<OutputEvent>);

#[async_trait]
impl OutputEvents for RemoteOutput {
    async fn next(&mut self) -> Option<OutputEvent> {
        self.0.recv().await
    }
}

/// A command's input.
struct RemoteInput {
    control: Option<Arc<dyn Control>>,
    runtime: tokio::runtime::Handle,
}

#[async_trait]
impl ProcessStdin for RemoteInput {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let control = self.control.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        for piece in bytes.chunks(INPUT) {
            control.write(piece).await.map_err(input_error)?;
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        match self.control.take() {
            Some(control) => control.close().await.map_err(input_error),
            None => Ok(()),
        }
    }
}

impl Drop for RemoteInput {
    fn drop(&mut self) {
        if let Some(control) = self.control.take() {
            self.runtime.spawn(async move {
                // A command that has ended has no input to close.
                let _ = control.close().await;
            });
        }
    }
}

/// A server that does not know the command any more has seen its end.
fn input_error(error: CallError) -> io::Error {
    match error.why {
        Why::Answered { .. } | Why::Broken { .. } => io::Error::new(io::ErrorKind::BrokenPipe, error),
        _ => io::Error::other(error),
    }
}
