//! Attacks on containers: what got through is what the table of expectations says, neither more nor less.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

use std::io::Write;

use hotcell_verify::report::Report;
use hotcell_verify::target::{self, MadeOf};
use hotcell_verify::{Suite, Verdict};

/// Some checks are about time and processors: one suite at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Notes that something could not be shown here.
fn skip(name: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(format!("{name}: {reason}\n").as_bytes()).unwrap();
    }
}

/// Attacks boxes of this kind with the checks that `words` mean. At least `least_held` of them have to hold.
async fn attack(name: &str, made_of: MadeOf, words: &[&str], least_held: usize) {
    let _turn = TURN.lock().await;
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut suite = Suite::filtered(&words).unwrap();
    let target = target::named(name, &made_of).unwrap();
    let run = Report::examine(&mut suite, &[target], &[], |_, _| {}).await.runs.remove(0);
    let unexpected = run.findings.iter().filter(|finding| !finding.is_expected());
    let unexpected: Vec<String> = unexpected
        .map(|finding| format!("{} is {}: {:?}", finding.check.id, finding.verdict, finding.evidence))
        .collect();
    assert_eq!(unexpected, Vec::<String>::new());
    for finding in run.with_verdict(Verdict::Vacuous) {
        skip(&format!("{name} {}", finding.check.id), finding.reason.as_deref().unwrap_or("vacuous"));
    }
    let summary = run.summary();
    assert!(summary.held >= least_held, "{summary:?}");
}

#[tokio::test]
async fn containers_without_a_daemon_hold() {
    let runtime = std::env::var("HOTCELL_TEST_RUNC").ok();
    if runtime.is_none() || !rustix::process::geteuid().is_root() {
        return skip("containers_without_a_daemon_hold", "HOTCELL_TEST_RUNC names no runc, or this is not root");
    }
    let made_of = MadeOf { oci_runtime: runtime, ..MadeOf::default() };
    attack("oci", made_of, &["filesystem", "process", "kernel", "network", "supervisor"], 250).await;
}

#[tokio::test]
async fn gvisors_boxes_hold() {
    let runtime = std::env::var("HOTCELL_TEST_RUNSC").ok();
    if runtime.is_none() || !rustix::process::geteuid().is_root() {
        return skip("gvisors_boxes_hold", "HOTCELL_TEST_RUNSC names no runsc, or this is not root");
    }
    let made_of = MadeOf { oci_runtime: runtime, ..MadeOf::default() };
    attack("gvisor", made_of, &["filesystem", "process"], 110).await;
}

#[tokio::test]
async fn containers_of_an_engine_hold() {
    // The engine of the test command; `DOCKER_HOST` says the same.
    if std::env::var_os("HOTCELL_TEST_DOCKER").is_none() {
        return skip("containers_of_an_engine_hold", "HOTCELL_TEST_DOCKER names no engine");
    }
    let made_of = MadeOf { image: Some("hotcell-test:latest".to_owned()), ..MadeOf::default() };
    attack("docker", made_of, &["filesystem", "process", "supervisor"], 150).await;
}
