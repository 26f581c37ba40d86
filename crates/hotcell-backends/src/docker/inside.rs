//! The trees of a policy, mounted from outside, by root, into a container that has started and in which nothing runs yet.
//!
//! Engines show trees as they are: with the owners that they have on the host, and without overlays. What our helper mounts
//! is what it mounts for a native box: owners mapped to the box's user, overlays, covers, protected paths. It is the container's and
//! ends with it: nothing is left on the host, whatever becomes of this process.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::sync::Arc;

use hotcell_core::backend::CreateError;
use hotcell_core::policy::Policy;
use hotcell_linux::Cell;
use hotcell_linux::cgroup::Layout;

use super::holder::Holders;
use crate::cell::OverlayTree;
use crate::native::lower::{LoweredOverlay, explain};
use crate::native::stage::lower_inside;
use crate::native::{Layers, Machine, UserNamespace};

/// The mounts of a container that has started.
#[derive(Debug)]
pub(super) struct Mounts {
    path: PathBuf,
    seen: Metadata,
    /// Held open, so that no other namespace can come to have its number.
    _namespace: File,
}

impl Mounts {
    /// Holds the mounts of the container with this first process. Whether that still is its first process is to be asked after
    /// this: from then on the number cannot have become another's.
    pub(super) fn hold(pid: i64) -> Result<Self, CreateError> {
        let path = PathBuf::from(format!("/proc/{pid}/ns/mnt"));
        let opened = File::open(&path).and_then(|namespace| Ok((namespace.metadata()?, namespace)));
        match opened {
            Ok((seen, namespace)) => Ok(Self { path, seen, _namespace: namespace }),
            Err(error) => Err(CreateError::Setup {
                step: "looking at the container's mounts".into(),
                reason: error.to_string(),
                hint: "the container may have ended: try again".into(),
            }),
        }
    }

    /// Mounts the trees of the policy for the container's user.
    pub(super) async fn add(&self, policy: &Policy, uid: u32, holders: &Holders) -> Result<Trees, CreateError> {
        let machine = machine();
        let mut not_mapped = BTreeSet::new();
        loop {
            let lowered = lower_inside(policy, &machine, &not_mapped, uid, (&self.path, &self.seen))?;
            match holders.work_on(&lowered.spec).await {
                Ok(helper) => {
                    let shows_sockets = lowered.shows_sockets(&not_mapped);
                    return Ok(Trees { overlays: lowered.overlays, shows_sockets, helper });
                }
                Err(hotcell_linux::CreateError::Step { tree: Some(tree), source, .. })
                    if source.raw_os_error() == Some(INVALID) && lowered.may_show_unmapped(&tree) =>
                {
                    not_mapped.insert(tree);
                }
                Err(error) => return Err(explain(&error)),
            }
        }
    }
}

/// Trees that have been mounted.
#[derive(Debug)]
pub(super) struct Trees {
    overlays: Vec<LoweredOverlay>,
    /// Whether sockets of the host's can be talked to in trees that are only read.
    pub(super) shows_sockets: bool,
    /// Holds what was made on the host for it, as long as the container lives.
    helper: Cell,
}

impl Trees {
    /// The overlays as a workspace sees them, and who has to be kept for as long as the container.
    pub(super) fn into_parts(self) -> std::io::Result<(Vec<OverlayTree>, Cell)> {
        let uppers = self.overlays.into_iter().zip(self.helper.uppers());
        let trees =
            uppers.map(|(overlay, upper)| overlay.tree(upper.try_clone()?, true)).collect::<std::io::Result<_>>()?;
        Ok((trees, self.helper))
    }
}

/// This machine, as far as mounting goes.
fn machine() -> Machine {
    Machine {
        findings: hotcell_linux::probe::look(),
        cgroups: Arc::new(Layout::none("the engine has them")),
        user_namespace: UserNamespace::Works,
        layers: Layers::ALL,
    }
}

/// Whether this process may do that, and the kernel can.
pub(super) fn is_possible() -> bool {
    let findings = hotcell_linux::probe::look();
    // Mounts whose owners are mapped can be layers of overlays since then.
    findings.privileged
        && findings.overlay
        && findings.tmpfs_user_attributes
        && findings.at_least(5, 19)
        && fs::metadata("/proc/self/ns/mnt").is_ok()
}

/// `EINVAL`: how the kernel says that a file system knows no id-mapped mounts.
const INVALID: i32 = 22;
