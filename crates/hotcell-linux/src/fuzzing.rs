//! Doors for the fuzz targets, which play the helper to the library or the library to the helper. They exist only in a
//! build for fuzzing (`--cfg fuzzing`).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::Spawner;
use crate::cgroup::Layout;

/// The helper program, to be talked to without the library in between.
pub fn helper_image() -> &'static [u8] {
    crate::helper::IMAGE
}

/// A spawner that is whoever answers on the other end of `socket`, without cgroups.
pub fn spawner_on(socket: OwnedFd) -> Spawner {
    Spawner::talking_on(socket, Arc::new(Layout::none("the helper is played by a fuzz target")), None)
}
