//! What is dropped halfway, and what happens at the same time.

use std::fs;
use std::sync::mpsc;

use hotcell_core::policy::{Access, Limits, Policy};

use super::super::inside;
use super::super::link::Link;
use super::super::trees::{Caps, Trees};
use super::local::LocalLink;
use super::skip;
use crate::cell::workspace;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_trees_that_nobody_waits_for_any_more_takes_nothing_away() {
    let Some(link) = LocalLink::open().await else {
        return skip(
            "looking_at_trees_that_nobody_waits_for_any_more_takes_nothing_away",
            "no user namespaces for a stand-in",
        );
    };
    let host = tempfile::tempdir().unwrap();
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
