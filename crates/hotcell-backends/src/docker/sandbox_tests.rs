#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use std::collections::BTreeMap;

use bollard::errors::Error;
use bollard::models::{ContainerState, HostConfig};

use super::super::hardened::ContainerNetwork;
use super::*;

fn meant() -> Hardened {
    Hardened {
        denied: Vec::new(),
        podman: false,
        image: String::new(),
        user: 1000,
        group: 1000,
        labels: BTreeMap::new(),
        network: ContainerNetwork::None,
        tmpfs: BTreeMap::new(),
        shared_memory: 0,
        binds: Vec::new(),
        memory: Some(1 << 20),
        no_swappiness: false,
        nano_cpus: Some(1),
        processes: Some(17),
        ulimits: Vec::new(),
        seccomp: String::new(),
        runtime: None,
    }
}

type Change = fn(&mut HostConfig);

fn running(change: Change) -> ContainerInspectResponse {
    let mut config = meant().body().host_config.unwrap();
    change(&mut config);
    ContainerInspectResponse { host_config: Some(config), ..ContainerInspectResponse::default() }
}

#[test]
fn a_limit_that_the_engine_dropped_is_noticed() {
    assert!(kept(&running(|_| {}), &meant()).is_ok());
    let dropped: &[(&str, Change)] = &[
        ("the memory limit", |config| config.memory = Some(0)),
        ("the limit of processes", |config| config.pids_limit = None),
        ("the limit of CPUs", |config| config.nano_cpus = Some(2)),
        ("the read-only root", |config| config.readonly_rootfs = Some(false)),
        ("the missing privileges", |config| config.privileged = Some(true)),
        ("the network", |config| config.network_mode = Some("host".into())),
        ("the network", |config| config.network_mode = None),
    ];
    for (what, change) in dropped {
        let error = kept(&running(*change), &meant()).unwrap_err().to_string();
        assert!(error.contains(&format!("did not take over {what}")), "{error}");
    }
    let unlimited = Hardened { memory: None, processes: None, nano_cpus: None, ..meant() };
    assert!(kept(&running(|config| config.memory = Some(0)), &unlimited).is_ok());
}

#[test]
fn a_container_that_ended_at_once_says_why() {
    let ended = |state: ContainerState| {
        has_ended(&ContainerInspectResponse { state: Some(state), ..ContainerInspectResponse::default() })
    };
    assert_eq!(ended(ContainerState { running: Some(true), ..ContainerState::default() }), None);
    let silent = ContainerState { running: Some(false), exit_code: Some(3), ..ContainerState::default() };
    assert_eq!(ended(silent).unwrap(), "it ended at once, with status 3");
    let loud = ContainerState { error: Some("no such file".into()), ..ContainerState::default() };
    assert_eq!(ended(loud).unwrap(), "no such file");
}

#[test]
fn the_engines_words_become_errors_of_ours() {
    let said = |status_code, message: &str| Error::DockerResponseServerError { status_code, message: message.into() };
    let hint = |error: CreateError| match error {
        CreateError::Setup { hint, .. } | CreateError::Unavailable { hint, .. } => hint,
        other => other.to_string(),
    };
    assert!(
        hint(not_started(&said(400, "exec /.hotcell/init: exec format error")))
            .contains("cannot run this machine's programs")
    );
    assert!(hint(unanswered("x", &said(500, "write: no space left on device"))).contains("make room"));
    assert!(hint(unanswered("x", &said(500, "something else"))).contains("hotcell doctor"));
    let gone = unanswered("making the container", &Error::RequestTimeoutError);
    assert!(matches!(gone, CreateError::Unavailable { .. }));
}

#[test]
fn a_process_is_not_taken_for_a_container() {
    let nobody = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    for pid in [i64::from(std::process::id()), 0, -1, i64::MAX] {
        assert!(!container::is_here(pid, nobody, true), "{pid}");
        assert!(!container::is_here(pid, nobody, false), "{pid}");
    }
}
