//! Workspaces on plain directories that look like an upper layer, hostile ones included.

mod commit;
mod diff;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use hotcell_core::backend::{Change, ChangeKind, FileKind, Workspace, WorkspaceError};
use hotcell_core::policy::{FilesystemPolicy, Policy};
use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags, makedev};
use tempfile::TempDir;

use super::{OverlayTree, OverlayWorkspace, Upper};

/// A host tree and an upper layer over it.
struct Overlay {
    scratch: TempDir,
    running: Arc<AtomicUsize>,
    policy: FilesystemPolicy,
    caller: Option<(u32, u32)>,
}

impl Overlay {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["lower", "upper"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        let policy = Policy::builder().overlay(scratch.path().join("lower")).build().unwrap().filesystem;
        Self { scratch, running: Arc::default(), policy, caller: None }
    }

    fn lower(&self, path: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join("lower").join(path)
    }

    fn upper(&self, path: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join("upper").join(path)
    }

    /// The workspace as if the box were made now.
    fn workspace(&self) -> OverlayWorkspace {
        let trees = vec![OverlayTree {
            place: self.scratch.path().join("lower"),
            lower: pin(&self.lower(""), OFlags::PATH),
            upper: Upper::Layer(pin(&self.upper(""), OFlags::RDONLY)),
            caller: self.caller,
        }];
        OverlayWorkspace::new(trees, self.policy.clone(), SystemTime::now(), Arc::clone(&self.running))
    }

    /// Changes as (path in the tree, kind, file).
    fn short(&self, changes: &[Change]) -> Vec<(PathBuf, ChangeKind, FileKind)> {
        let top = self.scratch.path().join("lower");
        changes.iter().map(|c| (c.path.strip_prefix(&top).unwrap().to_owned(), c.kind, c.file)).collect()
    }
}

fn pin(path: &Path, flags: OFlags) -> OwnedFd {
    rustix::fs::open(path, flags | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    set_mode(path, 0o644);
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn names_in(path: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Longer than the grain of the kernel's clock for files.
fn let_time_pass() {
    std::thread::sleep(Duration::from_millis(30));
}

fn device_zero(path: &Path) -> rustix::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))
}

/// Marks a path as deleted; says why not where the kernel does not allow that.
#[must_use]
fn whiteout(test: &str, path: &Path) -> bool {
    can(test, device_zero(path))
}

#[must_use]
fn mark(test: &str, path: &Path, name: &str, value: &[u8]) -> bool {
    can(test, rustix::fs::setxattr(path, name, value, XattrFlags::empty()))
}

fn can(test: &str, result: rustix::io::Result<()>) -> bool {
    if let Err(error) = &result {
        skip(test, &format!("this machine cannot imitate an upper layer: {error}"));
    }
    result.is_ok()
}

fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = File::options().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}
