//! Bytes between the stream and the pipes of one program: as many at a time as the reader of the other side has room for.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, watch};

use super::{Broken, frame};
use crate::wire::{INPUT_WINDOW, OUTPUT_WINDOW, REST_MAX, STREAM_CHUNK, Writer, order};

/// How much is handed on at once.
const PIECE: usize = 64 * 1024;

/// One output of a program, on its way from the stream to a pipe.
#[derive(Debug, Default)]
pub(super) struct Output {
    held: Mutex<Held>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    /// In the order in which they came; small ones are put together, so that there are never many.
    pieces: VecDeque<Vec<u8>>,
    /// Received, and not yet allowed again.
    unpaid: usize,
    /// No more will come.
    ended: bool,
}

impl Output {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it is held; and if it did, the bytes would still be sound.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what an agent sent, unless it sends more than it was allowed to.
    pub(super) fn receive(&self, bytes: &[u8]) -> Result<(), Broken> {
        let mut held = self.held();
        if held.ended {
            return Err(Broken::Unexpected("output after its end"));
        }
        if held.unpaid + bytes.len() > OUTPUT_WINDOW + REST_MAX {
            return Err(Broken::Unexpected("more output than was asked for"));
        }
        held.unpaid += bytes.len();
        match held.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE => last.extend_from_slice(bytes),
            _ => held.pieces.push_back(bytes.to_vec()),
        }
        drop(held);
        self.changed.notify_one();
        Ok(())
    }

    /// No more will come.
    pub(super) fn end(&self) {
        self.held().ended = true;
        self.changed.notify_one();
    }

    /// Waits for the next piece. `None`: that was all.
    async fn next(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut held = self.held();
                let next = held.pieces.pop_front();
                if next.is_some() || held.ended {
                    return next;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Hands everything on to `pipe`, and closes that at the end.
    pub(super) async fn pump(
        self: Arc<Self>,
        mut pipe: impl AsyncWrite + Unpin,
        token: u32,
        stream: u8,
        frames: mpsc::Sender<Vec<u8>>,
    ) {
        let mut is_read = true;
        while let Some(piece) = self.next().await {
            if is_read && pipe.write_all(&piece).await.is_err() {
                // Whoever read this has stopped: so that the program hears of it, too. What is under way is thrown away.
                is_read = false;
                let _ = say(&frames, Writer::new(order::OUTPUT_CLOSE).u32(token).u8(stream)).await;
            }
            self.held().unpaid -= piece.len();
            let credit = Writer::new(order::CREDIT).u32(token).u8(stream).u32(piece.len() as u32);
            // Where the conversation has ended, nobody needs to know; what has come is still handed on.
            let _ = say(&frames, credit).await;
        }
    }
}

/// The input of a program, on its way from a pipe to the stream.
#[derive(Debug)]
pub(super) struct Input {
    sent: AtomicU64,
    allowed: watch::Sender<Allowed>,
}

#[derive(Debug)]
struct Allowed {
    /// How much may have been sent, from the beginning.
    bytes: u64,
    closed: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        let allowed = Allowed { bytes: INPUT_WINDOW as u64, closed: false };
        Self { sent: AtomicU64::new(0), allowed: watch::Sender::new(allowed) }
    }

    /// An agent has taken so many bytes: it cannot have taken more than it was sent.
    pub(super) fn allow(&self, bytes: u32) -> Result<(), Broken> {
        let most = self.sent.load(Ordering::Acquire) + INPUT_WINDOW as u64;
        let sum = self.allowed.borrow().bytes + u64::from(bytes);
        if sum > most {
            return Err(Broken::Unexpected("the receipt of more input than was sent"));
        }
        self.allowed.send_modify(|allowed| allowed.bytes = sum);
        Ok(())
    }

    /// The program takes no more.
    pub(super) fn close(&self) {
        self.allowed.send_modify(|allowed| allowed.closed = true);
    }

    /// Sends everything that comes from `pipe`. `at_end` is said when that ends.
    pub(super) async fn pump(
        self: Arc<Self>,
        mut pipe: impl AsyncRead + Unpin,
        token: u32,
        at_end: Writer,
        frames: mpsc::Sender<Vec<u8>>,
    ) {
        let mut allowed = self.allowed.subscribe();
        let mut closing = self.allowed.subscribe();
        let closed = async move { drop(closing.wait_for(|allowed| allowed.closed).await) };
        let send = async {
            let mut buffer = vec![0; STREAM_CHUNK];
            loop {
                let sent = self.sent.load(Ordering::Acquire);
                let Ok(room) = allowed.wait_for(|allowed| allowed.bytes > sent).await.map(|now| now.bytes - sent)
                else {
                    return;
                };
                let room = usize::try_from(room).map_or(STREAM_CHUNK, |room| room.min(STREAM_CHUNK));
                // An error of a pipe of our own is its end.
                let length = pipe.read(&mut buffer[..room]).await.unwrap_or(0);
                if length == 0 {
                    let _ = say(&frames, at_end).await;
                    return;
                }
                // Counted first: the receipt may come before this is polled again.
                self.sent.fetch_add(length as u64, Ordering::Release);
                if say(&frames, Writer::new(order::INPUT).u32(token).bytes(&buffer[..length])).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = closed => {}
            () = send => {}
        }
    }
}

/// Queues an order.
async fn say(frames: &mpsc::Sender<Vec<u8>>, record: Writer) -> io::Result<()> {
    frames.send(frame::from(record)?).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_held_up_to_what_was_allowed_and_no_further() {
        let output = Output::default();
        for _ in 0..(OUTPUT_WINDOW + REST_MAX) / STREAM_CHUNK {
            output.receive(&[0; STREAM_CHUNK]).unwrap();
        }
        assert!(output.receive(&[0]).is_err());
        assert_eq!(output.held().pieces.iter().map(Vec::len).sum::<usize>(), OUTPUT_WINDOW + REST_MAX);
    }

    #[test]
    fn many_small_pieces_are_few_large_ones() {
        let output = Output::default();
        for _ in 0..OUTPUT_WINDOW {
            output.receive(&[0]).unwrap();
        }
        assert_eq!(output.held().pieces.len(), OUTPUT_WINDOW / PIECE);
    }

    #[test]
    fn nothing_comes_after_the_end() {
        let output = Output::default();
        output.end();
        assert!(output.receive(&[0]).is_err());
    }

    #[test]
    fn a_receipt_for_what_was_not_sent_is_refused() {
        let input = Input::new();
        assert!(input.allow(1).is_err());
        input.sent.store(10, Ordering::Release);
        input.allow(10).unwrap();
        assert!(input.allow(1).is_err());
    }
}
