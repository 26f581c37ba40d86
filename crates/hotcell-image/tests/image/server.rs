//! A registry on this machine that does what a test wants of it.

use std::sync::{Arc, Mutex};

use hotcell_image::Digest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::archives::Parts;

/// What is sent for a request.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) manner: Manner,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Manner {
    /// As it should be.
    Plain,
    /// Half of what was announced.
    Cut,
    /// Everything but the end, and then nothing.
    Stuck,
    /// Nothing at all.
    Silent,
    /// Not HTTP.
    Garbage,
}

impl Reply {
    pub(crate) fn ok(body: &[u8]) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.to_vec(), manner: Manner::Plain }
    }

    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self { status, ..Self::ok(body.as_bytes()) }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "connection: close\r\n\r\n"
    }
}

/// A request: its path and its headers.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) head: String,
}

impl Request {
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("authorization")))
            .map(|(_, value)| value)
    }
}

/// Serves until it is dropped.
pub(crate) struct Server {
    pub(crate) host: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (requests, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &seen, &*answer).await });
            }
        });
        Self { host, requests, task }
    }

    /// One that has the image, and answers otherwise where `instead` says so.
    pub(crate) async fn with(
        parts: &Parts,
        instead: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let parts = parts.clone();
        Self::start(move |request| instead(request).unwrap_or_else(|| honest(&parts, &request.path))).await
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a registry with one image `small:1` says.
pub(crate) fn honest(parts: &Parts, path: &str) -> Reply {
    let manifest = parts.manifest();
    let digest = Digest::of(&manifest).to_string();
    if path == "/v2/" {
        return Reply::ok(b"{}");
    }
    if path == "/v2/small/manifests/1" || path == format!("/v2/small/manifests/{digest}") {
        return Reply::ok(&manifest)
            .with("content-type", "application/vnd.oci.image.manifest.v1+json")
            .with("docker-content-digest", &digest);
    }
    let blob = path.strip_prefix("/v2/small/blobs/").unwrap_or_default();
    match parts.blobs().iter().find(|bytes| Digest::of(bytes).to_string() == blob) {
        Some(bytes) => Reply::ok(bytes),
        None => Reply::status(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such thing"}]}"#),
    }
}

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, answer: &(dyn Fn(&Request) -> Reply + Send + Sync)) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(path.clone());
    let reply = answer(&Request { path, head });
    let bytes = [reply.head().as_bytes(), &reply.body].concat();
    let sent = match reply.manner {
        Manner::Plain => &bytes[..],
        Manner::Cut => &bytes[..bytes.len() - reply.body.len() / 2],
        Manner::Stuck => &bytes[..bytes.len() - 1],
        Manner::Silent => b"",
        Manner::Garbage => b"\0\xff not http at all \r\n\r\n",
    };
    let _ = stream.write_all(sent).await;
    if matches!(reply.manner, Manner::Stuck | Manner::Silent) {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    }
}
