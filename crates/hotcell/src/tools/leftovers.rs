//! What still runs in the box although no call and no process in the background accounts for it: `server &` in a command, for instance.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use hotcell_core::backend::{Files, FilesError, Sandbox};
use hotcell_core::runtime::RuntimeKind;

use super::access::{self, Shared};
use super::text;
use super::{ErrorKind, ToolError};

/// More entries than this mean processes enough.
const MOST_ENTRIES: u64 = 1 << 16;
/// How many are named.
const MOST_NAMED: usize = 5;
/// What is about to end gets so many looks, and so much time between them.
const LOOKS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// What still runs, as `7 ("sleep")`; nothing where nothing does.
///
/// A server's box is not looked into: it runs programs of the server's, and what is committed from it is a copy.
pub(super) async fn leftovers(shared: &Shared, sandbox: &dyn Sandbox) -> Result<Vec<String>, ToolError> {
    if shared.report.backend.is_remote() {
        return Ok(Vec::new());
    }
    let files = access::files(sandbox)?;
    let mut before = None;
    let mut running = BTreeSet::new();
    for _ in 0..LOOKS {
        let now = processes(files).await?;
        running = match (shared.report.backend, before.replace(now.clone())) {
            (RuntimeKind::Native, _) => now,
            // In containers the look itself may be a process, another one each time.
            (_, Some(before)) => now.intersection(&before).copied().collect(),
            (_, None) => continue,
        };
        if running.is_empty() {
            return Ok(Vec::new());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let mut named = Vec::new();
    for process in running.iter().take(MOST_NAMED) {
        let name = files.read(&Path::new("/proc").join(process.to_string()).join("comm"), 64).await.unwrap_or_default();
        // It chooses its name itself: quoted.
        let name = text::cut(&text::line(String::from_utf8_lossy(&name).trim_end()), 40);
        named.push(format!("{process} ({name:?})"));
    }
    if running.len() > MOST_NAMED {
        named.push(format!("{} more", running.len() - MOST_NAMED));
    }
    Ok(named)
}

/// The processes in the box but its first, which is ours.
async fn processes(files: &dyn Files) -> Result<BTreeSet<u32>, ToolError> {
    let found = files.list(Path::new("/proc"), MOST_ENTRIES).await.map_err(|error| match error {
        FilesError::Lost { reason } => ToolError::lost(reason),
        other => {
            let why = text::line(&other.to_string());
            ToolError::new(ErrorKind::Failed, format!("could not see what runs in the box: {why}"))
        }
    })?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
    Ok(found.iter().filter_map(|entry| number(&entry.path)).filter(|process| *process != 1).collect())
}
