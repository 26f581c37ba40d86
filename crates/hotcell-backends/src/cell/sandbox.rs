//! A live box.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use hotcell_core::backend::{
    DestroyError, Files, Sandbox, SandboxId, SandboxedProcess, SpawnConfig, SpawnError, StdinMode, Workspace,
};
use hotcell_core::capability::Control;
use hotcell_core::outcome::{Violation, ViolationKind, Visibility};
use hotcell_core::plan::{EnforcementReport, Plan};
use hotcell_linux::notify::Listener;
use hotcell_linux::seccomp::{Arch, rule};
use hotcell_linux::{Cell, CellError, Launch, LaunchError, Standard};
use tokio::task::JoinHandle;

use super::files::CellFiles;
use super::output::Meter;
use super::process::{CellProcess, Started};
use super::tool_files::FilesByTool;
use super::watch::{Counters, Watch};
use super::workspace::OverlayWorkspace;
use super::{HOME, Parts, environment};

/// After so many refused calls the kernel answers by itself: a box that does nothing else costs us nothing more.
const MOST_ANSWERS: u64 = 4096;

/// What the box and its commands share.
pub(super) struct Shared {
    pub(super) cell: Arc<Cell>,
    pub(super) plan: Plan,
    pub(super) report: EnforcementReport,
    pub(super) running: Arc<AtomicUsize>,
    refused: Arc<Refused>,
    /// Nothing has been started in it yet.
    is_fresh: AtomicBool,
}

/// Refused system calls, by number.
#[derive(Default)]
struct Refused {
    calls: Mutex<BTreeMap<u32, u64>>,
    listening: AtomicBool,
}

impl Shared {
    /// What the box has used and run into so far.
    fn counters(&self) -> Counters {
        if self.is_fresh.swap(false, Ordering::Relaxed) {
            return Counters::default();
        }
        self.cell.cgroup().map(|group| Counters::from(group.usage())).unwrap_or_default()
    }

    /// The system calls that the filter refused so far.
    pub(super) fn refused_calls(&self) -> Vec<Violation> {
        let calls = self.refused.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .iter()
            .map(|(number, count)| {
                let known = Arch::native().and_then(|arch| rule(arch, *number));
                Violation {
                    control: Control::Syscalls,
                    kind: ViolationKind::Syscall,
                    what: known.map_or_else(|| format!("system call {number}"), |rule| rule.name.to_owned()),
                    count: *count,
                    vouched_by: "the kernel's seccomp notification".to_owned(),
                }
            })
            .collect()
    }

    /// Which denials can be seen here, and which cannot.
    pub(super) fn visibility(&self) -> Visibility {
        let mut visibility = Visibility::default();
        let mut say = |seen: bool, what: &str| {
            let list = if seen { &mut visibility.seen } else { &mut visibility.unseen };
            list.push(what.to_owned());
        };
        say(self.refused.listening.load(Ordering::Relaxed), "system calls refused by the filter with EPERM");
        say(self.cell.cgroup().is_some(), "memory and process limits that were hit");
        say(
            false,
            "paths that are hidden, read-only or refused by Landlock: the kernel tells only the auditor of the machine",
        );
        say(false, "connections that could not be made for want of a network");
        visibility
    }
}

/// A box that our init serves.
pub(crate) struct CellSandbox {
    id: SandboxId,
    shared: Arc<Shared>,
    files: Box<dyn Files>,
    workspace: Option<OverlayWorkspace>,
    resources: Vec<(u32, u64, u64)>,
    environment: BTreeMap<String, String>,
    listener: Option<JoinHandle<()>>,
    _kept: Option<Box<dyn Send + Sync>>,
}

impl CellSandbox {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { id, mut cell, plan, overlays, resources, file_tool, environment, kept } = parts;
        let refused = Arc::new(Refused::default());
        let listener = cell.take_listener().and_then(|listener| listen(listener, Arc::clone(&refused)));
        let running = Arc::new(AtomicUsize::new(0));
        let cell = Arc::new(cell);
        let workspace = (!overlays.is_empty()).then(|| {
            let filesystem = plan.policy.filesystem.clone();
            OverlayWorkspace::new(overlays, filesystem, SystemTime::now(), Arc::clone(&running))
        });
        Self {
            id,
            files: match file_tool {
                Some(tool) => Box::new(FilesByTool::new(Arc::clone(&cell), tool, resources.clone())),
                None => Box::new(CellFiles::new(Arc::clone(&cell))),
            },
            workspace,
            resources,
            environment,
            shared: Arc::new(Shared {
                cell,
                report: plan.report(),
                plan,
                running,
                refused,
                is_fresh: AtomicBool::new(true),
            }),
            listener,
            _kept: kept,
        }
    }

    fn launch(&self, config: &SpawnConfig) -> Result<Launch, SpawnError> {
        let policy = &self.shared.plan.policy;
        if config.tty.is_some() && !policy.process.tty {
            return Err(SpawnError::NotAllowed {
                what: "a terminal".into(),
                hint: "set `tty = true` in [process], or use --tty".into(),
            });
        }
        let directory = config.cwd.clone().or_else(|| policy.process.cwd.clone()).unwrap_or_else(|| HOME.into());
        if !directory.is_absolute() {
            let reason = "it is relative".to_owned();
            return Err(SpawnError::BadCwd { path: directory, reason });
        }
        let environment = environment::environment(policy, &self.environment, config);
        let search = environment.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path.clone());
        Ok(Launch {
            program: config.program.clone(),
            arguments: config.args.clone(),
            directory,
            search: search.unwrap_or_default(),
            environment: environment.into_iter().collect(),
            limits: self.resources.clone(),
            standard: match config.tty {
                Some(size) => Standard::Terminal { rows: size.rows, columns: size.columns },
                None => Standard::Pipes { input: config.stdin == StdinMode::Piped },
            },
        })
    }
}

/// Counts refused calls until the box ends, or there were so many that counting on would serve the box.
fn listen(listener: OwnedFd, refused: Arc<Refused>) -> Option<JoinHandle<()>> {
    let listener = Listener::new(listener).ok()?;
    refused.listening.store(true, Ordering::Relaxed);
    Some(tokio::spawn(async move {
        for _ in 0..MOST_ANSWERS {
            let Some(call) = listener.next().await else { return };
            *refused.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(call.number).or_default() += 1;
        }
    }))
}

#[async_trait]
impl Sandbox for CellSandbox {
    fn id(&self) -> &SandboxId {
        &self.id
    }

    fn report(&self) -> &EnforcementReport {
        &self.shared.report
    }

    async fn spawn(&self, config: SpawnConfig) -> Result<Box<dyn SandboxedProcess>, SpawnError> {
        config.check()?;
        // Pipes and watchers belong to a runtime and panic without one; an embedding program gets an error instead.
        tokio::runtime::Handle::try_current()
            .map_err(|error| SpawnError::Setup { step: "finding the runtime".into(), reason: error.to_string() })?;
        if self.workspace.as_ref().is_some_and(OverlayWorkspace::is_discarded) {
            return Err(SpawnError::Lost { reason: "its workspace was discarded".into() });
        }
        let launch = self.launch(&config)?;
        // What went wrong before is not this command's: read afresh, while the init is busy starting it.
        let counters = async { self.shared.counters() };
        let (running, before) = tokio::join!(self.shared.cell.launch(launch), counters);
        let running = running.map_err(spawn_error)?;
        let limits = &self.shared.plan.policy.limits;
        let watch = Watch {
            shared: Arc::clone(&self.shared),
            meter: Arc::new(Meter::new(limits.output.value)),
            timeout: config.effective_timeout(limits.timeout.value),
            before,
        };
        match CellProcess::new(Started { running, watch }) {
            Ok(process) => Ok(Box::new(process)),
            Err(error) => {
                Err(SpawnError::Setup { step: "reading the command's output".into(), reason: error.to_string() })
            }
        }
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(&*self.files)
    }

    fn workspace(&self) -> Option<&dyn Workspace> {
        self.workspace.as_ref().map(|workspace| workspace as &dyn Workspace)
    }

    async fn destroy(self: Box<Self>) -> Result<(), DestroyError> {
        self.shared.cell.kill();
        self.shared.cell.gone().await;
        Ok(())
    }
}

impl Drop for CellSandbox {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
        // Commands that somebody still holds keep the cell, but the box ends with its sandbox.
        self.shared.cell.kill();
    }
}

fn spawn_error(error: LaunchError) -> SpawnError {
    let name = |program: &std::ffi::OsStr| program.to_string_lossy().into_owned();
    match error {
        LaunchError::NotFound { program } => SpawnError::NotFound { program: name(&program) },
        LaunchError::NotExecutable { program, source } => {
            SpawnError::NotExecutable { program: name(&program), reason: source.to_string() }
        }
        LaunchError::Directory { directory, source } => {
            SpawnError::BadCwd { path: directory, reason: source.to_string() }
        }
        LaunchError::TooLong { bytes } => SpawnError::TooLong { bytes: bytes as u64, limit: ARGUMENTS_MAX },
        LaunchError::NoProcess { source } => SpawnError::LimitTooLow {
            limit: "processes or memory".into(),
            reason: format!("no process could be started ({source})"),
        },
        LaunchError::Prepare { step, source } => SpawnError::Setup { step: step.into(), reason: source.to_string() },
        LaunchError::Cell(CellError::Nul { what }) => {
            SpawnError::InvalidArgument { what: what.into(), reason: "it contains a NUL byte".into() }
        }
        LaunchError::Cell(CellError::Gone) => SpawnError::Lost { reason: "it has ended".into() },
        other => SpawnError::Lost { reason: crate::registry::with_causes(&other) },
    }
}

/// What the kernel takes with the usual stack limit of 8 MiB.
const ARGUMENTS_MAX: u64 = 2 << 20;
