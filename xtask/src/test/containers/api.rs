//! Talking to an engine or a server: as much of HTTP as their APIs need, over one connection.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// An answer larger than this is not one that we asked for.
const BODY_MAX: u64 = 64 << 20;

/// What goes with a request.
pub(crate) enum Body<'a> {
    None,
    Json(&'a Value),
    /// Bytes of this type.
    Bytes(&'static str, &'a [u8]),
    /// An archive.
    Tar(File),
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The answer's body if the engine did what it was asked for.
    pub(crate) fn success(self, what: &str) -> Result<Vec<u8>> {
        match self.status {
            200..=299 | 304 => Ok(self.body),
            status => bail!("the answer to {what} is {status}: {}", String::from_utf8_lossy(&self.body).trim()),
        }
    }
}

/// A connection on which one request follows the other.
#[derive(Debug)]
pub(crate) struct Connection<S: Read + Write = UnixStream> {
    stream: BufReader<S>,
}

impl Connection<TcpStream> {
    /// Connects to the server at `HOST:PORT`.
    pub(crate) fn tcp(address: &str, limit: Duration) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }
}

impl Connection {
    /// Connects to the engine that listens at `socket`; an answer that takes longer than `limit` is an error.
    pub(crate) fn open(socket: &Path, limit: Duration) -> Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks for a connection that is the container's own from then on.
    pub(crate) fn hijack(mut self, path: &str) -> Result<BufReader<UnixStream>> {
        self.send("POST", path, "Connection: Upgrade\r\nUpgrade: tcp\r\n", Body::None)?;
        let (status, _) = read_head(&mut self.stream).with_context(|| format!("no answer to POST {path}"))?;
        match status {
            101 | 200 => Ok(self.stream),
            _ => bail!("the engine answered {status} to POST {path}"),
        }
    }
}

impl<S: Read + Write> Connection<S> {
    /// Asks and waits for the whole answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: Body<'_>) -> Result<Answer> {
        self.ask_with(method, path, "", body)
    }

    /// The same with more headers, each with its end of line.
    pub(crate) fn ask_with(&mut self, method: &str, path: &str, headers: &str, body: Body<'_>) -> Result<Answer> {
        self.send(method, path, headers, body).with_context(|| format!("cannot ask for {method} {path}"))?;
        self.receive().with_context(|| format!("no answer to {method} {path}"))
    }

    /// What `GET path` gives, as JSON.
    pub(crate) fn get(&mut self, path: &str) -> Result<Value> {
        let body = self.ask("GET", path, Body::None)?.success(path)?;
        serde_json::from_slice(&body).with_context(|| format!("the answer to {path} is not JSON"))
    }

    /// Asks, and reads the answer's lines until one contains `word`: some answers stay open long after they are complete. Nothing
    /// more can be asked on this connection.
    pub(crate) fn ask_until(mut self, path: &str, headers: &str, body: Body<'_>, word: &str) -> Result<()> {
        self.send("POST", path, headers, body).with_context(|| format!("cannot ask for POST {path}"))?;
        let (status, _) = read_head(&mut self.stream).with_context(|| format!("no answer to POST {path}"))?;
        if status != 200 {
            bail!("the answer to POST {path} is {status}");
        }
        while !read_line(&mut self.stream)?.contains(word) {}
        Ok(())
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: Body<'_>) -> Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: engine\r\n{headers}");
        let stream = self.stream.get_mut();
        match body {
            Body::None => {
                head.push_str("Content-Length: 0\r\n\r\n");
                stream.write_all(head.as_bytes())?;
            }
            Body::Json(value) => {
                let text = value.to_string();
                head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", text.len()));
                head.push_str(&text);
                stream.write_all(head.as_bytes())?;
            }
            Body::Bytes(kind, bytes) => {
                head.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n", bytes.len()));
                stream.write_all(&[head.as_bytes(), bytes].concat())?;
            }
            Body::Tar(mut file) => {
                let length = file.metadata()?.len();
                head.push_str(&format!("Content-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n"));
                stream.write_all(head.as_bytes())?;
                io::copy(&mut file, stream)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Answer> {
        read_answer(&mut self.stream)
    }
}

/// How long an answer's body is.
#[derive(Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunks,
    UntilTheEnd,
}

fn read_answer(stream: &mut impl BufRead) -> Result<Answer> {
    let (status, length) = read_head(stream)?;
    let mut body = Vec::new();
    match length {
        _ if matches!(status, 204 | 304) => {}
        Length::Bytes(bytes) => read_exactly(stream, bytes, &mut body)?,
        Length::UntilTheEnd => {
            stream.take(BODY_MAX).read_to_end(&mut body)?;
        }
        Length::Chunks => loop {
            let line = read_line(stream)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).with_context(|| format!("a chunk's size is `{line}`"))?;
            read_exactly(stream, size, &mut body)?;
            read_line(stream)?;
            if size == 0 {
                break;
            }
        },
    }
    Ok(Answer { status, body })
}

fn read_head(stream: &mut impl BufRead) -> Result<(u16, Length)> {
    let line = read_line(stream)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("an answer begins with `{line}`"))?;
    let mut length = Length::UntilTheEnd;
    loop {
        let line = read_line(stream)?;
        let Some((name, value)) = line.split_once(':') else { break };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Length::Bytes(value.parse().with_context(|| format!("an answer's length is `{value}`"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            length = Length::Chunks;
        }
    }
    Ok((status, length))
}

fn read_line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    stream.take(1 << 16).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        bail!("the connection ended");
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

fn read_exactly(stream: &mut impl BufRead, bytes: u64, body: &mut Vec<u8>) -> Result<()> {
    if body.len() as u64 + bytes > BODY_MAX {
        bail!("the answer is longer than {BODY_MAX} bytes");
    }
    let read = stream.take(bytes).read_to_end(body)?;
    if read as u64 != bytes {
        bail!("the connection ended in an answer");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Answer> {
        read_answer(&mut text.as_bytes())
    }

    #[test]
    fn bodies_have_three_kinds_of_length() {
        let answer = |status, body: &str| Answer { status, body: body.into() };
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOKmore").unwrap(), answer(200, "OK"));
        let chunks = "HTTP/1.1 404 Not\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(read(chunks).unwrap(), answer(404, "abc0123456789"));
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nto the end").unwrap(), answer(200, "to the end"));
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n").unwrap(), answer(204, ""));
    }

    #[test]
    fn an_answer_that_breaks_off_is_an_error() {
        for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nOK", "hello\r\n\r\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n").is_err());
    }

    #[test]
    fn a_refusal_says_what_the_engine_said() {
        let error = Answer { status: 500, body: b"no such thing".to_vec() }.success("it").unwrap_err().to_string();
        assert!(error.contains("500") && error.contains("no such thing"), "{error}");
    }
}
