//! The overlay trees of a box on a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use hotcell_core::backend::{Change, Workspace, WorkspaceError};
use hotcell_core::policy::Access;

use super::sandbox::Shared;
use crate::cell::workspace;

/// The overlay trees of one box: fetched whenever somebody asks what has changed.
///
/// After a commit the box keeps its copies; nothing that the host changes later is seen in it.
pub(super) struct RemoteWorkspace {
    shared: Arc<Shared>,
    discarded: AtomicBool,
}

impl RemoteWorkspace {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, discarded: AtomicBool::new(false) }
    }

    /// Whether the changes were thrown away, and the box with them.
    pub(super) fn is_discarded(&self) -> bool {
        self.discarded.load(Ordering::Acquire)
    }

    fn check(&self) -> Result<(), WorkspaceError> {
        if let Some(reason) = self.shared.lost() {
            return Err(WorkspaceError::Lost { reason });
        }
        match self.is_discarded() {
            true => Err(WorkspaceError::Lost { reason: "its changes were thrown away; create a new box".to_owned() }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Workspace for RemoteWorkspace {
    async fn diff(&self) -> Result<Vec<Change>, WorkspaceError> {
        self.check()?;
        let Ok(_quiet) = self.shared.quiet.try_write() else { return Err(WorkspaceError::Busy) };
        let _unchanged = self.shared.changing.write().await;
        let Shared { link, facts, trees, .. } = &*self.shared;
        trees.fetched(&**link, facts, Access::Overlay, false, |trees, _, _| workspace::differences(trees)).await
    }

    async fn commit(&self) -> Result<Vec<Change>, WorkspaceError> {
        self.check()?;
        let Ok(_quiet) = self.shared.quiet.try_write() else { return Err(WorkspaceError::Busy) };
        let _unchanged = self.shared.changing.write().await;
        let Shared { link, facts, trees, .. } = &*self.shared;
        trees.fetched(&**link, facts, Access::Overlay, true, workspace::commit).await
    }

    async fn discard(&self) -> Result<(), WorkspaceError> {
        let Ok(_quiet) = self.shared.quiet.try_write() else { return Err(WorkspaceError::Busy) };
        self.discarded.store(true, Ordering::Release);
        Ok(())
    }
}
