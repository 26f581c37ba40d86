//! Processes in the background.

use hotcell::tools::ToolboxOptions;
use serde_json::{Value, json};

use crate::common::{Place, eventually, marker, processes_with};
use crate::support::Bench;

async fn start(bench: &Bench, command: &str) -> String {
    let said = bench.works("exec_shell", json!({"command": command, "background": true})).await;
    assert_eq!(said["status"], "running");
    said["process"].as_str().unwrap().to_owned()
}

/// Reads until there is `wanted` in what was written.
async fn read_until(bench: &Bench, process: &str, wanted: &str) -> (String, Value) {
    let mut seen = String::new();
    loop {
        let said = bench.works("process_output", json!({"process": process, "wait_ms": 20_000})).await;
        seen.push_str(said["output"].as_str().unwrap());
        if seen.contains(wanted) {
            return (seen, said);
        }
        assert!(said["running"].as_bool().unwrap(), "it ended: {seen:?} {said}");
    }
}

#[tokio::test]
async fn output_comes_piece_by_piece() {
    let Some(bench) = Bench::overlay("output_comes_piece_by_piece").await else { return };
    let process = start(&bench, "echo one; read line; echo got $line >&2; read line; exit 3").await;
    assert_eq!(process, "p1");
    let (seen, said) = read_until(&bench, &process, "one\n").await;
    assert_eq!((seen.as_str(), &said["cursor"]), ("one\n", &json!(4)));
    let said = bench.works("process_output", json!({"process": process})).await;
    assert_eq!((&said["output"], &said["running"]), (&json!(""), &json!(true)));
    bench.works("process_input", json!({"process": process, "text": "hello\n"})).await;
    assert_eq!(read_until(&bench, &process, "got hello\n").await.0, "got hello\n");
    // From a cursor of one's own.
    let said = bench.works("process_output", json!({"process": process, "cursor": 0})).await;
    assert_eq!(said["output"], "one\ngot hello\n");
    bench.works("process_input", json!({"process": process, "close": true})).await;
    let said = bench.works("process_output", json!({"process": process, "wait_ms": 20_000})).await;
    assert_eq!((&said["status"], &said["exit_code"]), (&json!("exited"), &json!(3)));
    assert_eq!(bench.fails("process_input", json!({"process": process, "text": "x"})).await["kind"], "not_found");
}

#[tokio::test]
async fn keys_interrupt_and_end_input() {
    let Some(bench) = Bench::overlay("keys_interrupt_and_end_input").await else { return };
    let process = start(&bench, "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done").await;
    read_until(&bench, &process, "ready").await;
    let said = bench.works("process_input", json!({"process": process, "key": "ctrl-c"})).await;
    assert_eq!(said["signal"], "SIGINT");
    read_until(&bench, &process, "caught").await;
    let said = bench.works("process_output", json!({"process": process, "wait_ms": 20_000})).await;
    assert_eq!(said["exit_code"], 7);
    let counter = start(&bench, "wc -c").await;
    bench.works("process_input", json!({"process": counter, "text": "12345", "key": "ctrl-d"})).await;
    read_until(&bench, &counter, "5").await;
    assert_eq!(bench.fails("process_input", json!({"process": process})).await["kind"], "invalid_input");
}

#[tokio::test]
async fn what_is_stopped_is_gone_with_all_it_started() {
    let Some(bench) = Bench::overlay("what_is_stopped_is_gone_with_all_it_started").await else { return };
    let (parent, child) = (marker(), marker());
    let process =
        start(&bench, &format!("trap '' TERM; sleep {child} & echo ready; while :; do sleep {parent}; done")).await;
    read_until(&bench, &process, "ready").await;
    let said = bench.works("stop_process", json!({"process": process})).await;
    assert_eq!((&said["running"], &said["status"]), (&json!(false), &json!("canceled")));
    eventually("they are gone", || processes_with(&parent).is_empty() && processes_with(&child).is_empty()).await;
    // Again is no error.
    bench.works("stop_process", json!({"process": process})).await;
    let polite = start(&bench, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done").await;
    read_until(&bench, &polite, "ready").await;
    let said = bench.works("stop_process", json!({"process": polite})).await;
    // The shell may add that its own child was ended.
    assert!(said["output"].as_str().unwrap().contains("bye\n") && said["exit_code"] == 0, "{said}");
}

/// Its shell ends at once when it is asked to.
#[tokio::test]
async fn what_left_the_group_does_not_outlive_a_polite_end() {
    let Some(bench) = Bench::overlay("what_left_the_group_does_not_outlive_a_polite_end").await else { return };
    let (child, daemon, other) = (marker(), marker(), marker());
    // Others in the box are left alone, whatever is said to this one.
    start(&bench, &format!("sleep {other}")).await;
    let command = format!("setsid sleep {child} & (setsid sleep {daemon} &) ; echo ready; sleep 600");
    let process = start(&bench, &command).await;
    read_until(&bench, &process, "ready").await;
    eventually("they run", || [&child, &daemon, &other].iter().all(|word| processes_with(word).len() == 1)).await;
    let said = bench.works("stop_process", json!({"process": process})).await;
    assert_eq!((&said["status"], &said["signal"]), (&json!("signaled"), &json!(15)));
    assert_eq!((processes_with(&child), processes_with(&daemon)), (vec![], vec![]));
    assert_eq!(processes_with(&other).len(), 1);
}

#[tokio::test]
async fn a_server_behind_its_shell_has_time_to_say_goodbye() {
    let Some(bench) = Bench::overlay("a_server_behind_its_shell_has_time_to_say_goodbye").await else { return };
    let server = "sh -c 'trap \"sleep 0.5; echo saved; exit\" TERM; echo ready; while :; do sleep 0.05; done' & wait";
    let process = start(&bench, server).await;
    read_until(&bench, &process, "ready").await;
    let said = bench.works("stop_process", json!({"process": process})).await;
    assert!(said["output"].as_str().unwrap().contains("saved") && said["signal"] == 15, "{said}");
}

#[tokio::test]
async fn a_flood_is_bounded_and_what_is_lost_is_counted() {
    let limited = |options: &mut ToolboxOptions| options.limits.text = 1000;
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("a_flood_is_bounded_and_what_is_lost_is_counted", overlay, limited).await else {
        return;
    };
    let process = start(&bench, "seq 200000; echo last; read line").await;
    let written = "last\n".len() as u64 + (1..=200_000_u64).map(|n| n.to_string().len() as u64 + 1).sum::<u64>();
    let said = loop {
        let status = bench.works("sandbox_status", json!({})).await;
        if status["processes"][0]["output_bytes"] == written {
            break bench.works("process_output", json!({"process": process})).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    assert_eq!(said["lost_bytes"], written - 4000);
    assert_eq!((said["output"].as_str().unwrap().len(), &said["more"]), (1000, &json!(true)));
    assert!(read_until(&bench, &process, "last\n").await.0.len() <= 3000);
}

#[tokio::test]
async fn output_that_grows_by_being_written_out_comes_in_smaller_pieces() {
    let limited = |options: &mut ToolboxOptions| options.limits.text = 1000;
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let test = "output_that_grows_by_being_written_out_comes_in_smaller_pieces";
    let Some(bench) = Bench::with(test, overlay, limited).await else { return };
    let process = start(&bench, r"printf '\033%.0s' $(seq 3000); echo; exit 3").await;
    let mut escapes = 0;
    loop {
        let said = bench.works("process_output", json!({"process": process, "wait_ms": 20_000})).await;
        let output = said["output"].as_str().unwrap();
        assert!(output.len() <= 2000, "{}", output.len());
        escapes += output.matches("\\u{1b}").count();
        if said["running"] == false && said["more"] == false {
            break;
        }
    }
    assert_eq!(escapes, 3000);
}

#[tokio::test]
async fn input_that_nobody_reads_does_not_hold_a_call() {
    let hurried = |options: &mut ToolboxOptions| options.limits.timeout = std::time::Duration::from_millis(300);
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("input_that_nobody_reads_does_not_hold_a_call", overlay, hurried).await else {
        return;
    };
    let process = start(&bench, "sleep 600").await;
    let much = "x".repeat(1 << 20);
    assert_eq!(bench.fails("process_input", json!({"process": process, "text": much})).await["kind"], "timeout");
    bench.works("stop_process", json!({"process": process})).await;
    // The control: somebody who reads gets all of it.
    let reader = start(&bench, "wc -c").await;
    bench.works("process_input", json!({"process": reader, "text": much, "close": true})).await;
    read_until(&bench, &reader, "1048576").await;
}

#[tokio::test]
async fn only_so_many_run_at_the_same_time() {
    let limited = |options: &mut ToolboxOptions| options.limits.background = 2;
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("only_so_many_run_at_the_same_time", overlay, limited).await else { return };
    let calls = (0..6).map(|_| {
        let toolbox = bench.toolbox.clone();
        tokio::spawn(async move {
            toolbox.call("exec_shell", json!({"command": "sleep 600", "background": true}), None).await
        })
    });
    let mut started = 0;
    for call in calls.collect::<Vec<_>>() {
        let result = call.await.unwrap();
        match result.is_error {
            true => assert_eq!(result.structured["error"]["kind"], "busy"),
            false => started += 1,
        }
    }
    assert_eq!(started, 2);
    bench.works("stop_process", json!({"process": "p1"})).await;
    assert_eq!(start(&bench, "sleep 600").await, "p3");
    assert_eq!(bench.fails("process_output", json!({"process": "p99"})).await["kind"], "not_found");
}

#[tokio::test]
async fn ended_ones_are_remembered_for_a_while() {
    let Some(bench) = Bench::overlay("ended_ones_are_remembered_for_a_while").await else { return };
    for n in 0..40 {
        let process = start(&bench, &format!("echo {n}")).await;
        read_until(&bench, &process, &n.to_string()).await;
        bench.works("process_output", json!({"process": process, "wait_ms": 20_000})).await;
    }
    let status = bench.works("sandbox_status", json!({})).await;
    let known = status["processes"].as_array().unwrap();
    assert!((10..=18).contains(&known.len()), "{}", known.len());
    assert_eq!(known.last().unwrap()["process"], "p40");
}

#[tokio::test]
async fn a_timeout_in_the_foreground_leaves_the_background_alone() {
    let Some(bench) = Bench::overlay("a_timeout_in_the_foreground_leaves_the_background_alone").await else { return };
    let toolbox = bench.toolbox.clone();
    let slow = tokio::spawn(async move {
        toolbox.call("exec_shell", json!({"command": "sleep 600", "timeout_ms": 1500}), None).await
    });
    // Younger than the command that is ended.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let process = start(&bench, "echo ready; read line; echo alive").await;
    read_until(&bench, &process, "ready").await;
    assert_eq!(slow.await.unwrap().structured["status"], "timed-out");
    bench.works("process_input", json!({"process": process, "text": "\n"})).await;
    read_until(&bench, &process, "alive").await;
}

#[tokio::test]
async fn closing_ends_the_background() {
    let Some(bench) = Bench::overlay("closing_ends_the_background").await else { return };
    let word = marker();
    start(&bench, &format!("sleep {word}")).await;
    eventually("it runs", || !processes_with(&word).is_empty()).await;
    bench.toolbox.close().await;
    assert!(processes_with(&word).is_empty());
}

#[tokio::test]
async fn dropping_ends_the_background() {
    let Some(bench) = Bench::overlay("dropping_ends_the_background").await else { return };
    let word = marker();
    start(&bench, &format!("sleep {word}")).await;
    eventually("it runs", || !processes_with(&word).is_empty()).await;
    let Bench { toolbox, place: _place, engine: _engine } = bench;
    drop(toolbox);
    eventually("it is gone", || processes_with(&word).is_empty()).await;
}
