//! The box of a toolbox, and how calls get at it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotcell_core::backend::{CaptureLimits, FileKind, Files, FilesError, Sandbox, SandboxOutput, SpawnConfig};
use hotcell_core::outcome::Status;
use hotcell_core::plan::EnforcementReport;
use tokio::sync::{RwLock, RwLockReadGuard, watch};
use tokio::time::Instant;

use super::background::Processes;
use super::rules::{self, Rule, Wish};
use super::{ErrorKind, OpenError, ToolError, ToolboxOptions, error, text};
use crate::interpreter::Interpreter;
use crate::{Engine, EngineError};

/// The longest path that any kernel takes.
const LONGEST_PATH: usize = 4096;

/// The shells that commands may be written for, in order of preference.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// What all clones of a toolbox share.
pub(super) struct Shared {
    pub(super) options: ToolboxOptions,
    pub(super) report: EnforcementReport,
    pub(super) interpreter: Interpreter,
    pub(super) processes: Processes,
    /// The shell of `exec_shell`, by its path in the box.
    pub(super) shell: &'static str,
    /// Held, shared, by whoever runs something in the foreground or starts something in the background; a commit waits for nobody.
    pub(super) quiet: RwLock<()>,
    /// Held by whoever changes a file that it has read, so that no change is lost.
    pub(super) edits: Arc<tokio::sync::Mutex<()>>,
    /// Held by each call; none once the toolbox is closed.
    sandbox: RwLock<Option<Box<dyn Sandbox>>>,
    closed: watch::Sender<bool>,
    /// None once the toolbox is closed.
    engine: Mutex<Option<Engine>>,
    /// How often the box has reported each denial: it counts for the whole of its life, not for one command.
    reported: Mutex<BTreeMap<String, u64>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbox").field("workspace", &self.options.workspace).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) async fn open(engine: &Engine, options: ToolboxOptions) -> Result<Self, OpenError> {
        let bad = |reason: &str| OpenError::Workspace { path: options.workspace.clone(), reason: reason.to_owned() };
        if !options.workspace.is_absolute() {
            return Err(bad("it is not an absolute path"));
        }
        if let Some(rule) = rules::of_path(&options.policy, &options.workspace, Wish::Read) {
            return Err(bad(&format!("{} puts it out of reach", rule.name)));
        }
        let mut options = options;
        options.workspace = rules::normal(&options.workspace);
        // Contexts start there too.
        options.policy.process.cwd = Some(options.workspace.clone());
        let sandbox = engine.create(&options.policy).await?;
        let shell = match find_shell(&*sandbox, &options).await {
            Ok(shell) => shell,
            Err(error) => {
                // Whoever hears of the error may end at once, and with it what would remove the box later.
                let _ = sandbox.destroy().await;
                return Err(error);
            }
        };
        let text = options.limits.text;
        let capture = CaptureLimits { head: text / 2, tail: text - text / 2 };
        Ok(Self {
            report: sandbox.report().clone(),
            interpreter: Interpreter::new(options.languages.clone()).capture(capture),
            processes: Processes::default(),
            shell,
            quiet: RwLock::default(),
            edits: Arc::default(),
            sandbox: RwLock::new(Some(sandbox)),
            closed: watch::Sender::new(false),
            engine: Mutex::new(Some(engine.clone())),
            reported: Mutex::default(),
            options,
        })
    }

    /// The box, for the time of a call.
    pub(super) async fn sandbox(&self) -> Result<RwLockReadGuard<'_, dyn Sandbox>, ToolError> {
        let held = self.sandbox.read().await;
        RwLockReadGuard::try_map(held, Option::as_deref).map_err(|_| closed())
    }

    /// Does the work of a call, unless the toolbox is closed before it is done.
    pub(super) async fn until_closed<T>(
        &self,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let mut closing = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closed| *closed) => Err(closed()),
            done = work => done,
        }
    }

    /// Does work that changes files, when nobody else does. What has begun is completed although nobody waits for it any more: a write goes on
    /// when its future is dropped, and must not do so beside the next one.
    pub(super) async fn change<T, W>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> W) -> Result<T, ToolError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        let turn = async { Ok(Arc::clone(&self.edits).lock_owned().await) };
        let edits = self.until_closed(turn).await?;
        let (shared, work) = (Arc::clone(self), work(Arc::clone(self)));
        let done = tokio::spawn(async move {
            let _edits = edits;
            shared.until_closed(work).await
        });
        let failed = |error| ToolError::new(ErrorKind::Failed, format!("the change failed: {error}"));
        done.await.unwrap_or_else(|error| Err(failed(error)))
    }

    pub(super) async fn close(&self) {
        self.closed.send_replace(true);
        self.processes.end();
        self.interpreter.close().await;
        // Calls have let go of it by now, or will as soon as they are polled.
        let sandbox = self.sandbox.write().await.take();
        if let Some(sandbox) = sandbox {
            let _ = sandbox.destroy().await;
        }
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.close().await;
        }
    }

    /// The engine that made the box.
    pub(super) fn engine(&self) -> Option<Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A path that a model named, as an absolute one in the box. Where it leads is for the kernel to say, in the box.
    pub(super) fn path(&self, named: &str) -> Result<PathBuf, ToolError> {
        if named.is_empty() {
            return Err(ToolError::invalid("the path is empty").instead("`.` is the workspace"));
        }
        let path = self.options.workspace.join(named);
        if path.as_os_str().len() >= LONGEST_PATH {
            let message = format!("the path has {} bytes, {} are possible", path.as_os_str().len(), LONGEST_PATH - 1);
            return Err(ToolError::new(ErrorKind::TooLarge, message));
        }
        Ok(path)
    }

    /// A path as results show it: from the workspace on where it is in there, and on one line.
    pub(super) fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.options.workspace) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => text::path(inside),
            Err(_) => text::path(path),
        }
    }

    /// The longest that a call may ask for.
    pub(super) fn longest(&self) -> Duration {
        let longest = self.options.limits.longest;
        self.options.policy.limits.timeout.value.map_or(longest, |most| most.min(longest))
    }

    /// How long a call may take.
    pub(super) fn time(&self, asked: Option<u64>) -> Result<Duration, ToolError> {
        let longest = self.longest();
        let Some(asked) = asked else { return Ok(self.options.limits.timeout.min(longest)) };
        let time = Duration::from_millis(asked);
        if time.is_zero() {
            return Err(ToolError::invalid("`timeout_ms` is 0").instead("leave it out, or give the command time"));
        }
        if time > longest {
            let longest = longest.as_millis();
            let message = format!("`timeout_ms` is {asked}, and the longest that may be asked for is {longest}");
            let error = ToolError::invalid(message).instead(format!(
                "ask for at most {longest}; what runs in the background without `timeout_ms` may run as long as the policy lets it"
            ));
            let limits = &self.options.policy.limits;
            let is_of_policy = limits.timeout.value.is_some_and(|most| most < self.options.limits.longest);
            let rule = rules::of_limit(limits, Status::TimedOut).filter(|_| is_of_policy);
            return Err(match rule {
                Some(rule) => error.rule(rule.name),
                None => error,
            });
        }
        Ok(time)
    }

    /// When a call that started now and says nothing of its time is over.
    pub(super) fn deadline(&self) -> Instant {
        /// As good as never, where a host program sets no limit and the clock ends before it.
        const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let time = self.options.limits.timeout.min(self.longest());
        Instant::now() + time.min(NEVER)
    }

    /// What a failure of the box's files means under the policy: the kernel has answered, and this says which rule it was.
    pub(super) async fn files_error(
        &self,
        sandbox: &dyn Sandbox,
        failure: &FilesError,
        path: &Path,
        wish: Wish,
    ) -> ToolError {
        let told = error::of_files(failure);
        let policy = &self.options.policy;
        let rule = match failure {
            FilesError::Denied { .. } => self.rule_in_box(sandbox, path, wish).await,
            FilesError::NotFound { .. } => rules::of_absence(policy, path),
            _ => None,
        };
        match rule {
            Some(rule) => told.rule(rule.name).instead(rule.instead),
            None => told,
        }
    }

    /// The rule that stands in the way of a path, which may be a link that leads to where the rule is.
    pub(super) async fn rule_in_box(&self, sandbox: &dyn Sandbox, path: &Path, wish: Wish) -> Option<Rule> {
        let policy = &self.options.policy;
        match rules::of_path(policy, path, wish) {
            Some(rule) if rule.names_path => Some(rule),
            by_text => {
                // A commit is refused where something runs.
                let Ok(_quiet) = self.quiet.try_read() else { return by_text };
                real_path(sandbox, path).await.and_then(|real| rules::of_path(policy, &real, wish)).or(by_text)
            }
        }
    }

    /// How often a denial was reported beyond what was known before.
    pub(super) fn newly_reported(&self, what: &str, count: u64) -> u64 {
        let mut reported = self.reported();
        let known = reported.entry(what.to_owned()).or_default();
        let new = count.saturating_sub(*known);
        *known = (*known).max(count);
        new
    }

    fn reported(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        // Nothing panics while it is held.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files of the box; every kind of box has them today.
pub(super) fn files(sandbox: &dyn Sandbox) -> Result<&dyn Files, ToolError> {
    sandbox.files().ok_or_else(|| {
        ToolError::new(ErrorKind::Unsupported, "this kind of box gives no access to its files")
            .instead("read and write files with commands, through exec_shell")
    })
}

fn closed() -> ToolError {
    ToolError::lost("the toolbox was closed")
}

/// The best shell in the box; an error if the workspace is not there.
async fn find_shell(sandbox: &dyn Sandbox, options: &ToolboxOptions) -> Result<&'static str, OpenError> {
    let bad = |reason: String| OpenError::Workspace { path: options.workspace.clone(), reason };
    let lost = |reason| {
        OpenError::Engine(EngineError::Create(hotcell_core::backend::CreateError::Setup {
            step: "looking at the workspace in the box".to_owned(),
            reason,
            hint: "open the toolbox again".to_owned(),
        }))
    };
    let Some(files) = sandbox.files() else { return Ok("/bin/sh") };
    match files.list(&options.workspace, 1).await {
        Ok(_) | Err(FilesError::TooLarge { .. }) => {}
        Err(FilesError::Lost { reason }) => return Err(lost(reason)),
        Err(error) => return Err(bad(error.to_string())),
    }
    let mut shell = "/bin/sh";
    for known in SHELLS {
        if files.stat(Path::new(known)).await.is_ok_and(|entry| matches!(entry.kind, FileKind::File | FileKind::Link)) {
            shell = known;
            break;
        }
    }
    Ok(shell)
}

/// Where a path leads in the box, as the box itself sees it; only to find the name of a rule, nothing is decided by it.
async fn real_path(sandbox: &dyn Sandbox, path: &Path) -> Option<PathBuf> {
    const ENOUGH: CaptureLimits = CaptureLimits { head: LONGEST_PATH + 1, tail: 0 };
    let config = SpawnConfig::new("readlink").args(["-m", "--"]).arg(path).timeout(Duration::from_secs(5));
    let mut process = sandbox.spawn(config).await.ok()?;
    let output = SandboxOutput::collect(&mut *process, ENOUGH).await.ok()?;
    let said = String::from_utf8(output.stdout.head).ok()?;
    let real = PathBuf::from(said.strip_suffix('\n')?);
    real.is_absolute().then_some(real)
}
