//! Nothing piles up.

use hotcell::tools::ToolboxOptions;
use serde_json::json;

use crate::common::Place;
use crate::support::Bench;

/// Runs a test alone in a process of its own: the memory that it looks at is this process's.
fn alone(test: &str) -> bool {
    const VARIABLE: &str = "HOTCELL_TEST_ALONE";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    false
}

/// The memory that this process has now, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn calls(bench: &Bench, count: usize) {
    for n in 0..count {
        let content = "x".repeat(100_000);
        let said = bench.toolbox.call("write_file", json!({"path": "f", "content": content}), None).await;
        assert!(!said.is_error, "{}", said.text);
        let said = bench.toolbox.call("read_file", json!({"path": "f"}), None).await;
        assert!(!said.is_error, "{}", said.text);
        if n % 10 == 0 {
            let arguments = json!({"command": "cat f", "background": true});
            let said = bench.toolbox.call("exec_shell", arguments, None).await;
            assert!(!said.is_error, "{}", said.text);
            let process = said.structured["process"].clone();
            bench.toolbox.call("process_output", json!({"process": process, "wait_ms": 20_000}), None).await;
            bench.toolbox.call("stop_process", json!({"process": process}), None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_keep_nothing() {
    if !tokio::task::block_in_place(|| alone("memory::a_thousand_calls_keep_nothing")) {
        return;
    }
    let limited = |options: &mut ToolboxOptions| options.limits.text = 200_000;
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("a_thousand_calls_keep_nothing", overlay, limited).await else { return };
    calls(&bench, 200).await;
    let before = resident();
    calls(&bench, 400).await;
    let grown = resident().saturating_sub(before);
    // A result has 100 kB: 400 that were kept would be 40 MB.
    assert!(grown < 15_000, "grown by {grown} KiB from {before} KiB");
    let status = bench.works("sandbox_status", json!({})).await;
    assert!(status["processes"].as_array().unwrap().len() < 20);
}
