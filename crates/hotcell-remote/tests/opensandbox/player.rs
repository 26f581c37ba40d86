//! A server that plays given bytes and understands nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_remote::http::{Address, PlainHttp};
use tokio::sync::Notify;

/// What is played on a connection, once a request has come.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    /// These bytes, and the end.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing, until the other side hangs up.
    Hold(Vec<u8>),
    /// These bytes, and then the others again and again, until the other side hangs up.
    Endless(Vec<u8>, Vec<u8>),
    /// The answer to a WebSocket's first request, and then this.
    WebSocket(Box<Play>),
}

impl Play {
    /// An answer with this status and body, with a length.
    pub(crate) fn answer(status: u16, body: &str) -> Self {
        Self::Bytes(head(status, &format!("content-length: {}\r\n", body.len()), body.as_bytes()))
    }

    /// A stream that ends when the connection does.
    pub(crate) fn stream(body: &[u8]) -> Self {
        Self::Bytes(stream_head(body))
    }

    /// The way to another server.
    pub(crate) fn redirect(to: &Player) -> Self {
        Self::Bytes(head(
            307,
            &format!("location: http://{}/elsewhere?x=secret\r\ncontent-length: 0\r\n", to.address),
            b"",
        ))
    }
}

/// An answer's head, and the bytes after it.
pub(crate) fn head(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut all = format!("HTTP/1.1 {status} X\r\n{headers}connection: close\r\n\r\n").into_bytes();
    all.extend_from_slice(body);
    all
}

/// The head of a stream that ends when the connection does, and the bytes after it.
pub(crate) fn stream_head(body: &[u8]) -> Vec<u8> {
    head(200, "content-type: text/event-stream\r\n", body)
}

/// A server that plays given bytes, the next to each connection; the last again and again.
pub(crate) struct Player {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    plays: Mutex<Vec<Play>>,
    requests: Mutex<Vec<String>>,
    connections: AtomicU64,
    written: AtomicU64,
    asked: Notify,
    over: AtomicBool,
}

impl Player {
    pub(crate) fn one(play: Play) -> Self {
        Self::of(vec![play])
    }

    pub(crate) fn of(mut plays: Vec<Play>) -> Self {
        plays.reverse();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            plays: Mutex::new(plays),
            requests: Mutex::default(),
            connections: AtomicU64::new(0),
            written: AtomicU64::new(0),
            asked: Notify::new(),
            over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if accepting.over.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&accepting);
                // What becomes of a connection is the client's affair.
                std::thread::spawn(move || shared.serve(connection.unwrap()));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> Address {
        Address::parse(&format!("http://{}", self.address), PlainHttp::LoopbackOnly).unwrap()
    }

    /// `host:port`.
    pub(crate) fn place(&self) -> String {
        self.address.to_string()
    }

    /// The requests so far, each with its head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many have connected.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How much was sent, and so how much the client can have kept.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::SeqCst)
    }

    /// Waits until a request has come.
    pub(crate) async fn asked(&self) {
        self.shared.asked.notified().await;
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, mut connection: TcpStream) {
        // Nobody waits for a test that has failed.
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let Some(request) = read_request(&mut connection) else { return };
        self.requests.lock().unwrap().push(request.clone());
        let play = {
            let mut plays = self.plays.lock().unwrap();
            if plays.len() > 1 { plays.pop().unwrap() } else { plays[0].clone() }
        };
        self.play(&mut connection, &request, &play);
    }

    fn play(&self, connection: &mut TcpStream, request: &str, play: &Play) {
        match play {
            Play::Bytes(bytes) => {
                let _ = self.write(connection, bytes);
                self.asked.notify_one();
                let _ = connection.shutdown(std::net::Shutdown::Write);
                drain(connection);
            }
            Play::Hold(bytes) => {
                let _ = self.write(connection, bytes);
                self.asked.notify_one();
                drain(connection);
            }
            Play::Endless(bytes, again) => {
                let mut sent = self.write(connection, bytes);
                self.asked.notify_one();
                while sent.is_ok() {
                    sent = self.write(connection, again);
                }
            }
            Play::WebSocket(then) => {
                let key = request
                    .lines()
                    .find_map(|line| line.to_lowercase().starts_with("sec-websocket-key:").then(|| line[18..].trim()));
                let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.unwrap().as_bytes());
                let head = format!(
                    "HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
                );
                if self.write(connection, head.as_bytes()).is_ok() {
                    self.play(connection, request, then);
                }
            }
        }
    }

    fn write(&self, connection: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        connection.write_all(bytes)?;
        self.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok(())
    }
}

/// A request's head and, if it says how long it is, its body.
fn read_request(connection: &mut TcpStream) -> Option<String> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&all[..end]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            if all.len() >= end + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap()) {
                return Some(String::from_utf8_lossy(&all).into_owned());
            }
        }
        match connection.read(&mut piece) {
            Ok(read) if read > 0 => all.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}

fn drain(connection: &mut TcpStream) {
    let mut piece = [0; 4096];
    while matches!(connection.read(&mut piece), Ok(read) if read > 0) {}
}
