//! Which running backend serves a policy.

use hotcell_core::policy::PolicyBuilder;

use super::*;

/// Whether a backend that was started for one policy serves another.
fn serves(kind: RuntimeKind, started_for: PolicyBuilder, wanted_by: PolicyBuilder) -> bool {
    let wanted = |builder: PolicyBuilder| Wanted::by(&builder.build().unwrap(), kind);
    wanted(wanted_by).is_served_by(&wanted(started_for))
}

#[test]
fn a_remote_backend_serves_one_server_and_one_key() {
    let mine = || Policy::builder().sandbox_url("https://a.example.org").sandbox_api_key("mine");
    for kind in [RuntimeKind::Opensandbox, RuntimeKind::E2b, RuntimeKind::Cube] {
        assert!(serves(kind, mine(), mine()));
        assert!(serves(kind, mine(), mine().template("another").oci_runtime("crun")));
        for other in [
            mine().sandbox_url("https://b.example.org"),
            mine().sandbox_api_key("another"),
            mine().sandbox_data_url("https://b.example.org"),
            mine().plain_http(true),
            Policy::builder(),
        ] {
            assert!(!serves(kind, mine(), other.clone()), "{kind} {other:?}");
            assert!(!serves(kind, other, mine()), "{kind}");
        }
    }
    let policy = mine().build().unwrap();
    let cube = Wanted::by(&policy, RuntimeKind::Cube);
    assert!(!cube.is_served_by(&Wanted::by(&policy, RuntimeKind::E2b)));
}

#[test]
fn a_local_backend_is_told_of_no_server() {
    let remote = || Policy::builder().sandbox_url("https://a.example.org").sandbox_api_key("mine");
    for kind in [RuntimeKind::Native, RuntimeKind::Docker] {
        assert!(serves(kind, Policy::builder(), remote()));
        assert_eq!(Wanted::by(&remote().build().unwrap(), kind).remote, RemotePolicy::default());
    }
}

#[test]
fn a_container_runs_by_its_own_runtime() {
    let by = |name: &str| Policy::builder().oci_runtime(name);
    assert!(serves(RuntimeKind::Oci, by("runc"), by("runc")));
    assert!(!serves(RuntimeKind::Oci, by("runc"), by("crun")));
    assert!(serves(RuntimeKind::Native, by("runc"), by("crun")));
}

#[test]
fn the_options_of_an_engine_are_those_of_the_policy_and_show_no_key() {
    let policy = Policy::builder().runtime(RuntimeKind::Cube).sandbox_url("https://a").sandbox_api_key("hunter2");
    let policy = policy.build().unwrap();
    let options = EngineOptions::for_policy(&policy);
    assert_eq!(options.remote, policy.remote);
    assert!(!format!("{options:?} {:?}", Wanted::by(&policy, RuntimeKind::Cube)).contains("hunter2"));
}
