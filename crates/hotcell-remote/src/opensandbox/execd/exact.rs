//! Commands whose output is wanted byte for byte, and that can be given input.
//!
//! Neither way in which execd sends output is whole: its events lose bytes, and the WebSocket of a program that ends is closed
//! before the last output was sent. So the command writes into two files of a private directory, which are read as they grow.
//! Its events say when and how it ended. Input goes the other way through a named pipe that a second program of execd's
//! fills; killing that one is what closes it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hotcell_core::text::Printable;

use super::super::super::http::{CallError, Why};
use super::Execd;
use super::command::{Command, quoted};
use super::input::{self, ExactInput};
use super::running::{Event, Exit, Failure, Running};

const OPERATION: &str = "run a command";

/// The most that is read of a stream at once.
const PIECE: u64 = 1 << 20;

/// How long a command has for its end before the files are looked at, and the longest between two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The most that is kept of what the shell says when it cannot begin.
const MOST_OF_COMPLAINT: usize = 500;

/// Something that a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExactEvent {
    /// It wrote this.
    Stdout(Bytes),
    /// It wrote this to its standard error.
    Stderr(Bytes),
    /// It ended. The last event.
    Ended {
        /// How.
        exit: Exit,
        /// What execd says of it, unless it ended with zero.
        failure: Option<Failure>,
    },
}

/// A command whose output is read byte for byte. The order within each stream is kept; between them there is none.
#[derive(Debug)]
pub struct Exact {
    execd: Execd,
    id: String,
    directory: String,
    running: Running,
    /// The end, once it is known. Output may still have to be read.
    end: Option<(Exit, Option<Failure>)>,
    /// What was read and is still to be told.
    untold: VecDeque<ExactEvent>,
    streams: [Stream; 2],
    pause: Duration,
    /// What the shell said because it could not begin.
    complaint: String,
    input: Option<ExactInput>,
    /// What fills the input, until the command has ended.
    session: Option<String>,
}

/// What a command writes, in a file of the sandbox's.
#[derive(Debug, Clone)]
struct Stream {
    path: String,
    event: fn(Bytes) -> ExactEvent,
    /// How much of it was read.
    read: u64,
    /// How much of it there is at least.
    size: u64,
    /// Whether all of it was read. Only known when the command has ended.
    whole: bool,
}

impl Stream {
    fn new(path: String, event: fn(Bytes) -> ExactEvent) -> Self {
        Self { path, event, read: 0, size: 0, whole: false }
    }
}

impl Execd {
    /// Runs a command whose output is wanted byte for byte. Needs `mkdir` in the sandbox and a `/tmp` that can be written; with
    /// `piped` input, `bash`, `mkfifo` and `tee` as well. Without, the command has no input.
    ///
    /// What it writes takes space in the sandbox until it ends; a limit on the size of files holds for that too.
    pub async fn run_exact(&self, command: &Command, piped: bool) -> Result<Exact, CallError> {
        let directory = format!("/tmp/.hotcell-{}", self.server.unique(OPERATION)?);
        let mut kept = command.clone();
        kept.line = script(command, &directory, piped);
        let mut running = self.run(&kept).await?;
        let id = loop {
            match running.next().await? {
                Some(Event::Started { id }) => break id,
                Some(_) => {}
                None => return Err(self.garbled(OPERATION, "it does not say the command's id")),
            }
        };
        let (input, session) = match piped {
            false => (None, None),
            true => match input::open(self, &directory).await {
                Ok((input, session)) => (Some(input), Some(session)),
                Err(error) => {
                    // It would wait for its input for ever. What matters is why it has none.
                    let _ = self.interrupt(&id).await;
                    let _ = self.remove_directory(&directory).await;
                    return Err(error);
                }
            },
        };
        let streams = [
            Stream::new(format!("{directory}/out"), ExactEvent::Stdout),
            Stream::new(format!("{directory}/err"), ExactEvent::Stderr),
        ];
        Ok(Exact {
            execd: self.clone(),
            id,
            directory,
            running,
            end: None,
            untold: VecDeque::new(),
            streams,
            pause: FIRST_PAUSE,
            complaint: String::new(),
            input,
            session,
        })
    }
}

/// What is run in the command's place: it makes the files and becomes the command, so that the command's end is the end.
fn script(command: &Command, directory: &str, piped: bool) -> String {
    let (make_pipe, from_pipe) = if piped {
        (format!("mkfifo -m 600 {directory}/in && "), format!("<{directory}/in "))
    } else {
        Default::default()
    };
    let command = match command.is_argv() {
        true => command.line.clone(),
        // The shell that reads this, which may be `bash` or `sh`.
        false => format!("\"${{BASH:-sh}}\" -c {}", quoted(&command.line)),
    };
    format!(
        "mkdir -m 700 {directory} && {make_pipe}: >{directory}/err && exec {from_pipe}>{directory}/out 2>{directory}/err && exec {command}"
    )
}

impl Exact {
    /// The id that [`Execd::interrupt`] wants.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The command's input, if it was asked for; once.
    pub fn take_input(&mut self) -> Option<ExactInput> {
        self.input.take()
    }

    /// The next event; none after the last. Dropping the command does not end it: [`Execd::interrupt`] does. Cancel-safe.
    ///
    /// The files of a command that has ended are removed while its end is told already.
    pub async fn next(&mut self) -> Result<Option<ExactEvent>, CallError> {
        loop {
            if let Some(event) = self.untold.pop_front() {
                return Ok(Some(event));
            }
            if self.streams.iter().all(|stream| stream.whole) {
                return Ok(self.end.take().map(|(exit, failure)| ExactEvent::Ended { exit, failure }));
            }
            // In this order: what was written before the end is in the files that are read after it.
            if self.end.is_some() {
                self.finish().await?;
            } else if !self.wait().await? {
                self.look().await?;
                self.pieces(|stream| stream.read < stream.size).await?;
            }
        }
    }

    /// Reads on, now that nothing more is written; after the last of it the files are not needed any more.
    async fn finish(&mut self) -> Result<(), CallError> {
        if let Some(session) = &self.session {
            self.execd.delete_pty(session).await?;
            self.session = None;
        }
        self.pieces(|stream| !stream.whole).await?;
        if self.streams.iter().all(|stream| stream.whole) {
            let (execd, directory) = (self.execd.clone(), self.directory.clone());
            // Nobody waits for it. Should it fail, it goes with the sandbox.
            tokio::spawn(async move { execd.remove_directory(&directory).await });
        }
        Ok(())
    }

    /// Waits until it is time for another look, or the command has ended; says whether it was the end.
    async fn wait(&mut self) -> Result<bool, CallError> {
        let by = tokio::time::Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        loop {
            let Ok(event) = tokio::time::timeout_at(by, self.running.next()).await else { return Ok(false) };
            match event? {
                Some(Event::Completed { .. }) => self.end = Some((Exit::Code(0), None)),
                Some(Event::Failed(failure)) => self.end = Some((failure.exit(), Some(failure))),
                // Only the shell writes here, and only if it could not make the files.
                Some(Event::Stderr(line)) if self.complaint.len() < MOST_OF_COMPLAINT => {
                    self.complaint.push_str(&String::from_utf8_lossy(&line));
                }
                Some(_) => {}
                None if self.end.is_some() => return Ok(true),
                None => return Err(self.execd.garbled(OPERATION, "the command has no end")),
            }
            if self.end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Looks how much there is.
    async fn look(&mut self) -> Result<(), CallError> {
        let paths = [0, 1].map(|stream: usize| self.streams[stream].path.clone());
        match self.execd.infos(OPERATION, &paths).await {
            Ok(found) => {
                for (stream, info) in self.streams.iter_mut().zip(found) {
                    stream.size = info.size.max(stream.size);
                }
                Ok(())
            }
            // They are being made.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads a piece of each stream that is chosen, both at once.
    async fn pieces(&mut self, chosen: fn(&Stream) -> bool) -> Result<(), CallError> {
        let [out, err] = &self.streams;
        let (out, err) = tokio::try_join!(self.piece(out, chosen), self.piece(err, chosen))?;
        for (stream, piece) in self.streams.iter_mut().zip([out, err]) {
            let Some(piece) = piece else { continue };
            stream.read += piece.len() as u64;
            stream.whole = self.end.is_some() && (piece.len() as u64) < PIECE;
            if !piece.is_empty() {
                self.pause = FIRST_PAUSE;
                self.untold.push_back((stream.event)(piece));
            }
        }
        Ok(())
    }

    async fn piece(&self, stream: &Stream, chosen: fn(&Stream) -> bool) -> Result<Option<Bytes>, CallError> {
        if !chosen(stream) {
            return Ok(None);
        }
        let mut download = match self.execd.download_part(&stream.path, stream.read, Some(PIECE)).await {
            Err(error) if error.is_not_found() => {
                let failure = self.end.as_ref().and_then(|(_, failure)| failure.as_ref());
                let complaint = match (self.complaint.trim(), failure) {
                    ("", Some(failure)) => &failure.value,
                    (complaint, _) => complaint,
                };
                let reason = format!("its output cannot be kept in {}: {}", self.directory, Printable(complaint));
                return Err(self.execd.impossible(OPERATION, reason));
            }
            download => download?,
        };
        let mut piece = BytesMut::new();
        while let Some(part) = download.next().await? {
            piece.extend_from_slice(&part);
        }
        if piece.is_empty() && stream.read < stream.size {
            let reason = format!("{} has become shorter", stream.path);
            return Err(self.execd.server.failed(OPERATION, Why::Broken { reason }));
        }
        Ok(Some(piece.freeze()))
    }
}
