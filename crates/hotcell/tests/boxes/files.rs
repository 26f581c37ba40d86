//! The host's files, and the box's own.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use hotcell::{ChangeKind, Control, EngineError, FileKind, FilesError, Status};

use super::Place;
use super::common::{run_in, sh, stdout, text};

pub(crate) async fn a_read_tree_cannot_be_written(place: &Place) {
    let tree = place.tree();
    fs::write(tree.join("file"), "content").unwrap();
    fs::set_permissions(tree.join("file"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o777)).unwrap();
    let script = format!(
        "cat {0}/file; echo > {0}/new; echo changed > {0}/file; rm -f {0}/file; chmod 777 {0}/file; mv {0}/file {0}/other",
        tree.display()
    );
    let output = place.run(place.policy().read(&tree), sh(&script)).await;
    assert_eq!(text(&output.stdout), "content");
    assert_eq!(place.host.listing(), ["tree", "tree/file"]);
    assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), "content");
}

pub(crate) async fn a_written_tree_belongs_to_its_owner(place: &Place) {
    let tree = place.tree();
    let policy = place.policy().write(&tree);
    match place.engine.run_with(&policy.build().unwrap(), sh(&format!("echo hello > {}/new", tree.display()))).await {
        Ok(output) => stdout(&output),
        // As root, an engine that cannot map owners says so rather than show a tree that cannot be written.
        Err(error @ EngineError::Create(_)) if error.to_string().contains("owner") => {
            super::common::skip("boxes a_written_tree_belongs_to_its_owner", &error.to_string());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let (made, owner) = (fs::metadata(tree.join("new")).unwrap(), fs::metadata(&tree).unwrap());
    assert_eq!((made.uid(), made.gid()), (owner.uid(), owner.gid()));
    assert_eq!(fs::read_to_string(tree.join("new")).unwrap(), "hello\n");
}

pub(crate) async fn a_denied_path_is_out_of_reach(place: &Place) {
    let tree = place.tree();
    fs::create_dir(tree.join("secrets")).unwrap();
    fs::write(tree.join("secrets/key"), "SECRET").unwrap();
    fs::write(tree.join("plain"), "plain").unwrap();
    let policy = place.policy().read(&tree).deny(tree.join("secrets"));
    let script = format!("cat {0}/plain; cat {0}/secrets/key; ls {0}/secrets", tree.display());
    let output = place.run(policy, sh(&script)).await;
    assert_eq!(text(&output.stdout), "plain");
    assert!(!output.status().success());
    assert_eq!(
        stdout(&place.run(place.policy().read(&tree), sh(&format!("cat {}/secrets/key", tree.display()))).await),
        "SECRET"
    );
}

pub(crate) async fn a_protected_path_cannot_be_changed(place: &Place) {
    let tree = place.tree();
    fs::create_dir_all(tree.join(".git/hooks")).unwrap();
    fs::write(tree.join(".git/hooks/pre-commit"), "original").unwrap();
    let script = format!(
        "cd {}; echo evil > .git/hooks/pre-commit; rm -rf .git/hooks; mv .git elsewhere; echo evil > .envrc; mkdir .vscode && echo evil > .vscode/tasks.json; echo fine > fine",
        tree.display()
    );
    match place.engine.run_with(&place.policy().write(&tree).build().unwrap(), sh(&script)).await {
        Ok(_) => {}
        Err(error @ EngineError::Create(_)) => {
            super::common::skip("boxes a_protected_path_cannot_be_changed", &error.to_string());
            return;
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(fs::read_to_string(tree.join(".git/hooks/pre-commit")).unwrap(), "original");
    assert_eq!(fs::read_to_string(tree.join("fine")).unwrap(), "fine\n");
    assert!(!tree.join(".envrc").exists() && !tree.join(".vscode/tasks.json").exists());
}

/// A tree of three files, and a box that changes each in another way.
async fn changed(place: &Place, tree: &Path) -> Option<Box<dyn hotcell::Sandbox>> {
    for name in ["kept", "changed", "deleted"] {
        fs::write(tree.join(name), "before").unwrap();
    }
    fs::create_dir_all(tree.join("directory/below")).unwrap();
    fs::write(tree.join("directory/below/file"), "before").unwrap();
    let policy = place.limited(Control::Overlay, place.policy().overlay(tree)).await?;
    let sandbox = place.engine.create(&policy).await.unwrap();
    let script = format!(
        "cd {} && echo after > changed && rm deleted && echo new > added && rm -r directory && mkdir directory && echo x > directory/other",
        tree.display()
    );
    stdout(&run_in(&*sandbox, sh(&script)).await);
    assert_eq!(fs::read_to_string(tree.join("changed")).unwrap(), "before");
    assert!(tree.join("deleted").exists() && !tree.join("added").exists());
    Some(sandbox)
}

pub(crate) async fn an_overlay_is_listed_and_committed(place: &Place) {
    let tree = place.tree();
    let Some(sandbox) = changed(place, &tree).await else { return };
    let diff = sandbox.workspace().unwrap().diff().await.unwrap();
    let kind = |name: &str| diff.iter().find(|change| change.path == tree.join(name)).map(|change| change.kind);
    assert_eq!(kind("changed"), Some(ChangeKind::Changed));
    assert_eq!(kind("deleted"), Some(ChangeKind::Deleted));
    assert_eq!(kind("added"), Some(ChangeKind::Added));
    assert_eq!(kind("kept"), None);
    assert_eq!(kind("directory/below/file"), Some(ChangeKind::Deleted));
    assert_eq!(kind("directory/other"), Some(ChangeKind::Added));
    sandbox.workspace().unwrap().commit().await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("changed")).unwrap(), "after\n");
    assert!(!tree.join("deleted").exists() && !tree.join("directory/below").exists());
    let owner = fs::metadata(tree.join("kept")).unwrap().uid();
    assert_eq!(fs::metadata(tree.join("added")).unwrap().uid(), owner);
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn an_overlay_can_be_thrown_away(place: &Place) {
    let tree = place.tree();
    let Some(sandbox) = changed(place, &tree).await else { return };
    sandbox.workspace().unwrap().discard().await.unwrap();
    sandbox.destroy().await.unwrap();
    assert_eq!(fs::read_to_string(tree.join("changed")).unwrap(), "before");
    assert!(tree.join("deleted").exists() && !tree.join("added").exists());
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
    assert_eq!(
        stdout(&run_in(&*sandbox, sh("wc -c < /tmp/a/b/file; stat -c %a /tmp/a/b/file")).await),
        "300000\n640\n"
    );
    let found = files.stat(file).await.unwrap();
    assert_eq!((found.kind, found.size, found.mode & 0o777), (FileKind::File, 300_000, 0o640));
    stdout(&run_in(&*sandbox, sh("ln -s /etc/passwd /tmp/a/link; mkdir /tmp/a/c")).await);
    let names: Vec<_> =
        files.list(Path::new("/tmp/a"), 10).await.unwrap().into_iter().map(|entry| (entry.path, entry.kind)).collect();
    assert_eq!(
        names,
        [
            ("/tmp/a/b".into(), FileKind::Directory),
            ("/tmp/a/c".into(), FileKind::Directory),
            ("/tmp/a/link".into(), FileKind::Link)
        ]
    );
    files.remove(Path::new("/tmp/a")).await.unwrap();
    assert!(matches!(files.stat(file).await, Err(FilesError::NotFound { .. })));
    assert!(matches!(
        files.write(Path::new("/usr/evil"), b"x", 0o644).await,
        Err(FilesError::Denied { .. } | FilesError::Failed { .. })
    ));
    assert_eq!(run_in(&*sandbox, sh("test -e /usr/evil")).await.status(), Status::Exited(1));
    sandbox.destroy().await.unwrap();
}
