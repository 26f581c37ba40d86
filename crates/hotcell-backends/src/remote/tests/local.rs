//! A "server" that starts processes of this machine. What they see beneath `/tmp` is theirs alone, so that trees that are sent there
//! are copies, as on a real server.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hotcell_core::backend::{FileEntry, FileKind, Stream, TtySize};
use hotcell_remote::http::{Address, CallError, PlainHttp, Server, Why};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command as Process};
use tokio::sync::{Mutex, mpsc};

use super::super::link::{Command, Control, Download, Ended, Event, Events, Link, OwnProgram, Ran, Started};

/// What the "server" has of its own: trees must be beneath it, or it would show the host's.
pub(super) const HIDDEN: &str = "/tmp";

/// What the server does wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The stream of the next command ends after its first line.
    pub(super) cut_stream: AtomicBool,
    /// What commands write to stdout comes after all that they write to stderr.
    pub(super) stderr_first: AtomicBool,
    /// Scripts that end commands fail.
    pub(super) cannot_end: AtomicBool,
    /// The archive that comes back is one byte short.
    pub(super) short_download: AtomicBool,
    /// The archive that comes back never comes.
    pub(super) stalled_download: AtomicBool,
    /// Downloads that were asked for.
    pub(super) downloads: AtomicU64,
    /// Deletions that were asked for.
    pub(super) deletions: AtomicU64,
    /// Pieces of output that were read.
    pub(super) pieces: AtomicU64,
}

/// One sandbox.
#[derive(Debug)]
pub(super) struct LocalLink {
    /// Holds the mount namespace; everything that runs in it is its descendant or named by the namespace.
    holder: Mutex<Option<Child>>,
    pid: u32,
    server: Server,
    pub(super) faults: Arc<Faults>,
}

impl LocalLink {
    /// None where this machine has no namespaces for it.
    pub(super) async fn open() -> Option<Arc<Self>> {
        let mut holder = Process::new("unshare")
            .args(["-Urm", "--propagation", "private", "sh", "-c", "mount -t tmpfs none /tmp && echo ready && read x"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut()?).read_line(&mut line).await.ok()?;
        if line != "ready\n" {
            return None;
        }
        let address = Address::parse("http://127.0.0.1:1", PlainHttp::LoopbackOnly).unwrap();
        let pid = holder.id()?;
        let server = Server::new("Local", address).unwrap();
        Some(Arc::new(Self { holder: Mutex::new(Some(holder)), pid, server, faults: Arc::default() }))
    }

    fn enter(&self, words: &[String]) -> Process {
        let mut process = Process::new("nsenter");
        let pid = self.pid.to_string();
        process.args(["-t", &pid, "-U", "-m", "--preserve-credentials", "--"]).args(words);
        process
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", "/tmp")
            .env("SECRET_OF_SERVER", "x");
        process.kill_on_drop(true);
        process.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process
    }

    pub(super) fn broken(&self, what: impl ToString) -> CallError {
        self.server.failed("ask", Why::Broken { reason: what.to_string() })
    }

    async fn is_gone(&self) -> bool {
        self.holder.lock().await.is_none()
    }

    async fn sh(&self, script: &str, argument: &str) -> Result<Ran, CallError> {
        let words = ["/bin/sh", "-c", script, "sh", argument].map(str::to_owned);
        self.run(OwnProgram { words: &words, as_root: false, deadline: Duration::from_secs(20) }).await
    }
}

#[async_trait]
impl Link for LocalLink {
    fn name(&self) -> String {
        "a local stand-in".to_owned()
    }

    async fn run(&self, program: OwnProgram<'_>) -> Result<Ran, CallError> {
        if self.is_gone().await
            || program.words[2].contains("Ends a command") && self.faults.cannot_end.load(Ordering::Relaxed)
        {
            return Err(self.broken("gone"));
        }
        let output = self.enter(program.words).output().await.map_err(|error| self.broken(error))?;
        Ok(Ran {
            code: output.status.code().unwrap_or(-1),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    async fn start(&self, command: &Command) -> Result<Started, CallError> {
        if self.is_gone().await {
            return Err(self.broken("gone"));
        }
        let mut process = self.enter(&command.words);
        if command.stdin {
            process.stdin(Stdio::piped());
        }
        let mut child = process.spawn().map_err(|error| self.broken(error))?;
        let stdin = Mutex::new(child.stdin.take());
        let (send, events) = mpsc::channel(1);
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let faults = Arc::clone(&self.faults);
        let server = self.server.clone();
        tokio::spawn(async move {
            let forward =
                async |stream, mut from: Box<dyn tokio::io::AsyncRead + Send + Unpin>, to: mpsc::Sender<_>| {
                    let mut buffer = vec![0; 32 << 10];
                    while let Ok(length @ 1..) = from.read(&mut buffer).await {
                        faults.pieces.fetch_add(1, Ordering::Relaxed);
                        let piece = Bytes::copy_from_slice(&buffer[..length]);
                        if to.send(Ok(Event::Output(stream, piece))).await.is_err() {
                            break;
                        }
                        if faults.cut_stream.load(Ordering::Relaxed) {
                            return false;
                        }
                    }
                    true
                };
            let whole = if faults.stderr_first.load(Ordering::Relaxed) {
                let errors = forward(Stream::Stderr, Box::new(stderr), send.clone()).await;
                (forward(Stream::Stdout, Box::new(stdout), send.clone()).await, errors)
            } else {
                tokio::join!(
                    forward(Stream::Stdout, Box::new(stdout), send.clone()),
                    forward(Stream::Stderr, Box::new(stderr), send.clone())
                )
            };
            if whole != (true, true) {
                let _ = send.send(Err(server.failed("run", Why::Broken { reason: "it ended early".to_owned() }))).await;
                let _ = child.wait().await;
                return;
            }
            use std::os::unix::process::ExitStatusExt;
            let status = child.wait().await.unwrap();
            let ended = match status.code() {
                Some(code) => Ended::Exited(code),
                None => Ended::Signaled(status.signal()),
            };
            let _ = send.send(Ok(Event::Ended(ended))).await;
        });
        let control = LocalControl { stdin, server: self.server.clone() };
        Ok(Started { events: Box::new(LocalEvents(events, self.server.clone())), control: Box::new(control) })
    }

    async fn upload(&self, path: &str, mut content: File, length: u64) -> Result<(), CallError> {
        use std::io::Seek;
        content.rewind().unwrap();
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, length);
        let words = ["/bin/sh", "-c", "cat > \"$1\"", "sh", path].map(str::to_owned);
        let mut child = self.enter(&words).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&bytes).await.unwrap();
        drop(stdin);
        assert!(child.wait().await.unwrap().success());
        Ok(())
    }

    async fn download(&self, path: &str) -> Result<Box<dyn Download>, CallError> {
        self.faults.downloads.fetch_add(1, Ordering::Relaxed);
        if self.faults.stalled_download.load(Ordering::Relaxed) {
            return Ok(Box::new(Stalled));
        }
        let words = ["/bin/cat", path].map(str::to_owned);
        let mut output = self.enter(&words).output().await.unwrap();
        assert!(output.status.success());
        if self.faults.short_download.load(Ordering::Relaxed) {
            output.stdout.truncate(output.stdout.len() - 10_240);
        }
        Ok(Box::new(LocalDownload(Some(output.stdout.into()))))
    }

    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, CallError> {
        let ran = self.sh("cd \"$1\" && ls -A", path).await?;
        let mut entries = Vec::new();
        for name in ran.output.lines() {
            entries.extend(self.stat(&format!("{path}/{name}")).await?);
        }
        Ok(entries)
    }

    async fn stat(&self, path: &str) -> Result<Option<FileEntry>, CallError> {
        let ran = self.sh("stat -c '%a %s %F' \"$1\"", path).await?;
        let Some((mode, rest)) = ran.output.trim().split_once(' ') else { return Ok(None) };
        let (size, kind) = rest.split_once(' ').unwrap();
        let kind = match kind {
            "directory" => FileKind::Directory,
            "symbolic link" => FileKind::Link,
            kind if kind.starts_with("regular") => FileKind::File,
            _ => FileKind::Other,
        };
        let mode = u32::from_str_radix(mode, 8).unwrap();
        Ok(Some(FileEntry { path: path.into(), kind, size: size.parse().unwrap(), mode }))
    }

    async fn renew(&self, _: Duration) -> Result<(), CallError> {
        if self.is_gone().await { Err(self.broken("gone")) } else { Ok(()) }
    }

    async fn delete(&self) -> Result<(), CallError> {
        if let Some(mut holder) = self.holder.lock().await.take() {
            let _ = holder.kill().await;
        }
        // Whoever waits for this may then leave.
        self.faults.deletions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct LocalEvents(mpsc::Receiver<Result<Event, CallError>>, Server);

#[async_trait]
impl Events for LocalEvents {
    async fn next(&mut self) -> Result<Event, CallError> {
        let none = || Err(self.1.failed("run", Why::Broken { reason: "nothing came".to_owned() }));
        self.0.recv().await.unwrap_or_else(none)
    }
}

struct LocalControl {
    stdin: Mutex<Option<ChildStdin>>,
    server: Server,
}

#[async_trait]
impl Control for LocalControl {
    async fn write(&self, bytes: &[u8]) -> Result<(), CallError> {
        match self.stdin.lock().await.as_mut() {
            Some(stdin) => stdin
                .write_all(bytes)
                .await
                .map_err(|error| self.server.failed("write", Why::Broken { reason: error.to_string() })),
            None => Ok(()),
        }
    }

    async fn close(&self) -> Result<(), CallError> {
        *self.stdin.lock().await = None;
        Ok(())
    }

    async fn resize(&self, _: TtySize) -> Result<(), CallError> {
        Ok(())
    }

    async fn kill(&self) -> Result<(), CallError> {
        Ok(())
    }
}

struct LocalDownload(Option<Bytes>);

#[async_trait]
impl Download for LocalDownload {
    async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        Ok(self.0.take())
    }
}

struct Stalled;

#[async_trait]
impl Download for Stalled {
    async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        std::future::pending().await
    }
}
