//! A sandbox of the server, as a link.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use hotcell_core::backend::{CreateError, FileEntry, FileKind, Sandbox, Stream, TtySize};
use hotcell_core::plan::Plan;
use hotcell_remote::http::{CallError, Server, Why};
use hotcell_remote::opensandbox::{
    Client, Command as WireCommand, Event as WireEvent, Exact, ExactEvent, ExactInput, Execd, Exit, FileInfo,
    FileKind as WireKind, Permissions, Upload,
};
use tokio::sync::Mutex;

use super::{Shared, lower, remove_by_name, terminal};
use crate::cell::next_id;
use crate::remote::link::{Command, Control, Download, Ended, Event, Events, Link, OwnProgram, Ran, Started};
use crate::remote::{self, Parts, RemoteSandbox};

/// How long a new sandbox may take until it runs: the server may have to get its image.
const STARTING: Duration = Duration::from_secs(120);

/// The most that our own scripts say.
const MOST_SAID: usize = 1 << 20;

/// The longest command: the whole of it is one argument of a shell's.
const LONGEST_LINE: usize = 120 << 10;

const OPERATION: &str = "run a command";

/// Makes a box. It is made on a task of its own: whoever stops waiting for it gets it removed when it is there.
pub(super) async fn create(shared: Arc<Shared>, plan: Plan) -> Result<Box<dyn Sandbox>, CreateError> {
    let made = tokio::spawn(async move { make(&shared, plan).await }).await;
    let made = made.unwrap_or_else(|error| {
        Err(CreateError::Setup {
            step: "making the box".to_owned(),
            reason: error.to_string(),
            hint: "this is a defect of Hotcell".to_owned(),
        })
    });
    Ok(Box::new(made?))
}

async fn make(shared: &Shared, plan: Plan) -> Result<RemoteSandbox, CreateError> {
    let id = next_id("opensandbox")?;
    let (new, token) = lower::new_sandbox(&plan, &shared.owner, &id)?;
    let client = &shared.client;
    let made = match client.create(&new).await {
        Ok(made) => made,
        Err(error) => {
            if matches!(error.why, Why::Broken { .. } | Why::TooSlow { .. } | Why::Garbled { .. }) {
                // It may be there all the same. It would end by itself soon.
                let _ = remove_by_name(client, &shared.owner, &id).await;
            }
            return Err(lower::refused(&plan, &error));
        }
    };
    let execd = match client.ready(&made.id, shared.via, Some(&token), STARTING).await {
        Ok(execd) => execd,
        Err(error) => {
            let _ = client.delete(&made.id).await;
            return Err(CreateError::Setup {
                step: "waiting for the sandbox".to_owned(),
                reason: error.to_string(),
                hint: error.hint().to_owned(),
            });
        }
    };
    if let Err(error) = lower::check_network(client, &made.id, shared.via, &token, &plan).await {
        let _ = client.delete(&made.id).await;
        return Err(error);
    }
    let link = Arc::new(OpenLink { client: client.clone(), server: shared.server.clone(), id: made.id, execd });
    RemoteSandbox::create(Parts { id, link, plan }).await
}

/// A sandbox and its `execd`.
#[derive(Debug)]
struct OpenLink {
    client: Client,
    server: Server,
    id: String,
    execd: Execd,
}

impl OpenLink {
    fn wire(&self, words: &[String]) -> Result<WireCommand, CallError> {
        let command = WireCommand::argv(words);
        if command.line.len() > LONGEST_LINE {
            let reason = format!(
                "the arguments and the environment have more than {LONGEST_LINE} bytes together; use a file or stdin"
            );
            return Err(self.server.failed(OPERATION, Why::Impossible { reason }));
        }
        Ok(command)
    }
}

#[async_trait]
impl Link for OpenLink {
    fn name(&self) -> String {
        format!("{} at {}", self.id, self.client.address())
    }

    async fn run(&self, program: OwnProgram<'_>) -> Result<Ran, CallError> {
        let mut command = self.wire(program.words)?;
        command.timeout = Some(program.deadline);
        let collecting = async {
            let mut running = self.execd.run(&command).await?;
            let (mut output, mut error) = (Vec::new(), Vec::new());
            while let Some(event) = running.next().await? {
                match event {
                    WireEvent::Stdout(bytes) if output.len() < MOST_SAID => output.extend_from_slice(&bytes),
                    WireEvent::Stderr(bytes) if error.len() < MOST_SAID => error.extend_from_slice(&bytes),
                    _ => {}
                }
            }
            let code = match running.exit() {
                Some(Exit::Code(code)) => code,
                _ => -1,
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok(Ran { code, output: text(&output), error: text(&error) })
        };
        // The server ends the script at its deadline; it has a moment more to say so.
        let patience = program.deadline + Duration::from_secs(5);
        match tokio::time::timeout(patience, collecting).await {
            Ok(ran) => ran,
            Err(_) => Err(self.server.failed(OPERATION, Why::TooSlow { waited: patience })),
        }
    }

    async fn start(&self, command: &Command) -> Result<Started, CallError> {
        let wire = self.wire(&command.words)?;
        if let Some(size) = command.tty {
            return terminal::start(&self.execd, &self.server, command, size).await;
        }
        let mut exact = self.execd.run_exact(&wire, command.stdin).await?;
        let control = OpenControl {
            input: Mutex::new(exact.take_input()),
            execd: self.execd.clone(),
            server: self.server.clone(),
            id: exact.id().to_owned(),
        };
        let events = OpenEvents { exact, server: self.server.clone() };
        Ok(Started { events: Box::new(events), control: Box::new(control) })
    }

    async fn upload(&self, path: &str, content: File, length: u64) -> Result<(), CallError> {
        let mut upload = Upload::new(path);
        upload.permissions = Permissions::mode(0o600);
        self.execd.upload(&upload, remote::pieces(content), Some(length)).await
    }

    async fn download(&self, path: &str) -> Result<Box<dyn Download>, CallError> {
        Ok(Box::new(OpenDownload(self.execd.download(path).await?)))
    }

    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, CallError> {
        Ok(self.execd.list(path, 1).await?.into_iter().map(entry).collect())
    }

    async fn stat(&self, path: &str) -> Result<Option<FileEntry>, CallError> {
        match self.execd.info(path).await {
            Ok(found) => Ok(Some(entry(found))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, lifetime: Duration) -> Result<(), CallError> {
        self.client.renew(&self.id, SystemTime::now() + lifetime).await.map(drop)
    }

    async fn delete(&self) -> Result<(), CallError> {
        self.client.delete(&self.id).await
    }

    fn loses(&self) -> Option<&'static str> {
        Some("the order between stdout and stderr: they are kept apart in the sandbox")
    }
}

fn entry(found: FileInfo) -> FileEntry {
    let kind = match found.kind {
        WireKind::File => FileKind::File,
        WireKind::Directory => FileKind::Directory,
        WireKind::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    FileEntry { path: found.path.into(), kind, size: found.size, mode: found.mode & 0o7777 }
}

struct OpenEvents {
    exact: Exact,
    server: Server,
}

#[async_trait]
impl Events for OpenEvents {
    async fn next(&mut self) -> Result<Event, CallError> {
        loop {
            let event = self.exact.next().await?;
            let (exit, failure) = match event {
                Some(ExactEvent::Stdout(bytes)) => return Ok(Event::Output(Stream::Stdout, bytes)),
                Some(ExactEvent::Stderr(bytes)) => return Ok(Event::Output(Stream::Stderr, bytes)),
                Some(ExactEvent::Ended { exit, failure }) => (exit, failure),
                Some(_) => continue,
                None => {
                    return Err(self
                        .server
                        .failed(OPERATION, Why::Garbled { what: "the command has no end".to_owned() }));
                }
            };
            return match exit {
                Exit::Code(code) => Ok(Event::Ended(Ended::Exited(code))),
                Exit::Signal(signal) => Ok(Event::Ended(Ended::Signaled(Some(signal)))),
                // By a signal without a name, or not at all: it must say that it was a signal.
                _ => match failure {
                    Some(failure) if failure.traceback.iter().any(|line| line.starts_with("signal: ")) => {
                        Ok(Event::Ended(Ended::Signaled(None)))
                    }
                    failure => {
                        let said = failure.map(|failure| failure.value).unwrap_or_default();
                        let what = format!("the command did not run: {said}");
                        Err(self.server.failed(OPERATION, Why::Garbled { what }))
                    }
                },
            };
        }
    }
}

struct OpenControl {
    input: Mutex<Option<ExactInput>>,
    execd: Execd,
    server: Server,
    id: String,
}

#[async_trait]
impl Control for OpenControl {
    async fn write(&self, bytes: &[u8]) -> Result<(), CallError> {
        let mut input = self.input.lock().await;
        let sent = match input.as_mut() {
            Some(input) => input.send(Bytes::copy_from_slice(bytes)).await,
            None => false,
        };
        if sent {
            return Ok(());
        }
        Err(self.server.failed("write to the command", Why::Broken { reason: "it reads no more".to_owned() }))
    }

    async fn close(&self) -> Result<(), CallError> {
        match self.input.lock().await.take() {
            Some(input) => input.close().await,
            None => Ok(()),
        }
    }

    async fn resize(&self, _: TtySize) -> Result<(), CallError> {
        Err(self.server.failed("resize", Why::Unsupported { what: "resize what is no terminal".to_owned() }))
    }

    async fn kill(&self) -> Result<(), CallError> {
        self.execd.interrupt(&self.id).await
    }
}

struct OpenDownload(hotcell_remote::opensandbox::Download);

#[async_trait]
impl Download for OpenDownload {
    async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        self.0.next().await
    }
}
