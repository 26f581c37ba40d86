//! Commands whose output is wanted byte for byte, and that can be given input.
//!
//! Neither way in which execd sends output is whole: its events lose bytes, and the WebSocket of a program that ends is closed
//! before the last output was sent. So the command writes into two files of a private directory, which are read as they grow.
//! Its events say when and how it ended. Input goes the other way through a named pipe that a second program of execd's
//! fills; killing that one is what closes it.

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

/// The pause before the second look at the files, and the longest between two.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
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
    done: bool,
    /// How much of each stream was read.
    read: [u64; 2],
    /// How much of each stream there is.
    size: [u64; 2],
    pause: Duration,
    /// What the shell said because it could not begin.
    complaint: String,
    input: Option<ExactInput>,
    /// What fills the input, until the command has ended.
    session: Option<String>,
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
        Ok(Exact {
            execd: self.clone(),
            id,
            directory,
            running,
            end: None,
            done: false,
            read: [0; 2],
            size: [0; 2],
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
    pub async fn next(&mut self) -> Result<Option<ExactEvent>, CallError> {
        while !self.done {
            for (stream, name) in ["out", "err"].into_iter().enumerate() {
                if self.read[stream] < self.size[stream] {
                    let bytes = self.piece(name, self.read[stream]).await?;
                    self.read[stream] += bytes.len() as u64;
                    self.pause = FIRST_PAUSE;
                    return Ok(Some(if stream == 0 { ExactEvent::Stdout(bytes) } else { ExactEvent::Stderr(bytes) }));
                }
            }
            if self.end.is_some()
                && let Some(session) = &self.session
            {
                self.execd.delete_pty(session).await?;
                self.session = None;
            }
            // In this order: what was written before the end is in the files that are looked at after it.
            let ended = self.end.is_some();
            if ended || !self.wait().await? {
                self.look().await?;
            }
            if ended && self.read == self.size {
                self.execd.remove_directory(&self.directory).await?;
                self.done = true;
                if let Some((exit, failure)) = self.end.take() {
                    return Ok(Some(ExactEvent::Ended { exit, failure }));
                }
            }
        }
        Ok(None)
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
        let paths = ["out", "err"].map(|name| format!("{}/{name}", self.directory));
        match self.execd.infos(OPERATION, &paths).await {
            Ok(found) => {
                for (size, info) in self.size.iter_mut().zip(found) {
                    *size = info.size.max(*size);
                }
                Ok(())
            }
            // They are being made.
            Err(error) if error.is_not_found() && self.end.is_none() => Ok(()),
            Err(error) if error.is_not_found() => {
                let complaint = Printable(self.complaint.trim());
                let reason = format!("its output cannot be kept in {}: {complaint}", self.directory);
                Err(self.execd.impossible(OPERATION, reason))
            }
            Err(error) => Err(error),
        }
    }

    async fn piece(&self, name: &str, from: u64) -> Result<Bytes, CallError> {
        let path = format!("{}/{name}", self.directory);
        let mut download = self.execd.download_part(&path, from, Some(PIECE)).await?;
        let mut piece = BytesMut::new();
        while let Some(part) = download.next().await? {
            piece.extend_from_slice(&part);
        }
        if piece.is_empty() {
            let reason = format!("{path} has become shorter");
            return Err(self.execd.server.failed(OPERATION, Why::Broken { reason }));
        }
        Ok(piece.freeze())
    }
}
