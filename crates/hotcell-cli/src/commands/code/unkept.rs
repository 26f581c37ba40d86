//! What the code changed in layers over the user's files, which end with the box.

use std::ffi::OsStr;

use hotcell::WorkspaceError;

use super::Session;
use crate::output;

/// Where Python keeps what it compiled: nobody misses that, and every import would tell of it.
const COMPILED: &str = "__pycache__";

/// How many changes there are; none where there are no overlays.
pub(super) async fn count(session: &Session) -> Option<Result<usize, WorkspaceError>> {
    // Also while something runs that the code left behind.
    let changes = session.sandbox.workspace()?.diff_now().await;
    let is_missed = |change: &&hotcell::Change| change.path.iter().all(|part| part != OsStr::new(COMPILED));
    Some(changes.map(|changes| changes.iter().filter(is_missed).count()))
}

/// Says that there are changes which nobody will find.
pub(super) async fn tell(session: &Session) {
    match count(session).await {
        None | Some(Ok(0)) => {}
        Some(Ok(count)) => {
            let changes = if count == 1 { "1 change was".to_owned() } else { format!("{count} changes were") };
            output::message(&format!("{changes} not kept: the code wrote to a layer over your files, and not to them"));
            output::hint("--write . lets code change the files of this directory");
        }
        Some(Err(error)) => {
            output::error(&format!(
                "whatever the code wrote over your files was not kept; it cannot be listed: {error}"
            ));
        }
    }
}
