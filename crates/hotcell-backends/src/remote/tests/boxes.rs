//! The contract of boxes, on the stand-in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotcell_core::backend::{
    CaptureLimits, ChangeKind, DestroyError, FileKind, FilesError, ProcessError, Sandbox, SandboxId, SandboxOutput,
    SpawnConfig, SpawnError, StdinMode, WorkspaceError,
};
use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::outcome::Status;
use hotcell_core::plan::plan;
use hotcell_core::policy::{Policy, PolicyBuilder};
use hotcell_core::runtime::{Isolation, RuntimeKind};

use super::super::{Parts, RemoteSandbox};
use super::local::{HIDDEN, LocalLink};
use super::skip;

struct Place {
    link: Arc<LocalLink>,
    host: tempfile::TempDir,
}

impl Place {
    async fn open(test: &str) -> Option<Self> {
        let Some(link) = LocalLink::open().await else {
            skip(test, "no user namespaces for a stand-in");
            return None;
        };
        Some(Self { link, host: tempfile::tempdir_in(HIDDEN).unwrap() })
    }

    fn tree(&self) -> PathBuf {
        let tree = self.host.path().canonicalize().unwrap().join("tree");
        fs::create_dir_all(&tree).unwrap();
        tree
    }

    async fn create(&self, policy: PolicyBuilder) -> Box<dyn Sandbox> {
        self.try_create(policy).await.unwrap()
    }

    async fn try_create(&self, policy: PolicyBuilder) -> Result<Box<dyn Sandbox>, hotcell_core::backend::CreateError> {
        let policy = policy.runtime(RuntimeKind::E2b).build().unwrap();
        let mut capabilities = Capabilities::new(RuntimeKind::E2b, Isolation::Remote);
        for control in Control::ALL {
            capabilities.controls.insert(*control, Capability::enforced("a test"));
        }
        let plan = plan(&policy, &capabilities).unwrap();
        let id = SandboxId::new(format!("test-{}", std::process::id())).unwrap();
        let link: Arc<LocalLink> = Arc::clone(&self.link);
        Ok(Box::new(RemoteSandbox::create(Parts { id, link, plan }).await?))
    }

    fn deletions(&self) -> u64 {
        self.link.faults.deletions.load(Ordering::Relaxed)
    }
}

fn policy() -> PolicyBuilder {
    Policy::builder().timeout(Duration::from_secs(60))
}

fn sh(script: &str) -> SpawnConfig {
    SpawnConfig::new("/bin/sh").args(["-c", script])
}

async fn run(sandbox: &dyn Sandbox, config: SpawnConfig) -> SandboxOutput {
    let mut process = sandbox.spawn(config).await.unwrap();
    SandboxOutput::collect(&mut *process, CaptureLimits::default()).await.unwrap()
}

fn text(output: &SandboxOutput) -> String {
    String::from_utf8_lossy(&output.stdout.bytes()).into_owned()
}

macro_rules! place {
    ($test:literal) => {
        match Place::open($test).await {
            Some(place) => place,
            None => return,
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_streams_the_exit_code_and_the_environment() {
    let place = place!("both_streams_the_exit_code_and_the_environment");
    let sandbox = place.create(policy().set_env("GIVEN", "yes")).await;
    let output = run(&*sandbox, sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!(output.status(), Status::Exited(3));
    assert_eq!((text(&output).as_str(), output.stderr.bytes()), ("out\n", b"err\n".to_vec()));
    assert_eq!(run(&*sandbox, sh("kill -TERM $$")).await.status(), Status::Signaled(15));
    assert_eq!(run(&*sandbox, sh("exit 143")).await.status(), Status::Exited(143));
    let environment = text(&run(&*sandbox, SpawnConfig::new("env")).await);
    assert!(environment.contains("GIVEN=yes\n") && environment.contains("HOME=/tmp\n"), "{environment}");
    assert!(!environment.contains("SECRET_OF_SERVER"), "{environment}");
    let error = sandbox.spawn(SpawnConfig::new("no-such-program")).await.err().unwrap();
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    let error = sandbox.spawn(sh("true").cwd("/no/such")).await.err().unwrap();
    assert!(matches!(error, SpawnError::BadCwd { .. }), "{error}");
    sandbox.destroy().await.unwrap();
    assert_eq!(place.deletions(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_output_and_back_pressure() {
    let place = place!("input_output_and_back_pressure");
    let sandbox = place.create(policy()).await;
    let bytes: Vec<u8> = (0..500_000_u32).map(|number| (number * 31 % 251) as u8).collect();
    let mut process = sandbox.spawn(SpawnConfig::new("cat").stdin(StdinMode::Piped)).await.unwrap();
    let mut io = process.take_io();
    let (mut stdin, sent) = (io.stdin.take().unwrap(), bytes.clone());
    let writer = tokio::spawn(async move {
        stdin.write_all(&sent).await.unwrap();
        stdin.close().await.unwrap();
    });
    let mut output = io.output.take().unwrap();
    let mut back = Vec::new();
    while let Some(event) = output.next().await {
        back.extend(event.bytes);
    }
    writer.await.unwrap();
    assert!(back == bytes);
    assert!(process.wait().await.unwrap().status.success());
    // A reader that does not read stops the server from being read.
    let mut endless = sandbox.spawn(sh("yes")).await.unwrap();
    let unread = endless.take_io();
    let mut pieces = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = place.link.faults.pieces.load(Ordering::Relaxed);
        if now == pieces {
            break;
        }
        pieces = now;
    }
    // And does not keep a command from being ended.
    endless.kill().await.unwrap();
    assert_eq!(endless.wait().await.unwrap().status, Status::Canceled);
    drop(unread);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeouts_output_limits_signals_and_kills() {
    let place = place!("timeouts_output_limits_signals_and_kills");
    let sandbox = place.create(policy().output(100_000)).await;
    let word = format!("8{}", std::process::id());
    let late =
        run(&*sandbox, sh(&format!("trap '' TERM; sleep {word} & sleep {word}")).timeout(Duration::from_millis(300)));
    assert_eq!(late.await.status(), Status::TimedOut);
    assert_eq!(text(&run(&*sandbox, sh(&format!("pgrep -fc '^sleep {word}' || true"))).await), "0\n");
    let much = run(&*sandbox, sh("yes")).await;
    assert_eq!((much.status(), much.stdout.total), (Status::Output, 100_000));
    let polite = sandbox.spawn(sh("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    polite.signal("USR1".parse().unwrap()).await.unwrap();
    assert_eq!(polite.wait().await.unwrap().status, Status::Exited(9));
    assert!(matches!(polite.signal("USR1".parse().unwrap()).await, Err(ProcessError::Ended)));
    let stubborn = sandbox.spawn(sh("trap '' TERM; sleep 60")).await.unwrap();
    stubborn.kill().await.unwrap();
    let (one, other) = tokio::join!(stubborn.wait(), stubborn.wait());
    assert_eq!((one.unwrap().status, other.unwrap().status), (Status::Canceled, Status::Canceled));
    // Dropping the handle ends the command too.
    drop(sandbox.spawn(sh(&format!("sleep {word}"))).await.unwrap());
    let looks =
        format!("for i in $(seq 100); do pgrep -f '^sleep {word}' > /dev/null || exit 0; sleep 0.1; done; exit 1");
    assert_eq!(run(&*sandbox, sh(&looks)).await.status(), Status::Exited(0));
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_polite_end_is_told_as_it_was_and_leaves_nothing() {
    let place = place!("a_polite_end_is_told_as_it_was_and_leaves_nothing");
    let sandbox = place.create(policy()).await;
    let word = format!("7{}", std::process::id());
    let left = async || text(&run(&*sandbox, sh(&format!("pgrep -fc '^sleep {word}' || true"))).await);
    for (command, status) in [
        ("trap 'exit 9' TERM; while :; do sleep 0.05; done", Status::Exited(9)),
        ("trap '' TERM; while :; do sleep 0.05; done", Status::Canceled),
    ] {
        let process = sandbox.spawn(sh(&format!("setsid sleep {word} & {command}"))).await.unwrap();
        while left().await != "1\n" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        process.stop(Duration::from_secs(3)).await.unwrap();
        assert_eq!(process.wait().await.unwrap().status, status, "{command}");
        assert_eq!(left().await, "0\n", "{command}");
    }
    // Whoever changes their mind does not wait.
    let stubborn = sandbox.spawn(sh("trap '' TERM; while :; do sleep 0.05; done")).await.unwrap();
    stubborn.stop(Duration::MAX).await.unwrap();
    stubborn.kill().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(40), stubborn.wait()).await.expect("it is not killed");
    assert_eq!(ended.unwrap().status, Status::Canceled);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_polite_end_does_not_outlast_the_output_limit() {
    let place = place!("a_polite_end_does_not_outlast_the_output_limit");
    let sandbox = place.create(policy().timeout(Duration::from_secs(600)).output(100_000)).await;
    let mut process =
        sandbox.spawn(sh("trap 'while :; do echo much; done' TERM; echo; sleep 600 & wait")).await.unwrap();
    let mut output = process.take_io().output.unwrap();
    output.next().await.unwrap();
    process.stop(Duration::MAX).await.unwrap();
    let ended = async {
        while output.next().await.is_some() {}
        process.wait().await.unwrap().status
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(40), ended).await.expect("it goes on"), Status::Output);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_polite_end_does_not_hold_up_the_end_of_its_box() {
    let place = place!("a_polite_end_does_not_hold_up_the_end_of_its_box");
    let tree = place.tree();
    let sandbox = place.create(policy().timeout(Duration::from_secs(600)).write(&tree).cwd(&tree)).await;
    let script = "trap '' TERM; echo x > written; echo; while :; do sleep 0.05; done";
    let mut process = sandbox.spawn(sh(script)).await.unwrap();
    let mut output = process.take_io().output.unwrap();
    output.next().await.unwrap();
    process.stop(Duration::MAX).await.unwrap();
    sandbox.destroy().await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    assert_eq!(fs::read_to_string(tree.join("written")).unwrap(), "x\n");
}

/// What has left the tree of its command and holds its output may write on and on: the command's end is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_without_an_end_does_not_keep_a_killed_command_open() {
    let place = place!("output_without_an_end_does_not_keep_a_killed_command_open");
    let sandbox = place.create(policy()).await;
    // Its parent is gone and it has a session of its own; it ends when nobody reads any more.
    let daemon = "(setsid sh -c 'while echo more; do sleep 0.2; done' 2> /dev/null &); echo; sleep 60";
    let process = sandbox.spawn(sh(daemon)).await.unwrap();
    while place.link.faults.pieces.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.kill().await.unwrap();
    // Nobody took the output, so that it is read to its end.
    let ended = tokio::time::timeout(Duration::from_secs(40), process.wait()).await.expect("it is open for ever");
    assert_eq!(ended.unwrap().status, Status::Canceled);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_overtakes_the_word_that_a_command_starts_is_not_lost() {
    let place = place!("what_overtakes_the_word_that_a_command_starts_is_not_lost");
    let sandbox = place.create(policy()).await;
    place.link.faults.stderr_first.store(true, Ordering::Relaxed);
    let output = run(&*sandbox, sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!(output.status(), Status::Exited(3));
    assert_eq!((text(&output).as_str(), output.stderr.bytes()), ("out\n", b"err\n".to_vec()));
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_breaks_is_never_a_success() {
    let place = place!("a_stream_that_breaks_is_never_a_success");
    let sandbox = place.create(policy()).await;
    place.link.faults.cut_stream.store(true, Ordering::Relaxed);
    let process = sandbox.spawn(sh("echo one; sleep 0.2; echo two")).await.unwrap();
    let error = process.wait().await.unwrap_err();
    assert!(matches!(error, ProcessError::Lost { .. }), "{error}");
    // The command itself was ended, so the box is still good.
    place.link.faults.cut_stream.store(false, Ordering::Relaxed);
    assert_eq!(text(&run(&*sandbox, sh("echo still")).await), "still\n");
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_cannot_be_ended_takes_its_box_along() {
    let place = place!("a_command_that_cannot_be_ended_takes_its_box_along");
    let sandbox = place.create(policy()).await;
    place.link.faults.cannot_end.store(true, Ordering::Relaxed);
    let process = sandbox.spawn(sh("sleep 3").timeout(Duration::from_millis(100))).await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::TimedOut);
    let error = sandbox.spawn(sh("true")).await.err().unwrap();
    assert!(matches!(error, SpawnError::Lost { .. }), "{error}");
    assert!(matches!(sandbox.destroy().await, Err(DestroyError::Lost { .. })));
    while place.deletions() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_brought_back_from_a_box_that_was_given_up() {
    let place = place!("nothing_is_brought_back_from_a_box_that_was_given_up");
    let tree = place.tree();
    let sandbox = place.create(policy().write(&tree).cwd(&tree)).await;
    place.link.faults.cannot_end.store(true, Ordering::Relaxed);
    let process = sandbox.spawn(sh("echo x > new; sleep 3").timeout(Duration::from_millis(100))).await.unwrap();
    // It stays what it was, whatever becomes of the files.
    assert_eq!(process.wait().await.unwrap().status, Status::TimedOut);
    assert_eq!(place.link.faults.downloads.load(Ordering::Relaxed), 0);
    assert!(!tree.join("new").exists());
    assert!(matches!(sandbox.destroy().await, Err(DestroyError::Lost { .. })));
    while place.deletions() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn files_that_never_come_hold_nobody_up() {
    let place = place!("files_that_never_come_hold_nobody_up");
    let tree = place.tree();
    let sandbox = place.create(policy().write(&tree).cwd(&tree)).await;
    place.link.faults.stalled_download.store(true, Ordering::Relaxed);
    let process = sandbox.spawn(sh("echo x > new")).await.unwrap();
    while place.link.faults.downloads.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Nothing but clocks goes on from here.
    tokio::time::pause();
    let waited = tokio::time::timeout(Duration::from_secs(86_400), process.wait()).await.expect("it waits for ever");
    let error = waited.unwrap_err().to_string();
    assert!(error.contains("did not come within"), "{error}");
    assert!(matches!(sandbox.destroy().await, Err(DestroyError::Lost { .. })));
    assert_eq!((place.deletions(), tree.join("new").exists()), (1, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn destroying_and_dropping_end_what_runs() {
    let place = place!("destroying_and_dropping_end_what_runs");
    let sandbox = place.create(policy()).await;
    let process = sandbox.spawn(sh("sleep 2")).await.unwrap();
    sandbox.destroy().await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    let other = place!("destroying_and_dropping_end_what_runs");
    let sandbox = other.create(policy()).await;
    let process = sandbox.spawn(sh("sleep 2")).await.unwrap();
    drop(sandbox);
    assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    while other.deletions() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_written_tree_comes_back_after_each_command_without_what_is_protected() {
    let place = place!("a_written_tree_comes_back_after_each_command_without_what_is_protected");
    let tree = place.tree();
    fs::create_dir_all(tree.join(".git/hooks")).unwrap();
    fs::write(tree.join(".git/hooks/pre-commit"), "original").unwrap();
    fs::write(tree.join(".git/HEAD"), "head").unwrap();
    for name in ["kept", "changed", "deleted"] {
        fs::write(tree.join(name), "before").unwrap();
    }
    let sandbox = place.create(policy().write(&tree).cwd(&tree)).await;
    // What the host does meanwhile to what the box leaves alone stays.
    fs::write(tree.join("kept"), "by the host").unwrap();
    fs::write(tree.join("new on host"), "by the host").unwrap();
    let script = "echo evil > .git/hooks/pre-commit; mv .git elsewhere; echo evil > .envrc; mkdir .vscode && echo evil > .vscode/x; echo after > changed; rm deleted; ln changed linked; mkfifo pipe; chmod 700 changed; ln -s /etc link; echo fine > fine";
    let output = run(&*sandbox, sh(script)).await;
    assert!(output.status().success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(tree.join(name)).unwrap();
    assert_eq!((read(".git/hooks/pre-commit").as_str(), read(".git/HEAD").as_str()), ("original", "head"));
    assert!(!tree.join(".envrc").exists() && !tree.join(".vscode").exists());
    assert_eq!(
        (read("changed").as_str(), read("linked").as_str(), read("fine").as_str()),
        ("after\n", "after\n", "fine\n")
    );
    assert_eq!((read("kept").as_str(), read("new on host").as_str()), ("by the host", "by the host"));
    assert!(!tree.join("deleted").exists() && fs::symlink_metadata(tree.join("pipe")).is_err());
    assert_eq!(fs::read_link(tree.join("link")).unwrap(), Path::new("/etc"));
    let denied: Vec<&str> = output.outcome.violations.iter().map(|violation| violation.what.as_str()).collect();
    assert!(denied.iter().any(|what| what.ends_with("/.envrc")) && denied.iter().any(|what| what.ends_with("/.git")));
    // The next command starts from there, and a change on both sides is an error that is seen.
    assert_eq!(text(&run(&*sandbox, sh("cat changed; echo again > changed")).await), "after\n");
    assert_eq!(read("changed"), "again\n");
    tokio::time::sleep(Duration::from_millis(50)).await;
    fs::write(tree.join("changed"), "by the host").unwrap();
    let process = sandbox.spawn(sh("echo box > changed")).await.unwrap();
    let error = process.wait().await.unwrap_err().to_string();
    assert!(error.contains("changed on the host"), "{error}");
    assert_eq!(read("changed"), "by the host");
    assert!(matches!(sandbox.destroy().await, Err(DestroyError::Lost { .. })));
    assert_eq!(place.deletions(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_daemon_writes_comes_back_with_the_end_of_the_box() {
    let place = place!("what_a_daemon_writes_comes_back_with_the_end_of_the_box");
    let tree = place.tree();
    let sandbox = place.create(policy().write(&tree).cwd(&tree)).await;
    // It ends by itself: this box is a directory of the host's, and no process ends with it.
    let daemon = "until [ -e /tmp/go ]; do sleep 0.05; done; echo late > late; : > /tmp/went";
    let script = format!("(setsid sh -c '{daemon}' > /dev/null 2>&1 &); echo early > early");
    run(&*sandbox, sh(&script)).await;
    assert!(tree.join("early").exists());
    let files = sandbox.files().unwrap();
    files.write(Path::new("/tmp/go"), b"", 0o600).await.unwrap();
    while files.stat(Path::new("/tmp/went")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!tree.join("late").exists());
    sandbox.destroy().await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("late")).unwrap(), "late\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_file_comes_back_and_nothing_beside_it() {
    let place = place!("a_single_file_comes_back_and_nothing_beside_it");
    let tree = place.tree();
    fs::write(tree.join("written"), "before").unwrap();
    fs::write(tree.join("beside"), "SECRET").unwrap();
    let sandbox = place.create(policy().write(tree.join("written")).cwd(&tree)).await;
    let output = run(&*sandbox, sh("ls; echo after > written; echo x > other")).await;
    assert_eq!(text(&output), "written\n");
    assert_eq!(fs::read_to_string(tree.join("written")).unwrap(), "after\n");
    assert!(!tree.join("other").exists());
    // It stays a file: what takes its place is not brought back.
    let process = sandbox.spawn(sh("rm written; ln -s /etc/passwd written")).await.unwrap();
    assert!(process.wait().await.unwrap_err().to_string().contains("none any more"));
    assert_eq!(fs::read_to_string(tree.join("written")).unwrap(), "after\n");
    assert!(sandbox.destroy().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_tree_is_a_copy_and_denied_paths_are_not_in_it() {
    let place = place!("a_read_tree_is_a_copy_and_denied_paths_are_not_in_it");
    let tree = place.tree();
    fs::create_dir(tree.join("secrets")).unwrap();
    fs::write(tree.join("secrets/key"), "SECRET").unwrap();
    fs::write(tree.join("plain"), "plain").unwrap();
    let sandbox = place.create(policy().read(&tree).deny(tree.join("secrets"))).await;
    let script = format!("cat {0}/plain; cat {0}/secrets/key; echo changed > {0}/plain", tree.display());
    assert_eq!(text(&run(&*sandbox, sh(&script)).await), "plain");
    assert_eq!(fs::read_to_string(tree.join("plain")).unwrap(), "plain");
    sandbox.destroy().await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("plain")).unwrap(), "plain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overlay_is_listed_committed_and_thrown_away() {
    let place = place!("an_overlay_is_listed_committed_and_thrown_away");
    let tree = place.tree();
    for name in ["kept", "changed", "deleted"] {
        fs::write(tree.join(name), "before").unwrap();
    }
    fs::create_dir_all(tree.join("directory/below")).unwrap();
    fs::write(tree.join("directory/below/file"), "before").unwrap();
    let sandbox = place.create(policy().overlay(&tree).cwd(&tree)).await;
    let script = "echo after > changed && rm deleted && echo new > added && rm -r directory && mkdir directory && echo x > directory/other";
    assert!(run(&*sandbox, sh(script)).await.status().success());
    assert!(tree.join("deleted").exists() && !tree.join("added").exists());
    let workspace = sandbox.workspace().unwrap();
    let diff = workspace.diff().await.unwrap();
    let kind = |name: &str| diff.iter().find(|change| change.path == tree.join(name)).map(|change| change.kind);
    assert_eq!(kind("changed"), Some(ChangeKind::Changed));
    assert_eq!(kind("deleted"), Some(ChangeKind::Deleted));
    assert_eq!(kind("added"), Some(ChangeKind::Added));
    assert_eq!((kind("kept"), kind("directory")), (None, None));
    assert_eq!(kind("directory/below/file"), Some(ChangeKind::Deleted));
    assert_eq!(kind("directory/other"), Some(ChangeKind::Added));
    // What was cut off on the way is not taken for deleted.
    place.link.faults.short_download.store(true, Ordering::Relaxed);
    assert!(workspace.commit().await.is_err());
    assert!(tree.join("kept").exists() && tree.join("deleted").exists());
    place.link.faults.short_download.store(false, Ordering::Relaxed);
    let running = sandbox.spawn(sh("sleep 30")).await.unwrap();
    assert!(matches!(workspace.diff().await, Err(WorkspaceError::Busy)));
    running.kill().await.unwrap();
    running.wait().await.unwrap();
    workspace.commit().await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("changed")).unwrap(), "after\n");
    assert!(!tree.join("deleted").exists() && !tree.join("directory/below").exists());
    assert_eq!(workspace.diff().await.unwrap(), []);
    // A protected path stops the whole of a commit.
    run(&*sandbox, sh("echo evil > .envrc; echo harmless > harmless")).await;
    assert!(matches!(workspace.commit().await, Err(WorkspaceError::Protected { .. })));
    assert!(!tree.join("harmless").exists());
    workspace.discard().await.unwrap();
    assert!(sandbox.spawn(sh("true")).await.is_err() && workspace.diff().await.is_err());
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_carried_in_and_out() {
    let place = place!("files_are_carried_in_and_out");
    let sandbox = place.create(policy()).await;
    let files = sandbox.files().unwrap();
    let (directory, file) = (Path::new("/tmp/a/b"), Path::new("/tmp/a/b/file"));
    files.make_directory(directory).await.unwrap();
    files.make_directory(directory).await.unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 253) as u8).collect();
    files.write(file, &bytes, 0o640).await.unwrap();
    assert!(files.read(file, 1 << 20).await.unwrap() == bytes);
    assert!(matches!(files.read(file, 1000).await, Err(FilesError::TooLarge { .. })));
    assert_eq!(text(&run(&*sandbox, sh("stat -c '%a %s' /tmp/a/b/file")).await), "640 300000\n");
    files.write(file, b"short", 0o600).await.unwrap();
    assert_eq!((files.read(file, 10).await.unwrap(), files.stat(file).await.unwrap().mode), (b"short".to_vec(), 0o640));
    let names: Vec<_> =
        files.list(Path::new("/tmp/a"), 10).await.unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(names, [FileKind::Directory]);
    assert!(matches!(files.write(directory, b"x", 0o600).await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(files.read(directory, 10).await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(files.make_directory(file).await, Err(FilesError::WrongKind { .. })));
    run(&*sandbox, sh("cd /tmp/a && ln -s b/file good && ln -s /dev/null device && ln -s b up && ln -s none nowhere"))
        .await;
    let read = async |name: &str| files.read(&Path::new("/tmp/a").join(name), 10).await;
    assert_eq!(read("good").await.unwrap(), b"short");
    assert!(matches!(read("device").await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(read("up").await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(read("nowhere").await, Err(FilesError::NotFound { .. })));
    assert!(matches!(files.write(Path::new("/tmp/no/x"), b"x", 0o600).await, Err(FilesError::NotFound { .. })));
    files.remove(Path::new("/tmp/a")).await.unwrap();
    assert!(matches!(files.stat(file).await, Err(FilesError::NotFound { .. })));
    assert!(matches!(files.remove(file).await, Err(FilesError::NotFound { .. })));
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_cannot_be_sent_leaves_nothing() {
    let place = place!("a_tree_that_cannot_be_sent_leaves_nothing");
    let tree = place.tree();
    fs::write(tree.join("large"), vec![0; 100_000]).unwrap();
    let error = place.try_create(policy().read(&tree).disk(50_000)).await.err().unwrap().to_string();
    assert!(error.contains("50000 bytes, which is the disk limit"), "{error}");
    assert_eq!(place.deletions(), 1);
}
