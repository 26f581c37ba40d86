//! Boxes that a spawner made.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;

use super::keeper::Unfinished;
use super::shared::Origin;
use super::{Cell, Keeper, Parts};
use crate::socket::{self, Received};
use crate::spawner::{CreateError, Spawner, describe_stage};
use crate::spec::CellSpec;
use crate::wire::{Malformed, Reader, event, notice, stage};

/// A box by its number, and the spawner that made it: kept alive as long as one of its boxes is.
#[derive(Debug)]
pub(super) struct OfSpawner {
    id: u32,
    spawner: Spawner,
}

impl OfSpawner {
    pub(super) fn new(id: u32, spawner: Spawner) -> Self {
        Self { id, spawner }
    }
}

impl Keeper for OfSpawner {
    fn kill(&self) {
        self.spawner.kill(self.id);
    }

    fn release(&self) {
        self.spawner.release(self.id);
    }
}

impl Cell {
    /// Waits until the box that was asked for is ready.
    pub(crate) async fn open(
        id: u32,
        conversation: AsyncFd<OwnedFd>,
        spawner: Spawner,
        spec: &CellSpec,
    ) -> Result<Self, CreateError> {
        let unfinished = Unfinished::new(Arc::new(OfSpawner::new(id, spawner.clone())));
        let mut cgroup = None;
        // The spawner's word and the init's come in either order.
        let mut ready = None;
        let (cgroup, (root, uppers, listener)) = loop {
            if let (Some(_), Some(_)) = (&cgroup, &ready)
                && let Some(both) = cgroup.take().zip(ready.take())
            {
                break both;
            }
            let Some(received) = socket::receive(&conversation).await.map_err(CreateError::Conversation)? else {
                return Err(CreateError::Lost);
            };
            match read_first(&received, spec).unwrap_or(Err(CreateError::Lost))? {
                First::Created(name) => cgroup = Some(name),
                First::Staged { .. } => return Err(CreateError::Lost),
                First::Ready { uppers, listener } => {
                    let mut descriptors = received.descriptors.into_iter();
                    let root = descriptors.next().ok_or(CreateError::Lost)?;
                    let directories: Vec<OwnedFd> = descriptors.by_ref().take(uppers).collect();
                    ready = Some((root, directories, if listener { descriptors.next() } else { None }));
                }
            }
        };
        let cgroup = spawner.cgroups().group(&cgroup).map_err(CreateError::Conversation)?;
        Ok(Self::assemble(Parts {
            conversation,
            unfinished,
            cgroup,
            root: Some(root),
            uppers,
            listener,
            origin: Origin::Spawner,
        }))
    }
}

pub(super) enum First {
    Created(String),
    Ready { uppers: usize, listener: bool },
    Staged { uppers: usize, stream: bool },
}

pub(super) fn read_first(received: &Received, spec: &CellSpec) -> Result<Result<First, CreateError>, Malformed> {
    let mut reader = Reader::new(&received.record);
    Ok(match reader.u8()? {
        event::CREATED => {
            let (errno, code, index) = (reader.i32()?, reader.u8()?, reader.u32()?);
            let name = String::from_utf8_lossy(reader.bytes()?).into_owned();
            if errno == 0 {
                Ok(First::Created(name))
            } else {
                let tree = if code == stage::TREE { spec.opened_tree(index) } else { None };
                let step = describe_stage(code, index, spec);
                Err(CreateError::Step { step, tree, source: io::Error::from_raw_os_error(errno) })
            }
        }
        notice::READY => Ok(First::Ready { uppers: usize::from(reader.u8()?), listener: reader.u8()? != 0 }),
        notice::STAGED => Ok(First::Staged { uppers: usize::from(reader.u8()?), stream: reader.u8()? != 0 }),
        notice::FAILED => {
            let (number, errno) = (reader.u32()?, reader.i32()?);
            let (step, tree) = (spec.describe(number), spec.tree_path(number));
            Err(CreateError::Step { step, tree, source: io::Error::from_raw_os_error(errno) })
        }
        _ => Err(CreateError::Lost),
    })
}
