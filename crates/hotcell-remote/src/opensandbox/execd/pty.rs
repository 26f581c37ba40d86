//! Programs that are talked to: in a terminal, or through pipes, over a WebSocket.
//!
//! A session is made without a program; the first to attach starts it (`bash`, or `bash -c` and the session's command), in a
//! terminal or with pipes, as that one asks. Whoever attaches later hears it from any point of the last MiB. One at a time is
//! attached.
//!
//! What to know of execd's side:
//! - **There is no way to close a program's input.** In a terminal, the byte 4 (`^D`) at the start of a line does it; with
//!   pipes nothing does but [`Execd::delete_pty`], which kills the program.
//! - **The end can overtake output.** Execd says that a program ended as soon as it did, and hangs up, even if the last of its
//!   output has not been sent. A program that must not lose any has to wait before it ends until all was heard.
//! - **Attaching to a session whose program has ended starts it again.** [`Execd::pty_status`] says whether it runs.
//! - The last MiB is of both streams together.

use std::time::Duration;

use bytes::Bytes;
use hotcell_core::text::Printable;
use serde::{Deserialize, Serialize};

use super::super::super::http::{CallError, Server, Why};
use super::super::super::websocket::{self, Limits, Message, Receiver, Sender};
use super::Execd;
use super::session::SessionAnswer;

const OPERATION: &str = "talk to a program";

/// What comes in one message: the last MiB at once, and nothing larger.
const LARGEST_MESSAGE: usize = (1 << 20) + 64;

/// How long it may take until a session is attached; taking one over may take five seconds at the server.
const ATTACHING: Duration = Duration::from_secs(30);

/// What separates input that is sent from other messages.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const REPLAY: u8 = 3;

/// The code with which the server closes the connection of whom another took over.
const TAKEN_OVER: u16 = 4001;

/// A session to be made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct NewPty {
    /// Where the program is run; made if it is not there.
    pub cwd: Option<String>,
    /// What is run by `bash`; none is `bash` itself.
    pub command: Option<String>,
}

impl NewPty {
    /// A session for a line of shell.
    pub fn line(line: impl Into<String>) -> Self {
        Self { command: Some(line.into()), cwd: None }
    }
}

/// How a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtyStatus {
    /// Whether its program runs.
    pub running: bool,
    /// How many bytes the program has written so far: the [`Attach::since`] of one who wants to hear only what is new.
    pub offset: u64,
}

/// How a session is attached.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Attach {
    /// How the program is started, if it is not running.
    pub mode: PtyMode,
    /// From which byte of its output on it is heard, as far back as the server remembers.
    pub since: u64,
    /// Whether another who is attached is cut off; else that is an error (409).
    pub takeover: bool,
}

/// How a program is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PtyMode {
    /// In a terminal.
    #[default]
    Terminal,
    /// Through pipes: both streams apart, byte for byte.
    Pipes,
}

/// Something that comes of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PtyEvent {
    /// What it wrote before, of both streams together.
    Replay {
        /// Which byte of all its output the first of these is. Greater than what was asked for if the server has forgotten
        /// some.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// What it wrote.
    Stdout(Bytes),
    /// What it wrote to its standard error; in a terminal that is the same.
    Stderr(Bytes),
    /// It ended. The last event.
    Exit {
        /// The exit code; none if a signal ended it, and execd does not say which.
        code: Option<i32>,
    },
    /// Another took over. The last event.
    TakenOver,
}

/// The signals that execd can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PtySignal {
    /// SIGHUP.
    Hangup,
    /// SIGINT.
    Interrupt,
    /// SIGQUIT.
    Quit,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

impl PtySignal {
    fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Terminate => "SIGTERM",
            Self::Kill => "SIGKILL",
        }
    }
}

#[derive(Serialize)]
struct CreateRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
}

#[derive(Deserialize)]
struct StatusAnswer {
    running: bool,
    output_offset: u64,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ClientFrame {
    Resize { cols: u16, rows: u16 },
    Signal { signal: &'static str },
    Ping,
}

#[derive(Deserialize)]
struct ServerFrame {
    #[serde(rename = "type")]
    kind: String,
    exit_code: Option<i32>,
    error: Option<String>,
    code: Option<String>,
}

impl Execd {
    /// Makes a session. Says its id.
    pub async fn create_pty(&self, new: &NewPty) -> Result<String, CallError> {
        let cwd = new.cwd.as_deref().map(|cwd| self.named(OPERATION, cwd)).transpose()?;
        let request = CreateRequest { cwd, command: new.command.as_deref() };
        let call = self.server.post(OPERATION, &["pty"]).json(&request);
        Ok(call.send().await?.json::<SessionAnswer>().await?.session_id)
    }

    /// How a session is.
    pub async fn pty_status(&self, session: &str) -> Result<PtyStatus, CallError> {
        let answer: StatusAnswer = self.server.get(OPERATION, &["pty", session]).send().await?.json().await?;
        Ok(PtyStatus { running: answer.running, offset: answer.output_offset })
    }

    /// Removes a session and kills its program. One that is not there is as good as removed.
    pub async fn delete_pty(&self, session: &str) -> Result<(), CallError> {
        match self.server.delete("remove a program's session", &["pty", session]).send().await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Attaches to a session. Dropping both halves detaches; the program goes on.
    ///
    /// Both must be used at once by whoever sends more than a little: a program that nobody listens to may stop reading.
    /// The server hangs up on who has not listened for a minute.
    pub async fn attach(&self, session: &str, attach: &Attach) -> Result<(PtyInput, PtyOutput), CallError> {
        let since = attach.since.to_string();
        let mode = if attach.mode == PtyMode::Terminal { "1" } else { "0" };
        let mut query = vec![("pty", mode), ("since", since.as_str())];
        if attach.takeover {
            query.push(("takeover", "1"));
        }
        let limits = Limits { message: LARGEST_MESSAGE, deadline: ATTACHING };
        let path = ["pty", session, "ws"];
        let (sender, receiver) = websocket::connect(&self.server, OPERATION, &path, &query, limits).await?;
        let input = PtyInput { sender };
        let mut output = PtyOutput { server: self.server.clone(), receiver, replay: None, ended: false };
        let connected = tokio::time::timeout(ATTACHING, output.connected()).await;
        connected.map_err(|_| self.server.failed(OPERATION, Why::TooSlow { waited: ATTACHING }))??;
        Ok((input, output))
    }
}

/// What is sent to a program.
#[derive(Debug)]
pub struct PtyInput {
    sender: Sender,
}

impl PtyInput {
    /// Sends input. There is no end of input: see the module.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        // In pieces that no server finds too large.
        for piece in bytes.chunks(32 << 10) {
            let mut message = Vec::with_capacity(piece.len() + 1);
            message.push(STDIN);
            message.extend_from_slice(piece);
            self.sender.send(Message::Binary(message.into())).await?;
        }
        Ok(())
    }

    /// Sets the size of the terminal. Without a terminal nothing happens.
    pub async fn resize(&mut self, columns: u16, rows: u16) -> Result<(), CallError> {
        self.frame(&ClientFrame::Resize { cols: columns, rows }).await
    }

    /// Sends a signal to the program and its process group.
    pub async fn signal(&mut self, signal: PtySignal) -> Result<(), CallError> {
        self.frame(&ClientFrame::Signal { signal: signal.name() }).await
    }

    /// Says that somebody is here.
    pub async fn ping(&mut self) -> Result<(), CallError> {
        self.frame(&ClientFrame::Ping).await
    }

    /// Detaches; the program goes on.
    pub async fn detach(mut self) -> Result<(), CallError> {
        self.sender.close().await
    }

    async fn frame(&mut self, frame: &ClientFrame) -> Result<(), CallError> {
        let text = serde_json::to_string(frame);
        let text = text.map_err(|error| self.sender.failed(Why::Impossible { reason: error.to_string() }))?;
        self.sender.send(Message::Text(text.into())).await
    }
}

/// What comes of a program.
#[derive(Debug)]
pub struct PtyOutput {
    server: Server,
    receiver: Receiver,
    /// What came before the session was attached.
    replay: Option<PtyEvent>,
    ended: bool,
}

impl PtyOutput {
    /// The next event; none after the last. A connection that ends before the last event is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<PtyEvent>, CallError> {
        if let Some(event) = self.replay.take() {
            return Ok(Some(event));
        }
        while !self.ended {
            let event = match self.receiver.next().await? {
                Message::Binary(bytes) => self.binary(bytes)?,
                Message::Text(text) => self.text(text.as_bytes())?.0,
                Message::Closed { code: Some(TAKEN_OVER) } => Some(PtyEvent::TakenOver),
                Message::Closed { .. } => {
                    let reason = "it hung up before the program ended".to_owned();
                    return Err(self.failed(Why::Broken { reason }));
                }
            };
            self.ended = matches!(event, Some(PtyEvent::Exit { .. } | PtyEvent::TakenOver));
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Waits until the server says that the session is attached. What the program wrote before comes before that.
    async fn connected(&mut self) -> Result<(), CallError> {
        loop {
            match self.receiver.next().await? {
                Message::Binary(bytes) if self.replay.is_none() => self.replay = self.binary(bytes)?,
                Message::Text(text) => {
                    if self.text(text.as_bytes())?.1 {
                        return Ok(());
                    }
                }
                _ => return Err(self.garbled("it does not say that the session is attached")),
            }
        }
    }

    fn binary(&self, bytes: Bytes) -> Result<Option<PtyEvent>, CallError> {
        match bytes.first() {
            Some(&STDOUT) => Ok(Some(PtyEvent::Stdout(bytes.slice(1..)))),
            Some(&STDERR) => Ok(Some(PtyEvent::Stderr(bytes.slice(1..)))),
            Some(&REPLAY) => match bytes.get(1..9).and_then(|offset| offset.try_into().ok()) {
                Some(offset) => {
                    Ok(Some(PtyEvent::Replay { offset: u64::from_be_bytes(offset), bytes: bytes.slice(9..) }))
                }
                None => Err(self.garbled("a message is too short")),
            },
            _ => Err(self.garbled("a message is of no kind")),
        }
    }

    /// The event of a message in words, and whether it says that the session is attached.
    fn text(&self, text: &[u8]) -> Result<(Option<PtyEvent>, bool), CallError> {
        let frame: ServerFrame =
            serde_json::from_slice(text).map_err(|error| self.garbled(format!("a message is none: {error}")))?;
        match frame.kind.as_str() {
            "connected" => Ok((None, true)),
            "exit" => {
                let code = frame.exit_code.filter(|code| (-1..=255).contains(code));
                let code = code.ok_or_else(|| self.garbled("the end of the program has no code"))?;
                Ok((Some(PtyEvent::Exit { code: (code >= 0).then_some(code) }), false))
            }
            "error" => {
                let (code, error) = (frame.code.unwrap_or_default(), frame.error.unwrap_or_default());
                let reason = format!("{} {}", Printable(&code), Printable(&error)).trim().to_owned();
                Err(self.failed(Why::Broken { reason }))
            }
            // `pong`, and what will be invented.
            _ => Ok((None, false)),
        }
    }

    pub(super) fn failed(&self, why: Why) -> CallError {
        self.server.failed(OPERATION, why)
    }

    fn garbled(&self, what: impl Into<String>) -> CallError {
        self.failed(Why::Garbled { what: what.into() })
    }
}
