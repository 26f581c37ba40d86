//! A server that plays given bytes, whatever it is asked.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_core::secret::Secret;
use hotcell_remote::e2b::{Client, CodeInterpreter, Data, Envd, Flavour, NewSandbox, Options, Sandbox};
use hotcell_remote::http::{Address, PlainHttp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is done when a request has come.
#[derive(Clone)]
pub(crate) enum Play {
    /// Says this and waits for the next request.
    Say(Vec<u8>),
    /// Says this and closes the connection.
    Cut(Vec<u8>),
    /// Says this, then this piece now and then, for ever.
    Drip(Vec<u8>, Vec<u8>),
    /// Says this, then this piece as fast as it is taken, for ever.
    Flood(Vec<u8>, Vec<u8>),
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Heard {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The first line without its end.
    pub(crate) fn line(&self) -> &str {
        self.head.split(" HTTP/1.1").next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// Plays one after another, and the last again and again.
pub(crate) struct Player {
    pub(crate) url: String,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Bytes that were taken of a flood.
    pub(crate) flooded: Arc<AtomicU64>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Player {
    pub(crate) async fn new(plays: impl IntoIterator<Item = Play>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let player = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            connections: Arc::default(),
            flooded: Arc::default(),
            heard: Arc::default(),
        };
        let plays: Arc<Vec<Play>> = Arc::new(plays.into_iter().collect());
        let (connections, flooded) = (Arc::clone(&player.connections), Arc::clone(&player.flooded));
        let heard = Arc::clone(&player.heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&plays), Arc::clone(&heard), Arc::clone(&flooded)));
            }
        });
        player
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn options(&self) -> Options {
        let address = Address::parse(&self.url, PlainHttp::LoopbackOnly).unwrap();
        let mut options = Options::new(address.clone(), Data::Url(address));
        options.api_key = Some(Secret::new("hunter2".to_owned()));
        // The least that can be asked for.
        options.keepalive = Duration::from_secs(1);
        options
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }

    /// A client of this server, and a sandbox that was made elsewhere.
    pub(crate) async fn sandbox(&self, flavour: Flavour, version: &str) -> (Client, Sandbox) {
        let made = Self::new([created(version)]).await;
        let sandbox = made.client().create(&NewSandbox::new("base", Duration::from_secs(60))).await.unwrap();
        let mut options = self.options();
        options.flavour = flavour;
        (Client::new(options).unwrap(), sandbox)
    }

    pub(crate) async fn envd(&self) -> Envd {
        let (client, sandbox) = self.sandbox(Flavour::E2b, "0.6.4").await;
        client.envd(&sandbox).unwrap()
    }

    pub(crate) async fn interpreter(&self) -> CodeInterpreter {
        let (client, sandbox) = self.sandbox(Flavour::E2b, "0.6.4").await;
        client.interpreter(&sandbox).unwrap()
    }
}

/// The answer to the creation of a sandbox.
pub(crate) fn created(version: &str) -> Play {
    answer(
        "201 Created",
        "",
        format!(
            r#"{{"sandboxID":"i1","templateID":"base","clientID":"c","envdVersion":"{version}","envdAccessToken":"hunter3"}}"#
        ),
    )
}

async fn serve(
    mut stream: TcpStream,
    plays: Arc<Vec<Play>>,
    heard: Arc<Mutex<Vec<Heard>>>,
    flooded: Arc<AtomicU64>,
) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let request = request(&mut stream, &mut bytes).await?;
        let play = {
            let mut heard = heard.lock().unwrap();
            heard.push(request);
            plays.get(heard.len() - 1).or(plays.last()).cloned()?
        };
        match play {
            Play::Say(said) => stream.write_all(&said).await.ok()?,
            Play::Cut(said) => {
                stream.write_all(&said).await.ok()?;
                return stream.shutdown().await.ok();
            }
            Play::Drip(said, piece) => {
                stream.write_all(&said).await.ok()?;
                loop {
                    stream.write_all(&piece).await.ok()?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Play::Flood(said, piece) => {
                stream.write_all(&said).await.ok()?;
                loop {
                    stream.write_all(&piece).await.ok()?;
                    flooded.fetch_add(piece.len() as u64, Ordering::SeqCst);
                }
            }
        }
    }
}

/// Reads a whole request, with a body of known length or in chunks.
async fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Heard> {
    let end = loop {
        match find(bytes, b"\r\n\r\n") {
            Some(end) => break end + 4,
            None => more(stream, bytes).await?,
        }
    };
    let head = String::from_utf8(bytes.drain(..end).collect()).unwrap();
    let mut heard = Heard { head, body: Vec::new() };
    if heard.header("transfer-encoding").is_some() {
        loop {
            let line = loop {
                match find(bytes, b"\r\n") {
                    Some(line) => break line,
                    None => more(stream, bytes).await?,
                }
            };
            let length = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
            while bytes.len() < line + 2 + length + 2 {
                more(stream, bytes).await?;
            }
            heard.body.extend_from_slice(&bytes[line + 2..line + 2 + length]);
            bytes.drain(..line + 2 + length + 2);
            if length == 0 {
                return Some(heard);
            }
        }
    }
    let length = heard.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < length {
        more(stream, bytes).await?;
    }
    heard.body = bytes.drain(..length).collect();
    Some(heard)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 1 << 14];
    let length = stream.read(&mut buffer).await.ok()?;
    bytes.extend_from_slice(&buffer[..length]);
    (length > 0).then_some(())
}

/// An answer with its length.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Play {
    Play::Say(whole(status, headers, body))
}

pub(crate) fn whole(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The head of an answer in chunks.
pub(crate) fn chunked_head(content: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content}\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes()
}

pub(crate) fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

/// An answer in chunks, with its end.
pub(crate) fn chunked(content: &str, pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut all = chunked_head(content);
    for piece in pieces {
        all.extend(chunk(piece));
    }
    all.extend(b"0\r\n\r\n");
    all
}

pub(crate) const STREAM: &str = "application/connect+json";

pub(crate) fn envelope(flags: u8, message: impl AsRef<[u8]>) -> Vec<u8> {
    let message = message.as_ref();
    [&[flags][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

pub(crate) fn event(message: &str) -> Vec<u8> {
    envelope(0, format!(r#"{{"event":{message}}}"#))
}

/// What `envd` says of a command that says `hi` and `no` and exits with 3.
pub(crate) fn recorded() -> Vec<Vec<u8>> {
    vec![
        event(r#"{"start":{"pid":1234}}"#),
        event(r#"{"data":{"stdout":"aGkK"}}"#),
        event(r#"{"keepalive":{}}"#),
        event(r#"{"data":{"stderr":"bm8K"}}"#),
        event(r#"{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}"#),
        envelope(2, "{}"),
    ]
}
