//! An init that can be reached only by a stream of bytes, made to look like one on a socket of this machine.
//!
//! ```text
//! Cell ──records, descriptors──▶ bridge ──frames──▶ agent (first process of a container) ──▶ programs
//!   ▲                              │ pipes
//!   └── whoever reads and writes ──┘
//! ```
//!
//! A [`Cell`](crate::Cell) hands descriptors over a socket. Where no descriptor gets through (the connection that an engine
//! attaches to a container, a kernel of the container's own) the bridge keeps those descriptors and moves the bytes itself.
//! Each output is sent no faster than it is read here, and so the program waits for its reader as it would at a pipe.
//!
//! The agent may have been taken over by the code in its box. What it says is believed only where it answers something,
//! takes no more memory than was allowed, and ends the conversation where it makes no sense.

mod flow;
mod frame;
mod programs;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use self::frame::Notice;
use self::programs::{Asked, Ends, Programs};
use crate::socket::{self, Received};
use crate::wire::{INLINE_MAX, Malformed, Reader, STREAM_CHUNK, Writer, event, notice, order, spawn_flag};

/// How many orders wait for the stream to take them; whoever has more waits.
const QUEUE: usize = 32;
/// How long the stream may take to be closed in good order.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a conversation ended that should not have.
#[derive(Debug, Error)]
enum Broken {
    #[error("the connection to the box's agent broke: {0}")]
    Stream(#[source] io::Error),
    #[error("the box's agent sent a frame of {length} bytes")]
    Length { length: usize },
    #[error("the box's agent sent something that makes no sense")]
    Malformed,
    #[error("the box's agent sent {0}")]
    Unexpected(&'static str),
}

impl From<Malformed> for Broken {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Talks to the agent at the other end of `reader` and `writer`, until either side ends. What is returned is for
/// [`Cell::join`](crate::Cell::join).
///
/// Has to be called in a runtime, in which everything is done.
pub fn start<R, W>(reader: R, writer: W) -> io::Result<OwnedFd>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (ours, theirs) = socket::pair()?;
    start_on(ours, reader, writer)?;
    Ok(theirs)
}

/// Like [`start`], on a record socket that somebody else may talk on too.
pub(crate) fn start_on<R, W>(local: OwnedFd, reader: R, writer: W) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    socket::set_nonblocking(&local)?;
    let local = socket::register(local)?;
    tokio::spawn(run(local, reader, writer));
    Ok(())
}

/// One conversation.
struct Bridge {
    local: AsyncFd<OwnedFd>,
    programs: Mutex<Programs>,
    frames: mpsc::Sender<Vec<u8>>,
}

async fn run(local: AsyncFd<OwnedFd>, reader: impl AsyncRead + Unpin, mut writer: impl AsyncWrite + Unpin) {
    let (frames, queue) = mpsc::channel(QUEUE);
    let bridge = Bridge { local, programs: Mutex::default(), frames };
    // Whoever ends first ends all. The first never waits for the last: so the agent can always be heard, and always gets on.
    let ended = tokio::select! {
        ended = bridge.hear(reader) => ended,
        ended = bridge.obey() => ended,
        ended = send_frames(queue, &mut writer) => ended,
    };
    if let Err(broken) = ended {
        let record = Writer::new(event::BROKEN).bytes(broken.to_string().as_bytes()).finish();
        // A library that has gone does not need to know.
        let _ = socket::send_async(&bridge.local, &record, &[]).await;
    }
    drop(bridge);
    let _ = tokio::time::timeout(GOODBYE, writer.shutdown()).await;
}

async fn send_frames(mut queue: mpsc::Receiver<Vec<u8>>, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), Broken> {
    while let Some(frame) = queue.recv().await {
        writer.write_all(&frame).await?;
        if queue.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}

impl Bridge {
    fn programs(&self) -> std::sync::MutexGuard<'_, Programs> {
        // Nothing panics while it is held; and if it did, the maps would still be sound.
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what the agent says, until it says no more.
    async fn hear(&self, reader: impl AsyncRead + Unpin) -> Result<(), Broken> {
        let mut reader = BufReader::with_capacity(2 * STREAM_CHUNK, reader);
        let mut record = Vec::new();
        while frame::read(&mut reader, &mut record).await? {
            self.heed(&record).await?;
        }
        Ok(())
    }

    async fn heed(&self, record: &[u8]) -> Result<(), Broken> {
        let mut terminal = None;
        match Notice::decode(record)? {
            Notice::Output { token, stream, bytes } => return self.programs().output(token, stream, bytes),
            Notice::OutputEnd { token, stream } => return self.programs().output_end(token, stream),
            Notice::InputCredit { token, bytes } => return self.programs().input_credit(token, bytes),
            Notice::InputClosed { token } => return self.programs().input_closed(token),
            Notice::SetUp => self.programs().set_up()?,
            Notice::Started { token } => terminal = self.programs().started(token, &self.frames)?,
            Notice::NotStarted { token } => self.programs().not_started(token)?,
            Notice::Exited { token } => self.programs().exited(token)?,
            Notice::Done { token } => self.programs().done(token)?,
            Notice::Sampled { token } => self.programs().sampled(token)?,
        }
        let descriptors: Vec<_> = terminal.iter().map(AsFd::as_fd).collect();
        Ok(socket::send_async(&self.local, record, &descriptors).await?)
    }

    /// Passes on what the library orders, until it orders no more.
    async fn obey(&self) -> Result<(), Broken> {
        let mut buffer = vec![0; INLINE_MAX];
        while let Some(mut received) = socket::receive_large(&self.local, &mut buffer).await? {
            if let Some(answer) = self.note(&mut received)? {
                socket::send_async(&self.local, &answer, &[]).await?;
                continue;
            }
            if self.frames.send(frame::of(&received.record)?).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Remembers what is asked for; answers what cannot be asked over a stream.
    fn note(&self, received: &mut Received) -> Result<Option<Vec<u8>>, Broken> {
        let mut reader = Reader::new(&received.record);
        let (kind, token) = (reader.u8()?, reader.u32()?);
        match kind {
            order::SETUP => self.programs().ask_set_up(),
            order::SPAWN => {
                let ends = ends_of(reader.u32()?, std::mem::take(&mut received.descriptors))?;
                self.programs().ask(token, Asked::Program(ends));
            }
            order::MAKE_DIRECTORY | order::REMOVE | order::RENAME => self.programs().ask(token, Asked::Done),
            order::SAMPLE => self.programs().ask(token, Asked::Sample),
            order::OPEN => {
                return Ok(Some(Writer::new(notice::DONE).u32(token).i32(libc::EOPNOTSUPP).finish()));
            }
            _ => {}
        }
        Ok(None)
    }
}

/// What a program that the library orders is to be connected with.
fn ends_of(flags: u32, descriptors: Vec<OwnedFd>) -> io::Result<Ends> {
    if flags & spawn_flag::TERMINAL != 0 {
        return Ok(Ends::Terminal);
    }
    let [input, output, error] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| io::ErrorKind::InvalidData)?;
    let input = (flags & spawn_flag::NO_INPUT == 0).then_some(input);
    Ok(Ends::Pipes { input, output, error })
}
