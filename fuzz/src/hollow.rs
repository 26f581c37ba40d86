//! Boxes that hold a few files in memory and run nothing: what is above a box can be fuzzed with them, fast and without a kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use hotcell_core::backend::{
    CreateError, DestroyError, FileEntry, FileKind, Files, FilesError, Sandbox, SandboxBackend, SandboxId,
    SandboxedProcess, SpawnConfig, SpawnError,
};
use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::plan::{EnforcementReport, Plan};
use hotcell_core::runtime::{Isolation, RuntimeKind};

/// The directory that the files are in.
pub const WORKSPACE: &str = "/work";

/// Makes them.
#[derive(Debug)]
pub struct Hollow;

#[async_trait]
impl SandboxBackend for Hollow {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Native
    }

    fn isolation(&self) -> Isolation {
        Isolation::Process
    }

    async fn probe(&self) -> Capabilities {
        let all = Control::ALL.iter().copied();
        all.fold(Capabilities::new(self.kind(), self.isolation()), |known, control| {
            known.with(control, Capability::enforced("nothing runs"))
        })
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError> {
        let files = [
            ("notes.txt", &b"first\nsecond \x1b[2J line\n"[..]),
            ("binary", &b"\x00\xff\xfe"[..]),
            ("empty", &b""[..]),
            ("image.png", &b"\x89PNG\r\n\x1a\n"[..]),
        ];
        let files = files.map(|(name, bytes)| (Path::new(WORKSPACE).join(name), bytes.to_vec()));
        let id = SandboxId::new("hollow").expect("it is a name");
        Ok(Box::new(HollowBox { id, report: plan.report(), files: Mutex::new(files.into()) }))
    }
}

struct HollowBox {
    id: SandboxId,
    report: EnforcementReport,
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl HollowBox {
    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Vec<u8>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sandbox for HollowBox {
    fn id(&self) -> &SandboxId {
        &self.id
    }

    fn report(&self) -> &EnforcementReport {
        &self.report
    }

    async fn spawn(&self, config: SpawnConfig) -> Result<Box<dyn SandboxedProcess>, SpawnError> {
        Err(SpawnError::NotFound { program: config.program.to_string_lossy().into_owned() })
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }

    async fn destroy(self: Box<Self>) -> Result<(), DestroyError> {
        Ok(())
    }
}

#[async_trait]
impl Files for HollowBox {
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FilesError> {
        let bytes = self.files().get(path).cloned().ok_or_else(|| FilesError::NotFound { path: path.to_owned() })?;
        match bytes.len() as u64 > limit {
            true => Err(FilesError::TooLarge { path: path.to_owned(), limit }),
            false => Ok(bytes),
        }
    }

    async fn write(&self, path: &Path, bytes: &[u8], _mode: u32) -> Result<(), FilesError> {
        self.files().insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }

    async fn list(&self, path: &Path, _limit: u64) -> Result<Vec<FileEntry>, FilesError> {
        let files = self.files();
        Ok(files
            .iter()
            .filter(|(name, _)| name.parent() == Some(path))
            .map(|(name, bytes)| entry(name, bytes))
            .collect())
    }

    async fn stat(&self, path: &Path) -> Result<FileEntry, FilesError> {
        let files = self.files();
        files.get(path).map(|bytes| entry(path, bytes)).ok_or_else(|| FilesError::NotFound { path: path.to_owned() })
    }

    async fn make_directory(&self, _path: &Path) -> Result<(), FilesError> {
        Ok(())
    }

    async fn remove(&self, path: &Path) -> Result<(), FilesError> {
        self.files().remove(path);
        Ok(())
    }
}

fn entry(path: &Path, bytes: &[u8]) -> FileEntry {
    FileEntry { path: path.to_owned(), kind: FileKind::File, size: bytes.len() as u64, mode: 0o644 }
}
