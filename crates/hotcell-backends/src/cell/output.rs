//! What a command reads and writes: its pipes or its terminal, as the contracts of the core see them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use hotcell_core::backend::{OutputEvent, OutputEvents, ProcessStdin, Stream};
use hotcell_linux::Terminal;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, watch};

/// How much is read at once: what a pipe holds.
const CHUNK: usize = 64 * 1024;
/// The most that the kernel holds of what a terminal's programs wrote.
const TERMINAL_BUFFER: usize = 640 * 1024;

/// Counts what a command writes, and says when that is more than it may.
#[derive(Debug)]
pub(crate) struct Meter {
    limit: Option<u64>,
    written: AtomicU64,
    is_over: AtomicBool,
    over: Notify,
}

impl Meter {
    /// Counts up to this many bytes.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, written: AtomicU64::new(0), is_over: AtomicBool::new(false), over: Notify::new() }
    }

    /// Counts `length` more bytes and says how many of them are within the limit.
    pub(crate) fn count(&self, length: usize) -> usize {
        let before = self.written.fetch_add(length as u64, Ordering::Relaxed);
        let Some(limit) = self.limit else { return length };
        let room = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
        if room < length {
            self.is_over.store(true, Ordering::Relaxed);
            self.over.notify_one();
        }
        room.min(length)
    }

    /// Whether more has been read than the command may write.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns when the limit has been exceeded.
    pub(crate) async fn exceeded(&self) {
        while !self.is_over() {
            self.over.notified().await;
        }
    }
}

/// Where a command's output comes from.
#[derive(Debug)]
pub(super) enum Source {
    Pipes { stdout: Option<pipe::Receiver>, stderr: Option<pipe::Receiver> },
    Terminal(Arc<Terminal>),
    Finished,
}

/// How much a command that has ended left in its streams. Daemons that hold them may write for ever.
fn left_in(source: &Source) -> [usize; 2] {
    let waiting = |pipe: &Option<pipe::Receiver>| {
        pipe.as_ref().map_or(0, |pipe| rustix::io::ioctl_fionread(pipe).map_or(CHUNK, |length| length as usize))
    };
    match source {
        Source::Pipes { stdout, stderr } => [waiting(stdout), waiting(stderr)],
        Source::Terminal(_) => [TERMINAL_BUFFER, 0],
        Source::Finished => [0, 0],
    }
}

/// Reads what is in a pipe now. The runtime may not have heard of it yet, so its word that there is nothing is not taken
/// for the last byte of a command that has `ended`.
fn read_pipe(pipe: &pipe::Receiver, buffer: &mut Vec<u8>, ended: bool) -> io::Result<usize> {
    match pipe.try_read_buf(buffer) {
        Err(error) if ended && error.kind() == io::ErrorKind::WouldBlock => {
            Ok(rustix::io::read(pipe, rustix::buffer::spare_capacity(buffer))?)
        }
        other => other,
    }
}

/// A command's output, read when somebody asks for it: whoever reads slowly makes the command wait.
#[derive(Debug)]
pub(super) struct Output {
    source: Source,
    meter: Arc<Meter>,
    /// True once the command has ended: what it left in the pipes is still read, what its daemons write is not.
    ended: watch::Receiver<bool>,
    /// How much of stdout and of stderr is still read, once the command has ended.
    rest: [usize; 2],
    settled: bool,
    /// Whether somebody closes the streams when everything is in them: then they are read to their end.
    ends: bool,
}

impl Output {
    pub(super) fn new(source: Source, meter: Arc<Meter>, ended: watch::Receiver<bool>, ends: bool) -> Self {
        Self { source, meter, ended, rest: [usize::MAX; 2], settled: false, ends }
    }

    /// Reads and counts everything, and keeps nothing.
    pub(super) async fn drain(&mut self) {
        while self.next().await.is_some() {}
    }

    fn read_now(&mut self, buffer: &mut Vec<u8>) -> Read {
        match &mut self.source {
            Source::Pipes { stdout, stderr } => {
                let [of_stdout, of_stderr] = &mut self.rest;
                for (stream, pipe, rest) in [(Stream::Stdout, stdout, of_stdout), (Stream::Stderr, stderr, of_stderr)] {
                    let Some(open) = pipe else { continue };
                    if *rest == 0 {
                        *pipe = None;
                        continue;
                    }
                    match read_pipe(open, buffer, self.settled) {
                        Ok(0) => *pipe = None,
                        Ok(length) => {
                            buffer.truncate(*rest);
                            *rest = rest.saturating_sub(length);
                            return Read::Some(stream);
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => *pipe = None,
                    }
                }
                match &self.source {
                    Source::Pipes { stdout: None, stderr: None } => Read::End,
                    _ => Read::Nothing,
                }
            }
            Source::Terminal(terminal) => {
                buffer.resize(CHUNK, 0);
                buffer.truncate(self.rest[0]);
                let result = terminal.try_read(buffer);
                buffer.truncate(*result.as_ref().unwrap_or(&0));
                match result {
                    Ok(0) => Read::End,
                    Ok(length) => {
                        self.rest[0] = self.rest[0].saturating_sub(length);
                        Read::Some(Stream::Stdout)
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Read::Nothing,
                    Err(_) => Read::End,
                }
            }
            Source::Finished => Read::End,
        }
    }

    /// Waits until there may be something to read, or the command has ended.
    async fn wait(&mut self, buffer: &mut Vec<u8>) -> Read {
        let ended = &mut self.ended;
        let ends = self.ends;
        let mut done = async move || match ends {
            true => std::future::pending().await,
            false => drop(ended.wait_for(|ended| *ended).await),
        };
        match &mut self.source {
            Source::Pipes { stdout, stderr } => {
                tokio::select! {
                    () = readable(stdout.as_ref()) => {}
                    () = readable(stderr.as_ref()) => {}
                    () = done() => {}
                }
                Read::Nothing
            }
            Source::Terminal(terminal) => {
                buffer.resize(CHUNK, 0);
                let result = tokio::select! {
                    result = terminal.read(buffer) => Some(result),
                    () = done() => None,
                };
                let length = result.as_ref().and_then(|result| result.as_ref().ok().copied());
                buffer.truncate(length.unwrap_or(0));
                match result {
                    Some(Ok(0) | Err(_)) => Read::End,
                    Some(Ok(_)) => Read::Some(Stream::Stdout),
                    None => Read::Nothing,
                }
            }
            Source::Finished => Read::End,
        }
    }
}

enum Read {
    Some(Stream),
    Nothing,
    End,
}

async fn readable(pipe: Option<&pipe::Receiver>) {
    match pipe {
        // An error shows again when it is read.
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

#[async_trait]
impl OutputEvents for Output {
    async fn next(&mut self) -> Option<OutputEvent> {
        let mut bytes = Vec::with_capacity(CHUNK);
        loop {
            // Asked first: what was written before the end is then in the pipe.
            let dropped = self.ended.has_changed().is_err();
            let ended = !self.ends && (dropped || *self.ended.borrow());
            if ended && !self.settled {
                self.rest = left_in(&self.source);
                self.settled = true;
            }
            let read = match self.read_now(&mut bytes) {
                Read::Nothing if ended => Read::End,
                Read::Nothing => self.wait(&mut bytes).await,
                other => other,
            };
            match read {
                Read::Some(stream) => {
                    let within = self.meter.count(bytes.len());
                    if within == 0 {
                        bytes.clear();
                        self.source = Source::Finished;
                        return None;
                    }
                    bytes.truncate(within);
                    return Some(OutputEvent { stream, bytes });
                }
                Read::Nothing => {}
                Read::End => {
                    self.source = Source::Finished;
                    return None;
                }
            }
        }
    }
}

/// A pipe to a command's standard input.
#[derive(Debug)]
pub(super) struct PipeInput {
    pipe: Option<pipe::Sender>,
}

impl PipeInput {
    pub(super) fn new(pipe: pipe::Sender) -> Self {
        Self { pipe: Some(pipe) }
    }
}

#[async_trait]
impl ProcessStdin for PipeInput {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.pipe = None;
        Ok(())
    }
}

/// The keyboard of a command's terminal.
#[derive(Debug)]
pub(super) struct TerminalInput {
    pub(super) terminal: Arc<Terminal>,
}

#[async_trait]
impl ProcessStdin for TerminalInput {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.terminal.write(rest).await?;
            rest = &rest[written..];
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        // What a keyboard sends at the beginning of a line to say that there is no more.
        const END_OF_TRANSMISSION: &[u8] = &[4];
        self.write_all(END_OF_TRANSMISSION).await
    }
}
