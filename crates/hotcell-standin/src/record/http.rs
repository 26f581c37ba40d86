//! Where an HTTP/1.1 message ends, and the pieces that it comes in.

use anyhow::{Context, Result, bail};

/// What matters of the head of a message.
#[derive(Debug)]
pub(super) struct Head {
    /// The first line.
    pub(super) line: String,
    /// Is it the last on its connection?
    pub(super) closes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The head is not complete.
    Head,
    /// So many bytes follow.
    Bytes(u64),
    /// Chunks follow.
    Chunks,
    /// The end of a chunked body: lines until an empty one.
    Trailer,
    /// Everything until the connection ends.
    Everything,
    Nothing,
}

/// A message that is being read.
#[derive(Debug)]
pub(super) struct Message {
    head: Option<Head>,
    rest: Rest,
    length: Option<u64>,
    chunked: bool,
    no_body: bool,
}

impl Message {
    /// With `no_body` it is an answer to a request for the head alone.
    pub(super) fn new(no_body: bool) -> Self {
        Self { head: None, rest: Rest::Head, length: None, chunked: false, no_body }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.rest == Rest::Nothing
    }

    pub(super) fn has_begun(&self) -> bool {
        self.head.is_some()
    }

    pub(super) fn into_head(self) -> Option<Head> {
        self.head
    }

    /// Takes the pieces that are complete from `buffer`.
    pub(super) fn take(&mut self, buffer: &mut Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let mut pieces = Vec::new();
        while let Some(length) = self.next_piece(buffer)? {
            let piece: Vec<u8> = buffer.drain(..length).collect();
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// What is left when the connection has ended.
    pub(super) fn end(&mut self, buffer: &mut Vec<u8>) -> Vec<Vec<u8>> {
        self.rest = Rest::Nothing;
        let left = std::mem::take(buffer);
        if left.is_empty() { Vec::new() } else { vec![left] }
    }

    /// How long the next piece is, if it is there.
    fn next_piece(&mut self, buffer: &[u8]) -> Result<Option<usize>> {
        match self.rest {
            Rest::Nothing => Ok(None),
            Rest::Head => {
                let Some(end) = line_end(buffer) else { return Ok(None) };
                self.read_head_line(buffer.get(..end).unwrap_or_default())?;
                Ok(Some(end))
            }
            Rest::Trailer => {
                let Some(end) = line_end(buffer) else { return Ok(None) };
                if end == 2 {
                    self.rest = Rest::Nothing;
                }
                Ok(Some(end))
            }
            Rest::Chunks => {
                let Some(end) = line_end(buffer) else { return Ok(None) };
                let line = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned();
                let size = line.trim().split(';').next().unwrap_or_default().trim();
                let size =
                    usize::from_str_radix(size, 16).with_context(|| format!("`{line}` is no size of a chunk"))?;
                if size == 0 {
                    self.rest = Rest::Trailer;
                    return Ok(Some(end));
                }
                let whole = end + size + 2;
                Ok((buffer.len() >= whole).then_some(whole))
            }
            Rest::Bytes(left) => {
                let there = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                self.rest = match left - there as u64 {
                    0 => Rest::Nothing,
                    left => Rest::Bytes(left),
                };
                Ok((there > 0).then_some(there))
            }
            Rest::Everything => Ok((!buffer.is_empty()).then_some(buffer.len())),
        }
    }

    fn read_head_line(&mut self, line: &[u8]) -> Result<()> {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        let Some(head) = &mut self.head else {
            if !line.contains("HTTP/1.") {
                bail!("`{line}` is no HTTP/1.1");
            }
            self.head = Some(Head { line, closes: false });
            return Ok(());
        };
        if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            match name.to_lowercase().as_str() {
                "content-length" => self.length = value.parse().ok(),
                "connection" => head.closes = value.eq_ignore_ascii_case("close"),
                "transfer-encoding" => self.chunked = value.eq_ignore_ascii_case("chunked"),
                _ => {}
            }
            return Ok(());
        }
        let is_answer = head.line.starts_with("HTTP/");
        let status = head.line.split(' ').nth(1).unwrap_or_default();
        self.rest = if self.no_body || (is_answer && (["101", "204", "304"].contains(&status))) {
            Rest::Nothing
        } else if self.chunked {
            Rest::Chunks
        } else if let Some(length) = self.length {
            if length == 0 { Rest::Nothing } else { Rest::Bytes(length) }
        } else if is_answer {
            Rest::Everything
        } else {
            Rest::Nothing
        };
        Ok(())
    }
}

/// Where the first line ends, including its end.
fn line_end(buffer: &[u8]) -> Option<usize> {
    buffer.windows(2).position(|window| window == b"\r\n").map(|start| start + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> (Vec<String>, bool, usize) {
        let mut message = Message::new(false);
        let mut buffer = text.as_bytes().to_vec();
        let taken = message.take(&mut buffer).unwrap();
        (
            taken.into_iter().map(|piece| String::from_utf8(piece).unwrap()).collect(),
            message.is_complete(),
            buffer.len(),
        )
    }

    #[test]
    fn messages_end_where_they_end() {
        let (taken, complete, left) = pieces("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET");
        assert_eq!(taken.last().unwrap(), "hi");
        assert!(complete);
        assert_eq!(left, 3);
        let (taken, complete, _) = pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        assert_eq!(taken[3..], ["2\r\nhi\r\n", "0\r\n", "\r\n"]);
        assert!(complete);
        let (_, complete, _) = pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi");
        assert!(!complete);
    }
}
