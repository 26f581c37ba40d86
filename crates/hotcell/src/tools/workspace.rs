//! `workspace_diff` and `workspace_commit`: what was changed in overlays, and how it gets to the user's own files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_core::backend::{Change, ChangeKind, FileKind, Files, Sandbox, Workspace, WorkspaceError};
use hotcell_core::policy::{Access, ContainerPolicy, NetworkMode, Policy, ProtectedPath, RemotePolicy};
use hotcell_core::runtime::RuntimeChoice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::access::{self, Shared};
use super::leftovers::leftovers;
use super::list::EntryKind;
use super::result::Render;
use super::text::{self, Returns};
use super::{ErrorKind, ToolError, Toolbox};

/// The largest file whose difference is shown line by line.
const MOST_COMPARED: u64 = 512 << 10;
/// How long is spent on finding the smallest difference of one file.
const COMPARE_TIME: Duration = Duration::from_millis(200);
/// How many results' worth of text all differences together take.
const MOST_RESULTS: usize = 4;

/// What `workspace_diff` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDiff {
    /// Only what is at or beneath this path.
    #[serde(default)]
    pub path: Option<String>,
}

/// What `workspace_commit` takes: nothing. It commits everything that workspace_diff lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCommit {}

/// What `workspace_diff` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WorkspaceDiffResult {
    /// What differs from the user's own files.
    pub changes: Vec<ChangedFile>,
    /// How many changes there are, shown or not.
    pub total: u64,
    /// Why this is not all, if it is not.
    pub incomplete: Option<String>,
}

/// What `workspace_commit` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WorkspaceCommitResult {
    /// What was applied to the user's own files, the first of them.
    pub changes: Vec<ChangedFile>,
    /// How many changes were applied.
    pub total: u64,
    /// Contexts of run_code that were ended for it: their variables are lost.
    pub contexts_ended: Vec<String>,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChangedFile {
    /// The path, from the workspace on where it is in there.
    pub path: String,
    /// What happened.
    pub change: ChangedHow,
    /// What is there now; for a deletion, what was there.
    pub kind: EntryKind,
    /// The size of a file now.
    pub size: Option<u64>,
    /// The difference line by line, as `diff -u` shows it; none for what has no lines.
    pub diff: Option<String>,
    /// Why there is no difference line by line.
    pub note: Option<String>,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangedHow {
    /// It was not there before.
    Added,
    /// Its content is different, or it became something else.
    Changed,
    /// It is gone.
    Deleted,
    /// Only its permission bits are different.
    Mode,
}

impl ChangedHow {
    fn mark(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Changed => 'M',
            Self::Deleted => 'D',
            Self::Mode => 'm',
        }
    }
}

impl From<ChangeKind> for ChangedHow {
    fn from(kind: ChangeKind) -> Self {
        match kind {
            ChangeKind::Added => Self::Added,
            ChangeKind::Deleted => Self::Deleted,
            ChangeKind::Mode => Self::Mode,
            _ => Self::Changed,
        }
    }
}

impl Render for WorkspaceDiffResult {
    fn text(&self) -> String {
        if self.total == 0 {
            return "nothing differs from the user's own files".to_owned();
        }
        let mut shown = format!("{} changes, not yet committed", self.total);
        if let Some(why) = &self.incomplete {
            shown.push_str(&format!(" (incomplete: {why})"));
        }
        push_list(&mut shown, &self.changes);
        for diff in self.changes.iter().filter_map(|change| change.diff.as_ref()) {
            shown.push_str("\n\n");
            shown.push_str(diff.trim_end());
        }
        shown
    }
}

impl Render for WorkspaceCommitResult {
    fn text(&self) -> String {
        let mut shown = match self.total {
            0 => "there was nothing to commit".to_owned(),
            total => format!("committed {total} changes to the user's own files"),
        };
        if !self.contexts_ended.is_empty() {
            let contexts = self.contexts_ended.join(", ");
            shown.push_str(&format!("\ncontexts ended, their variables are lost: {contexts}"));
        }
        push_list(&mut shown, &self.changes);
        shown
    }
}

fn push_list(to: &mut String, changes: &[ChangedFile]) {
    for change in changes {
        to.push_str(&format!("\n{} {}", change.change.mark(), change.path));
        if let Some(note) = &change.note {
            to.push_str(&format!(" ({note})"));
        }
    }
}

impl Toolbox {
    /// What was changed in the overlays, and is not among the user's own files yet.
    pub async fn workspace_diff(&self, input: WorkspaceDiff) -> Result<WorkspaceDiffResult, ToolError> {
        self.shared.until_closed(diff(&self.shared, input)).await
    }

    /// Applies all that was changed in the overlays to the user's own files.
    pub async fn workspace_commit(&self, _: WorkspaceCommit) -> Result<WorkspaceCommitResult, ToolError> {
        // Not cut short by closing or by dropping this future: what has begun is completed, and nothing runs beside it until then.
        let shared = Arc::clone(&self.shared);
        let (_waiting, wanted) = oneshot::channel();
        let done = tokio::spawn(async move { commit(&shared, wanted).await }).await;
        done.unwrap_or_else(|error| Err(ToolError::new(ErrorKind::Failed, format!("the commit failed: {error}"))))
    }
}

fn overlays(sandbox: &dyn Sandbox) -> Result<&dyn Workspace, ToolError> {
    sandbox.workspace().ok_or_else(|| {
        ToolError::new(
            ErrorKind::Unsupported,
            "there are no overlays: what is written is written directly, or not at all",
        )
        .rule("filesystem.overlay = []")
        .instead("there is nothing to commit; compare files with git or diff")
    })
}

async fn diff(shared: &Shared, input: WorkspaceDiff) -> Result<WorkspaceDiffResult, ToolError> {
    let beneath = input.path.as_deref().map(|path| shared.path(path)).transpose()?;
    let beneath = beneath.as_deref().map(super::rules::normal);
    let sandbox = shared.sandbox().await?;
    let mut found = overlays(&*sandbox)?.diff_now().await.map_err(|error| workspace_error(shared, error))?;
    found.retain(|change| beneath.as_ref().is_none_or(|beneath| change.path.starts_with(beneath)));
    let total = found.len() as u64;
    let mut changes = shown_changes(shared, &found);
    let mut incomplete = (changes.len() < found.len()).then(|| format!("only {} changes are shown", changes.len()));
    found.truncate(changes.len());
    let deadline = shared.deadline();
    let before = Before::open(shared, &found).await;
    let mut room = shared.options.limits.text.saturating_mul(MOST_RESULTS);
    for (change, shown) in found.iter().zip(&mut changes) {
        if room == 0 || Instant::now() >= deadline {
            incomplete.get_or_insert_with(|| "not all differences are shown line by line; ask for a `path`".to_owned());
        } else {
            match compared(shared, access::files(&*sandbox)?, &before, change).await {
                Ok(diff) => shown.diff = diff,
                Err(note) => shown.note = Some(note),
            }
            room = room.saturating_sub(shown.diff.as_ref().map_or(0, String::len));
        }
    }
    before.close().await;
    Ok(WorkspaceDiffResult { changes, total, incomplete })
}

/// The first changes, as many as a result has room for: the code in the box decides how long their paths are.
fn shown_changes(shared: &Shared, found: &[Change]) -> Vec<ChangedFile> {
    let mut room = shared.options.limits.text.saturating_mul(MOST_RESULTS);
    let fits = |shown: &ChangedFile| {
        let fits = room > 0;
        room = room.saturating_sub(shown.path.len());
        fits
    };
    found.iter().take(shared.options.limits.entries).map(|change| changed(shared, change)).take_while(fits).collect()
}

fn changed(shared: &Shared, change: &Change) -> ChangedFile {
    ChangedFile {
        path: shared.shown(&change.path),
        change: change.kind.into(),
        kind: change.file.into(),
        size: change.size,
        diff: None,
        note: (change.kind == ChangeKind::Mode)
            .then(|| format!("mode {:o} → {:o}", change.mode_before.unwrap_or(0), change.mode_after.unwrap_or(0))),
    }
}

/// The user's own files as they are, seen through a box that can only read: what the code in the first box committed, a link for instance,
/// leads nowhere else from there.
struct Before(Option<Box<dyn Sandbox>>);

impl Before {
    async fn open(shared: &Shared, changes: &[Change]) -> Self {
        if changes.iter().all(|change| change.kind == ChangeKind::Added) {
            return Self(None);
        }
        let Some(engine) = shared.engine() else { return Self(None) };
        Self(engine.create(&reading(&shared.options.policy)).await.ok())
    }

    fn files(&self) -> Option<&dyn Files> {
        self.0.as_deref()?.files()
    }

    async fn close(self) {
        if let Some(sandbox) = self.0 {
            let _ = sandbox.destroy().await;
        }
    }
}

/// A policy that shows what this one shows, read-only, in a box of this machine.
fn reading(policy: &Policy) -> Policy {
    let mut reading = policy.clone();
    for rule in reading.filesystem.rules.iter_mut().filter(|rule| rule.access > Access::Read) {
        rule.access = Access::Read;
    }
    reading.runtime = RuntimeChoice::Auto;
    reading.isolation = None;
    reading.network = NetworkMode::Deny;
    reading.container = ContainerPolicy::default();
    reading.remote = RemotePolicy::default();
    reading
}

/// The difference of one file line by line; none where there are no lines, an error says why it cannot be shown.
async fn compared(
    shared: &Shared,
    now: &dyn Files,
    before: &Before,
    change: &Change,
) -> Result<Option<String>, String> {
    if change.file != FileKind::File || change.kind == ChangeKind::Mode {
        return Ok(None);
    }
    let old = match change.kind {
        ChangeKind::Added => Vec::new(),
        _ => match before.files() {
            Some(files) => content(files, &change.path).await?,
            None => return Err("the user's own file cannot be read here".to_owned()),
        },
    };
    let new = match change.kind {
        ChangeKind::Deleted => Vec::new(),
        _ => content(now, &change.path).await?,
    };
    let name = shared.shown(&change.path);
    let (added, deleted) = (change.kind == ChangeKind::Added, change.kind == ChangeKind::Deleted);
    let (old, new) = (as_text(old)?, as_text(new)?);
    let text = tokio::task::spawn_blocking(move || {
        let from = if added { "/dev/null".to_owned() } else { format!("a/{name}") };
        let to = if deleted { "/dev/null".to_owned() } else { format!("b/{name}") };
        let mut config = TextDiff::configure();
        config.timeout(COMPARE_TIME);
        config.diff_lines(&old, &new).unified_diff().context_radius(3).header(&from, &to).to_string()
    });
    let text = text.await.map_err(|error| format!("it could not be compared: {error}"))?;
    Ok(Some(text::bounded(text.as_bytes(), shared.options.limits.text, Returns::AreShown).text))
}

/// The content of a regular file.
async fn content(files: &dyn Files, path: &Path) -> Result<Vec<u8>, String> {
    match files.stat(path).await {
        // A link is not a file, wherever it leads.
        Ok(entry) if entry.kind != FileKind::File => Err("it was something else before".to_owned()),
        Ok(_) => files.read(path, MOST_COMPARED).await.map_err(|error| match error {
            hotcell_core::backend::FilesError::TooLarge { .. } => "too large to be shown line by line".to_owned(),
            other => format!("it cannot be read: {other}"),
        }),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

fn as_text(bytes: Vec<u8>) -> Result<String, String> {
    let binary = || "binary".to_owned();
    String::from_utf8(bytes)
        .map_err(|_| binary())
        .and_then(|text| if text.contains('\0') { Err(binary()) } else { Ok(text) })
}

/// `wanted` ends when nobody waits for the commit any more.
async fn commit(shared: &Shared, wanted: oneshot::Receiver<()>) -> Result<WorkspaceCommitResult, ToolError> {
    let sandbox = shared.sandbox().await?;
    let workspace = overlays(&*sandbox)?;
    // Held by whoever runs something in the foreground or is about to start something in the background.
    let Ok(_quiet) = shared.quiet.try_write() else {
        return Err(busy("another call is running a command or code".to_owned()).instead("wait for its end"));
    };
    let running: Vec<String> = shared
        .processes
        .all()
        .iter()
        .filter(|process| process.is_running())
        .map(|process| process.id.clone())
        .collect();
    if !running.is_empty() {
        return Err(busy(format!("processes run in the background: {}", running.join(", ")))
            .instead("end them with stop_process, or wait for their end"));
    }
    let _edits = shared.edits.lock().await;
    // Threads and children of an idle context go on changing files: what is committed would be neither what was there before nor after.
    let contexts: Vec<String> = shared.interpreter.contexts().iter().map(|context| text::line(&context.name)).collect();
    shared.interpreter.close().await;
    match commit_at_rest(shared, &*sandbox, workspace, wanted).await {
        Ok(changes) => Ok(WorkspaceCommitResult {
            changes: shown_changes(shared, &changes),
            total: changes.len() as u64,
            contexts_ended: contexts,
        }),
        Err(mut error) => {
            if !contexts.is_empty() {
                error.message.push_str(&format!("; contexts were ended all the same: {}", contexts.join(", ")));
            }
            Err(error)
        }
    }
}

/// Commits, unless something still runs that nobody keeps track of.
async fn commit_at_rest(
    shared: &Shared,
    sandbox: &dyn Sandbox,
    workspace: &dyn Workspace,
    mut wanted: oneshot::Receiver<()>,
) -> Result<Vec<Change>, ToolError> {
    let left = leftovers(shared, sandbox).await?;
    if !left.is_empty() {
        let message = format!("a command left processes behind that still run: {}", left.join(", "));
        return Err(busy(message).instead(
            "end them with exec_shell and `kill`, or wait for their end; start servers with `background`: true",
        ));
    }
    if wanted.try_recv() == Err(oneshot::error::TryRecvError::Closed) {
        return Err(busy("the call was given up".to_owned()));
    }
    workspace.commit().await.map_err(|error| workspace_error(shared, error))
}

fn busy(message: String) -> ToolError {
    ToolError::new(ErrorKind::Busy, format!("{message}; nothing was committed"))
}

fn workspace_error(shared: &Shared, error: WorkspaceError) -> ToolError {
    let message = text::line(&error.to_string());
    match error {
        WorkspaceError::Busy => {
            ToolError::new(ErrorKind::Busy, message).instead("end processes with stop_process first")
        }
        WorkspaceError::Protected { paths } => {
            let shown: Vec<String> = paths.iter().map(|path| shared.shown(path)).collect();
            let rule = protecting(shared, &paths);
            ToolError::new(ErrorKind::Refused, message)
                .rule(rule)
                .instead(format!("undo the changes of {}, then commit again", shown.join(", ")))
        }
        WorkspaceError::Conflict { .. } => ToolError::new(ErrorKind::Conflict, message)
            .instead("show the user the difference with workspace_diff, and let them decide"),
        WorkspaceError::Lost { reason } => ToolError::lost(reason),
        WorkspaceError::Failed { ref source, .. } => {
            let why = text::line(&source.to_string());
            ToolError::new(ErrorKind::Failed, format!("{message}: {why}"))
        }
        _ => ToolError::new(ErrorKind::Failed, message),
    }
}

/// The names that protect these paths, as they are written in a configuration.
fn protecting(shared: &Shared, paths: &[PathBuf]) -> String {
    let protected = shared.options.policy.filesystem.protected_paths();
    let name = |protected: &ProtectedPath| {
        format!("{:?}", text::path(protected.path.strip_prefix(&protected.tree).unwrap_or(&protected.path)))
    };
    let hit = |protected: &&ProtectedPath| paths.iter().any(|path| path.starts_with(&protected.path));
    let mut names: Vec<String> = protected.iter().filter(hit).map(name).collect();
    if names.is_empty() {
        // A directory above it was moved or removed.
        let above = |protected: &&ProtectedPath| paths.iter().any(|path| protected.path.starts_with(path));
        names = protected.iter().filter(above).map(name).collect();
    }
    names.sort();
    names.dedup();
    if names.is_empty() {
        // Rules that make parts of an overlay read-only or hide them.
        return "filesystem: a rule does not let these paths be changed".to_owned();
    }
    format!("filesystem.protect = [{}]", names.join(", "))
}
