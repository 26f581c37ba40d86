//! The agent of the example does its work.

#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]
#![cfg(feature = "tools")]

#[path = "../examples/agent.rs"]
#[expect(dead_code, reason = "`main` is the example's")]
mod agent;
mod common;

use std::fs;

#[tokio::test]
async fn the_agent_of_the_example_fixes_its_mistake_and_commits() {
    let Some(engine) = common::engine("the_agent_of_the_example_fixes_its_mistake_and_commits").await else { return };
    engine.close().await;
    let directory = tempfile::tempdir().unwrap();
    let project = directory.path().canonicalize().unwrap();
    fs::write(project.join("sales.txt"), "pears 12\nfigs 30\n").unwrap();
    let calls = agent::work(&project).await.unwrap();
    let failed: Vec<&str> = calls.iter().filter(|(_, failed)| *failed).map(|(name, _)| *name).collect();
    assert_eq!(failed, ["read_file"], "only the look at other files is refused: {calls:?}");
    assert_eq!(calls.last().unwrap().0, "workspace_commit");
    assert_eq!(fs::read_to_string(project.join("total.txt")).unwrap(), "42\n");
    assert!(fs::read_to_string(project.join("total.sh")).unwrap().contains("print s }'"));
}
