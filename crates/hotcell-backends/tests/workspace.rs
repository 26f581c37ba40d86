//! Overlay workspaces and files of a real native box.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_backends::registry::{StartOptions, start};
use hotcell_core::backend::{
    ChangeKind, FileKind, Files, FilesError, Sandbox, SandboxBackend, SandboxOutput, SpawnConfig, Workspace,
    WorkspaceError,
};
use hotcell_core::outcome::Status;
use hotcell_core::plan::plan;
use hotcell_core::policy::Policy;
use hotcell_core::runtime::RuntimeKind;
use tempfile::TempDir;

/// A host tree and a box that sees it through an overlay.
struct Fixture {
    tree: TempDir,
    sandbox: Box<dyn Sandbox>,
    _backend: Arc<dyn SandboxBackend>,
}

impl Fixture {
    /// None, after saying why, where this machine has no boxes with overlays.
    async fn new(test: &str, files: &[(&str, &str)]) -> Option<Self> {
        let tree = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = tree.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let policy = Policy::builder().overlay(tree.path()).cwd(tree.path()).build().unwrap();
        let backend = start(RuntimeKind::Native, StartOptions::warm(0)).await.unwrap();
        let plan = match plan(&policy, &backend.probe().await) {
            Ok(plan) => plan,
            Err(refusal) => {
                skip(test, &refusal.to_string());
                return None;
            }
        };
        let sandbox = backend.create(&plan).await.unwrap();
        Some(Self { tree, sandbox, _backend: backend })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.tree.path().join(name)
    }

    fn workspace(&self) -> &dyn Workspace {
        self.sandbox.workspace().unwrap()
    }

    fn files(&self) -> &dyn Files {
        self.sandbox.files().unwrap()
    }

    async fn run(&self, script: &str) -> String {
        let mut process = self.sandbox.spawn(SpawnConfig::new("sh").args(["-ec", script])).await.unwrap();
        let output = SandboxOutput::collect(process.as_mut(), Default::default()).await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr.bytes()).into_owned();
        assert_eq!(output.status(), Status::Exited(0), "{script}: {errors}");
        String::from_utf8_lossy(&output.stdout.bytes()).into_owned()
    }

    async fn diff(&self) -> Vec<(String, ChangeKind, FileKind)> {
        let changes = self.workspace().diff().await.unwrap();
        let name = |path: &Path| path.strip_prefix(self.tree.path()).unwrap().to_string_lossy().into_owned();
        changes.iter().map(|change| (name(&change.path), change.kind, change.file)).collect()
    }
}

fn skip(test: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = fs::File::options().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: {}", reason.replace('\n', " ")).unwrap();
    }
}

fn change(path: &str, kind: ChangeKind, file: FileKind) -> (String, ChangeKind, FileKind) {
    (path.to_owned(), kind, file)
}

#[tokio::test]
async fn what_a_box_does_is_found_and_committed() {
    let files =
        [("changed", "old"), ("touched", "x"), ("mode", "x"), ("gone/deep/file", "x"), ("again/old", "x"), ("f", "x")];
    let Some(fixture) = Fixture::new("what_a_box_does_is_found_and_committed", &files).await else { return };
    let script = "echo new > changed; touch touched; chmod 755 mode; rm -r gone; rm -r again; mkdir again; echo 1 > again/new; \
        ln -s /etc/passwd link; rm f; mkdir f; echo in > f/in; mkfifo pipe";
    fixture.run(script).await;
    use ChangeKind::{Added, Changed, Deleted, Mode};
    use FileKind::{Directory, File, Link, Other};
    assert_eq!(
        fixture.diff().await,
        [
            change("again/new", Added, File),
            change("again/old", Deleted, File),
            change("changed", Changed, File),
            change("f", Changed, Directory),
            change("f/in", Added, File),
            change("gone", Deleted, Directory),
            change("gone/deep", Deleted, Directory),
            change("gone/deep/file", Deleted, File),
            change("link", Added, Link),
            change("mode", Mode, File),
            change("pipe", Added, Other),
        ]
    );
    assert_eq!(fs::read_to_string(fixture.path("changed")).unwrap(), "old");

    assert_eq!(fixture.workspace().commit().await.unwrap().len(), 10);
    assert_eq!(fs::read_to_string(fixture.path("changed")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(fixture.path("f/in")).unwrap(), "in\n");
    assert!(!fixture.path("gone").exists() && !fixture.path("again/old").exists() && !fixture.path("pipe").exists());
    let owner = |path: PathBuf| fs::symlink_metadata(path).map(|m| (m.uid(), m.gid())).unwrap();
    for name in ["changed", "again/new", "f", "link"] {
        assert_eq!(owner(fixture.path(name)), owner(fixture.path("")), "{name}");
    }
    assert_eq!(fixture.diff().await, [change("pipe", Added, Other)]);

    // The box goes on from there.
    let seen =
        fixture.run("rm pipe; cat changed again/new f/in; echo more >> changed; echo 2 > again/new; rm -r f; ls").await;
    assert_eq!(seen, "new\n1\nin\nagain\nchanged\nlink\nmode\ntouched\n");
    fixture.workspace().commit().await.unwrap();
    assert_eq!(fs::read_to_string(fixture.path("changed")).unwrap(), "new\nmore\n");
    assert_eq!(fs::read_to_string(fixture.path("again/new")).unwrap(), "2\n");
    assert!(!fixture.path("f").exists());
    assert_eq!(fixture.diff().await, []);
}

#[tokio::test]
async fn a_planted_hook_is_not_committed() {
    let files = [(".git/HEAD", "ref"), ("source", "old")];
    let Some(fixture) = Fixture::new("a_planted_hook_is_not_committed", &files).await else { return };
    fixture.run("echo new > source; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit").await;
    match fixture.workspace().commit().await {
        Err(WorkspaceError::Protected { paths }) => assert_eq!(paths, [fixture.path(".git/hooks")]),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_to_string(fixture.path("source")).unwrap(), "old");
    assert!(!fixture.path(".git/hooks").exists());
}

#[tokio::test]
async fn a_running_command_makes_the_workspace_busy() {
    let Some(fixture) = Fixture::new("a_running_command_makes_the_workspace_busy", &[]).await else { return };
    let process = fixture.sandbox.spawn(SpawnConfig::new("sleep").arg("600")).await.unwrap();
    assert!(matches!(fixture.workspace().diff().await, Err(WorkspaceError::Busy)));
    process.kill().await.unwrap();
    process.wait().await.unwrap();
    assert_eq!(fixture.workspace().diff().await.unwrap(), []);
}

#[tokio::test]
async fn what_is_discarded_never_reaches_the_host() {
    let Some(fixture) = Fixture::new("what_is_discarded_never_reaches_the_host", &[("file", "old")]).await else {
        return;
    };
    fixture.run("echo new > file").await;
    fixture.workspace().discard().await.unwrap();
    assert!(matches!(fixture.workspace().commit().await, Err(WorkspaceError::Lost { .. })));
    assert_eq!(fs::read_to_string(fixture.path("file")).unwrap(), "old");
}

#[tokio::test]
async fn files_are_written_read_listed_and_removed_in_the_box() {
    let test = "files_are_written_read_listed_and_removed_in_the_box";
    let Some(fixture) = Fixture::new(test, &[]).await else { return };
    let files = fixture.files();
    let path = |name: &str| PathBuf::from("/home/hotcell").join(name);
    files.make_directory(Path::new("a/b/c")).await.unwrap();
    files.make_directory(&path("a/b")).await.unwrap();
    files.write(Path::new("a/b/c/file"), b"first and longer", 0o640).await.unwrap();
    files.write(&path("a/b/../b/c/file"), b"second", 0o600).await.unwrap();
    assert_eq!(
        fixture.run("cat /home/hotcell/a/b/c/file; ln -s /etc /home/hotcell/a/link; mkfifo /home/hotcell/a/pipe").await,
        "second"
    );
    assert_eq!(files.read(&path("a/b/c/file"), 6).await.unwrap(), b"second");
    assert!(matches!(files.read(&path("a/b/c/file"), 5).await, Err(FilesError::TooLarge { limit: 5, .. })));
    let file = files.stat(&path("a/b/c/file")).await.unwrap();
    assert_eq!((file.kind, file.size, file.mode), (FileKind::File, 6, 0o640));

    let listed = files.list(&path("a"), 10).await.unwrap();
    let kinds: Vec<_> = listed.iter().map(|entry| (entry.path.clone(), entry.kind)).collect();
    let expected =
        [(path("a/b"), FileKind::Directory), (path("a/link"), FileKind::Link), (path("a/pipe"), FileKind::Other)];
    assert_eq!(kinds, expected);
    assert!(matches!(files.list(&path("a"), 2).await, Err(FilesError::TooLarge { .. })));

    // Nothing waits for a pipe's other end, and nothing but a regular file is read or written.
    for odd in [path("a/pipe"), path("a/b"), PathBuf::from("/dev/zero")] {
        assert!(matches!(files.read(&odd, 10).await, Err(FilesError::WrongKind { .. })), "{}", odd.display());
        assert!(matches!(files.write(&odd, b"x", 0o600).await, Err(FilesError::WrongKind { .. })), "{}", odd.display());
    }
    assert!(matches!(files.make_directory(&path("a/pipe")).await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(files.write(&path("new"), b"", 0o4755).await, Err(FilesError::Failed { .. })));
    assert!(matches!(files.write(Path::new("/usr/new"), b"", 0o644).await, Err(FilesError::Denied { .. })));
    assert!(matches!(files.read(&path("none"), 1).await, Err(FilesError::NotFound { .. })));
    assert!(matches!(files.read(Path::new("a\0b"), 1).await, Err(FilesError::BadPath { .. })));

    files.remove(&path("a")).await.unwrap();
    assert!(matches!(files.stat(&path("a")).await, Err(FilesError::NotFound { .. })));
    assert!(matches!(files.remove(&path("a")).await, Err(FilesError::NotFound { .. })));
    assert!(files.remove(Path::new("/home/hotcell/..")).await.is_err());
    assert!(files.remove(Path::new("/etc")).await.is_err());
    fixture.run("test -d /home/hotcell; test -e /etc/passwd").await;
}

#[tokio::test]
async fn a_link_of_the_guests_leads_the_host_nowhere() {
    let Some(fixture) = Fixture::new("a_link_of_the_guests_leads_the_host_nowhere", &[]).await else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(&secret, "secret").unwrap();
    fixture.run(&format!("ln -s {} /home/hotcell/link", secret.path().display())).await;
    let files = fixture.files();
    assert!(matches!(files.read(Path::new("link"), 100).await, Err(FilesError::NotFound { .. })));
    // Written where the link leads in the box.
    files.write(Path::new("link"), b"inside", 0o600).await.unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fixture.run(&format!("cat {}", secret.path().display())).await, "inside");
}

#[tokio::test]
async fn something_left_running_cannot_divert_a_commit() {
    let test = "something_left_running_cannot_divert_a_commit";
    let Some(fixture) = Fixture::new(test, &[("d/file", "old")]).await else { return };
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "outside").unwrap();
    let swap = format!(
        "(set +e; while :; do rm -rf d; ln -s {} d; rm d; mkdir d; echo new > d/file; \
            echo >> /home/hotcell/rounds; done) > /dev/null 2>&1 &",
        outside.path().display()
    );
    fixture.run(&swap).await;
    let (mut committed, mut failed) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(700) {
        // Each ends well or with an error, never elsewhere.
        let result = fixture.workspace().commit().await;
        *(if result.is_ok() { &mut committed } else { &mut failed }) += 1;
    }
    let rounds = fixture.files().stat(Path::new("rounds")).await.unwrap().size;
    println!("{committed} commits went through and {failed} did not, during {rounds} rounds");
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "outside");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    let left: Vec<_> = fs::read_dir(fixture.tree.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty() || left == ["d"], "{left:?}");
}
