//! A process in the box that runs code, and the conversation with it.

use std::io::Read as _;
use std::pin::Pin;
use std::time::Duration;

use hotcell_core::backend::{
    OutputEvents, ProcessStdin, Sandbox, SandboxId, SandboxedProcess, Signal, SpawnConfig, SpawnError, Stream,
};
use hotcell_core::outcome::Status;
use hotcell_core::text::Printable;
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::{Call, GRACE, Phase, Progress, REST, Why};
use super::code::{CodeStatus, Exception, Feed};
use super::error::CodeError;
use super::frames::{Found, Scanner};
use super::languages::KernelKind;
use super::launch::OnceRequest;
use super::messages::{Collector, Ended, Message, install_hint};

/// How long a kernel may take to get ready. Only what is broken takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a kernel that is ready may take to begin with a call. It has nothing else to do.
const BEGIN: Duration = Duration::from_secs(15);

/// How long after the last word of a process its end may become known: an engine tells of the two apart.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What others want of a call that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    GoOn,
    Interrupt,
    /// End its process, at once.
    End,
}

/// A process that runs code.
pub(super) struct Kernel {
    kind: KernelKind,
    sandbox: SandboxId,
    process: Box<dyn SandboxedProcess>,
    /// None when it is the code's own.
    stdin: Option<Box<dyn ProcessStdin>>,
    output: Box<dyn OutputEvents>,
    from_stdout: Scanner,
    from_stderr: Scanner,
    calls: u64,
    /// The call whose end has not been seen.
    unfinished: Option<u64>,
    /// Whether a request may have been written in part.
    writing: bool,
    /// Whether it ended in the middle of a message.
    is_cut: bool,
}

/// A process that was started to stay.
pub(super) enum Started {
    Ready(Box<Kernel>),
    /// The time of the call was over, or somebody wanted its end, before it was ready. No code has run.
    Ended(Call),
}

/// A call that has been asked for.
pub(super) enum Asked {
    Ended(Call),
    /// The process was gone, or did not answer, before it began with the code. The code has not run.
    NotBegun,
}

/// Something that came from a kernel.
enum Came {
    Message(Stream, Message),
    TooLong,
    Broken,
}

impl Kernel {
    /// Starts a process without waiting for it, and says hello.
    pub(super) async fn launch(
        sandbox: &dyn Sandbox,
        kind: KernelKind,
        once: Option<&OnceRequest>,
        config: SpawnConfig,
    ) -> Result<Self, CodeError> {
        let marker = marker()?;
        let mut process = sandbox.spawn(config).await.map_err(|error| match error {
            SpawnError::NotFound { .. } => not_installed(kind),
            other => other.into(),
        })?;
        let io = process.take_io();
        let (stdin @ Some(_), Some(output)) = (io.stdin, io.output) else {
            return Err(not_ready(kind, "its streams were not handed over"));
        };
        let (from_stdout, from_stderr) = (Scanner::new(&marker), Scanner::new(&marker));
        let sandbox = sandbox.id().clone();
        let mut kernel = Self {
            kind,
            sandbox,
            process,
            stdin,
            output,
            from_stdout,
            from_stderr,
            calls: 0,
            unfinished: None,
            writing: false,
            is_cut: false,
        };
        // One that ends at once is found out by whoever reads.
        let _ = kernel.write(&kind.greeting(&marker, once)).await;
        Ok(kernel)
    }

    /// Starts a process that stays, and waits until it is ready, but no longer than until `deadline`.
    pub(super) async fn start(
        sandbox: &dyn Sandbox,
        kind: KernelKind,
        deadline: Option<Instant>,
        wishes: &mut watch::Receiver<Wish>,
    ) -> Result<Started, CodeError> {
        let mut kernel = Self::launch(sandbox, kind, None, kind.command()).await?;
        let mut collector = Collector::new(super::START_CAPTURE, &|_| {});
        let ready = async {
            while let Some(came) = kernel.read(&mut collector).await {
                match came.into_iter().next() {
                    Some(Came::Message(Stream::Stdout, Message::Ready { typescript })) => return Some(typescript),
                    Some(_) => return None,
                    None => {}
                }
            }
            None
        };
        let ready = tokio::select! {
            biased;
            _ = wish(wishes, Wish::GoOn) => Err(Some(Why::Interrupt)),
            ready = ready => Ok(ready),
            () = at(deadline) => Err(Some(Why::Time)),
            () = tokio::time::sleep(PATIENCE) => Err(None),
        };
        match ready {
            Ok(Some(typescript)) if typescript || kind != KernelKind::TypeScript => {
                Ok(Started::Ready(Box::new(kernel)))
            }
            Ok(Some(_)) => Err(no_typescript()),
            Ok(None) => Err(kernel.failed_start(collector).await),
            Err(Some(why)) => Ok(Started::Ended(Call { is_lost: false, ..kernel.killed(why.status()).await })),
            Err(None) => Err(not_ready(kind, &format!("it said nothing for {} s", PATIENCE.as_secs()))),
        }
    }

    /// Why a kernel that has just been started is not ready.
    pub(super) async fn failed_start(&mut self, collector: Collector<'_>) -> CodeError {
        // Most often it has ended by itself, and how says why.
        let status = match tokio::time::timeout(LAST_WORD, self.process.wait()).await {
            Ok(Ok(outcome)) => Some(outcome.status),
            _ => self.end().await,
        };
        if self.kind.program() == "node" && status == Some(Status::Exited(127)) {
            return not_installed(self.kind);
        }
        let said = collector.finish().stderr.bytes();
        let said = String::from_utf8_lossy(&said);
        let ended = status.map_or_else(|| "it could not be ended".to_owned(), |status| format!("it {status}"));
        not_ready(self.kind, &format!("{ended}: {}", Printable(said.trim())))
    }

    pub(super) fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }

    pub(super) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// The next that comes; output is put into the collector. None when the process has ended. Cancel-safe.
    async fn read(&mut self, collector: &mut Collector<'_>) -> Option<Vec<Came>> {
        let Some(event) = self.output.next().await else {
            for (stream, scanner) in [(Stream::Stdout, &mut self.from_stdout), (Stream::Stderr, &mut self.from_stderr)]
            {
                let rest = scanner.finish();
                if !rest.text.is_empty() {
                    collector.output(stream, &rest.text);
                }
                if rest.is_cut {
                    self.is_cut = true;
                    collector.leave_out();
                }
            }
            return None;
        };
        let scanner = match event.stream {
            Stream::Stdout => &mut self.from_stdout,
            Stream::Stderr => &mut self.from_stderr,
        };
        let mut all = Vec::new();
        scanner.push(&event.bytes, |found| match found {
            Found::Text(text) => collector.output(event.stream, text),
            Found::Message(message) => all.push(match Message::read(&message) {
                Some(message) => Came::Message(event.stream, message),
                None => Came::Broken,
            }),
            Found::TooLong => all.push(Came::TooLong),
            Found::Broken => all.push(Came::Broken),
        });
        Some(all)
    }

    /// Runs a piece of code.
    ///
    /// When the future is dropped, the call is unfinished, and [`Kernel::recover`] has to come before the next one.
    pub(super) async fn call(
        &mut self,
        source: &str,
        deadline: Option<Instant>,
        wishes: &mut watch::Receiver<Wish>,
        collector: &mut Collector<'_>,
    ) -> Result<Asked, CodeError> {
        self.calls += 1;
        let id = self.calls;
        self.unfinished = Some(id);
        self.writing = true;
        let request = self.kind.request(id, source);
        let mut progress = Progress::new(id, Instant::now() + BEGIN, deadline);
        let given_up = tokio::select! {
            biased;
            written = self.write(&request) => match written {
                Ok(()) => None,
                Err(_) => return Ok(Asked::NotBegun),
            },
            _ = wish(wishes, Wish::Interrupt) => Some(Why::Interrupt),
            () = at(progress.until) => match progress.is_late() {
                true => Some(Why::Time),
                false => return Ok(Asked::NotBegun),
            },
        };
        if let Some(why) = given_up {
            return Ok(Asked::Ended(self.killed(why.status()).await));
        }
        self.writing = false;
        let mut heard = Wish::GoOn;
        loop {
            let came = tokio::select! {
                biased;
                () = at(progress.until) => None,
                wish = wish(wishes, heard) => {
                    if wish == Wish::End {
                        return Ok(Asked::Ended(self.killed(Why::Interrupt.status()).await));
                    }
                    heard = wish;
                    progress.end_because(Why::Interrupt);
                    self.interrupt(id).await;
                    continue;
                }
                came = self.read(collector) => Some(came),
            };
            match came {
                // A moment came that was waited for.
                None => match progress.phase {
                    Phase::Asked if !progress.is_late() => return Ok(Asked::NotBegun),
                    // What code of an earlier call left behind may keep it busy: that is interrupted too.
                    Phase::Asked | Phase::Running => {
                        progress.end_because(Why::Time);
                        self.interrupt(id).await;
                    }
                    Phase::Ending | Phase::Rest => {
                        let status = progress.why.map_or_else(|| broken("did not finish what it said"), Why::status);
                        return Ok(Asked::Ended(self.killed(status).await));
                    }
                },
                Some(None) if progress.phase == Phase::Asked => return Ok(Asked::NotBegun),
                Some(None) => return Ok(Asked::Ended(self.gone(progress).await?)),
                Some(Some(came)) => {
                    for came in came {
                        if !self.heed(came, &mut progress, collector) {
                            let status = progress.why.map_or_else(|| broken("said what makes no sense"), Why::status);
                            return Ok(Asked::Ended(self.killed(status).await));
                        }
                    }
                    if let Some(call) = progress.finished() {
                        self.unfinished = None;
                        return Ok(Asked::Ended(call));
                    }
                    if progress.must_be_told_again() {
                        self.interrupt(id).await;
                    }
                }
            }
        }
    }

    /// Takes note of what the kernel says; false if that makes no sense.
    fn heed(&self, came: Came, progress: &mut Progress, collector: &mut Collector<'_>) -> bool {
        match came {
            Came::Broken => return false,
            Came::TooLong => collector.leave_out(),
            Came::Message(Stream::Stdout, Message::Begin { id }) if id == progress.id => progress.begin(),
            Came::Message(Stream::Stdout, Message::Result { id, is_value, data }) => {
                if id == progress.id && progress.phase != Phase::Asked && progress.call.is_none() {
                    collector.result(is_value, data);
                } else {
                    collector.leave_out();
                }
            }
            Came::Message(Stream::Stdout, Message::Done { id, status, exit_code, exception, missing })
                if id == progress.id && progress.call.is_none() =>
            {
                let status = match (status, progress.why) {
                    (Ended::Done, None) => CodeStatus::Done,
                    (Ended::Interrupted, None) => CodeStatus::Interrupted,
                    (Ended::Failed, None) => CodeStatus::Failed { exit_code },
                    // It may have ended by itself at the last moment; what was asked for is what is told.
                    (_, Some(why)) => why.status(),
                };
                let hint = missing.and_then(|missing| install_hint(self.kind, &missing));
                // A shell has a status after each piece of code; one that exits is gone.
                let exited = self.kind != KernelKind::Bash && exit_code.is_some() && exception.is_none();
                let exception = exception.map(|raised| raised.bounded());
                progress.done(Call { status, exception, hint, exited, process: None, is_lost: false });
            }
            Came::Message(Stream::Stderr, Message::End { id }) if id == progress.id => progress.stderr_ended = true,
            // Of an earlier call, or said twice: a lie, or late.
            Came::Message(..) => {}
        }
        true
    }

    async fn interrupt(&mut self, id: u64) {
        // A kernel that cannot be reached is killed when its grace is over.
        let told = async {
            let _ = self.process.signal(Signal::INT).await;
            if let Some(line) = self.kind.interruption(id) {
                let _ = self.write(&line).await;
            }
        };
        self.writing = tokio::time::timeout(GRACE, told).await.is_err();
    }

    /// The process ended by itself in the middle of a call.
    async fn gone(&mut self, progress: Progress) -> Result<Call, CodeError> {
        let Ok(outcome) = tokio::time::timeout(REST, self.process.wait()).await else {
            return Ok(self.killed(broken("closed its output")).await);
        };
        let process = outcome?.status;
        let status = match (progress.why, process) {
            (Some(why), _) => why.status(),
            (None, Status::TimedOut) => CodeStatus::TimedOut,
            // A shell that exits is a shell that did what it was told.
            (None, Status::Exited(0)) if self.kind == KernelKind::Bash => CodeStatus::Done,
            (None, Status::Exited(code)) if self.kind == KernelKind::Bash => {
                CodeStatus::Failed { exit_code: Some(code) }
            }
            (None, status) if self.is_cut => {
                CodeStatus::Crashed { reason: format!("its process {status}, in the middle of a result or an answer") }
            }
            (None, status) => CodeStatus::Crashed { reason: format!("its process {status}") },
        };
        let exited = matches!(status, CodeStatus::Done | CodeStatus::Failed { .. });
        Ok(Call { status, exception: None, hint: None, exited, process: Some(process), is_lost: true })
    }

    async fn killed(&mut self, status: CodeStatus) -> Call {
        let process = self.end().await;
        Call { status, exception: None, hint: None, exited: false, process, is_lost: true }
    }

    /// Kills the process and waits until it is gone; how it ended, if that is known.
    pub(super) async fn end(&mut self) -> Option<Status> {
        let _ = self.process.kill().await;
        let outcome = tokio::time::timeout(REST, self.process.wait()).await;
        outcome.ok().and_then(Result::ok).map(|outcome| outcome.status)
    }

    /// Brings a call to its end whose caller has gone away; whether the kernel can be used again.
    pub(super) async fn recover(&mut self) -> bool {
        let Some(id) = self.unfinished else { return true };
        if self.writing {
            return false;
        }
        self.interrupt(id).await;
        let mut collector = Collector::new(super::START_CAPTURE, &|_| {});
        let mut progress = Progress::new(id, Instant::now() + GRACE, None);
        progress.end_because(Why::Interrupt);
        let finished = tokio::time::timeout(GRACE, async {
            while let Some(came) = self.read(&mut collector).await {
                for came in came {
                    if !self.heed(came, &mut progress, &mut collector) {
                        return false;
                    }
                }
                if progress.finished().is_some() {
                    return true;
                }
                if progress.must_be_told_again() {
                    self.interrupt(id).await;
                }
            }
            false
        });
        let usable = finished.await.unwrap_or(false) && !self.writing;
        if usable {
            self.unfinished = None;
        }
        usable
    }

    async fn write(&mut self, text: &str) -> std::io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(text.as_bytes()).await,
            None => Ok(()),
        }
    }

    /// Runs one piece of code in a process that ends with it. Its input is taken when the process is ready for it.
    pub(super) async fn run_once(
        mut self,
        request: &OnceRequest,
        feed: &mut Option<Feed<'_>>,
        collector: &mut Collector<'_>,
    ) -> Result<Once, CodeError> {
        // The process reads all of it before it does anything else; one that does not is found out by how it ends.
        let _ = self.write(&request.text).await;
        let mut stdin = self.stdin.take();
        if feed.is_none()
            && let Some(mut stdin) = stdin.take()
        {
            let _ = stdin.close().await;
        }
        let mut feeding: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(std::future::pending());
        let (mut is_ready, mut exception, mut hint) = (false, None, None);
        loop {
            // Neither comes first: one that writes without end is fed all the same.
            let came = tokio::select! {
                came = self.read(collector) => came,
                () = &mut feeding => {
                    feeding = Box::pin(std::future::pending());
                    continue;
                }
            };
            let Some(came) = came else { break };
            for came in came {
                match came {
                    Came::Message(Stream::Stdout, Message::Ready { typescript }) if !is_ready => {
                        if self.kind == KernelKind::TypeScript && !typescript {
                            return Ok(Once::NoTypeScript);
                        }
                        is_ready = true;
                        if let (Some(feed), Some(stdin)) = (feed.take(), stdin.take()) {
                            feeding = feed(stdin);
                        }
                    }
                    Came::Message(Stream::Stdout, Message::Result { is_value, data, .. }) => {
                        collector.result(is_value, data)
                    }
                    Came::Message(Stream::Stdout, Message::Done { exception: raised, missing, .. }) => {
                        exception = raised.map(|raised| raised.bounded());
                        hint = missing.and_then(|missing| install_hint(self.kind, &missing));
                    }
                    Came::TooLong => collector.leave_out(),
                    // How it ends is what its process says, and not what it says itself.
                    Came::Message(..) | Came::Broken => {}
                }
            }
        }
        let status = self.process.wait().await?.status;
        if !is_ready && matches!(status, Status::Exited(_)) {
            return Ok(Once::NotReady(Box::new(self)));
        }
        Ok(Once::Ended { status, exception, hint })
    }
}

/// How a process that runs one piece of code ended.
pub(super) enum Once {
    Ended { status: Status, exception: Option<Exception>, hint: Option<String> },
    NotReady(Box<Kernel>),
    NoTypeScript,
}

fn broken(what: &str) -> CodeStatus {
    CodeStatus::Crashed { reason: format!("its process {what}, and was killed") }
}

/// Waits for somebody to want something else than what was heard already.
async fn wish(wishes: &mut watch::Receiver<Wish>, heard: Wish) -> Wish {
    let wish = wishes.wait_for(|wish| *wish != Wish::GoOn && *wish != heard).await.map(|wish| *wish).ok();
    match wish {
        Some(wish) => wish,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// A word that nobody says by accident, between a separator that text rarely has and a colon.
fn marker() -> Result<String, CodeError> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| CodeError::invalid("the source of random numbers of this machine", error.to_string()))?;
    let word: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("\u{1e}hotcell-{word}:"))
}

pub(super) fn not_installed(kind: KernelKind) -> CodeError {
    let hint = match kind {
        KernelKind::Python => "use an image that has Python 3.8 or newer, or install it on this machine".to_owned(),
        KernelKind::Node | KernelKind::TypeScript => {
            "use an image that has Node.js 18 or newer, or install it on this machine".to_owned()
        }
        KernelKind::Bash => "use an image that has bash 4.1 or newer".to_owned(),
    };
    CodeError::NotInstalled { program: kind.program().to_owned(), hint }
}

pub(super) fn no_typescript() -> CodeError {
    CodeError::NotInstalled {
        program: "typescript".to_owned(),
        hint: "use Node.js 22.13 or newer, which takes types off by itself, or put the npm package `typescript` beside the code; \
               code that runs once also takes deno, bun, tsx or ts-node"
            .to_owned(),
    }
}

fn not_ready(kind: KernelKind, reason: &str) -> CodeError {
    CodeError::NotReady { program: kind.program().to_owned(), reason: reason.to_owned() }
}
