//! Recordings of what the official SDKs and servers said to each other.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::player::{Heard, Play, Player};

/// An exchange between a client and a server.
pub(crate) struct Recording {
    name: String,
    request: Heard,
    pub(crate) answer: Vec<u8>,
}

impl Recording {
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(format!("{name}.txt"));
        let text = std::fs::read_to_string(path).unwrap();
        let side = |mark: &str| {
            text.lines().filter_map(|line| line.strip_prefix(mark)).flat_map(unescaped).collect::<Vec<u8>>()
        };
        Self { name: name.to_owned(), request: request(&side("> ")), answer: side("< ") }
    }

    pub(crate) async fn play(&self) -> Player {
        Player::new([Play::Say(self.answer.clone())]).await
    }

    /// The body of an answer in chunks.
    pub(crate) fn body(&self) -> Vec<u8> {
        let (_, mut rest) = split_after(&self.answer, b"\r\n\r\n");
        let mut body = Vec::new();
        loop {
            let (size, after) = split_after(rest, b"\r\n");
            let size = usize::from_str_radix(std::str::from_utf8(size).unwrap().trim_end(), 16).unwrap();
            body.extend_from_slice(&after[..size]);
            rest = &after[size + 2..];
            if size == 0 {
                return body;
            }
        }
    }

    /// Checks that the client asked what the SDK did, and said the same.
    pub(crate) fn asked(&self, ours: &Heard) {
        self.asked_for(ours);
        assert_eq!(said(ours), said(&self.request), "{}", self.name);
    }

    /// Checks that the client asked what the SDK did; the body is each client's own affair.
    pub(crate) fn asked_for(&self, ours: &Heard) {
        assert_eq!(asked_for(ours), asked_for(&self.request), "{}", self.name);
    }
}

fn unescaped(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next().unwrap() {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'x' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    bytes
}

fn split_after<'a>(bytes: &'a [u8], what: &[u8]) -> (&'a [u8], &'a [u8]) {
    bytes.split_at(bytes.windows(what.len()).position(|window| window == what).unwrap() + what.len())
}

/// Takes a request apart. The SDK sends a body in no more than one chunk.
fn request(bytes: &[u8]) -> Heard {
    let (head, body) = split_after(bytes, b"\r\n\r\n");
    let mut heard = Heard { head: String::from_utf8(head.to_vec()).unwrap(), body: body.to_vec() };
    if heard.header("transfer-encoding").is_some() {
        let (size, chunk) = split_after(body.strip_suffix(b"\r\n0\r\n\r\n").unwrap(), b"\r\n");
        let size = usize::from_str_radix(std::str::from_utf8(size).unwrap().trim_end(), 16).unwrap();
        assert_eq!(size, chunk.len(), "a body in several chunks");
        heard.body = chunk.to_vec();
    }
    heard
}

/// The method, the path and the query, in any order and however they are encoded.
fn asked_for(request: &Heard) -> (String, BTreeSet<(String, String)>) {
    let (path, query) = request.line().split_once('?').unwrap_or((request.line(), ""));
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    // How many at once is each client's own affair.
    (path.to_owned(), query.filter(|(name, _)| name != "limit").collect())
}

/// The body, without its envelope and what says nothing.
fn said(request: &Heard) -> Value {
    let streamed = request.header("content-type").is_some_and(|content| content.starts_with("application/connect+"));
    let body = if streamed { &request.body[5..] } else { &request.body[..] };
    if body.is_empty() { json!({}) } else { without_nothing(serde_json::from_slice(body).unwrap()) }
}

fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_nothing(value)));
            let nothing = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || *value == json!({});
            fields.filter(|(_, value)| !nothing(value)).collect()
        }
        other => other,
    }
}
