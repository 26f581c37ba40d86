//! A sandbox of the server, as a link.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hotcell_core::backend::{CreateError, FileEntry, FileKind, Sandbox, Stream, TtySize};
use hotcell_core::plan::Plan;
use hotcell_remote::e2b::{
    Client, Command as WireCommand, Entry, EntryKind, Envd, Event as WireEvent, Input, Running, Sandbox as Made,
    Selector, Signal, TerminalSize,
};
use hotcell_remote::http::{CallError, Server, Why};

use super::{Shared, lower};
use crate::cell::next_id;
use crate::remote::link::{Command, Control, Download, Ended, Event, Events, Link, OwnProgram, Ran, Started};
use crate::remote::{self, LIFETIME, Parts, RemoteSandbox};

/// How long a new sandbox may take until it runs.
const STARTING: Duration = Duration::from_secs(60);

const OPERATION: &str = "run a command";

/// The most that our own scripts say.
const MOST_SAID: usize = 1 << 20;

/// What a keyboard sends at the beginning of a line to say that there is no more.
const END_OF_TRANSMISSION: &[u8] = &[4];

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
    let id = next_id(shared.kind.as_str())?;
    let new = lower::new_sandbox(&plan, &shared.owner, &id)?;
    let client = &shared.client;
    let made = client.create(&new).await.map_err(|error| failed("making the sandbox", &error))?;
    let ready = async {
        let envd = client.envd(&made).map_err(|error| failed("reaching the sandbox", &error))?;
        envd.wait_until_running(STARTING).await.map_err(|error| failed("waiting for the sandbox", &error))?;
        let details = client.get(made.id()).await.map_err(|error| failed("looking at the sandbox", &error))?;
        lower::check_size(&plan.policy, plan.kind, &details)?;
        Ok(envd)
    };
    let envd = match ready.await {
        Ok(envd) => envd,
        Err(error) => {
            // It would end by itself soon.
            let _ = client.delete(made.id()).await;
            return Err(error);
        }
    };
    let link = Arc::new(E2bLink { client: client.clone(), server: shared.server.clone(), made, envd });
    RemoteSandbox::create(Parts { id, link, plan }).await
}

fn failed(step: &str, error: &CallError) -> CreateError {
    CreateError::Setup { step: step.to_owned(), reason: error.to_string(), hint: error.hint().to_owned() }
}

/// A sandbox and its `envd`.
#[derive(Debug)]
struct E2bLink {
    client: Client,
    server: Server,
    made: Made,
    envd: Envd,
}

fn wire(words: &[String]) -> WireCommand {
    let (program, arguments) = words.split_first().map_or(("", &[][..]), |(program, rest)| (program, rest));
    WireCommand::new(program, arguments.iter().cloned())
}

#[async_trait]
impl Link for E2bLink {
    fn name(&self) -> String {
        format!("{} at {}", self.made.id(), self.client.address())
    }

    async fn run(&self, program: OwnProgram<'_>) -> Result<Ran, CallError> {
        let mut command = wire(program.words);
        command.user = program.as_root.then(|| "root".to_owned());
        let mut running = self.envd.start(&command).await?;
        let which = Selector::Pid(running.pid());
        match tokio::time::timeout(program.deadline, collect(&mut running)).await {
            Ok(Ok(Some(ran))) => Ok(ran),
            Ok(Ok(None)) => Err(no_end(&self.server)),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let _ = self.envd.signal(&which, Signal::Kill).await;
                Err(self.server.failed(OPERATION, Why::TooSlow { waited: program.deadline }))
            }
        }
    }

    async fn start(&self, command: &Command) -> Result<Started, CallError> {
        let mut request = wire(&command.words);
        request.stdin = command.stdin && command.tty.is_none();
        request.terminal = command.tty.map(size);
        let running = self.envd.start(&request).await?;
        let input = if command.tty.is_some() { Input::Terminal } else { Input::Stdin };
        let control = E2bControl { envd: self.envd.clone(), which: Selector::Pid(running.pid()), input };
        Ok(Started { events: Box::new(E2bEvents(running, self.server.clone())), control: Box::new(control) })
    }

    async fn upload(&self, path: &str, content: File, length: u64) -> Result<(), CallError> {
        self.envd.upload(path, remote::pieces(content), Some(length)).await
    }

    async fn download(&self, path: &str) -> Result<Box<dyn Download>, CallError> {
        Ok(Box::new(E2bDownload(self.envd.download(path).await?)))
    }

    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, CallError> {
        Ok(self.envd.list_dir(path, 1).await?.into_iter().map(entry).collect())
    }

    async fn stat(&self, path: &str) -> Result<Option<FileEntry>, CallError> {
        match self.envd.stat(path).await {
            Ok(found) => Ok(Some(entry(found))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, lifetime: Duration) -> Result<(), CallError> {
        match self.client.set_timeout(self.made.id(), lifetime).await {
            // Older servers prolong a sandbox's life when somebody connects to it, and not otherwise.
            Err(error) if matches!(error.why, Why::Unsupported { .. }) => {
                self.client.connect(self.made.id(), LIFETIME).await.map(drop)
            }
            result => result,
        }
    }

    async fn delete(&self) -> Result<(), CallError> {
        self.client.delete(self.made.id()).await
    }
}

/// Reads a command of ours to its end; none if it has none.
async fn collect(running: &mut Running) -> Result<Option<Ran>, CallError> {
    let (mut output, mut error) = (Vec::new(), Vec::new());
    while let Some(event) = running.next().await? {
        match event {
            WireEvent::Stdout(bytes) if output.len() < MOST_SAID => output.extend_from_slice(&bytes),
            WireEvent::Stderr(bytes) if error.len() < MOST_SAID => error.extend_from_slice(&bytes),
            WireEvent::End(end) => {
                return Ok(Some(Ran {
                    code: if end.exited { end.exit_code } else { -1 },
                    output: String::from_utf8_lossy(&output).into_owned(),
                    error: String::from_utf8_lossy(&error).into_owned(),
                }));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn no_end(server: &Server) -> CallError {
    server.failed(OPERATION, Why::Garbled { what: "the command has no end".to_owned() })
}

fn size(size: TtySize) -> TerminalSize {
    TerminalSize { cols: size.columns, rows: size.rows }
}

fn entry(found: Entry) -> FileEntry {
    let kind = match found.kind {
        // `envd` speaks of what a link leads to.
        _ if found.target.is_some() => FileKind::Link,
        EntryKind::File => FileKind::File,
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Link => FileKind::Link,
        _ => FileKind::Other,
    };
    FileEntry { path: found.path.into(), kind, size: found.size, mode: found.mode & 0o7777 }
}

struct E2bEvents(Running, Server);

#[async_trait]
impl Events for E2bEvents {
    async fn next(&mut self) -> Result<Event, CallError> {
        loop {
            return match self.0.next().await? {
                Some(WireEvent::Stdout(bytes) | WireEvent::Terminal(bytes)) => Ok(Event::Output(Stream::Stdout, bytes)),
                Some(WireEvent::Stderr(bytes)) => Ok(Event::Output(Stream::Stderr, bytes)),
                Some(WireEvent::End(end)) if end.exited => Ok(Event::Ended(Ended::Exited(end.exit_code))),
                Some(WireEvent::End(end)) => Ok(Event::Ended(Ended::Signaled(end.signal))),
                Some(_) => continue,
                None => Err(no_end(&self.1)),
            };
        }
    }
}

struct E2bControl {
    envd: Envd,
    which: Selector,
    input: Input,
}

#[async_trait]
impl Control for E2bControl {
    async fn write(&self, bytes: &[u8]) -> Result<(), CallError> {
        self.envd.send_input(&self.which, self.input, bytes).await
    }

    async fn close(&self) -> Result<(), CallError> {
        match self.input {
            Input::Stdin => self.envd.close_stdin(&self.which).await,
            Input::Terminal => self.write(END_OF_TRANSMISSION).await,
        }
    }

    async fn resize(&self, to: TtySize) -> Result<(), CallError> {
        self.envd.resize(&self.which, size(to)).await
    }

    async fn kill(&self) -> Result<(), CallError> {
        self.envd.signal(&self.which, Signal::Kill).await
    }
}

struct E2bDownload(hotcell_remote::e2b::Download);

#[async_trait]
impl Download for E2bDownload {
    async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        self.0.next().await
    }
}
