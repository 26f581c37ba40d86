//! Commands in the foreground.

use hotcell::tools::ExecShell;
use serde_json::json;

use crate::common::{LONG, marker, processes_with, until};
use crate::support::Bench;

#[tokio::test]
async fn a_command_gives_its_exit_code_and_both_streams() {
    let Some(bench) = Bench::overlay("a_command_gives_its_exit_code_and_both_streams").await else { return };
    let said = bench.works("exec_shell", json!({"command": "pwd; echo oops >&2; exit 3"})).await;
    assert_eq!(said["stdout"], format!("{}\n", bench.place.path().display()));
    assert_eq!((&said["stderr"], &said["exit_code"], &said["status"]), (&json!("oops\n"), &json!(3), &json!("exited")));
    assert_eq!(said["denials"], json!([]));
}

#[tokio::test]
async fn what_a_command_leaves_running_does_not_hold_the_call() {
    let Some(bench) = Bench::overlay("what_a_command_leaves_running_does_not_hold_the_call").await else { return };
    let word = marker();
    let said = bench.works("exec_shell", json!({"command": format!("sleep {word} & echo started")})).await;
    assert_eq!(said["stdout"], "started\n");
}

#[tokio::test]
async fn output_keeps_head_and_tail() {
    let limited = |options: &mut hotcell::tools::ToolboxOptions| options.limits.text = 1000;
    let bench = Bench::with("output_keeps_head_and_tail", |place, policy| policy.overlay(place.path()), limited).await;
    let Some(bench) = bench else { return };
    let said = bench.works("exec_shell", json!({"command": "echo first; seq 100000; echo last"})).await;
    let stdout = said["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n") && stdout.ends_with("last\n") && stdout.len() < 1100, "{stdout}");
    assert!(stdout.contains("bytes left out"), "{stdout}");
    assert!(said["left_out_bytes"].as_u64().unwrap() > 500_000);
    let said = bench.works("exec_shell", json!({"command": "echo first; echo last"})).await;
    assert_eq!((&said["stdout"], &said["left_out_bytes"]), (&json!("first\nlast\n"), &json!(0)));
}

#[tokio::test]
async fn a_dropped_call_ends_its_command() {
    let Some(bench) = Bench::overlay("a_dropped_call_ends_its_command").await else { return };
    let word = marker();
    let toolbox = bench.toolbox.clone();
    let command = format!("sleep {word}");
    let call = tokio::spawn(async move { toolbox.call("exec_shell", json!({"command": command}), None).await });
    tokio::task::yield_now().await;
    let (there, gone) = (word.clone(), word);
    tokio::task::spawn_blocking(move || until("it runs", || !processes_with(&there).is_empty())).await.unwrap();
    call.abort();
    tokio::task::spawn_blocking(move || until("it is gone", || processes_with(&gone).is_empty())).await.unwrap();
}

#[tokio::test]
async fn closing_ends_calls_and_later_ones_say_so() {
    let Some(bench) = Bench::overlay("closing_ends_calls_and_later_ones_say_so").await else { return };
    let toolbox = bench.toolbox.clone();
    let call = tokio::spawn(async move { toolbox.exec_shell(ExecShell::new("sleep 600")).await });
    tokio::task::yield_now().await;
    bench.toolbox.close().await;
    let ended = tokio::time::timeout(LONG, call).await.unwrap().unwrap().unwrap_err();
    assert_eq!(ended.kind, hotcell::tools::ErrorKind::Lost);
    let later = bench.fails("read_file", json!({"path": "x"})).await;
    assert_eq!(later["kind"], "lost");
    assert!(later["instead"].is_string());
}

#[tokio::test]
async fn a_limit_that_ends_a_command_is_named() {
    let tight = |place: &crate::common::Place, policy: hotcell::policy::PolicyBuilder| {
        policy.overlay(place.path()).output(100_000)
    };
    let Some(bench) = Bench::with("a_limit_that_ends_a_command_is_named", tight, |_| {}).await else { return };
    let said = bench.works("exec_shell", json!({"command": "yes"})).await;
    assert_eq!(said["status"], "output");
    assert!(said["denials"][0]["rule"].as_str().unwrap().starts_with("limits.output = "), "{said}");
    assert_eq!(said["denials"][0]["evidence"], "box");
    let said = bench.works("exec_shell", json!({"command": "sleep 600", "timeout_ms": 200})).await;
    assert_eq!((&said["status"], &said["denials"][0]["rule"]), (&json!("timed-out"), &json!("timeout_ms = 200")));
}

#[tokio::test]
async fn the_time_of_the_policy_is_named_where_it_is_shorter() {
    let test = "the_time_of_the_policy_is_named_where_it_is_shorter";
    let short = |place: &crate::common::Place, policy: hotcell::policy::PolicyBuilder| {
        policy.overlay(place.path()).timeout(std::time::Duration::from_millis(300))
    };
    let Some(bench) = Bench::with(test, short, |_| {}).await else { return };
    let said = bench.works("exec_shell", json!({"command": "sleep 600"})).await;
    assert_eq!(said["denials"][0]["rule"], "limits.timeout = \"0.3 s\"", "{said}");
    let error = bench.fails("exec_shell", json!({"command": "sleep 600", "timeout_ms": 100_000})).await;
    assert_eq!((&error["kind"], &error["rule"]), (&json!("invalid_input"), &said["denials"][0]["rule"]));
}

#[tokio::test]
async fn a_network_that_is_missed_is_named() {
    let Some(bench) = Bench::overlay("a_network_that_is_missed_is_named").await else { return };
    let program = "import socket; socket.create_connection(('192.0.2.1', 80))";
    let said = bench.works("exec_shell", json!({"command": format!("python3 -c \"{program}\"")})).await;
    assert_eq!(said["exit_code"], 1);
    assert_eq!(said["denials"][0]["rule"], "network.mode = \"deny\"", "{said}");
    assert_eq!(said["denials"][0]["evidence"], "output");
    // The same words where nothing failed are only words.
    let said = bench.works("exec_shell", json!({"command": "echo Network is unreachable"})).await;
    assert_eq!(said["denials"], json!([]));
}
