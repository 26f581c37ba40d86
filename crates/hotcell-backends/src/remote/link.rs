//! What a server's sandbox does for us.

use std::fmt::Debug;
use std::fs::File;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hotcell_core::backend::{FileEntry, Stream, TtySize};
use hotcell_remote::http::CallError;

/// One sandbox of a server.
///
/// Calls may come from any task at any time. Every future may be dropped at any await point; what a dropped [`Link::start`] had
/// begun is ended.
#[async_trait]
pub(crate) trait Link: Debug + Send + Sync {
    /// How the sandbox is called, for messages: the product, the server and the id.
    fn name(&self) -> String;

    /// Runs one of our own programs to its end, with nothing as its input; its output is short text.
    async fn run(&self, program: OwnProgram<'_>) -> Result<Ran, CallError>;

    /// Starts a command of the user's.
    async fn start(&self, command: &Command) -> Result<Started, CallError>;

    /// Writes a file of `length` bytes, for the box's user.
    async fn upload(&self, path: &str, content: File, length: u64) -> Result<(), CallError>;

    /// Reads a file.
    async fn download(&self, path: &str) -> Result<Box<dyn Download>, CallError>;

    /// What is in a directory.
    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, CallError>;

    /// What is at a path; a link is not followed. None if there is nothing.
    async fn stat(&self, path: &str) -> Result<Option<FileEntry>, CallError>;

    /// Lets the sandbox live for so long from now.
    async fn renew(&self, lifetime: Duration) -> Result<(), CallError>;

    /// Removes the sandbox with everything in it. No error if it is gone.
    async fn delete(&self) -> Result<(), CallError>;

    /// What is lost on the way of a command's output, if something is, as a phrase.
    fn loses(&self) -> Option<&'static str> {
        None
    }
}

/// One of our own scripts, to be run to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnProgram<'a> {
    /// The program and its arguments.
    pub(crate) words: &'a [String],
    /// Whether the box's root should run it, where the server can arrange that; else the box's user does.
    pub(crate) as_root: bool,
    /// How long it may take.
    pub(crate) deadline: Duration,
}

/// How one of our own scripts ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) error: String,
}

/// A command of the user's, wrapped for its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// The program and its arguments: those of our script that starts it.
    pub(crate) words: Vec<String>,
    /// Whether its input comes from the caller; else there is none.
    pub(crate) stdin: bool,
    /// A terminal of this size; none means pipes.
    pub(crate) tty: Option<TtySize>,
    /// What marks lines of ours in its output.
    pub(crate) nonce: String,
}

/// A command that has been started.
pub(crate) struct Started {
    pub(crate) events: Box<dyn Events>,
    pub(crate) control: Box<dyn Control>,
}

/// What a command does. While nobody asks, the server is not read from.
#[async_trait]
pub(crate) trait Events: Send {
    /// The next event, cancel-safe. The last one is [`Event::Ended`]; a stream that ends without it is an error.
    async fn next(&mut self) -> Result<Event, CallError>;
}

/// Something that a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Output(Stream, Bytes),
    Ended(Ended),
}

/// How a command ended, in the server's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    /// Which signal it was, if the server says.
    Signaled(Option<i32>),
}

/// What can be done to a running command through the server's own protocol.
#[async_trait]
pub(crate) trait Control: Send + Sync {
    /// Writes to its input, waiting while it does not read.
    async fn write(&self, bytes: &[u8]) -> Result<(), CallError>;

    /// Closes its input; with a terminal, says that there is no more.
    async fn close(&self) -> Result<(), CallError>;

    /// Changes the size of its terminal.
    async fn resize(&self, size: TtySize) -> Result<(), CallError>;

    /// Kills it the server's way. Used when our own way cannot be: nothing is known afterwards.
    async fn kill(&self) -> Result<(), CallError>;
}

/// A file as it comes.
#[async_trait]
pub(crate) trait Download: Send {
    /// The next piece; none at the end. An end before the whole file has come is an error.
    async fn next(&mut self) -> Result<Option<Bytes>, CallError>;
}
