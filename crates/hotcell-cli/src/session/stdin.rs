//! Our stdin to the command's.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::thread;

use hotcell::{ProcessStdin, StdinMode};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

const CHUNK_BYTES: usize = 64 << 10;
/// The device number of /dev/null on Linux.
const NULL_DEVICE: u64 = 0x103;

/// Whether there can be anything to pass on.
pub(crate) fn mode() -> StdinMode {
    let metadata = own_stdin().and_then(|stdin| stdin.metadata());
    match metadata {
        Ok(metadata) if metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE => StdinMode::Null,
        Ok(_) => StdinMode::Piped,
        Err(_) => StdinMode::Null,
    }
}

/// Passes everything on, and then the end; returns early if the command does not read any more.
///
/// Reading is done by a thread, because our stdin is shared with whoever started us and must stay blocking for them.
/// The thread is started when there is something to read, so that most commands never need it; when the session ends
/// it may still wait for input, and ends with the process.
pub(crate) async fn pump(mut to: Box<dyn ProcessStdin>) {
    readable().await;
    let (sender, mut chunks) = mpsc::channel(1);
    if thread::Builder::new().name("stdin".to_owned()).spawn(move || read(&sender)).is_err() {
        return;
    }
    while let Some(chunk) = chunks.recv().await {
        if to.write_all(&chunk).await.is_err() {
            return;
        }
    }
    let _ = to.close().await;
}

/// Waits until there is something to read. What cannot be waited for, such as a file, is readable.
async fn readable() {
    // Only waited with, never read from: so it need not be a pipe, and our stdin's flags stay as they are.
    let waiter = own_stdin().and_then(|stdin| pipe::Receiver::from_owned_fd_unchecked(stdin.into()));
    if let Ok(waiter) = waiter {
        let _ = waiter.readable().await;
    }
}

fn read(chunks: &mpsc::Sender<Vec<u8>>) {
    let Ok(mut stdin) = own_stdin() else { return };
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                if chunks.blocking_send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Without the buffer of the standard library.
fn own_stdin() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}
