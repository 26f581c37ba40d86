//! Boxes that are lost, calls in parallel, progress.

use std::sync::{Arc, Mutex};

use hotcell::tools::{ExecShell, OnProgress};
use serde_json::json;

use crate::common::{eventually, has_program, marker, processes_with, status_of};
use crate::support::Bench;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_run_in_parallel() {
    let Some(bench) = Bench::overlay("calls_run_in_parallel").await else { return };
    // Each waits for the other: one after the other they would never end.
    let one = bench.toolbox.exec_shell(ExecShell::new("touch a; while [ ! -e b ]; do sleep 0.01; done; echo one"));
    let two = bench.toolbox.exec_shell(ExecShell::new("touch b; while [ ! -e a ]; do sleep 0.01; done; echo two"));
    let (one, two) = tokio::join!(one, two);
    assert_eq!((one.unwrap().stdout.as_str(), two.unwrap().stdout.as_str()), ("one\n", "two\n"));
}

#[tokio::test]
async fn progress_is_told_while_a_command_runs() {
    let Some(bench) = Bench::overlay("progress_is_told_while_a_command_runs").await else { return };
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&told);
    let progress: OnProgress = Arc::new(move |progress| to.lock().unwrap().push(progress));
    let toolbox = bench.toolbox.clone();
    let command = r"printf 'step \033[1mone\n'; while [ ! -e go ]; do sleep 0.01; done; echo step two";
    let call =
        tokio::spawn(async move { toolbox.call("exec_shell", json!({"command": command}), Some(progress)).await });
    eventually("the first step is told", || !told.lock().unwrap().is_empty()).await;
    assert_eq!(told.lock().unwrap()[0].line, "step \\u{1b}[1mone");
    // It is told at most twenty times a second.
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    bench.works("write_file", json!({"path": "go", "content": ""})).await;
    assert_eq!(call.await.unwrap().structured["exit_code"], 0);
    assert_eq!(told.lock().unwrap().last().unwrap().line, "step two");
}

#[tokio::test]
async fn a_call_that_nobody_polls_does_not_hold_up_closing() {
    let Some(bench) = Bench::overlay("a_call_that_nobody_polls_does_not_hold_up_closing").await else { return };
    let word = marker();
    let mut call = std::pin::pin!(bench.toolbox.exec_shell(ExecShell::new(format!("sleep {word}"))));
    while processes_with(&word).is_empty() {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(10), &mut call).await;
    }
    bench.toolbox.close().await;
    assert_eq!(bench.fails("list_files", json!({})).await["kind"], "lost");
    assert_eq!(call.await.unwrap_err().kind, hotcell::tools::ErrorKind::Lost);
    eventually("the box is removed", || processes_with(&word).is_empty()).await;
}

/// Ends the box that a process with this word is in, as a crash would: its init is the one whose parent is a helper process.
fn kill_box_of(word: &str) {
    let mut process = processes_with(word)[0];
    loop {
        let parent: u32 = status_of(process, "PPid").unwrap().parse().unwrap();
        assert!(parent > 1, "{word} is in no box");
        if status_of(parent, "Name").as_deref() == Some("hotcell-spawner") {
            break;
        }
        process = parent;
    }
    let killed = std::process::Command::new("/bin/kill").args(["-KILL", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[tokio::test]
async fn a_lost_box_is_told_as_such() {
    let test = "a_lost_box_is_told_as_such";
    if !has_program(test, "/bin/kill") {
        return;
    }
    let Some(bench) = Bench::overlay(test).await else { return };
    let word = marker();
    bench.works("exec_shell", json!({"command": format!("sleep {word}"), "background": true})).await;
    let toolbox = bench.toolbox.clone();
    let running = tokio::spawn(async move { toolbox.exec_shell(ExecShell::new("echo x > ready; sleep 600")).await });
    for _ in 0..2000 {
        if !bench.call("read_file", json!({"path": "ready"})).await.is_error {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    kill_box_of(&word);
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind, hotcell::tools::ErrorKind::Lost, "{error:?}");
    for (tool, arguments) in [
        ("exec_shell", json!({"command": "true"})),
        ("exec_shell", json!({"command": "true", "background": true})),
        ("read_file", json!({"path": "f"})),
        ("write_file", json!({"path": "f", "content": ""})),
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "x"})),
        ("process_output", json!({"process": "p1", "wait_ms": 20_000})),
    ] {
        let error = bench.fails(tool, arguments).await;
        assert_eq!(error["kind"], "lost", "{tool}: {error}");
        assert!(error["instead"].as_str().unwrap().contains("new box"), "{error}");
    }
    bench.toolbox.close().await;
}
