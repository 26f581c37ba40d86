//! The suite against this machine's boxes, and against sandboxes whose holes are known.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

use std::collections::BTreeSet;
use std::io::Write;

use hotcell_verify::knockout::{Boxes, depths, knock_out, switchable};
use hotcell_verify::report::{Report, Run};
use hotcell_verify::target::{self, Target, Wrapped};
use hotcell_verify::{Finding, Layer, Suite, Verdict};

/// More than this many checks that prove nothing, and the suite is not worth its time here.
const MOST_VACUOUS: usize = 10;

/// Some checks are about time and processors: one suite at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Notes that something could not be shown here.
fn skip(name: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(format!("{name}: {reason}\n").as_bytes()).unwrap();
    }
}

async fn run(suite: &mut Suite, target: Box<dyn Target>) -> Run {
    let mut report = Report::examine(suite, &[target], &[], |_, _| {}).await;
    report.runs.remove(0)
}

fn surprises(run: &Run) -> Vec<String> {
    let unexpected = run.findings.iter().filter(|finding| !finding.is_expected());
    unexpected.map(|finding| format!("{} is {}: {:?}", finding.check.id, finding.verdict, finding.evidence)).collect()
}

#[tokio::test]
async fn native_boxes_hold() {
    let _turn = TURN.lock().await;
    let run = run(&mut Suite::new(), target::named("native", &target::MadeOf::default()).unwrap()).await;
    assert_eq!(surprises(&run), Vec::<String>::new());
    let broken: Vec<&Finding> = run.with_verdict(Verdict::Broken).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let vacuous: Vec<&Finding> = run.with_verdict(Verdict::Vacuous).collect();
    for finding in &vacuous {
        skip(finding.check.id, finding.reason.as_deref().unwrap_or("vacuous"));
    }
    assert!(vacuous.len() <= MOST_VACUOUS, "{vacuous:#?}");
    // A box that is refused proves nothing either: as root hardly anything may be.
    let summary = run.summary();
    assert!(summary.held >= if rustix::process::geteuid().is_root() { 300 } else { 250 }, "{summary:?}");
}

#[tokio::test]
async fn the_holes_of_other_sandboxes_are_found() {
    let _turn = TURN.lock().await;
    for reference in Wrapped::ALL {
        if !reference.is_installed() {
            skip("the_holes_of_other_sandboxes_are_found", &format!("{} is not installed", reference.program()));
            continue;
        }
        let run = run(&mut Suite::new(), Box::new(*reference)).await;
        assert_eq!(surprises(&run), Vec::<String>::new(), "{}", reference.name());
        let broken: BTreeSet<&str> = run.with_verdict(Verdict::Broken).map(|finding| finding.check.id).collect();
        for hole in OPEN_WITHOUT_A_FILTER {
            assert!(broken.contains(hole), "{hole} is not among the holes of {}: {broken:?}", reference.name());
        }
    }
}

/// What namespaces and a read-only bind of everything leave open.
const OPEN_WITHOUT_A_FILTER: &[&str] = &[
    "kernel.io-uring",
    "kernel.keyring-calls",
    "kernel.key",
    "kernel.nested-powers",
    "filesystem.socket",
    "kernel.vsock",
    "kernel.i386-calls",
];

/// With one layer alone, everything that another one holds gets through: a layer that makes no difference is not there.
#[tokio::test(flavor = "multi_thread")]
async fn every_layer_holds_something_alone() {
    let _turn = TURN.lock().await;
    let quick = ["filesystem.", "process.", "kernel.", "network.", "resources.memory-in-pipes"];
    let mut suite = Suite::filtered(&quick.map(str::to_owned)).unwrap();
    let mut runs = vec![knock_out(&mut suite, Boxes::Bare, |_| {}).await];
    for layer in switchable() {
        runs.push(knock_out(&mut suite, Boxes::Only(layer), |_| {}).await);
    }
    let depths = depths(&runs);
    let engine = hotcell::Engine::new().await.unwrap();
    let memory = engine.capabilities()[0].of(hotcell::Control::Memory);
    let has_cgroups = matches!(memory, hotcell::Capability::Enforced { .. });
    engine.close().await;
    for layer in switchable() {
        if layer == Layer::Cgroups && !has_cgroups {
            skip("every_layer_holds_something_alone (cgroups)", "this user has no cgroups");
            continue;
        }
        let held: Vec<&&str> =
            depths.iter().filter(|(_, depth)| depth.alone.contains(&layer)).map(|(id, _)| id).collect();
        assert!(!held.is_empty(), "nothing is held by {layer} alone");
    }
}
