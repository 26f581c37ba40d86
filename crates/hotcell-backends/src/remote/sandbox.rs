//! A live box on a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hotcell_core::backend::{
    CreateError, DestroyError, Files, ProcessId, Sandbox, SandboxId, SandboxedProcess, SpawnConfig, SpawnError,
    Workspace, WorkspaceError,
};
use hotcell_core::outcome::Visibility;
use hotcell_core::plan::{EnforcementReport, Plan};
use hotcell_core::policy::Access;
use hotcell_remote::http::CallError;
use tokio::runtime::Handle;
use tokio::sync::{RwLock, RwLockReadGuard, watch};

use super::files::RemoteFiles;
use super::inside::{self, Facts};
use super::lifetime;
use super::link::{Event, Link, Started};
use super::process::{Begun, RemoteProcess};
use super::start::{self, First};
use super::trees::{Caps, Trees};
use super::watch::Watch;
use super::workspace::RemoteWorkspace;
use crate::cell::environment::environment;
use crate::cell::output::Meter;
use crate::cell::workspace;

/// How long a command may take to be started.
const STARTING: Duration = Duration::from_secs(30);

/// How long commands may take to end when their box is destroyed.
const ENDING: Duration = Duration::from_secs(15);

/// How long files that are already on their way back may take when their box is destroyed.
const COMING: Duration = Duration::from_secs(600);

/// What a backend knows of a sandbox that its server has made.
pub(crate) struct Parts {
    /// Its name here.
    pub(crate) id: SandboxId,
    /// The sandbox, which lives for [`super::LIFETIME`] from now.
    pub(crate) link: Arc<dyn Link>,
    /// What it holds.
    pub(crate) plan: Plan,
}

/// What a box and its commands share.
pub(super) struct Shared {
    pub(super) link: Arc<dyn Link>,
    pub(super) plan: Plan,
    pub(super) report: EnforcementReport,
    pub(super) facts: Facts,
    pub(super) trees: Trees,
    /// Read-locked by every command as long as it runs; locked while its trees are looked at.
    pub(super) quiet: Arc<RwLock<()>>,
    /// Read-locked by whoever changes files from here as long as that takes; locked while its trees are looked at. Apart from
    /// `quiet`, because the end of a command waits for it.
    pub(super) changing: RwLock<()>,
    /// Whether the box may have changed its trees since they were brought back.
    dirty: AtomicBool,
    state: watch::Sender<State>,
    /// Whether the server has confirmed that the sandbox is removed.
    deleted: Arc<AtomicBool>,
    /// For what has to be done when nobody waits for it.
    pub(super) runtime: Handle,
}

/// Whether a box can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Alive,
    /// It is being removed, as somebody wished.
    Closing,
    /// It is not there any more, or of no use, for this reason.
    Lost(String),
}

impl Shared {
    /// Returns when the box is being removed, or is lost.
    pub(super) async fn closing(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as this.
        let _ = state.wait_for(|state| *state != State::Alive).await;
    }

    /// Why the box is of no use any more, if that is not because somebody removed it.
    pub(super) fn lost(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Lost(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Whether the box is being removed, as somebody wished.
    pub(super) fn is_closing(&self) -> bool {
        *self.state.borrow() == State::Closing
    }

    /// Ends a box that cannot be trusted to do what it must: it is removed, and whoever uses it is told why.
    pub(super) fn give_up(&self, reason: String) {
        let first = self.state.send_if_modified(|state| {
            let alive = *state == State::Alive;
            if alive {
                *state = State::Lost(reason);
            }
            alive
        });
        if first {
            self.delete_later();
        }
    }

    fn delete_later(&self) {
        let (link, deleted) = (Arc::clone(&self.link), Arc::clone(&self.deleted));
        self.runtime.spawn(async move {
            // Nobody waits for it, and the sandbox ends by itself soon.
            if link.delete().await.is_ok() {
                deleted.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Brings back what the box wrote to trees that it writes directly; the paths that it must not change and did.
    pub(super) async fn bring_back(&self) -> Result<Vec<PathBuf>, WorkspaceError> {
        let _unchanged = self.changing.write().await;
        let mut soiled = Soiled::new(&self.dirty);
        let brought = self
            .trees
            .fetched(&*self.link, &self.facts, Access::Write, true, |trees, filesystem, baseline| {
                workspace::commit_allowed(trees, filesystem, baseline)
            })
            .await?;
        soiled.is_clean = true;
        Ok(brought.1)
    }

    /// Notes that something may change trees of the box.
    pub(super) fn soil(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }

    /// For as long as the caller changes files of the box. Waits while its trees are looked at: what is changed meanwhile might be
    /// taken for brought back.
    pub(super) async fn change(&self) -> RwLockReadGuard<'_, ()> {
        let changing = self.changing.read().await;
        self.soil();
        changing
    }

    /// Which denials can be seen here, and which cannot.
    pub(super) fn visibility(&self) -> Visibility {
        let mut unseen = vec![
            "system calls, paths and connections that the server refused: it does not tell".to_owned(),
            "memory and process limits that were hit: the server does not tell".to_owned(),
        ];
        unseen.extend(self.link.loses().map(str::to_owned));
        let seen = match self.trees.has(Access::Write) {
            true => vec!["protected paths that were changed in the box and not brought back".to_owned()],
            false => Vec::new(),
        };
        Visibility { seen, unseen }
    }
}

/// Trees that are being brought back. They count as not back yet if that fails, or if nobody waits for it any more.
struct Soiled<'a> {
    dirty: &'a AtomicBool,
    is_clean: bool,
}

impl<'a> Soiled<'a> {
    fn new(dirty: &'a AtomicBool) -> Self {
        // Now: what is written meanwhile counts again.
        dirty.store(false, Ordering::Relaxed);
        Self { dirty, is_clean: false }
    }
}

impl Drop for Soiled<'_> {
    fn drop(&mut self) {
        if !self.is_clean {
            self.dirty.store(true, Ordering::Relaxed);
        }
    }
}

/// A box on a server.
pub(crate) struct RemoteSandbox {
    id: SandboxId,
    shared: Arc<Shared>,
    files: RemoteFiles,
    workspace: Option<RemoteWorkspace>,
    commands: AtomicU64,
}

/// Removes a sandbox that nobody has got yet.
struct Unfinished(Option<Arc<dyn Link>>, Handle);

impl Unfinished {
    /// It failed: it is removed now.
    async fn remove(mut self) {
        if let Some(link) = self.0.take() {
            let _ = link.delete().await;
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            self.1.spawn(async move {
                let _ = link.delete().await;
            });
        }
    }
}

impl RemoteSandbox {
    /// Makes a box of a new sandbox: looks at it, sends it the trees, and keeps it alive. A sandbox of which no box can be made is
    /// removed.
    pub(crate) async fn create(parts: Parts) -> Result<Self, CreateError> {
        let Parts { id, link, plan } = parts;
        let runtime = Handle::try_current().map_err(|error| CreateError::Setup {
            step: "finding the runtime".to_owned(),
            reason: error.to_string(),
            hint: "call this from a Tokio runtime".to_owned(),
        })?;
        let unfinished = Unfinished(Some(Arc::clone(&link)), runtime.clone());
        let made = async {
            let facts = inside::prepare(&*link, id.as_str(), &plan.policy.limits).await?;
            let caps = Caps::new(&plan.policy.limits);
            let trees = Trees::send(&*link, &facts, &plan.policy.filesystem, caps).await?;
            Ok((facts, trees))
        };
        let (facts, trees) = match made.await {
            Ok(made) => made,
            Err(error) => {
                unfinished.remove().await;
                return Err(error);
            }
        };
        let mut unfinished = unfinished;
        unfinished.0 = None;
        let shared = Arc::new(Shared {
            link,
            report: plan.report(),
            plan,
            facts,
            trees,
            quiet: Arc::new(RwLock::new(())),
            changing: RwLock::new(()),
            dirty: AtomicBool::new(false),
            state: watch::Sender::new(State::Alive),
            deleted: Arc::default(),
            runtime: runtime.clone(),
        });
        runtime.spawn(lifetime::renew(Arc::clone(&shared)));
        Ok(Self {
            id,
            files: RemoteFiles::new(Arc::clone(&shared)),
            workspace: shared.trees.has(Access::Overlay).then(|| RemoteWorkspace::new(Arc::clone(&shared))),
            shared,
            commands: AtomicU64::new(1),
        })
    }

    fn check(&self, config: &SpawnConfig) -> Result<PathBuf, SpawnError> {
        config.check()?;
        match &*self.shared.state.borrow() {
            State::Alive => {}
            State::Closing => return Err(SpawnError::Lost { reason: "it has been destroyed".to_owned() }),
            State::Lost(reason) => return Err(SpawnError::Lost { reason: reason.clone() }),
        }
        let policy = &self.shared.plan.policy;
        if config.tty.is_some() && !policy.process.tty {
            return Err(SpawnError::NotAllowed {
                what: "a terminal".into(),
                hint: "set `tty = true` in [process], or use --tty".into(),
            });
        }
        if self.workspace.as_ref().is_some_and(RemoteWorkspace::is_discarded) {
            return Err(SpawnError::Lost { reason: "its workspace was discarded".into() });
        }
        let home = || PathBuf::from(&self.shared.facts.home);
        let directory = config.cwd.clone().or_else(|| policy.process.cwd.clone()).unwrap_or_else(home);
        if directory.is_absolute() {
            Ok(directory)
        } else {
            Err(SpawnError::BadCwd { path: directory, reason: "it is relative".to_owned() })
        }
    }
}

/// A command that has been started and that nobody has got yet.
struct Unclaimed {
    started: Option<Started>,
    runtime: Handle,
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            self.runtime.spawn(async move {
                let _ = started.control.kill().await;
            });
        }
    }
}

#[async_trait]
impl Sandbox for RemoteSandbox {
    fn id(&self) -> &SandboxId {
        &self.id
    }

    fn report(&self) -> &EnforcementReport {
        &self.shared.report
    }

    async fn spawn(&self, config: SpawnConfig) -> Result<Box<dyn SandboxedProcess>, SpawnError> {
        let directory = self.check(&config)?;
        let shared = &self.shared;
        let policy = &shared.plan.policy;
        let environment = environment(policy, &shared.facts.environment, &config);
        let command = start::wrap(&config, &directory, &environment, &policy.limits, &shared.facts)?;
        // Waits while trees are being looked at.
        let running = Arc::clone(&shared.quiet).read_owned().await;
        shared.soil();
        let begun = std::time::Instant::now();
        let starting = async {
            let started = shared.link.start(&command).await.map_err(|error| not_started(&error))?;
            let mut unclaimed = Unclaimed { started: Some(started), runtime: shared.runtime.clone() };
            let (process, rest) = match &mut unclaimed.started {
                Some(started) => first_line(started, &command.nonce, &config, &directory).await?,
                None => return Err(SpawnError::Lost { reason: "the command is gone".to_owned() }),
            };
            Ok((unclaimed, process, rest))
        };
        let (mut unclaimed, process, rest) = match tokio::time::timeout(STARTING, starting).await {
            Ok(started) => started?,
            Err(_) => {
                return Err(SpawnError::Setup {
                    step: "starting it in the box".to_owned(),
                    reason: format!("it did not start within {} s", STARTING.as_secs()),
                });
            }
        };
        let Some(started) = unclaimed.started.take() else {
            return Err(SpawnError::Lost { reason: "the command is gone".to_owned() });
        };
        let watch = Watch {
            shared: Arc::clone(shared),
            process,
            meter: Arc::new(Meter::new(policy.limits.output.value)),
            timeout: config.effective_timeout(policy.limits.timeout.value),
            begun,
            running,
        };
        let id = ProcessId(self.commands.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(RemoteProcess::new(id, started, rest, &config, watch)))
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(&self.files)
    }

    fn workspace(&self) -> Option<&dyn Workspace> {
        self.workspace.as_ref().map(|workspace| workspace as &dyn Workspace)
    }

    async fn destroy(self: Box<Self>) -> Result<(), DestroyError> {
        let shared = &self.shared;
        if let Some(reason) = shared.lost() {
            return Err(DestroyError::Lost { reason });
        }
        let _ = shared.state.send_replace(State::Closing);
        let brought = match shared.trees.has(Access::Write) {
            true => self.last_words().await,
            false => Ok(()),
        };
        let brought = brought.map_err(|reason| format!("its files were not brought back: {reason}"));
        if let Err(error) = shared.link.delete().await {
            let reason = match brought {
                Ok(()) => error.to_string(),
                Err(lost) => format!("{error}; and {lost}"),
            };
            return Err(DestroyError::LeftBehind {
                what: format!("the sandbox ({})", shared.link.name()),
                reason,
                hint: format!(
                    "it ends by itself within {} s; `hotcell prune` removes it later",
                    lifetime::LIFETIME.as_secs()
                ),
            });
        }
        shared.deleted.store(true, Ordering::Relaxed);
        brought.map_err(|reason| DestroyError::Lost { reason })
    }
}

impl RemoteSandbox {
    /// Brings back what is not back yet, once every command has ended.
    async fn last_words(&self) -> Result<(), String> {
        let shared = &self.shared;
        // The last command may have ended just now, and what it wrote be on its way: that may take longer than the end of a command.
        let coming = tokio::time::timeout(COMING, shared.changing.write()).await;
        drop(coming.map_err(|_| format!("they did not come within {} s", COMING.as_secs()))?);
        let quiet = tokio::time::timeout(ENDING, shared.quiet.write()).await;
        let _quiet = quiet.map_err(|_| format!("its commands did not end within {} s", ENDING.as_secs()))?;
        let dirty = shared.dirty.load(Ordering::Relaxed);
        if dirty || inside::is_alive(&*shared.link, &shared.facts).await.unwrap_or(true) {
            shared.bring_back().await.map_err(|error| crate::registry::with_causes(&error))?;
        }
        Ok(())
    }
}

impl Drop for RemoteSandbox {
    fn drop(&mut self) {
        self.shared.state.send_if_modified(|state| {
            let alive = *state == State::Alive;
            if alive {
                *state = State::Closing;
            }
            alive
        });
        // Also after a removal that failed, or that nobody waited for to its end.
        if !self.shared.deleted.load(Ordering::Relaxed) {
            self.shared.delete_later();
        }
    }
}

/// The most that is kept of stderr until the wrapper has said on stdout whether the command starts.
const MOST_BEFORE: usize = 1 << 20;

/// Reads until the wrapper has said whether the command starts; what has come of the command's own output by then. The streams
/// take ways of their own: what it wrote to stderr may be here before the word that it starts.
async fn first_line(
    started: &mut Started,
    nonce: &str,
    config: &SpawnConfig,
    directory: &std::path::Path,
) -> Result<(inside::Process, Begun), SpawnError> {
    let strange = |what: String| SpawnError::Setup { step: "starting it in the box".to_owned(), reason: what };
    let (mut output, mut error) = (Vec::new(), Vec::new());
    loop {
        match started.events.next().await.map_err(|error| not_started(&error))? {
            Event::Output(hotcell_core::backend::Stream::Stdout, bytes) => output.extend_from_slice(&bytes),
            Event::Output(_, bytes) => error.extend_from_slice(&bytes),
            Event::Ended(ended) => {
                let said = inside::said(&String::from_utf8_lossy(&[output, error].concat()));
                return Err(strange(format!("the box's shell ended ({ended:?}): {said}")));
            }
        }
        match start::first(&output, nonce) {
            First::Incomplete if error.len() > MOST_BEFORE => {
                return Err(strange("the box's shell does not stop to complain".to_owned()));
            }
            First::Incomplete => {}
            First::Ready { process, started, rest } => {
                let begun = Begun { output: output.split_off(rest), error };
                return Ok((inside::Process { number: process, started }, begun));
            }
            First::Refused(said) => return Err(start::refused(&said, config, directory)),
            First::Garbled => {
                let said = inside::said(&String::from_utf8_lossy(&output));
                return Err(strange(format!("the box answered something else than our script: {said}")));
            }
        }
    }
}

/// Why a command was not started.
fn not_started(error: &CallError) -> SpawnError {
    if error.is_not_found() {
        return SpawnError::Lost { reason: error.to_string() };
    }
    SpawnError::Setup { step: "asking the server for it".to_owned(), reason: format!("{error}; {}", error.hint()) }
}
