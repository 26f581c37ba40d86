//! Attacks from boxes on servers: what protects this machine holds, and the rest is said to be the server's word.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

use std::io::Write;

use hotcell::Policy;
use hotcell_verify::report::{Report, Run};
use hotcell_verify::target::{self, MadeOf};
use hotcell_verify::{Layer, Suite, Verdict};

/// Notes that something could not be shown here.
fn skip(name: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(format!("{name}: {reason}\n").as_bytes()).unwrap();
    }
}

/// What boxes of the tests' OpenSandbox server are made of: it has a real engine, so that the files of this machine really are out
/// of reach. The stand-in for E2B isolates nothing, and has nothing to show here.
fn opensandbox() -> Option<MadeOf> {
    let variable = |name: &str| std::env::var(name).ok();
    let url = variable("HOTCELL_TEST_OPENSANDBOX_URL")?;
    let key = variable("HOTCELL_TEST_OPENSANDBOX_KEY")?;
    let policy = Policy::builder().sandbox_url(url).sandbox_api_key(key).build().unwrap();
    Some(MadeOf { image: variable("HOTCELL_TEST_OPENSANDBOX_IMAGE"), remote: policy.remote, ..MadeOf::default() })
}

async fn attack(made_of: &MadeOf, words: &[&str]) -> Run {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let target = target::named("opensandbox", made_of).unwrap();
    Report::examine(&mut Suite::filtered(&words).unwrap(), &[target], &[], |_, _| {}).await.runs.remove(0)
}

#[tokio::test]
async fn what_protects_this_machine_from_a_servers_box_holds() {
    let test = "what_protects_this_machine_from_a_servers_box_holds";
    let Some(made_of) = opensandbox() else { return skip(test, "HOTCELL_TEST_OPENSANDBOX_URL names no server") };
    let run = attack(&made_of, TRIED).await;
    let unexpected = run.findings.iter().filter(|finding| !finding.is_expected());
    let unexpected: Vec<String> = unexpected
        .map(|finding| format!("{} is {}: {:?}", finding.check.id, finding.verdict, finding.evidence))
        .collect();
    assert_eq!(unexpected, Vec::<String>::new());
    for finding in run.with_verdict(Verdict::Vacuous) {
        skip(&format!("opensandbox {}", finding.check.id), finding.reason.as_deref().unwrap_or("vacuous"));
    }
    let of = |id: &str| run.findings.iter().find(|finding| finding.check.id == id).unwrap();
    for id in MUST_HOLD {
        assert_eq!(of(id).verdict, Verdict::Held, "{:?}", of(id));
        // Errors of another machine's kernel say nothing of this machine's layers.
        assert!(of(id).layers.iter().all(|layer| *layer == Layer::Supervisor), "{:?}", of(id));
    }
    // What is the server's word is not claimed to hold.
    for id in ITS_WORD {
        assert_eq!(of(id).verdict, Verdict::NotApplicable, "{:?}", of(id));
        assert!(of(id).reason.as_deref().unwrap().starts_with("the server's word: "), "{:?}", of(id));
    }
    let summary = run.summary();
    assert!(summary.held >= 60, "{summary:?}");
}

/// A part of the suite: every check makes a box on the server.
const TRIED: &[&str] = &[
    "filesystem.read-secret",
    "filesystem.parent-directories",
    "filesystem.temporary-files",
    "filesystem.denied",
    "filesystem.modify-shown",
    "filesystem.create-in-shown",
    "filesystem.overlay-",
    "filesystem.git-",
    "filesystem.agent-settings",
    "filesystem.protected-by-link",
    "filesystem.set-user-id",
    "filesystem.device-node",
    "process.environment",
    "process.kill",
    "kernel.bpf",
    "network.udp",
    "resources.output",
    "resources.timeout-",
    "supervisor.",
    "work.write-to-the-host",
    "work.overlay",
    "work.input",
    "work.statuses",
    "work.files",
];

/// What a server's box must not do to this machine, whoever's server it is; and what must work.
const MUST_HOLD: &[&str] = &[
    "filesystem.read-secret",
    "filesystem.denied",
    "filesystem.modify-shown",
    "filesystem.overlay-contents",
    "filesystem.git-hooks",
    "filesystem.agent-settings",
    "filesystem.set-user-id",
    "filesystem.device-node",
    "process.environment",
    "resources.output",
    "resources.timeout-daemon",
    "supervisor.commit-protected",
    "supervisor.commit-through-link",
    "supervisor.read-pipe",
    "supervisor.output-bytes",
    "supervisor.forged-messages",
    "supervisor.swapped-source",
    "work.write-to-the-host",
    "work.overlay",
    "work.input",
    "work.statuses",
    "work.files",
];

const ITS_WORD: &[&str] = &["kernel.bpf", "network.udp", "process.kill", "supervisor.other-box"];
