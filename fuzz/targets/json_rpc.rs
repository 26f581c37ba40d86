//! Anything that a client could send to `hotcell mcp` on its standard input.
//!
//! The input is four lengths of pieces, and what is sent: after `raw` and a new line as it is, else after a handshake. The boxes hold a
//! few files and run nothing, so that everything above them is what is tried.
//!
//! Holds: the server ends with its input; every line that it writes is one message of JSON-RPC; there is at most one answer for each
//! line, and none is beyond all bounds; and what tools say can be shown on a terminal.
#![no_main]

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hotcell::tools::ToolboxOptions;
use hotcell::{Engine, Policy};
use hotcell_fuzz::hollow::{Hollow, WORKSPACE};
use hotcell_fuzz::server::block_on;
use hotcell_fuzz::{assert_printable, pieces};
use hotcell_mcp::{Host, stdio};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

const HANDSHAKE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);
/// More than the list of all tools takes.
const LONGEST_ANSWER: usize = 256 << 10;
/// How often others may go on before the input ends: calls that run then are cancelled.
const TURNS: usize = 64;

thread_local! {
    static HOST: Arc<Host> = block_on(host());
}

fuzz_target!(|data: &[u8]| {
    let Some((lengths, sent)) = data.split_first_chunk::<4>() else { return };
    let sent = match sent.strip_prefix(b"raw\n") {
        Some(sent) => sent.to_vec(),
        None => [HANDSHAKE.as_bytes(), sent].concat(),
    };
    let answers = served(&pieces(&sent, lengths));

    let lines: Vec<&[u8]> = answers.split_inclusive(|byte| *byte == b'\n').collect();
    assert!(lines.len() <= sent.split(|byte| *byte == b'\n').count(), "more answers than lines");
    for line in lines {
        assert!(line.ends_with(b"\n"), "half a line");
        assert!(line.len() <= LONGEST_ANSWER + 8 * sent.len(), "an answer of {} bytes", line.len());
        check(&serde_json::from_slice(line).expect("a line is JSON"));
    }
});

fn check(message: &Value) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let parts = ["result", "error", "method"].into_iter().filter(|part| message.get(part).is_some()).count();
    assert_eq!(parts, 1, "an answer, an error or a call: {message}");
    let content = message["result"]["content"].as_array().into_iter().flatten();
    for text in content.filter_map(|block| block["text"].as_str()) {
        text.split(['\n', '\t']).for_each(assert_printable);
    }
}

async fn host() -> Arc<Host> {
    let engine = Engine::with_backends(vec![Arc::new(Hollow)]).await.expect("an engine");
    let policy = Policy::builder().write(WORKSPACE).cwd(WORKSPACE).build().expect("a policy");
    Arc::new(Host::new(engine, ToolboxOptions::new(policy, WORKSPACE)).await.expect("a host"))
}

/// What is answered to what is sent in these pieces.
fn served(pieces: &[&[u8]]) -> Vec<u8> {
    let input = Input { pieces: pieces.iter().map(|piece| piece.to_vec()).rev().collect(), turns: TURNS };
    let output = Output::default();
    let host = HOST.with(Arc::clone);
    // How it ended is said to whoever started it; here it is enough that it did.
    let _ = block_on(stdio::serve(host, input, output.clone(), CancellationToken::new()));
    let written = output.0.lock().unwrap_or_else(PoisonError::into_inner);
    written.clone()
}

/// The pieces, last first, and then a while of nothing.
struct Input {
    pieces: Vec<Vec<u8>>,
    turns: usize,
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.pieces.pop() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push(rest);
            }
            return Poll::Ready(Ok(()));
        }
        if self.turns == 0 {
            return Poll::Ready(Ok(()));
        }
        self.turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Everything that was written.
#[derive(Default, Clone)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
