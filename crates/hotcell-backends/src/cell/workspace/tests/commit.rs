//! What reaches the host.

use std::os::unix::ffi::OsStrExt;

use super::super::apply::Apply;
use super::super::check::Baseline;
use super::super::diff::differences;
use super::*;

async fn commit(overlay: &Overlay) -> Result<Vec<Change>, WorkspaceError> {
    overlay.workspace().commit().await
}

/// Commits, and checks that nothing is left to commit and no temporary file was left.
async fn commit_all(overlay: &Overlay) -> Vec<Change> {
    let workspace = overlay.workspace();
    let committed = workspace.commit().await.unwrap();
    assert_eq!(workspace.diff().await.unwrap(), []);
    assert!(names_in(overlay.lower("")).iter().all(|name| !name.starts_with(".hotcell-")));
    committed
}

#[tokio::test]
async fn files_directories_links_and_modes_are_carried_over() {
    let overlay = Overlay::new();
    write(overlay.lower("changed"), "old");
    write(overlay.lower("mode"), "x");
    symlink("old", overlay.lower("link")).unwrap();
    write(overlay.upper("changed"), "new");
    set_mode(overlay.upper("changed"), 0o600);
    write(overlay.upper("mode"), "x");
    set_mode(overlay.upper("mode"), 0o755);
    symlink("/etc/passwd", overlay.upper("link")).unwrap();
    symlink("new", overlay.upper("new-link")).unwrap();
    write(overlay.upper("read-only/deep/file"), "content");
    let odd = OsStr::from_bytes(b"\n\xff");
    write(overlay.upper(odd), "odd");
    set_mode(overlay.upper("read-only/deep"), 0o500);
    set_mode(overlay.upper("read-only"), 0o555);

    assert_eq!(commit_all(&overlay).await.len(), 8);
    assert_eq!(fs::read_to_string(overlay.lower("changed")).unwrap(), "new");
    assert_eq!(mode_of(overlay.lower("changed")), 0o600);
    assert_eq!(mode_of(overlay.lower("mode")), 0o755);
    assert_eq!(fs::read_link(overlay.lower("link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read_link(overlay.lower("new-link")).unwrap(), Path::new("new"));
    assert_eq!(fs::read_to_string(overlay.lower("read-only/deep/file")).unwrap(), "content");
    assert_eq!(mode_of(overlay.lower("read-only")), 0o555);
    assert_eq!(mode_of(overlay.lower("read-only/deep")), 0o500);
    assert_eq!(fs::read_to_string(overlay.lower(odd)).unwrap(), "odd");
    for directory in [overlay.lower("read-only"), overlay.upper("read-only")] {
        // So that an ordinary user's scratch directory can be removed.
        set_mode(&directory, 0o700);
        set_mode(directory.join("deep"), 0o700);
    }
}

#[tokio::test]
async fn a_directory_becomes_a_file_and_a_file_a_directory() {
    let overlay = Overlay::new();
    write(overlay.lower("directory/deep/file"), "x");
    write(overlay.lower("linked/file"), "x");
    write(overlay.lower("file"), "x");
    write(overlay.upper("directory"), "now a file");
    symlink("/etc", overlay.upper("linked")).unwrap();
    write(overlay.upper("file/inside"), "now a directory");
    commit_all(&overlay).await;
    assert_eq!(fs::read_to_string(overlay.lower("directory")).unwrap(), "now a file");
    assert_eq!(fs::read_link(overlay.lower("linked")).unwrap(), Path::new("/etc"));
    assert_eq!(fs::read_to_string(overlay.lower("file/inside")).unwrap(), "now a directory");
}

#[tokio::test]
async fn deletions_are_carried_over() {
    let test = "deletions_are_carried_over";
    let overlay = Overlay::new();
    for name in ["gone/deep/file", "gone/other", "file", "kept"] {
        write(overlay.lower(name), "x");
    }
    symlink("/etc", overlay.lower("gone/link")).unwrap();
    fs::hard_link(overlay.lower("file"), overlay.lower("gone/same-file")).unwrap();
    if !whiteout(test, &overlay.upper("gone")) || !whiteout(test, &overlay.upper("file")) {
        return;
    }
    commit_all(&overlay).await;
    assert_eq!(names_in(overlay.lower("")), ["kept"]);
    assert!(Path::new("/etc").is_dir());
}

#[tokio::test]
async fn set_user_id_does_not_reach_the_host() {
    let overlay = Overlay::new();
    write(overlay.lower("mode"), "x");
    for name in ["new", "mode"] {
        write(overlay.upper(name), "x");
        set_mode(overlay.upper(name), 0o6755);
    }
    fs::create_dir(overlay.upper("directory")).unwrap();
    set_mode(overlay.upper("directory"), 0o3777);
    commit_all(&overlay).await;
    for (name, mode) in [("new", 0o755), ("mode", 0o755), ("directory", 0o777)] {
        assert_eq!(mode_of(overlay.lower(name)), mode, "{name}");
    }
}

#[tokio::test]
async fn special_files_and_what_they_replace_stay_out() {
    let overlay = Overlay::new();
    write(overlay.lower("directory/file"), "x");
    for name in ["pipe", "directory"] {
        rustix::fs::mknodat(CWD, overlay.upper(name), FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    assert_eq!(commit(&overlay).await.unwrap(), []);
    assert_eq!(names_in(overlay.lower("")), ["directory"]);
    assert!(overlay.lower("directory/file").exists());
}

#[tokio::test]
async fn holes_do_not_fill_the_host() {
    let overlay = Overlay::new();
    File::create(overlay.upper("sparse")).unwrap().set_len(1 << 36).unwrap();
    commit_all(&overlay).await;
    let copied = fs::metadata(overlay.lower("sparse")).unwrap();
    assert_eq!((copied.len(), copied.blocks() < 1000), (1 << 36, true));
    File::create(overlay.upper("absurd")).unwrap().set_len((1 << 40) + 1).unwrap();
    assert!(matches!(commit(&overlay).await, Err(WorkspaceError::Failed { applied: 0, .. })));
}

/// The one path that is named as protected; nothing else was committed.
async fn refused(overlay: &Overlay) -> PathBuf {
    write(overlay.upper("harmless"), "x");
    match commit(overlay).await {
        Err(WorkspaceError::Protected { paths }) => {
            assert!(!overlay.lower("harmless").exists());
            assert_eq!(paths.len(), 1, "{paths:?}");
            paths[0].clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn protected_paths_are_not_committed() {
    let hook = Overlay::new();
    fs::create_dir_all(hook.lower(".git")).unwrap();
    write(hook.upper(".git/hooks/pre-commit"), "evil");
    assert_eq!(refused(&hook).await, hook.lower(".git/hooks"));

    let repository = Overlay::new();
    write(repository.upper(".git/HEAD"), "x");
    assert_eq!(refused(&repository).await, repository.lower(".git"));

    let pointer = Overlay::new();
    write(pointer.upper(".git"), "gitdir: elsewhere");
    assert_eq!(refused(&pointer).await, pointer.lower(".git"));

    let replaced = Overlay::new();
    write(replaced.lower(".git/HEAD"), "x");
    symlink("elsewhere", replaced.upper(".git")).unwrap();
    assert_eq!(refused(&replaced).await, replaced.lower(".git"));

    let mode = Overlay::new();
    for side in [mode.lower(".bashrc"), mode.upper(".bashrc")] {
        write(side, "x");
    }
    set_mode(mode.upper(".bashrc"), 0o777);
    assert_eq!(refused(&mode).await, mode.lower(".bashrc"));
}

#[tokio::test]
async fn deleting_what_contains_a_protected_path_is_refused() {
    let test = "deleting_what_contains_a_protected_path_is_refused";
    let overlay = Overlay::new();
    fs::create_dir_all(overlay.lower(".git")).unwrap();
    if whiteout(test, &overlay.upper(".git")) {
        assert_eq!(refused(&overlay).await, overlay.lower(".git"));
        assert!(overlay.lower(".git").exists());
    }
}

#[tokio::test]
async fn ordinary_work_in_a_repository_is_committed() {
    let overlay = Overlay::new();
    write(overlay.lower(".git/index"), "old");
    write(overlay.upper(".git/index"), "new");
    write(overlay.upper(".git/objects/aa/bb"), "object");
    commit_all(&overlay).await;
    assert_eq!(fs::read_to_string(overlay.lower(".git/index")).unwrap(), "new");
}

#[tokio::test]
async fn narrower_rules_inside_the_tree_hold() {
    for access in ["deny", "read"] {
        let mut overlay = Overlay::new();
        let inner = overlay.lower("inner");
        let builder = Policy::builder().overlay(overlay.scratch.path().join("lower"));
        let builder = if access == "deny" { builder.deny(&inner) } else { builder.read(&inner) };
        overlay.policy = builder.build().unwrap().filesystem;
        write(overlay.upper("inner/file"), "x");
        assert_eq!(refused(&overlay).await, inner);
    }
}

#[tokio::test]
async fn what_the_host_changed_meanwhile_is_a_conflict() {
    let overlay = Overlay::new();
    for name in ["a", "b"] {
        write(overlay.lower(name), "old");
        write(overlay.upper(name), "box");
    }
    let workspace = overlay.workspace();
    let_time_pass();
    write(overlay.lower("b"), "host");
    match workspace.commit().await {
        Err(WorkspaceError::Conflict { path }) => assert_eq!(path, overlay.lower("b")),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_to_string(overlay.lower("a")).unwrap(), "old");
    // The same for a file that both made.
    write(overlay.lower("b"), "box");
    write(overlay.lower("both"), "host");
    write(overlay.upper("both"), "box");
    assert!(
        matches!(workspace.commit().await, Err(WorkspaceError::Conflict { path }) if path == overlay.lower("both"))
    );
}

#[tokio::test]
async fn a_file_added_to_a_directory_that_the_box_deleted_is_a_conflict() {
    let test = "a_file_added_to_a_directory_that_the_box_deleted_is_a_conflict";
    let overlay = Overlay::new();
    write(overlay.lower("gone/file"), "x");
    if !whiteout(test, &overlay.upper("gone")) {
        return;
    }
    let workspace = overlay.workspace();
    let_time_pass();
    write(overlay.lower("gone/precious"), "x");
    assert!(matches!(workspace.commit().await, Err(WorkspaceError::Conflict { .. })));
    assert!(overlay.lower("gone/file").exists());
}

#[tokio::test]
async fn a_second_commit_does_not_conflict_with_the_first() {
    let overlay = Overlay::new();
    write(overlay.lower("directory/file"), "old");
    write(overlay.upper("directory/file"), "first");
    write(overlay.upper("directory/new"), "first");
    let workspace = overlay.workspace();
    let_time_pass();
    workspace.commit().await.unwrap();
    write(overlay.upper("directory/file"), "second");
    set_mode(overlay.upper("directory"), 0o700);
    assert_eq!(workspace.commit().await.unwrap().len(), 2);
    assert_eq!(fs::read_to_string(overlay.lower("directory/file")).unwrap(), "second");
    assert_eq!(mode_of(overlay.lower("directory")), 0o700);
}

#[tokio::test]
async fn a_link_that_takes_a_directorys_place_on_the_host_diverts_nothing() {
    let overlay = Overlay::new();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path().join("file"), "outside");
    write(overlay.lower("a/file"), "old");
    write(overlay.upper("a/file"), "box");
    let workspace = overlay.workspace();
    assert_eq!(workspace.diff().await.unwrap().len(), 1);
    let_time_pass();
    fs::rename(overlay.lower("a"), overlay.lower("moved")).unwrap();
    symlink(outside.path(), overlay.lower("a")).unwrap();
    assert!(matches!(workspace.commit().await, Err(WorkspaceError::Conflict { .. })));
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "outside");
}

#[tokio::test]
async fn a_swap_between_check_and_change_diverts_nothing_and_says_how_far_it_came() {
    let overlay = Overlay::new();
    let outside = tempfile::tempdir().unwrap();
    for name in ["a/first", "b/second"] {
        write(overlay.lower(name), "old");
        write(overlay.upper(name), "box");
    }
    let workspace = overlay.workspace();
    let trees = &workspace.shared.trees;
    let found = differences(trees).unwrap();
    fs::rename(overlay.lower("b"), outside.path().join("b")).unwrap();
    symlink(outside.path().join("b"), overlay.lower("b")).unwrap();
    let result = Apply::new(trees, &mut Baseline::new(SystemTime::now())).run(&found);
    match result {
        Err(WorkspaceError::Failed { applied, path, .. }) => {
            assert_eq!((applied, path), (1, overlay.lower("b/second")))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_to_string(outside.path().join("b/second")).unwrap(), "old");
    assert_eq!(names_in(outside.path().join("b")), ["second"]);
}

#[tokio::test]
async fn a_failure_on_the_way_leaves_no_directory_closed() {
    let overlay = Overlay::new();
    write(overlay.lower("changed/old"), "x");
    set_mode(overlay.lower("changed"), 0o755);
    write(overlay.upper("changed/new"), "x");
    set_mode(overlay.upper("changed"), 0o711);
    write(overlay.upper("open/a"), "x");
    write(overlay.upper("open/z"), "x");
    set_mode(overlay.upper("open"), 0o755);
    let workspace = overlay.workspace();
    let trees = &workspace.shared.trees;
    let found = differences(trees).unwrap();
    // As code that runs on would do it.
    fs::remove_file(overlay.upper("open/z")).unwrap();
    match Apply::new(trees, &mut Baseline::new(SystemTime::now())).run(&found) {
        Err(WorkspaceError::Failed { path, .. }) => assert_eq!(path, overlay.lower("open/z")),
        other => panic!("{other:?}"),
    }
    assert_eq!(names_in(overlay.lower("open")), ["a"]);
    for (name, mode) in [("open", 0o755), ("changed", 0o711)] {
        assert_eq!(fs::metadata(overlay.lower(name)).unwrap().permissions().mode() & 0o7777, mode, "{name}");
    }
}

#[tokio::test]
async fn committed_files_belong_to_the_caller() {
    let test = "committed_files_belong_to_the_caller";
    let mut overlay = Overlay::new();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skip(test, "only root gives files to others");
    }
    overlay.caller = Some((1234, 2345));
    let owner = |path: PathBuf| fs::symlink_metadata(path).map(|m| (m.uid(), m.gid())).unwrap();
    // Another's file: it is replaced, not changed, so that its owner does not vouch for what the box did.
    write(overlay.lower("foreign"), "x");
    write(overlay.upper("foreign"), "x");
    set_mode(overlay.upper("foreign"), 0o666);
    write(overlay.upper("directory/file"), "x");
    symlink("x", overlay.upper("link")).unwrap();
    commit_all(&overlay).await;
    for name in ["foreign", "directory", "directory/file", "link"] {
        assert_eq!(owner(overlay.lower(name)), (1234, 2345), "{name}");
    }
    fs::create_dir(overlay.lower("roots")).unwrap();
    fs::create_dir(overlay.upper("roots")).unwrap();
    set_mode(overlay.upper("roots"), 0o777);
    assert!(matches!(commit(&overlay).await, Err(WorkspaceError::Failed { applied: 0, .. })));
}

#[tokio::test]
async fn an_unreadable_file_is_refused_before_anything_is_applied() {
    let overlay = Overlay::new();
    write(overlay.upper("first"), "x");
    write(overlay.upper("unreadable"), "x");
    set_mode(overlay.upper("unreadable"), 0o200);
    match commit(&overlay).await {
        Err(WorkspaceError::Failed { applied: 0, path, .. }) => assert_eq!(path, overlay.lower("unreadable")),
        other => panic!("{other:?}"),
    }
    assert!(!overlay.lower("first").exists());
}
