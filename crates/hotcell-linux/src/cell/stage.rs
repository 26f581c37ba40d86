//! Boxes that a runtime makes on a stage of ours.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;

use super::keeper::Unfinished;
use super::native::{First, OfSpawner, read_first};
use super::shared::ANSWER_TIME;
use super::{Cell, Joined, Keeper};
use crate::bridge;
use crate::cgroup;
use crate::socket;
use crate::spawner::{CreateError, Spawner};
use crate::spec::CellSpec;

/// The most of a runtime's complaints that is of interest.
const LOG_MAX: u64 = 16 * 1024;

/// A stage on which a runtime is making a container.
pub struct Staged {
    keeper: Arc<dyn Keeper>,
    unfinished: Unfinished,
    conversation: AsyncFd<OwnedFd>,
    /// The far end of the conversation, for a bridge to talk on.
    far: OwnedFd,
    cgroup: Option<cgroup::Group>,
    root: OwnedFd,
    uppers: Vec<OwnedFd>,
    log: File,
    stream: Option<OwnedFd>,
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staged").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

/// A runtime did not make its container, or its first process could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct NotMade {
    /// What the runtime said, as it said it.
    pub said: String,
    /// What was seen of it.
    #[source]
    pub source: CreateError,
}

impl Spawner {
    /// Makes a stage of these steps, the last of which executes a runtime.
    pub async fn stage(&self, spec: &CellSpec) -> Result<Staged, CreateError> {
        let (id, conversation, far) = self.ask_for(spec, false, self.knows_base(spec)).await?;
        let keeper: Arc<dyn Keeper> = Arc::new(OfSpawner::new(id, self.clone()));
        let unfinished = Unfinished::new(Arc::clone(&keeper));
        let (mut cgroup, mut staged) = (None, None);
        let (cgroup, (root, uppers, log, stream)) = loop {
            if let (Some(_), Some(_)) = (&cgroup, &staged)
                && let Some(both) = cgroup.take().zip(staged.take())
            {
                break both;
            }
            let heard = tokio::time::timeout(ANSWER_TIME, socket::receive(&conversation)).await;
            let heard = heard.map_err(|_| CreateError::Conversation(io::ErrorKind::TimedOut.into()))?;
            let received = heard.map_err(CreateError::Conversation)?.ok_or(CreateError::Lost)?;
            match read_first(&received, spec).unwrap_or(Err(CreateError::Lost))? {
                First::Created(name) => cgroup = Some(name),
                First::Staged { uppers, stream } => {
                    let mut descriptors = received.descriptors.into_iter();
                    let root = descriptors.next().ok_or(CreateError::Lost)?;
                    let directories: Vec<OwnedFd> = descriptors.by_ref().take(uppers).collect();
                    let log = descriptors.next().ok_or(CreateError::Lost)?;
                    staged = Some((root, directories, File::from(log), descriptors.next().filter(|_| stream)));
                }
                First::Ready { .. } => return Err(CreateError::Lost),
            }
        };
        let cgroup = self.cgroups().group(&cgroup).map_err(CreateError::Conversation)?;
        Ok(Staged { keeper, unfinished, conversation, far, cgroup, root, uppers, log, stream })
    }
}

impl Staged {
    /// Waits for the first process of the container and has it confine itself by `setup`, made of a description that only
    /// confines.
    pub async fn join(self, setup: CellSpec) -> Result<Cell, NotMade> {
        let Self { unfinished, conversation, far, cgroup, root, uppers, log, stream, .. } = self;
        let keeper = unfinished.finish();
        let bridged = stream.is_some();
        let talks = match stream {
            Some(stream) => talk_on(stream, far),
            None => {
                drop(far);
                Ok(())
            }
        };
        let (setup, descriptions) = setup.into_setup();
        let joined =
            Joined { keeper: Arc::clone(&keeper), cgroup, root: Some(root), uppers, setup, descriptions, bridged };
        let made = match talks {
            Ok(()) => Cell::join(conversation.into_inner(), joined).await,
            Err(error) => {
                keeper.kill();
                keeper.release();
                Err(CreateError::Conversation(error))
            }
        };
        made.map_err(|source| NotMade { said: read_log(log), source })
    }
}

fn talk_on(stream: OwnedFd, far: OwnedFd) -> io::Result<()> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
    bridge::start_on(far, reader, writer)
}

/// What the runtime complained about. That it could not be read is no news to whoever has an error already.
fn read_log(mut log: File) -> String {
    let mut text = Vec::new();
    let _ = log.rewind();
    let _ = log.take(LOG_MAX).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
