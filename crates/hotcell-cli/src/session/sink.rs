//! Where the command's output goes.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::thread;

use hotcell::{CaptureLimits, OutputEvent, Stream, StreamCapture};
use tokio::sync::{mpsc, oneshot};

use crate::report::Streams;
use crate::terminal::Filter;

/// How many pieces may wait for a slow reader; after that the command waits too.
const WAITING_PIECES: usize = 4;

/// Where the command's output goes.
pub(crate) enum Sink {
    /// Kept, within bounds.
    Capture { stdout: StreamCapture, stderr: StreamCapture },
    /// Passed on as it comes.
    Live(Live),
}

/// Our own stdout and stderr.
pub(crate) struct Live {
    stdout: LiveStream,
    stderr: LiveStream,
    writer: Option<Writer>,
}

/// How one stream is passed on.
struct LiveStream {
    /// Present if a terminal shows it and the command was not given that terminal.
    filter: Option<Filter>,
    bytes: u64,
}

impl LiveStream {
    fn new(filtered: bool) -> Self {
        Self { filter: filtered.then(Filter::default), bytes: 0 }
    }

    fn take(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        match &mut self.filter {
            Some(filter) => filter.push(&bytes),
            None => bytes,
        }
    }
}

impl Sink {
    /// Keeps the output for a report.
    pub(crate) fn capture() -> Self {
        let limits = CaptureLimits::default();
        Self::Capture { stdout: StreamCapture::new(limits), stderr: StreamCapture::new(limits) }
    }

    /// Passes the output on. A terminal is shielded from it, unless the command has a terminal of its own: then it
    /// is the user's wish that the two talk to each other.
    pub(crate) fn live(has_terminal: bool) -> Self {
        Self::Live(Live {
            stdout: LiveStream::new(!has_terminal && io::stdout().is_terminal()),
            stderr: LiveStream::new(!has_terminal && io::stderr().is_terminal()),
            writer: None,
        })
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Takes the next piece.
    pub(crate) async fn write(&mut self, event: OutputEvent) -> io::Result<()> {
        match self {
            Self::Capture { stdout, stderr } => {
                match event.stream {
                    Stream::Stdout => stdout.push(&event.bytes),
                    Stream::Stderr => stderr.push(&event.bytes),
                }
                Ok(())
            }
            Self::Live(live) => {
                let bytes = live.stream(event.stream).take(event.bytes);
                live.send(event.stream, bytes).await
            }
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        let Self::Live(live) = self else { return Ok(()) };
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = live.stream(stream).filter.as_mut().map(Filter::finish).unwrap_or_default();
            live.send(stream, rest).await?;
        }
        match live.writer.take() {
            Some(writer) => writer.finish().await,
            None => Ok(()),
        }
    }

    /// What there is to report.
    pub(crate) fn streams(self) -> Streams {
        match self {
            Self::Capture { stdout, stderr } => Streams::Captured { stdout: stdout.finish(), stderr: stderr.finish() },
            Self::Live(live) => Streams::Passed { stdout: live.stdout.bytes, stderr: live.stderr.bytes },
        }
    }
}

impl Live {
    fn stream(&mut self, stream: Stream) -> &mut LiveStream {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    async fn send(&mut self, stream: Stream, bytes: Vec<u8>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(Writer::start()?),
        };
        if writer.pieces.send((stream, bytes)).await.is_ok() {
            return Ok(());
        }
        // It has stopped, so it has an error to tell.
        match self.writer.take() {
            Some(writer) => writer.finish().await,
            None => Ok(()),
        }
    }
}

/// A thread that writes: a slow reader of ours must not hold up timeouts and signals. Started with the first output.
struct Writer {
    pieces: mpsc::Sender<(Stream, Vec<u8>)>,
    ended: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    fn start() -> io::Result<Self> {
        let (pieces, receiver) = mpsc::channel(WAITING_PIECES);
        let (report, ended) = oneshot::channel();
        // Without the buffers of the standard library: a piece is written when it comes.
        let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from)?;
        let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from)?;
        thread::Builder::new().name("output".to_owned()).spawn(move || {
            let _ = report.send(write(receiver, stdout, stderr));
        })?;
        Ok(Self { pieces, ended })
    }

    async fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        self.ended.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread is gone")))
    }
}

fn write(mut pieces: mpsc::Receiver<(Stream, Vec<u8>)>, mut stdout: File, mut stderr: File) -> io::Result<()> {
    while let Some((stream, bytes)) = pieces.blocking_recv() {
        match stream {
            Stream::Stdout => stdout.write_all(&bytes)?,
            // A closed stderr is how some people silence a program.
            Stream::Stderr => drop(stderr.write_all(&bytes)),
        }
    }
    Ok(())
}
