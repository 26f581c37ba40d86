//! Overlays: what differs, and how it gets to the user's files.

use hotcell::tools::WorkspaceCommit;
use serde_json::{Value, json};

use crate::common::{PYTHON, Place, eventually, has_program, marker, processes_with};
use crate::support::Bench;

fn change<'a>(said: &'a Value, path: &str) -> &'a Value {
    let changes = said["changes"].as_array().unwrap();
    changes.iter().find(|change| change["path"] == path).unwrap_or_else(|| panic!("{path} is not in {said}"))
}

#[tokio::test]
async fn changes_are_shown_then_committed() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.file("kept.txt", "one\ntwo\nthree\n");
        place.file("gone.txt", "old\n");
        policy.overlay(place.path())
    };
    let Some(bench) = Bench::with("changes_are_shown_then_committed", policy, |_| {}).await else { return };
    assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 0);
    bench.works("edit_file", json!({"path": "kept.txt", "old_text": "two", "new_text": "2"})).await;
    bench.works("exec_shell", json!({"command": "rm gone.txt; echo new > new.txt; ln -s /etc/passwd link; head -c 100 /dev/urandom > binary; printf '\\000' >> binary"})).await;
    let result = bench.call("workspace_diff", json!({})).await;
    let said = result.structured;
    assert_eq!(said["total"], 5);
    assert_eq!(
        change(&said, "kept.txt")["diff"],
        "--- a/kept.txt\n+++ b/kept.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    );
    assert_eq!(change(&said, "gone.txt")["diff"], "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n");
    assert_eq!(change(&said, "new.txt")["diff"], "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n");
    assert_eq!((&change(&said, "link")["diff"], &change(&said, "link")["kind"]), (&Value::Null, &json!("link")));
    assert_eq!(change(&said, "binary")["note"], "binary");
    assert!(result.text.contains("M kept.txt") && result.text.contains("+2"), "{}", result.text);
    let said = bench.works("workspace_diff", json!({"path": "new.txt"})).await;
    assert_eq!(said["total"], 1);
    // Nothing has reached the user's files.
    assert_eq!(std::fs::read_to_string(bench.place.join("kept.txt")).unwrap(), "one\ntwo\nthree\n");
    let said = bench.works("workspace_commit", json!({})).await;
    assert_eq!(said["total"], 5);
    assert_eq!(std::fs::read_to_string(bench.place.join("kept.txt")).unwrap(), "one\n2\nthree\n");
    assert!(!bench.place.join("gone.txt").exists());
    assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 0);
    // And the box goes on.
    bench.works("write_file", json!({"path": "more.txt", "content": "x"})).await;
    assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 1);
}

#[tokio::test]
async fn a_committed_link_does_not_lead_the_diff_out() {
    let Some(bench) = Bench::overlay("a_committed_link_does_not_lead_the_diff_out").await else { return };
    let outside = Place::new();
    let secret = outside.file("secret", "hunter2\n");
    // First the link gets to the host, where it would lead to the secret; then it is replaced by a file.
    bench
        .works(
            "exec_shell",
            json!({"command": format!("ln -s {} link; ln -s {} dir", secret.display(), outside.path().display())}),
        )
        .await;
    bench.works("workspace_commit", json!({})).await;
    assert_eq!(std::fs::read_to_string(bench.place.join("link")).unwrap(), "hunter2\n");
    bench
        .works("exec_shell", json!({"command": "rm link dir; echo mine > link; mkdir dir; echo mine > dir/secret"}))
        .await;
    let said = bench.works("workspace_diff", json!({})).await;
    assert!(said["total"].as_u64().unwrap() >= 3, "{said}");
    assert!(!said.to_string().contains("hunter2"), "{said}");
    assert!(change(&said, "link")["note"].is_string(), "{said}");
}

#[tokio::test]
async fn protected_paths_are_refused_by_name() {
    let Some(bench) = Bench::overlay("protected_paths_are_refused_by_name").await else { return };
    bench.works("write_file", json!({"path": ".git/hooks/pre-commit", "content": "evil"})).await;
    bench.works("write_file", json!({"path": "fine", "content": "fine"})).await;
    let error = bench.fails("workspace_commit", json!({})).await;
    assert_eq!((&error["kind"], &error["rule"]), (&json!("refused"), &json!("filesystem.protect = [\".git/hooks\"]")));
    assert!(bench.place.listing().is_empty());
    bench.works("exec_shell", json!({"command": "rm -r .git"})).await;
    bench.works("workspace_commit", json!({})).await;
    assert_eq!(bench.place.listing(), ["fine"]);
}

#[tokio::test]
async fn a_file_that_the_user_changed_is_a_conflict() {
    let Some(bench) = Bench::overlay("a_file_that_the_user_changed_is_a_conflict").await else { return };
    bench.place.file("f", "before");
    bench.works("write_file", json!({"path": "f", "content": "of the box"})).await;
    std::thread::sleep(std::time::Duration::from_millis(20));
    bench.place.file("f", "of the user");
    assert_eq!(bench.fails("workspace_commit", json!({})).await["kind"], "conflict");
    assert_eq!(std::fs::read_to_string(bench.place.join("f")).unwrap(), "of the user");
}

#[tokio::test]
async fn nothing_is_committed_while_something_runs() {
    let Some(bench) = Bench::overlay("nothing_is_committed_while_something_runs").await else { return };
    bench.works("write_file", json!({"path": "f", "content": "x"})).await;
    bench.works("exec_shell", json!({"command": "sleep 600", "background": true})).await;
    let error = bench.fails("workspace_commit", json!({})).await;
    assert_eq!(error["kind"], "busy");
    assert!(error["message"].as_str().unwrap().contains("p1"), "{error}");
    // Looking is possible all the same.
    assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 1);
    bench.works("stop_process", json!({"process": "p1"})).await;
    assert_eq!(bench.works("workspace_commit", json!({})).await["total"], 1);
}

#[tokio::test]
async fn without_an_overlay_there_is_nothing_to_commit() {
    let write = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.write(place.path());
    let Some(bench) = Bench::with("without_an_overlay_there_is_nothing_to_commit", write, |_| {}).await else { return };
    let names: Vec<&str> = bench.toolbox.definitions().iter().map(|tool| tool.name).collect();
    assert!(!names.contains(&"workspace_diff") && !names.contains(&"workspace_commit"), "{names:?}");
    assert_eq!(bench.fails("workspace_diff", json!({})).await["kind"], "not_found");
}

#[tokio::test]
async fn what_a_command_left_behind_is_named_and_holds_a_commit() {
    let Some(bench) = Bench::overlay("what_a_command_left_behind_is_named_and_holds_a_commit").await else { return };
    bench
        .works("exec_shell", json!({"command": "echo x > f; setsid sleep 600 >/dev/null 2>&1 & echo $! > /tmp/left"}))
        .await;
    let error = bench.fails("workspace_commit", json!({})).await;
    assert_eq!(error["kind"], "busy");
    assert!(error["message"].as_str().unwrap().contains("(\"sleep\")"), "{error}");
    assert!(bench.place.listing().is_empty());
    bench.works("exec_shell", json!({"command": "kill $(cat /tmp/left)"})).await;
    assert_eq!(bench.works("workspace_commit", json!({})).await["total"], 1);
}

/// Code that changes files while others are committed: a commit is whole, or refused.
#[tokio::test]
async fn code_that_runs_on_does_not_tear_a_commit() {
    let test = "code_that_runs_on_does_not_tear_a_commit";
    if !has_program(test, PYTHON) {
        return;
    }
    let Some(bench) = Bench::overlay(test).await else { return };
    let code = "import os, threading\n\
        def churn():\n    while True:\n        for n in range(50):\n            open(f'zz/{n}', 'w').close()\n        \
        for n in range(50):\n            os.unlink(f'zz/{n}')\n\
        os.makedirs('zz', exist_ok=True)\nos.makedirs(ROUND)\n\
        for n in range(1000):\n    open(f'{ROUND}/{n}', 'w').write('x')\n\
        threading.Thread(target=churn, daemon=True).start()";
    for round in 0..5 {
        let code = format!("ROUND = 'round{round}'\n{code}");
        let run = json!({"language": "python", "code": code, "context": "main", "timeout_ms": 60_000});
        let said = bench.works("run_code", run).await;
        assert_eq!(said["status"], "done", "{said}");
        let said = bench.works("workspace_commit", json!({})).await;
        assert_eq!(said["contexts_ended"], json!(["main"]));
        assert_eq!(std::fs::read_dir(bench.place.join(&format!("round{round}"))).unwrap().count(), 1000);
        assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 0);
    }
}

/// Where a link leads is asked in the box, with a command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_looks_for_the_name_of_a_rule_ends_no_contexts() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.file("secret/key", "hunter2");
        std::os::unix::fs::symlink("secret/key", place.join("leads-there")).unwrap();
        policy.overlay(place.path()).deny(place.join("secret"))
    };
    let test = "a_call_that_looks_for_the_name_of_a_rule_ends_no_contexts";
    let Some(bench) = Bench::with(test, policy, |_| {}).await else { return };
    let toolbox = bench.toolbox.clone();
    let reads = tokio::spawn(async move {
        loop {
            toolbox.call("read_file", json!({"path": "leads-there"}), None).await;
        }
    });
    for _ in 0..20 {
        bench.works("run_code", json!({"language": "bash", "code": "true", "context": "main"})).await;
        let commit = bench.call("workspace_commit", json!({})).await;
        assert!(!commit.is_error || !commit.text.contains("contexts were ended"), "{}", commit.text);
    }
    reads.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_nobody_waits_for_is_completed_before_anything_else_runs() {
    let test = "a_commit_that_nobody_waits_for_is_completed_before_anything_else_runs";
    let Some(bench) = Bench::overlay(test).await else { return };
    let make = "mkdir many; for n in $(seq 5000); do echo $n > many/$n; done";
    bench.works("exec_shell", json!({"command": make})).await;
    let many = bench.place.join("many");
    let mut commit = Box::pin(bench.toolbox.workspace_commit(WorkspaceCommit::default()));
    while !many.join("1").exists() {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), &mut commit).await;
    }
    drop(commit);
    bench.works("exec_shell", json!({"command": "rm -r many"})).await;
    assert_eq!(std::fs::read_dir(&many).unwrap().count(), 5000);
}

#[tokio::test]
async fn a_commit_that_was_given_up_before_it_began_does_nothing() {
    let test = "a_commit_that_was_given_up_before_it_began_does_nothing";
    if !has_program(test, "/bin/kill") {
        return;
    }
    let Some(bench) = Bench::overlay(test).await else { return };
    let word = marker();
    let leave = format!("echo x > f; setsid sleep {word} >/dev/null 2>&1 &");
    bench.works("exec_shell", json!({"command": leave})).await;
    eventually("it runs", || !processes_with(&word).is_empty()).await;
    // It waits for what still runs.
    let commit = bench.toolbox.workspace_commit(WorkspaceCommit::default());
    assert!(tokio::time::timeout(std::time::Duration::from_millis(100), commit).await.is_err());
    let left = processes_with(&word)[0].to_string();
    assert!(std::process::Command::new("/bin/kill").args(["-KILL", &left]).status().unwrap().success());
    // The next call has to wait for the end of that one.
    bench.works("exec_shell", json!({"command": "true"})).await;
    assert!(bench.place.listing().is_empty());
    assert_eq!(bench.works("workspace_commit", json!({})).await["total"], 1);
}
