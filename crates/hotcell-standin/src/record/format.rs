//! The format of recordings: text, a line to a piece.
//!
//! ```text
//! > POST /command HTTP/1.1\r\n
//! > Content-Length: 21\r\n
//! > \r\n
//! > {"command":"echo hi"}
//! < HTTP/1.1 200 OK\r\n
//! < Transfer-Encoding: chunked\r\n
//! < \r\n
//! < 2e\r\n{"type":"stdout","text":"hi","timestamp":1}\n\n\r\n
//! < 0\r\n\r\n
//! ```
//!
//! `>` is what the client sent, `<` what the server answered. What follows the mark and a space is bytes: printable
//! ASCII stands for itself, `\\`, `\r`, `\n`, `\t` and `\xNN` for the rest. All pieces of one side, one after the other, are
//! exactly what it sent, but for scrubbed keys. A line of a head is a piece, a chunk of a chunked body with its size is
//! a piece, and so is each part of any other body as it arrived.
//!
//! After an answer with status 101 come messages of the WebSocket, without frames and masks, in the order in which they
//! were seen: `>text`, `>binary`, `>close` and `<…` likewise, a space, and the payload; for `close` the first two bytes are
//! its code. Pings and pongs are left out.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::scrub;

/// Who spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    fn mark(self) -> char {
        match self {
            Self::Client => '>',
            Self::Server => '<',
        }
    }
}

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    text: String,
}

impl Exchange {
    /// A piece of HTTP.
    pub(super) fn add(&mut self, side: Side, bytes: &[u8]) {
        self.line(side, "", bytes);
    }

    /// A message of a WebSocket.
    pub(super) fn add_message(&mut self, side: Side, kind: &str, bytes: &[u8]) {
        self.line(side, kind, bytes);
    }

    fn line(&mut self, side: Side, kind: &str, bytes: &[u8]) {
        self.text.push(side.mark());
        self.text.push_str(kind);
        self.text.push(' ');
        self.text.push_str(&escape(&scrub::piece(bytes)));
        self.text.push('\n');
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, &self.text).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_lines() {
        let mut exchange = Exchange::default();
        exchange.add(Side::Client, b"GET / HTTP/1.1\r\n");
        exchange.add(Side::Server, b"a\\b\x00\xff\t\n");
        exchange.add_message(Side::Server, "text", b"{}");
        assert_eq!(exchange.text, "> GET / HTTP/1.1\\r\\n\n< a\\\\b\\x00\\xff\\t\\n\n<text {}\n");
    }
}
