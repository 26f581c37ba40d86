//! What is found.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use super::*;
use ChangeKind::{Added, Changed, Deleted};
use FileKind::{Directory, Link, Other};

#[tokio::test]
async fn kinds_of_change_are_told_apart() {
    let overlay = Overlay::new();
    for (name, content) in [("same", "1"), ("content", "old"), ("size", "12"), ("mode", "1")] {
        write(overlay.lower(name), content);
    }
    symlink("one", overlay.lower("link")).unwrap();
    symlink("one", overlay.lower("same-link")).unwrap();
    write(overlay.lower("directory/untouched"), "");
    for (name, content) in [("same", "1"), ("content", "new"), ("size", "123"), ("mode", "1"), ("directory/new", "22")]
    {
        write(overlay.upper(name), content);
    }
    symlink("two", overlay.upper("link")).unwrap();
    symlink("one", overlay.upper("same-link")).unwrap();
    set_mode(overlay.upper("mode"), 0o755);
    for side in [overlay.lower("directory"), overlay.upper("directory")] {
        set_mode(side, 0o750);
    }

    let changes = overlay.workspace().diff().await.unwrap();
    let expected = [
        ("content", Changed, FileKind::File),
        ("directory/new", Added, FileKind::File),
        ("link", Changed, Link),
        ("mode", ChangeKind::Mode, FileKind::File),
        ("size", Changed, FileKind::File),
    ];
    assert_eq!(overlay.short(&changes), expected.map(|(path, kind, file)| (path.into(), kind, file)));
    let new = &changes[1];
    assert_eq!((new.mode_before, new.mode_after, new.size), (None, Some(0o644), Some(2)));
    let mode = &changes[3];
    assert_eq!((mode.mode_before, mode.mode_after, mode.size), (Some(0o644), Some(0o755), Some(1)));
}

#[tokio::test]
async fn a_whiteout_of_a_directory_deletes_all_that_is_in_it() {
    let test = "a_whiteout_of_a_directory_deletes_all_that_is_in_it";
    let overlay = Overlay::new();
    write(overlay.lower("gone/deep/file"), "x");
    write(overlay.lower("kept"), "x");
    if !whiteout(test, &overlay.upper("gone")) || !whiteout(test, &overlay.upper("never-was-there")) {
        return;
    }
    let changes = overlay.workspace().diff().await.unwrap();
    let expected = [("gone", Directory), ("gone/deep", Directory), ("gone/deep/file", FileKind::File)];
    assert_eq!(overlay.short(&changes), expected.map(|(path, file)| (path.into(), Deleted, file)));
    assert_eq!((changes[2].mode_before, changes[2].mode_after), (Some(0o644), None));
}

#[tokio::test]
async fn an_opaque_directory_hides_what_it_does_not_name() {
    let test = "an_opaque_directory_hides_what_it_does_not_name";
    let overlay = Overlay::new();
    for name in ["again/same", "again/gone", "again/below/gone"] {
        write(overlay.lower(name), "x");
    }
    write(overlay.upper("again/same"), "x");
    write(overlay.upper("again/new"), "x");
    if !mark(test, &overlay.upper("again"), "user.overlay.opaque", b"y") {
        return;
    }
    let changes = overlay.workspace().diff().await.unwrap();
    let expected = [
        ("again/below", Deleted, Directory),
        ("again/below/gone", Deleted, FileKind::File),
        ("again/gone", Deleted, FileKind::File),
        ("again/new", Added, FileKind::File),
    ];
    assert_eq!(overlay.short(&changes), expected.map(|(path, kind, file)| (path.into(), kind, file)));
}

#[tokio::test]
async fn deletions_can_be_marked_on_empty_files() {
    let test = "deletions_can_be_marked_on_empty_files";
    let overlay = Overlay::new();
    for name in ["d/gone", "d/emptied", "d/kept"] {
        write(overlay.lower(name), "x");
    }
    for name in ["d/gone", "d/emptied"] {
        write(overlay.upper(name), "");
    }
    if !mark(test, &overlay.upper("d"), "user.overlay.opaque", b"x")
        || !mark(test, &overlay.upper("d/gone"), "user.overlay.whiteout", b"y")
    {
        return;
    }
    let changes = overlay.workspace().diff().await.unwrap();
    let expected = [("d/emptied", Changed), ("d/gone", Deleted)];
    assert_eq!(overlay.short(&changes), expected.map(|(path, kind)| (path.into(), kind, FileKind::File)));
}

#[tokio::test]
async fn a_link_in_the_upper_layer_is_not_followed() {
    let overlay = Overlay::new();
    write(overlay.lower("a/passwd"), "ours");
    symlink("/etc", overlay.upper("a")).unwrap();
    let changes = overlay.workspace().diff().await.unwrap();
    assert_eq!(overlay.short(&changes), [("a".into(), Changed, Link), ("a/passwd".into(), Deleted, FileKind::File),]);
}

#[tokio::test]
async fn a_link_on_the_host_is_not_followed() {
    let overlay = Overlay::new();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path().join("file"), "outside");
    symlink(outside.path(), overlay.lower("a")).unwrap();
    write(overlay.upper("a/file"), "inside");
    let changes = overlay.workspace().diff().await.unwrap();
    assert_eq!(overlay.short(&changes), [("a".into(), Changed, Directory), ("a/file".into(), Added, FileKind::File),]);
}

#[tokio::test]
async fn special_files_are_listed_without_waiting_for_them() {
    let overlay = Overlay::new();
    write(overlay.lower("was-file"), "x");
    for name in ["pipe", "was-file"] {
        rustix::fs::mknodat(CWD, overlay.upper(name), FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    let changes = overlay.workspace().diff().await.unwrap();
    assert_eq!(overlay.short(&changes), [("pipe".into(), Added, Other), ("was-file".into(), Changed, Other)]);
}

#[tokio::test]
async fn names_are_bytes() {
    let overlay = Overlay::new();
    let name = OsStr::from_bytes(b"new\nline \xff\x1b[31m");
    write(overlay.upper(name), "x");
    let changes = overlay.workspace().diff().await.unwrap();
    assert_eq!(changes[0].path, overlay.lower(name));
}

#[tokio::test]
async fn a_tree_too_deep_to_name_is_an_error_and_uses_up_nothing() {
    let overlay = Overlay::new();
    let mut directory = pin(&overlay.upper(""), OFlags::PATH);
    for _ in 0..3000 {
        rustix::fs::mkdirat(&directory, "d", Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let error = overlay.workspace().diff().await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Failed { applied: 0, .. }), "{error}");
}

#[tokio::test]
async fn nothing_is_answered_while_commands_run_or_after_discarding() {
    let overlay = Overlay::new();
    write(overlay.upper("new"), "x");
    let workspace = overlay.workspace();
    overlay.running.store(1, Ordering::Release);
    assert!(matches!(workspace.diff().await, Err(WorkspaceError::Busy)));
    assert!(matches!(workspace.commit().await, Err(WorkspaceError::Busy)));
    assert!(matches!(workspace.discard().await, Err(WorkspaceError::Busy)));
    overlay.running.store(0, Ordering::Release);
    assert!(!workspace.is_discarded());
    workspace.discard().await.unwrap();
    assert!(workspace.is_discarded());
    assert!(matches!(workspace.diff().await, Err(WorkspaceError::Lost { .. })));
    assert!(matches!(workspace.commit().await, Err(WorkspaceError::Lost { .. })));
    assert!(!overlay.lower("new").exists());
}

#[tokio::test]
async fn a_command_that_starts_while_others_compare_is_seen() {
    let overlay = Overlay::new();
    write(overlay.upper("new"), "x");
    let workspace = overlay.workspace();
    let comparing = workspace.shared.baseline.lock().await;
    let mut waiting = [workspace.diff(), workspace.commit()];
    for call in &mut waiting {
        assert!(std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await.is_pending());
    }
    overlay.running.store(1, Ordering::Release);
    drop(comparing);
    for call in waiting {
        assert!(matches!(call.await, Err(WorkspaceError::Busy)));
    }
    assert!(!overlay.lower("new").exists());
}

/// Whoever starts a command asks on a thread that others need.
#[tokio::test]
async fn only_those_wait_for_a_comparison_who_compare() {
    let overlay = Overlay::new();
    let workspace = overlay.workspace();
    let comparing = workspace.shared.baseline.lock().await;
    assert!(!workspace.is_discarded());
    // Many more than there are threads for what blocks.
    let mut waiting: Vec<_> = (0..2000).map(|_| workspace.diff()).collect();
    for diff in &mut waiting {
        assert!(std::future::poll_fn(|context| std::task::Poll::Ready(diff.as_mut().poll(context))).await.is_pending());
    }
    let work = tokio::task::spawn_blocking(|| 7);
    assert_eq!(tokio::time::timeout(std::time::Duration::from_secs(20), work).await.unwrap().unwrap(), 7);
    drop(comparing);
    assert!(waiting.swap_remove(0).await.unwrap().is_empty());
}
