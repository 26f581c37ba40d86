//! Locks between processes. They end with their holder, however that ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::StoreError;

/// For what can wait for another time.
pub(super) const A_MOMENT: Duration = Duration::from_secs(1);
/// For what others do quickly.
pub(super) const SHORT: Duration = Duration::from_secs(120);
/// For somebody else's unpacking of a large image.
pub(super) const LONG: Duration = Duration::from_secs(30 * 60);

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    pub(super) fn shared(path: &Path, patience: Duration) -> Result<Self, StoreError> {
        Self::wait(path, FlockOperation::NonBlockingLockShared, patience)
    }

    pub(super) fn exclusive(path: &Path, patience: Duration) -> Result<Self, StoreError> {
        Self::wait(path, FlockOperation::NonBlockingLockExclusive, patience)
    }

    pub(super) fn try_exclusive(path: &Path) -> Result<Option<Self>, StoreError> {
        let lock = Self::open(path)?;
        Ok(lock.take(path, FlockOperation::NonBlockingLockExclusive)?.then_some(lock))
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(path).map(Self).map_err(StoreError::file("open", path))
    }

    fn wait(path: &Path, operation: FlockOperation, patience: Duration) -> Result<Self, StoreError> {
        let lock = Self::open(path)?;
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        while !lock.take(path, operation)? {
            if started.elapsed() >= patience {
                return Err(StoreError::Busy { path: path.to_owned() });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(lock)
    }

    fn take(&self, path: &Path, operation: FlockOperation) -> Result<bool, StoreError> {
        match flock(&self.0, operation) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
            Err(errno) => Err(StoreError::file("lock", path)(io::Error::from(errno))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharers_go_together_and_one_alone_waits_for_them() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let first = Lock::shared(&path, SHORT).unwrap();
        let second = Lock::shared(&path, SHORT).unwrap();
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        drop((first, second));
        let alone = Lock::try_exclusive(&path).unwrap().unwrap();
        assert!(matches!(Lock::shared(&path, Duration::from_millis(5)), Err(StoreError::Busy { .. })));
        drop(alone);
        Lock::shared(&path, SHORT).unwrap();
    }
}
