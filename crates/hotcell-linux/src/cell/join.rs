//! Boxes that somebody else made, with the helper as their first process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::keeper::Unfinished;
use super::shared::{ANSWER_TIME, Origin};
use super::{Cell, Keeper, Parts};
use crate::cgroup;
use crate::socket::{self, Received};
use crate::spawner::CreateError;
use crate::spec::CellSpec;
use crate::wire::{Malformed, Reader, Writer, notice, order};

/// A box that runs already and whose first process is the [helper](crate::agent_image), started as `init` or `agent`.
#[derive(Debug)]
pub struct Joined {
    /// Who can end it.
    pub keeper: Arc<dyn Keeper>,
    /// Its cgroup, for reading what it used, where that can be seen from here.
    pub cgroup: Option<cgroup::Group>,
    /// A directory on the file system that its disk limit is about, where that can be seen from here.
    pub root: Option<OwnedFd>,
    /// The directories of changes of its overlays.
    pub uppers: Vec<OwnedFd>,
    /// How its first process confines itself and all that it will start: see [`CellSpec::into_setup`].
    pub setup: Vec<u8>,
    /// The steps of that in words.
    pub descriptions: Vec<String>,
    /// Whether the conversation is one end of a [bridge](crate::bridge).
    pub bridged: bool,
}

impl CellSpec {
    /// The steps as they are sent to the first process of a box that somebody else made, and in words. There only those
    /// are accepted that confine: `no_new_privs`, capabilities, Landlock, limits and the system call filter.
    pub fn into_setup(self) -> (Vec<u8>, Vec<String>) {
        (self.steps, self.descriptions)
    }
}

impl Cell {
    /// Has the first process of a box confine itself, and takes the box over. If that fails, or the future is dropped, the
    /// box is killed and released.
    pub async fn join(conversation: OwnedFd, joined: Joined) -> Result<Self, CreateError> {
        let unfinished = Unfinished::new(joined.keeper);
        socket::set_nonblocking(&conversation).map_err(CreateError::Conversation)?;
        let conversation = socket::register(conversation).map_err(CreateError::Conversation)?;
        let order = Writer::new(order::SETUP).u32(0).append(&joined.setup).finish();
        socket::send(conversation.as_raw_fd(), &order, &[]).map_err(CreateError::Conversation)?;
        let answer = tokio::time::timeout(ANSWER_TIME, socket::receive(&conversation)).await;
        let received = answer
            .map_err(|_| CreateError::Conversation(io::ErrorKind::TimedOut.into()))?
            .map_err(CreateError::Conversation)?
            .ok_or(CreateError::Lost)?;
        let listens = read_answer(&received, &joined.descriptions).unwrap_or(Err(CreateError::Lost))?;
        let listener = if listens { received.descriptors.into_iter().next() } else { None };
        Ok(Self::assemble(Parts {
            conversation,
            unfinished,
            cgroup: joined.cgroup,
            root: joined.root,
            uppers: joined.uppers,
            listener,
            origin: if joined.bridged { Origin::Bridge } else { Origin::Elsewhere },
        }))
    }
}

/// Whether a listener for refused calls comes along.
fn read_answer(received: &Received, descriptions: &[String]) -> Result<Result<bool, CreateError>, Malformed> {
    let mut reader = Reader::new(&received.record);
    Ok(match reader.u8()? {
        notice::READY => {
            let (_uppers, listener) = (reader.u8()?, reader.u8()?);
            Ok(listener != 0)
        }
        notice::FAILED => {
            let (number, errno) = (reader.u32()?, reader.i32()?);
            let step = descriptions.get(number as usize).cloned().unwrap_or_else(|| "get ready".into());
            Err(CreateError::Step { step, tree: None, source: io::Error::from_raw_os_error(errno) })
        }
        _ => Err(CreateError::Lost),
    })
}
