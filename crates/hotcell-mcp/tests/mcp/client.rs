//! A client that is written by hand: it sends what it is told, byte for byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What a server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("there is no head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let rest = &bytes[end + 4..];
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { unchunk(rest) } else { rest.to_vec() };
        Self { status, headers, body: String::from_utf8(body).unwrap() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The messages of the stream.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        data.filter(|data| !data.trim().is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The last message, which answers the request.
    pub(crate) fn result(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.messages().pop().expect("there is no message")["result"].clone()
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        assert!(bytes.len() >= end + 4 + size, "half a chunk");
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
    whole
}

/// What a server sends, as it comes.
pub(crate) struct Incoming {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Sends a request.
    pub(crate) fn of(address: SocketAddr, request: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        // A server that has heard enough closes while we still talk.
        let _ = stream.write_all(request);
        Self { stream, bytes: Vec::new() }
    }

    /// Reads until this has come.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        assert!(self.brings(text), "`{text}` did not come");
    }

    /// Whether this comes before the server closes.
    pub(crate) fn brings(&mut self, text: &str) -> bool {
        let came = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
        self.read(came);
        came(&self.bytes)
    }

    /// Sends more on the same connection, whose earlier answers are forgotten.
    pub(crate) fn send(&mut self, request: &[u8]) {
        self.bytes.clear();
        let _ = self.stream.write_all(request);
    }

    /// Reads until the server closes; a stream that goes on is left after a while.
    pub(crate) fn finish(mut self) -> Answer {
        self.read(|_| false);
        Answer::parse(&self.bytes)
    }

    /// The answer, if there is one, of a connection that the server has to close.
    #[track_caller]
    pub(crate) fn closed(mut self) -> Option<Answer> {
        assert!(self.read(|_| false), "the server keeps the connection");
        (!self.bytes.is_empty()).then(|| Answer::parse(&self.bytes))
    }

    /// Whether the server closed before there was enough.
    fn read(&mut self, enough: impl Fn(&[u8]) -> bool) -> bool {
        let began = Instant::now();
        let mut part = [0; 4096];
        while began.elapsed() < Duration::from_secs(10) && !enough(&self.bytes) {
            match self.stream.read(&mut part) {
                Ok(0) => return true,
                Ok(read) => self.bytes.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return true,
            }
        }
        false
    }
}

/// The whole answer to these bytes.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    Incoming::of(address, bytes).finish()
}

/// A request with these headers and nothing else; the connection ends after it.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    kept_request(method, path, &[&[("Connection", "close")], headers].concat(), body)
}

/// The same on a connection that is kept.
pub(crate) fn kept_request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

pub(crate) fn initialize(version: &str) -> String {
    let client = json!({ "name": "by hand", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
}

/// A session of one client.
pub(crate) struct Session {
    address: SocketAddr,
    token: String,
    pub(crate) id: String,
}

impl Session {
    pub(crate) fn begin(address: SocketAddr, token: &str) -> Self {
        Self::begin_if_free(address, token).expect("there are too many sessions")
    }

    /// None if there are too many.
    pub(crate) fn begin_if_free(address: SocketAddr, token: &str) -> Option<Self> {
        let answer = Self::try_begin(address, token);
        if answer.status == 503 {
            return None;
        }
        assert_eq!(answer.result()["protocolVersion"], "2025-06-18", "{answer:?}");
        let id = answer.header("mcp-session-id").expect("there is no session").to_owned();
        let session = Self { address, token: token.to_owned(), id };
        let said = session.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assert_eq!(said.status, 202, "{said:?}");
        Some(session)
    }

    pub(crate) fn try_begin(address: SocketAddr, token: &str) -> Answer {
        Self::begin_greeting(address, token).finish()
    }

    /// Sends a greeting, and does not wait for the answer.
    pub(crate) fn begin_greeting(address: SocketAddr, token: &str) -> Incoming {
        let greeting = initialize("2025-06-18");
        Incoming::of(address, &request("POST", "/mcp", &headers(address, token, None), &greeting))
    }

    pub(crate) fn post(&self, message: &Value) -> Answer {
        self.send("POST", &message.to_string())
    }

    pub(crate) fn send(&self, method: &str, body: &str) -> Answer {
        self.begin_send(method, body).finish()
    }

    fn begin_send(&self, method: &str, body: &str) -> Incoming {
        let headers = headers(self.address, &self.token, Some(&self.id));
        Incoming::of(self.address, &request(method, "/mcp", &headers, body))
    }

    /// Ends the session, and does not wait for the answer.
    pub(crate) fn begin_end(&self) -> Incoming {
        self.begin_send("DELETE", "")
    }

    /// Begins a request whose answer comes bit by bit.
    pub(crate) fn begin_post(&self, message: &Value) -> Incoming {
        self.begin_send("POST", &message.to_string())
    }

    /// A request for a connection that is kept.
    pub(crate) fn kept(&self, method: &str) -> Vec<u8> {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method }).to_string();
        kept_request("POST", "/mcp", &headers(self.address, &self.token, Some(&self.id)), &body)
    }

    /// The same session, as somebody who has another token would use it.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { address: self.address, token: token.to_owned(), id: self.id.clone() }
    }

    /// The same client with another session.
    pub(crate) fn with_id(&self, id: &str) -> Self {
        Self { address: self.address, token: self.token.clone(), id: id.to_owned() }
    }

    pub(crate) fn ask(&self, method: &str, params: Value) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }))
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// What a command prints.
    pub(crate) fn shell(&self, command: &str) -> String {
        let result = self.call("exec_shell", json!({ "command": command })).result();
        result["structuredContent"]["stdout"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }
}

fn headers<'a>(address: SocketAddr, token: &str, session: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    // These live as long as the test, which is short.
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let mut headers = vec![
        ("Host", leak(address.to_string())),
        ("Authorization", leak(format!("Bearer {token}"))),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    headers.extend(session.map(|id| ("Mcp-Session-Id", id)));
    headers
}
