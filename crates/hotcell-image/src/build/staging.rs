//! Files that exist for the time of a build.
//!
//! They are removed at the end. What a build that was killed left is removed by the next one: whoever uses such a file holds a
//! lock on it, and the kernel takes that back from the dead.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use tempfile::{Builder, NamedTempFile, TempDir};

use super::error::BuildError;

/// What the names of all of them begin with.
const PREFIX: &str = ".hotcell-image-";

/// The file in a directory that is locked for as long as the directory is used.
const LOCK: &str = "lock";

/// What is younger than this may have been made and not yet locked.
const TIME_TO_LOCK: Duration = Duration::from_secs(60);

/// A directory for the time of a build.
pub(super) struct Staging {
    directory: TempDir,
    _lock: File,
}

impl Staging {
    /// A directory where the system keeps such things.
    pub(super) fn new() -> Result<Self, BuildError> {
        Self::new_in(&std::env::temp_dir())
    }

    /// A directory in another one.
    pub(super) fn new_in(place: &Path) -> Result<Self, BuildError> {
        sweep(place);
        let directory =
            Builder::new().prefix(PREFIX).tempdir_in(place).map_err(BuildError::file("make a directory in", place))?;
        let path = directory.path().join(LOCK);
        let lock =
            File::create(&path).and_then(|file| file.lock().map(|()| file)).map_err(BuildError::file("lock", path))?;
        Ok(Self { directory, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Writes a file beside its place, and moves it there when it is whole. The writer may not replace the file that it is given.
pub(super) fn write_whole<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T, BuildError>) -> Result<T, BuildError> {
    let place = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(place).map_err(BuildError::file("make the directory", place))?;
    sweep(place);
    let file: NamedTempFile =
        Builder::new().prefix(PREFIX).tempfile_in(place).map_err(BuildError::file("make a file in", place))?;
    file.as_file().lock().map_err(BuildError::file("lock", file.path()))?;
    let result = write(file.path())?;
    let readable = Permissions::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(BuildError::file("write", path))?;
    file.persist(path).map_err(|error| BuildError::file("write", path)(error.error))?;
    Ok(result)
}

/// Removes what builds that were killed left in a directory. What cannot be removed is no reason to stop.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let Ok(own) = fs::metadata("/proc/self").map(|metadata| metadata.uid()) else { return };
    for entry in entries.filter_map(Result::ok) {
        // Temporary directories are shared: what belongs to others is left alone.
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|metadata| metadata.uid() == own);
        let Ok(kind) = entry.file_type() else { continue };
        if !ours || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let lock = if kind.is_dir() { path.join(LOCK) } else { path.clone() };
        if File::open(lock).is_ok_and(|file| is_old(&file) && file.try_lock().is_ok()) {
            let _ = if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

fn is_old(file: &File) -> bool {
    let changed = file.metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > TIME_TO_LOCK))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_a_killed_build_left_is_removed_by_the_next() {
        let place = TempDir::new().unwrap();
        let used = Staging::new_in(place.path()).unwrap();
        // As after a death: the entries are there, and nobody holds a lock.
        let dead = place.path().join(".hotcell-image-dead");
        fs::create_dir_all(dead.join("packages")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(place.path().join(".hotcell-image-file"), "half").unwrap();
        fs::write(place.path().join("somebody-else"), "").unwrap();
        for old in [
            dead.join(LOCK),
            place.path().join(".hotcell-image-file"),
            place.path().join("somebody-else"),
            used.path().join(LOCK),
        ] {
            let hour = Duration::from_secs(3600);
            File::open(old).unwrap().set_modified(SystemTime::now() - hour).unwrap();
        }
        fs::write(place.path().join(".hotcell-image-new"), "not yet locked").unwrap();
        write_whole(&place.path().join("result"), |file| {
            let during = Staging::new_in(place.path()).unwrap();
            let hour = Duration::from_secs(3600);
            File::open(file).unwrap().set_modified(SystemTime::now() - hour).unwrap();
            drop((during, Staging::new_in(place.path()).unwrap()));
            assert!(file.exists() && used.path().exists(), "what is in use stays");
            fs::write(file, "whole").map_err(BuildError::file("write", file))
        })
        .unwrap();
        assert!(used.path().exists());
        drop(used);
        let mut left = names(place.path());
        left.sort();
        assert_eq!(left, [".hotcell-image-new", "result", "somebody-else"]);
        assert_eq!(fs::read_to_string(place.path().join("result")).unwrap(), "whole");
    }

    #[test]
    fn a_failure_leaves_the_old_file() {
        let place = TempDir::new().unwrap();
        let path = place.path().join("result");
        fs::write(&path, "old").unwrap();
        let failed = write_whole(&path, |file| {
            fs::write(file, "half").map_err(BuildError::file("write", file))?;
            Err::<(), _>(BuildError::NoCache)
        });
        assert!(failed.is_err());
        assert_eq!((names(place.path()).len(), fs::read_to_string(&path).unwrap().as_str()), (1, "old"));
    }
}
