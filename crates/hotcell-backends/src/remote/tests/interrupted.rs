//! What is dropped halfway, and what happens at the same time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use hotcell_core::backend::{DestroyError, FileEntry, Sandbox, SandboxId, SpawnConfig};
use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::plan::plan;
use hotcell_core::policy::{Access, Limits, Policy};
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_remote::http::CallError;
use tokio::sync::{Notify, watch};

use super::super::link::{Command, Download, Link, OwnProgram, Ran, Started};
use super::super::trees::{Caps, Trees};
use super::super::{Parts, RemoteSandbox, inside};
use super::local::{HIDDEN, LocalLink};
use super::skip;
use crate::cell::workspace;

/// Something that can be held up.
#[derive(Debug)]
struct Gate {
    open: watch::Sender<bool>,
    reached: Notify,
}

impl Gate {
    fn new() -> Self {
        Self { open: watch::Sender::new(true), reached: Notify::new() }
    }

    fn set(&self, open: bool) {
        self.open.send_replace(open);
    }

    async fn pass(&self) {
        if !*self.open.borrow() {
            self.reached.notify_one();
        }
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
    }
}

/// The stand-in, with calls that can be held up.
#[derive(Debug)]
struct Gated {
    inner: Arc<LocalLink>,
    uploads: Gate,
    deletions: Gate,
    /// The next deletion fails.
    cannot_delete: AtomicBool,
}

impl Gated {
    async fn open(test: &str) -> Option<Arc<Self>> {
        let Some(inner) = LocalLink::open().await else {
            skip(test, "no user namespaces for a stand-in");
            return None;
        };
        let cannot_delete = AtomicBool::new(false);
        Some(Arc::new(Self { inner, uploads: Gate::new(), deletions: Gate::new(), cannot_delete }))
    }

    async fn create(self: &Arc<Self>, host: &tempfile::TempDir) -> (Box<dyn Sandbox>, PathBuf) {
        let tree = host.path().canonicalize().unwrap().join("tree");
        fs::create_dir(&tree).unwrap();
        let policy = Policy::builder().write(&tree).cwd(&tree).runtime(RuntimeKind::E2b).build().unwrap();
        let mut capabilities = Capabilities::new(RuntimeKind::E2b, Isolation::Remote);
        for control in Control::ALL {
            capabilities.controls.insert(*control, Capability::enforced("a test"));
        }
        let plan = plan(&policy, &capabilities).unwrap();
        let id = SandboxId::new(format!("test-{}", std::process::id())).unwrap();
        let link: Arc<Self> = Arc::clone(self);
        (Box::new(RemoteSandbox::create(Parts { id, link, plan }).await.unwrap()), tree)
    }

    /// Waits until the sandbox is gone.
    async fn deleted(&self) {
        while self.inner.faults.deletions.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[async_trait]
impl Link for Gated {
    fn name(&self) -> String {
        self.inner.name()
    }

    async fn run(&self, program: OwnProgram<'_>) -> Result<Ran, CallError> {
        if program.words[2].contains("still runs in it") {
            // It sees everything of this machine, and a box in which something runs has its files brought back in any case.
            return Ok(Ran { code: 0, output: "quiet\n".to_owned(), error: String::new() });
        }
        self.inner.run(program).await
    }

    async fn start(&self, command: &Command) -> Result<Started, CallError> {
        self.inner.start(command).await
    }

    async fn upload(&self, path: &str, content: File, length: u64) -> Result<(), CallError> {
        self.uploads.pass().await;
        self.inner.upload(path, content, length).await
    }

    async fn download(&self, path: &str) -> Result<Box<dyn Download>, CallError> {
        self.inner.download(path).await
    }

    async fn list(&self, path: &str) -> Result<Vec<FileEntry>, CallError> {
        self.inner.list(path).await
    }

    async fn stat(&self, path: &str) -> Result<Option<FileEntry>, CallError> {
        self.inner.stat(path).await
    }

    async fn renew(&self, lifetime: Duration) -> Result<(), CallError> {
        self.inner.renew(lifetime).await
    }

    async fn delete(&self) -> Result<(), CallError> {
        self.deletions.pass().await;
        match self.cannot_delete.swap(false, Ordering::Relaxed) {
            true => Err(self.inner.broken("it will not")),
            false => self.inner.delete().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_while_a_command_ends_comes_back() {
    let Some(link) = Gated::open("what_is_written_while_a_command_ends_comes_back").await else { return };
    let host = tempfile::tempdir_in(HIDDEN).unwrap();
    let (sandbox, tree) = link.create(&host).await;
    link.uploads.set(false);
    let path = tree.join("late");
    let writing = sandbox.files().unwrap().write(&path, b"late", 0o644);
    let ending = async {
        link.uploads.reached.notified().await;
        let process = sandbox.spawn(SpawnConfig::new("true")).await.unwrap();
        // Time enough to bring back too early what is not there yet.
        let _ = tokio::time::timeout(Duration::from_secs(1), process.wait()).await;
        link.uploads.set(true);
        assert!(process.wait().await.unwrap().status.success());
    };
    tokio::join!(async { writing.await.unwrap() }, ending);
    sandbox.destroy().await.unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_trees_that_nobody_waits_for_any_more_takes_nothing_away() {
    let Some(link) = LocalLink::open().await else {
        return skip(
            "looking_at_trees_that_nobody_waits_for_any_more_takes_nothing_away",
            "no user namespaces for a stand-in",
        );
    };
    let host = tempfile::tempdir_in(HIDDEN).unwrap();
    let tree = host.path().canonicalize().unwrap().join("tree");
    fs::create_dir(&tree).unwrap();
    let policy = Policy::builder().write(&tree).build().unwrap();
    let facts = inside::prepare(&*link, "test", &Limits::default()).await.unwrap();
    let trees = Trees::send(&*link, &facts, &policy.filesystem, Caps::new(&policy.limits)).await.unwrap();
    let write = |name: &str| format!("echo x > {}/{name}", tree.display());
    inside::run(&*link, &write("first"), &[], inside::SHORT).await.unwrap();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (release, released) = mpsc::channel::<()>();
    // Dropped where it waits for the thread that works.
    tokio::select! {
        biased;
        _ = trees.fetched(&*link, &facts, Access::Write, true, move |trees, filesystem, baseline| {
            begun.send(()).unwrap();
            released.recv().unwrap();
            workspace::commit_allowed(trees, filesystem, baseline)
        }) => unreachable!("it waits"),
        begun = has_begun => begun.unwrap(),
    }
    release.send(()).unwrap();
    // What had begun is completed and counts, else this would be a conflict; and what comes later comes.
    let change = format!("{}; echo y > {}/first", write("second"), tree.display());
    inside::run(&*link, &change, &[], inside::SHORT).await.unwrap();
    trees.fetched(&*link, &facts, Access::Write, true, workspace::commit_allowed).await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("first")).unwrap(), "y\n");
    assert!(tree.join("second").exists());
    link.delete().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_nobody_waits_for_any_more_is_completed() {
    let Some(link) = Gated::open("a_removal_that_nobody_waits_for_any_more_is_completed").await else { return };
    let host = tempfile::tempdir_in(HIDDEN).unwrap();
    let (sandbox, _) = link.create(&host).await;
    link.deletions.set(false);
    tokio::select! {
        _ = sandbox.destroy() => unreachable!("it waits"),
        () = link.deletions.reached.notified() => {}
    }
    link.deletions.set(true);
    link.deleted().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_fails_tells_of_lost_files_too_and_is_tried_again() {
    let test = "a_removal_that_fails_tells_of_lost_files_too_and_is_tried_again";
    let Some(link) = Gated::open(test).await else { return };
    let host = tempfile::tempdir_in(HIDDEN).unwrap();
    let (sandbox, tree) = link.create(&host).await;
    sandbox.files().unwrap().write(&tree.join("lost"), b"lost", 0o644).await.unwrap();
    link.inner.faults.short_download.store(true, Ordering::Relaxed);
    link.cannot_delete.store(true, Ordering::Relaxed);
    let error = sandbox.destroy().await.unwrap_err();
    assert!(matches!(error, DestroyError::LeftBehind { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("it will not") && said.contains("its files were not brought back"), "{said}");
    link.deleted().await;
}
