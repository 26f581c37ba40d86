//! The host's trees in a box far away: copies that are sent when the box is made and fetched when their changes count.
//!
//! ```text
//! host ──pack──▶ archive ──upload, unpack.sh──▶ box ──pack.sh, download──▶ archive ──index──▶ what it has now
//!        └── what was given ───────────────────────────────────────────────────────────────────────┴──▶ changes
//! ```
//!
//! An archive that comes back is never unpacked. It stays a file without a name; what is in it is listed, checked and compared with
//! what was given, and only the changes that the policy allows are written, by the code that commits overlays.

#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod pack;
mod records;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hotcell_core::backend::{CreateError, WorkspaceError};
use hotcell_core::policy::{Access, FilesystemPolicy, Limits};
use hotcell_remote::http::CallError;

use super::inside::{self, Facts, said, script_words};
use super::link::{Link, OwnProgram};
use crate::cell::workspace::copied::{CopiedTree, Fingerprints, Records};
use crate::cell::workspace::{Baseline, OverlayTree, Upper};
use index::{Root, index};
pub(super) use pack::pack;

const UNPACK: &str = include_str!("../scripts/unpack.sh");
const PLACES: &str = include_str!("../scripts/places.sh");
const PACK: &str = include_str!("../scripts/pack.sh");

/// How long packing or unpacking in the box may take.
const LONG: Duration = Duration::from_secs(600);

/// How long it may take until an archive is packed in the box and has come.
const FETCHING: Duration = Duration::from_secs(30 * 60);

/// The most bytes where the policy has no limit.
const BYTES_MAX: u64 = 16 << 30;
/// The most entries, and the most bytes of their paths.
const ENTRIES_MAX: usize = 100_000;
const PATH_BYTES_MAX: usize = 32 << 20;

/// How much may be sent or fetched at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    pub(super) bytes: u64,
    pub(super) entries: usize,
    pub(super) path_bytes: usize,
}

impl Caps {
    /// As much as the box may have on its disk.
    pub(super) fn new(limits: &Limits) -> Self {
        Self { bytes: limits.disk.value.unwrap_or(BYTES_MAX), entries: ENTRIES_MAX, path_bytes: PATH_BYTES_MAX }
    }
}

/// A tree that the box may change.
#[derive(Debug)]
pub(super) struct Kept {
    /// The path of its rule.
    root: PathBuf,
    access: Access,
    /// The directory beneath which files are written: the tree, or what a single file is in.
    place: PathBuf,
    lower: OwnedFd,
    /// User and group that written files are given; none leaves them to whoever writes.
    caller: Option<(u32, u32)>,
    given: Arc<Records>,
}

impl Kept {
    fn is_directory(&self) -> bool {
        self.place == self.root
    }
}

/// Trees as an archive, ready to be sent.
#[derive(Debug)]
pub(super) struct Packed {
    archive: File,
    length: u64,
    /// The directories that the box must have for it.
    places: Vec<String>,
    kept: Vec<Kept>,
}

/// The trees of one box.
#[derive(Debug)]
pub(super) struct Trees {
    filesystem: FilesystemPolicy,
    fingerprints: Fingerprints,
    caps: Caps,
    /// Locked while trees are fetched: one at a time, or one would overwrite the other's archive.
    state: Arc<tokio::sync::Mutex<State>>,
}

#[derive(Debug)]
struct State {
    kept: Vec<Kept>,
    baseline: Baseline,
}

impl State {
    /// What the box has now counts as given.
    fn settle(&mut self, access: Access, trees: Vec<OverlayTree>) {
        let fetched = self.kept.iter_mut().filter(|kept| kept.access == access);
        for (kept, tree) in fetched.zip(trees) {
            if let Upper::Copy(copy) = tree.upper {
                kept.given = Arc::new(copy.now.into_iter().map(|(path, (record, _))| (path, record)).collect());
            }
        }
    }
}

/// Why trees could not be brought back. Nothing of the host has been changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BringError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the box could not pack its files: {0}")]
    Packing(String),
    #[error("the archive that the box sent is refused: {0}")]
    Hostile(String),
    #[error("they did not come within {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("there are more than {limit} {what} in the box's trees")]
    TooMuch { what: &'static str, limit: u64 },
    #[error("the archive could not be kept: {0}")]
    Keeping(#[from] std::io::Error),
}

impl Trees {
    /// Packs the trees of a policy, sends them and unpacks them in the box.
    pub(super) async fn send(
        link: &dyn Link,
        facts: &Facts,
        filesystem: &FilesystemPolicy,
        caps: Caps,
    ) -> Result<Self, CreateError> {
        let fingerprints = Fingerprints::default();
        // Before the first file is read: what the host changes from here on is a conflict.
        let created = SystemTime::now();
        let kept = if filesystem.rules.iter().all(|rule| rule.access == Access::Deny) {
            Vec::new()
        } else {
            let (rules, with) = (filesystem.clone(), fingerprints.clone());
            let packed = tokio::task::spawn_blocking(move || pack(&rules, caps, &with)).await;
            let packed = packed.map_err(|error| setup("packing the trees", error.to_string(), "try again"))??;
            deliver(link, facts, packed).await?
        };
        let state = Arc::new(tokio::sync::Mutex::new(State { kept, baseline: Baseline::new(created) }));
        Ok(Self { filesystem: filesystem.clone(), fingerprints, caps, state })
    }

    /// Whether the box has trees with this access.
    pub(super) fn has(&self, access: Access) -> bool {
        self.filesystem.rules.iter().any(|rule| rule.access == access)
    }

    /// Fetches the trees with this access and does something with what they are now. With `settle`, what they are now counts as
    /// given from then on, if that succeeds.
    ///
    /// If this is dropped, either nothing has been done yet, or it is done to its end; what is fetched next waits for that.
    pub(super) async fn fetched<T: Send + 'static>(
        &self,
        link: &dyn Link,
        facts: &Facts,
        access: Access,
        settle: bool,
        work: impl FnOnce(&[OverlayTree], &FilesystemPolicy, &mut Baseline) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        let roots: Vec<Root> = state
            .kept
            .iter()
            .filter(|kept| kept.access == access)
            .map(|kept| Root { path: kept.root.clone(), is_directory: kept.is_directory() })
            .collect();
        let failed = |error: BringError| WorkspaceError::Failed {
            operation: "bring back".to_owned(),
            path: roots.first().map(|root| root.path.clone()).unwrap_or_default(),
            applied: 0,
            source: std::io::Error::other(error.to_string()),
        };
        // Whatever the server does, whoever waits for this gets an answer.
        let archive = tokio::time::timeout(FETCHING, self.fetch(link, facts, &roots)).await;
        let archive = Arc::new(archive.unwrap_or(Err(BringError::TooSlow(FETCHING))).map_err(failed)?);
        let (filesystem, fingerprints, caps) = (self.filesystem.clone(), self.fingerprints.clone(), self.caps);
        let (source, asked) = (Arc::clone(&archive), roots.clone());
        let indexed =
            tokio::task::spawn_blocking(move || index(&source, &filesystem, &asked, caps, &fingerprints)).await;
        let indexed =
            indexed.unwrap_or_else(|error| Err(BringError::Keeping(std::io::Error::other(error)))).map_err(failed)?;
        let mut trees = Vec::new();
        let fetched = state.kept.iter().filter(|kept| kept.access == access);
        for (kept, now) in fetched.zip(indexed) {
            let copy = CopiedTree {
                given: Arc::clone(&kept.given),
                now,
                archive: Arc::clone(&archive),
                fingerprints: self.fingerprints.clone(),
            };
            let lower = kept.lower.try_clone().map_err(|error| failed(BringError::Keeping(error)))?;
            let upper = Upper::Copy(copy);
            trees.push(OverlayTree { place: kept.place.clone(), lower, upper, caller: kept.caller });
        }
        // On a thread of its own, which goes on when this future is dropped, and has the lock until it has noted what it did.
        let filesystem = self.filesystem.clone();
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&trees, &filesystem, &mut state.baseline);
            if settle && done.is_ok() {
                state.settle(access, trees);
            }
            done
        });
        done.await.unwrap_or_else(|error| Err(WorkspaceError::Lost { reason: error.to_string() }))
    }

    /// Has the box pack these trees, and fetches the archive into a file without a name.
    async fn fetch(&self, link: &dyn Link, facts: &Facts, roots: &[Root]) -> Result<File, BringError> {
        let name = format!("{}/back.tar", facts.directory);
        let mut arguments = vec![name.clone()];
        for root in roots {
            let path = root.path.to_str().ok_or_else(|| BringError::Packing("a tree's path is not text".to_owned()))?;
            arguments.push(format!(".{path}"));
        }
        let ran = inside::run(link, PACK, &arguments, LONG).await?;
        if ran.code != 0 {
            return Err(BringError::Packing(said(&ran.error)));
        }
        let length: u64 =
            ran.output.trim().parse().map_err(|_| BringError::Packing(format!("it said {}", said(&ran.output))))?;
        let most = most_bytes(self.caps);
        if length > most {
            return Err(BringError::TooMuch { what: "bytes", limit: self.caps.bytes });
        }
        let mut download = link.download(&name).await?;
        let mut file = tempfile::tempfile()?;
        let mut come = 0_u64;
        while let Some(piece) = download.next().await? {
            come = come.saturating_add(piece.len() as u64);
            if come > length {
                return Err(BringError::Hostile("it is longer than the box said".to_owned()));
            }
            let written = tokio::task::spawn_blocking(move || file.write_all(&piece).map(|()| file)).await;
            file = written.map_err(std::io::Error::other)??;
        }
        if come != length {
            return Err(BringError::Hostile(format!("it ends after {come} of {length} bytes")));
        }
        Ok(file)
    }
}

/// Bytes of files, a header for each, and what archives are padded with.
fn most_bytes(caps: Caps) -> u64 {
    caps.bytes.saturating_add(caps.entries as u64 * 2048).saturating_add(1 << 20)
}

/// Sends an archive and unpacks it in the box.
async fn deliver(link: &dyn Link, facts: &Facts, packed: Packed) -> Result<Vec<Kept>, CreateError> {
    let Packed { archive, length, places, kept } = packed;
    if !places.is_empty() {
        let words = [script_words(PLACES), vec![facts.uid.to_string()], places].concat();
        let program = OwnProgram { words: &words, as_root: facts.uid != 0, deadline: inside::SHORT };
        let made = link.run(program).await.map_err(|error| inside::failed("making places for the trees", &error))?;
        if made.code != 0 {
            let hint = "the box's user may not make directories there: use an image whose user may, or other paths";
            return Err(setup("making places for the trees", said(&made.error), hint));
        }
    }
    let name = format!("{}/trees.tar", facts.directory);
    link.upload(&name, archive, length).await.map_err(|error| inside::failed("sending the trees", &error))?;
    let unpacked = inside::run(link, UNPACK, &[name], LONG).await;
    let unpacked = unpacked.map_err(|error| inside::failed("unpacking the trees in the box", &error))?;
    if unpacked.code != 0 {
        let hint = "the trees are put at the same paths as here; the box's user must be able to write there";
        return Err(setup("unpacking the trees in the box", said(&unpacked.error), hint));
    }
    Ok(kept)
}

fn setup(step: &str, reason: String, hint: &str) -> CreateError {
    CreateError::Setup { step: step.to_owned(), reason, hint: hint.to_owned() }
}
