//! Where the output of code goes while it runs.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotcell::Stream;
use hotcell::interpreter::{CodeEvent, RichResult};
use hotcell::text::PrintablePath;
use tokio::sync::Notify;

use super::images::{self, Images};
use crate::failure::Failure;
use crate::output;
use crate::terminal::Filter;

/// The texts of a result, best first.
const TEXTS: [&str; 4] = ["text/plain", "text/markdown", "application/json", "text/html"];

/// Our own stdout and stderr, and the directory for images.
///
/// Written to by the thread that runs the code, which so waits for a slow reader as the code itself would; signals are heard
/// meanwhile.
#[derive(Debug)]
pub(super) struct Screen {
    streams: Option<Mutex<Streams>>,
    images: Option<Images>,
    /// Told when stdout cannot be written any more.
    pub(super) broken: Notify,
}

#[derive(Debug)]
struct Streams {
    stdout: Output,
    stderr: Output,
    error: Option<io::Error>,
}

#[derive(Debug)]
struct Output {
    to: File,
    /// Present if a terminal shows it.
    filter: Option<Filter>,
    in_line: bool,
}

impl Output {
    fn new(to: impl AsFd + IsTerminal) -> io::Result<Self> {
        let filter = to.is_terminal().then(Filter::default);
        // Without the buffers of the standard library: a piece is written when it comes.
        Ok(Self { to: to.as_fd().try_clone_to_owned()?.into(), filter, in_line: false })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(last) = bytes.last() {
            self.in_line = *last != b'\n';
        }
        match &mut self.filter {
            Some(filter) => self.to.write_all(&filter.push(bytes)),
            None => self.to.write_all(bytes),
        }
    }

    /// Ends colours and characters that were not finished.
    fn end(&mut self) -> io::Result<()> {
        match &mut self.filter {
            Some(filter) => self.to.write_all(&filter.finish()),
            None => Ok(()),
        }
    }
}

impl Screen {
    /// Shows everything as it comes.
    pub(super) fn live(images: Option<Images>) -> Result<Self, Failure> {
        let streams = Output::new(io::stdout())
            .and_then(|stdout| Ok(Streams { stdout, stderr: Output::new(io::stderr())?, error: None }))
            .map_err(|error| Failure::new("output", format!("cannot write to stdout or stderr: {error}")))?;
        Ok(Self { streams: Some(Mutex::new(streams)), images, broken: Notify::new() })
    }

    /// Shows nothing: everything is in the result.
    pub(super) fn silent(images: Option<Images>) -> Self {
        Self { streams: None, images, broken: Notify::new() }
    }

    /// Takes what the code did.
    pub(super) fn take(&self, event: &CodeEvent<'_>) {
        match event {
            CodeEvent::Output(stream, bytes) => self.write(*stream, bytes),
            CodeEvent::Result(result) if self.streams.is_some() => self.show(result),
            _ => {}
        }
    }

    /// Writes the images of all results, for those that were not shown on the way.
    pub(super) fn save_all(&self, results: &[RichResult]) -> Vec<PathBuf> {
        results.iter().flat_map(|result| self.save(result)).collect()
    }

    /// Ends what the code left unfinished on the terminal.
    pub(super) fn end(&self) {
        if let Some(mut streams) = self.lock() {
            // A terminal that is gone shows nothing.
            let _ = streams.stdout.end();
            let _ = streams.stderr.end();
        }
    }

    /// The same, and a line end where one is missing, for whoever writes next.
    pub(super) fn end_line(&self) {
        self.end();
        if let Some(mut streams) = self.lock()
            && (std::mem::take(&mut streams.stdout.in_line) | std::mem::take(&mut streams.stderr.in_line))
        {
            let _ = streams.stdout.to.write_all(b"\n");
        }
    }

    /// Why stdout could not be written, if that is so.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.lock()?.error.take()
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        let Some(mut streams) = self.lock() else { return };
        match stream {
            Stream::Stdout if streams.error.is_some() => {}
            Stream::Stdout => {
                if let Err(error) = streams.stdout.write(bytes) {
                    streams.error = Some(error);
                    self.broken.notify_one();
                }
            }
            // A closed stderr is how some people silence a program.
            Stream::Stderr => drop(streams.stderr.write(bytes)),
        }
    }

    fn show(&self, result: &RichResult) {
        let text = TEXTS.iter().find_map(|media| result.data.get(*media));
        if let Some(text) = text {
            self.write(Stream::Stdout, text.as_bytes());
            self.write(Stream::Stdout, if text.ends_with('\n') { b"" } else { b"\n" });
        }
        let images = images::formats(result);
        for path in self.save(result) {
            output::message(&format!("{} was written", PrintablePath(&path)));
        }
        if self.images.is_none() && !images.is_empty() {
            output::message(&format!("the code shows {}; --save-images DIR writes it to a file", images.join(" and ")));
        } else if text.is_none() && images.is_empty() {
            let media: Vec<&str> = result.data.keys().map(String::as_str).collect();
            output::message(&format!("the code shows what cannot be shown here: {}", media.join(", ")));
        }
    }

    fn save(&self, result: &RichResult) -> Vec<PathBuf> {
        let saved = self.images.as_ref().map(|images| images.save(result)).unwrap_or_default();
        saved.into_iter().filter_map(|saved| saved.inspect_err(|error| output::error(error)).ok()).collect()
    }

    fn lock(&self) -> Option<MutexGuard<'_, Streams>> {
        // Nothing panics while it is held.
        self.streams.as_ref().map(|streams| streams.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
