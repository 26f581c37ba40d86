//! A file of this machine as a stream.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;

/// How much is read at once, and how many pieces wait to be sent.
const PIECE: usize = 256 << 10;
const WAITING: usize = 4;

/// The content of a file from its beginning, read on a thread of its own as it is asked for.
pub(crate) fn pieces(mut file: File) -> Pieces {
    let (send, pieces) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut begun = file.rewind();
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            let read = begun.and_then(|()| (&mut file).take(PIECE as u64).read_to_end(&mut piece));
            let failed = read.is_err();
            let next = match read {
                Ok(0) => return,
                Ok(_) => Ok(Bytes::from(piece)),
                Err(error) => Err(error),
            };
            if send.blocking_send(next).is_err() || failed {
                return;
            }
            begun = Ok(());
        }
    });
    Pieces(pieces)
}

/// Pieces of a file.
#[derive(Debug)]
pub(crate) struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
