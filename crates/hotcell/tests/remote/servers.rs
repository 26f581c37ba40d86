//! What is different on a server.

use std::fs;
use std::path::Path;

use hotcell::{Capability, Control, CreateError, EngineError, FileKind, FilesError, Isolation, Status};

use super::common::{eventually, marker, processes_with, run_in, sh, stdout, text};
use super::kinds::{Kind, Place};

pub(crate) async fn limits_that_a_shell_sets_hold(place: &Place) {
    let policy = place.limited(Control::OpenFiles, place.policy().open_files(32)).await.unwrap();
    let output = place.engine.run_with(&policy, sh("ulimit -n; ulimit -Hn")).await.unwrap();
    assert_eq!(stdout(&output), "32\n32\n");
    let policy = place.limited(Control::Disk, place.policy().disk(8 << 20)).await.unwrap();
    let script = "head -c 800000 /dev/zero > /tmp/a && echo fits; head -c 9000000 /dev/zero > /tmp/b && echo more";
    let output = match place.engine.run_with(&policy, sh(script)).await {
        Ok(output) => output,
        // Its template has a larger disk, and nobody may think that this one is smaller.
        Err(EngineError::Create(CreateError::Refused(refusal))) if place.kind == Kind::E2b => {
            assert!(refusal.to_string().contains("template"), "{refusal}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(text(&output.stdout), "fits\n");
    let output = place.engine.run_with(&policy, sh("exec head -c 9000000 /dev/zero > /tmp/b")).await.unwrap();
    assert_eq!(output.status(), Status::Disk);
}

pub(crate) async fn files_are_carried_in_and_out(place: &Place) {
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let files = sandbox.files().unwrap();
    let (directory, file) = (Path::new("/tmp/a/b"), Path::new("/tmp/a/b/file"));
    files.make_directory(directory).await.unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 253) as u8).collect();
    files.write(file, &bytes, 0o640).await.unwrap();
    assert!(files.read(file, 1 << 20).await.unwrap() == bytes);
    assert!(matches!(files.read(file, 1000).await, Err(FilesError::TooLarge { .. })));
    assert_eq!(stdout(&run_in(&*sandbox, sh("stat -c '%s %a' /tmp/a/b/file")).await), "300000 640\n");
    let found = files.stat(file).await.unwrap();
    assert_eq!((found.kind, found.size, found.mode & 0o777), (FileKind::File, 300_000, 0o640));
    stdout(&run_in(&*sandbox, sh("ln -s /etc/passwd /tmp/a/link; mkdir /tmp/a/c; mkfifo /tmp/a/pipe")).await);
    let listed = files.list(Path::new("/tmp/a"), 10).await.unwrap();
    let names: Vec<_> = listed.into_iter().map(|entry| (entry.path, entry.kind)).collect();
    assert_eq!(
        names[..3],
        [
            ("/tmp/a/b".into(), FileKind::Directory),
            ("/tmp/a/c".into(), FileKind::Directory),
            ("/tmp/a/link".into(), FileKind::Link),
        ]
    );
    assert!(matches!(files.list(Path::new("/tmp/a"), 3).await, Err(FilesError::TooLarge { .. })));
    assert!(matches!(files.read(directory, 10).await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(files.write(directory, b"x", 0o600).await, Err(FilesError::WrongKind { .. })));
    assert!(matches!(files.read(Path::new("/tmp/no"), 10).await, Err(FilesError::NotFound { .. })));
    files.remove(Path::new("/tmp/a")).await.unwrap();
    assert!(matches!(files.stat(file).await, Err(FilesError::NotFound { .. })));
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn a_written_tree_is_back_when_the_command_has_ended(place: &Place) {
    let tree = place.tree();
    fs::write(tree.join("file"), "before").unwrap();
    let sandbox = place.engine.create(&place.policy().write(&tree).cwd(&tree).build().unwrap()).await.unwrap();
    stdout(&run_in(&*sandbox, sh("echo one > file; mkdir -p a/b; echo deep > a/b/c; chmod 750 a")).await);
    assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(tree.join("a/b/c")).unwrap(), "deep\n");
    stdout(&run_in(&*sandbox, sh("cat file; rm -r a")).await);
    assert!(!tree.join("a").exists());
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn what_the_box_may_not_change_is_reported(place: &Place) {
    let tree = place.tree();
    let output = place.run(place.policy().write(&tree).cwd(&tree), sh("echo x > .envrc; echo y > fine")).await;
    let denied: Vec<_> =
        output.outcome.violations.iter().map(|violation| (violation.control, &violation.what)).collect();
    let envrc = tree.join(".envrc").display().to_string();
    assert_eq!(denied, [(Control::ProtectedPaths, &envrc)]);
    assert!(tree.join("fine").exists() && !tree.join(".envrc").exists());
}

pub(crate) async fn what_holds_what_is_said(place: &Place) {
    let plan = place.engine.plan(&place.policy().build().unwrap()).await.unwrap();
    assert_eq!(plan.isolation, Isolation::Remote);
    for control in [Control::Syscalls, Control::Privileges, Control::ProcessIsolation] {
        assert!(matches!(plan.actual(control), Some(Capability::Approximated { .. })), "{control}");
    }
    for control in [Control::FilesystemView, Control::Environment, Control::Output, Control::Timeout] {
        assert!(matches!(plan.actual(control), Some(Capability::Enforced { .. })), "{control}");
    }
    // What was asked for and cannot be held is a refusal.
    assert!(place.engine.plan(&place.policy().memory(64 << 20).build().unwrap()).await.is_err());
    let output = place.run(place.policy(), sh("true")).await;
    assert!(!output.outcome.visibility.unseen.is_empty());
    assert_eq!((output.outcome.usage.peak_memory, output.outcome.usage.cpu_user), (None, None));
}

pub(crate) async fn an_isolation_level_is_refused(place: &Place) {
    for level in [Isolation::Process, Isolation::MicroVm] {
        let refusal = place.engine.plan(&place.policy().isolation(level).build().unwrap()).await.unwrap_err();
        assert!(refusal.to_string().contains("server's word"), "{refusal}");
    }
}

pub(crate) async fn a_single_file_is_sent_and_brought_back(place: &Place) {
    let tree = place.tree();
    let (read, written) = (tree.join("read"), tree.join("written"));
    fs::write(&read, "secretless").unwrap();
    fs::write(&written, "before").unwrap();
    fs::write(tree.join("beside"), "SECRET").unwrap();
    let script = format!("cat {0}/read; cat {0}/beside; echo after > {0}/written; echo x > {0}/other", tree.display());
    let output = place.run(place.policy().read(&read).write(&written), sh(&script)).await;
    assert_eq!(text(&output.stdout), "secretless");
    assert_eq!(fs::read_to_string(&written).unwrap(), "after\n");
    assert!(!tree.join("other").exists());
}

pub(crate) async fn destroying_the_box_ends_its_commands(place: &Place) {
    let word = marker();
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let process = sandbox.spawn(sh(&format!("sleep {word}"))).await.unwrap();
    sandbox.destroy().await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    eventually("everything in the box has ended", || processes_with(&word).is_empty()).await;
}
