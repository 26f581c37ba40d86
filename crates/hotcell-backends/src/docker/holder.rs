//! Holds names in the host's trees for protected paths that do not exist, as long as a container lives.
//!
//! The native backend's helper does that for its boxes, and takes the names away even if this process is killed. A box of it in
//! which nothing runs does the same for a container.

use std::sync::Arc;

use hotcell_core::backend::CreateError;
use hotcell_linux::cgroup::Layout;
use hotcell_linux::{Cell, CellSpec, Namespaces, Owner, Spawner, SpawnerOptions};
use tokio::sync::OnceCell;

use crate::registry::with_causes;

const NOBODY: Owner = Owner { uid: 1000, gid: 1000 };
/// Room for the directories of an empty box.
const ROOM: u64 = 256 << 10;

/// Makes holders; its helper process is started for the first.
#[derive(Debug, Default)]
pub(super) struct Holders {
    spawner: OnceCell<Spawner>,
}

impl Holders {
    /// An empty box, to which the names are added.
    pub(super) fn blank() -> CellSpec {
        let mut spec = CellSpec::new(namespaces(), NOBODY);
        if rustix::process::geteuid().is_root() {
            spec.identity(NOBODY.uid, NOBODY.gid);
        }
        spec.root(ROOM, 64);
        spec.end_base();
        spec
    }

    /// Runs steps that work on a container's mounts, and keeps what they made on the host until the cell is dropped.
    pub(super) async fn work_on(&self, spec: &CellSpec) -> Result<Cell, hotcell_linux::CreateError> {
        let spawner = self.spawner.get_or_try_init(start).await;
        let spawner =
            spawner.map_err(|reason| hotcell_linux::CreateError::Conversation(std::io::Error::other(reason)))?;
        spawner.create(spec).await
    }

    /// Holds the names of `spec` until the cell is dropped.
    pub(super) async fn hold(&self, mut spec: CellSpec) -> Result<Cell, CreateError> {
        let failed = |reason: String| CreateError::Setup {
            step: "holding the names of protected paths that do not exist".into(),
            reason,
            hint: "create them, list them under `unprotect`, or use the native runtime with an overlay".into(),
        };
        let spawner = self.spawner.get_or_try_init(start).await.map_err(failed)?;
        spec.seal();
        spec.pivot();
        spec.no_new_privs();
        spec.drop_capabilities();
        spawner.create(&spec).await.map_err(|error| failed(with_causes(&error)))
    }
}

fn namespaces() -> Namespaces {
    Namespaces { user: true, network: true, stage: false, same_user: false }
}

async fn start() -> Result<Spawner, String> {
    let layout = Arc::new(Layout::none("nothing runs in these boxes"));
    let spawner = Spawner::start(layout).map_err(|error| with_causes(&error))?;
    let privileged = hotcell_linux::probe::look().privileged;
    let options = SpawnerOptions { privileged, warm: 0, namespaces: namespaces(), user: NOBODY };
    spawner.greet(options, &Holders::blank()).map_err(|error| with_causes(&error))?;
    spawner.greeted().await.map_err(|error| with_causes(&error))?;
    Ok(spawner)
}
