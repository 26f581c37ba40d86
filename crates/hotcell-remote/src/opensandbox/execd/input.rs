//! Input for a command: through a named pipe that a program in the sandbox fills with what is sent to it.
//!
//! That program copies its input into the pipe, and what went in to its standard error. So it is known what has arrived, and
//! no more is sent than fits between: execd hangs up on who makes it wait. When all has arrived, the program is killed, and
//! that closes the pipe.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::super::super::http::{CallError, Why};
use super::Execd;
use super::pty::{Attach, NewPty, PtyEvent, PtyInput, PtyMode, PtyOutput};

const OPERATION: &str = "give a command its input";

/// The most that is on its way: no more than a pipe holds.
const ON_THE_WAY: u64 = 32 << 10;

/// How many pieces wait to be sent.
const WAITING: usize = 4;

/// A command's input. Dropping it closes it.
#[derive(Debug)]
pub struct ExactInput {
    pieces: mpsc::Sender<Bytes>,
    execd: Execd,
    pump: tokio::task::JoinHandle<Result<(), CallError>>,
}

/// Opens the input of a command whose directory is, or will be, this. Says which session it uses: removing that ends it.
pub(super) async fn open(execd: &Execd, directory: &str) -> Result<(ExactInput, String), CallError> {
    // It says a byte when the command has opened its end: killed before, it would leave it waiting for ever.
    let line = format!(
        "until [ -p {directory}/in ]; do sleep 0.01; done; exec >{directory}/in; printf . >&2; exec tee /dev/stderr"
    );
    let session = execd.create_pty(&NewPty::line(line)).await?;
    let attach = Attach { mode: PtyMode::Pipes, ..Attach::default() };
    let (input, output) = match execd.attach(&session, &attach).await {
        Ok(attached) => attached,
        Err(error) => {
            execd.delete_pty(&session).await?;
            return Err(error);
        }
    };
    let (pieces, waiting) = mpsc::channel(WAITING);
    let (owned, name) = (execd.clone(), session.clone());
    let pump = tokio::spawn(async move {
        let mut pumped = pump(waiting, input, output).await;
        if pumped.is_err() && is_over(&owned, &name).await {
            pumped = Ok(());
        }
        let deleted = owned.delete_pty(&name).await;
        pumped.and(deleted)
    });
    Ok((ExactInput { pieces, execd: execd.clone(), pump }, session))
}

impl ExactInput {
    /// Sends bytes. Waits while the command does not read. False if the command no longer reads.
    pub async fn send(&mut self, bytes: impl Into<Bytes>) -> bool {
        self.pieces.send(bytes.into()).await.is_ok()
    }

    /// Closes the input and waits until the command has got all of it, or has ended.
    pub async fn close(self) -> Result<(), CallError> {
        drop(self.pieces);
        let failed = |error: tokio::task::JoinError| {
            self.execd.server.failed(OPERATION, Why::Broken { reason: error.to_string() })
        };
        self.pump.await.map_err(failed)?
    }
}

/// Whether a connection broke because the program at its other end is gone, which means no more than that.
async fn is_over(execd: &Execd, session: &str) -> bool {
    match execd.pty_status(session).await {
        Ok(status) => !status.running,
        Err(error) => error.is_not_found(),
    }
}

async fn pump(mut waiting: mpsc::Receiver<Bytes>, mut input: PtyInput, mut output: PtyOutput) -> Result<(), CallError> {
    // The byte that says that there is somebody to read counts as one that has to arrive.
    let (mut sent, mut arrived, mut open, mut piece) = (1_u64, 0_u64, true, Bytes::new());
    while open || !piece.is_empty() || arrived < sent {
        let room = usize::try_from(ON_THE_WAY.saturating_sub(sent - arrived)).unwrap_or(usize::MAX);
        if room > 0 && !piece.is_empty() {
            let part = piece.split_to(room.min(piece.len()));
            input.send(&part).await?;
            sent += part.len() as u64;
            continue;
        }
        tokio::select! {
            next = waiting.recv(), if open && piece.is_empty() => match next {
                Some(next) => piece = next,
                None => open = false,
            },
            event = output.next() => match event? {
                Some(PtyEvent::Stderr(bytes)) if arrived + bytes.len() as u64 <= sent => arrived += bytes.len() as u64,
                // What came back in one piece because it came before this was listening.
                Some(PtyEvent::Replay { bytes, .. }) if arrived + bytes.len() as u64 <= sent => {
                    arrived += bytes.len() as u64;
                }
                // The command reads no more.
                Some(PtyEvent::Exit { .. }) | None => return Ok(()),
                Some(event) => {
                    let what = format!("{event:?}").chars().take(200).collect();
                    return Err(output.failed(Why::Garbled { what }));
                }
            },
        }
    }
    Ok(())
}
