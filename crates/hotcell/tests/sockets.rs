//! Unix sockets of the host's: which of them a box can talk to, and what its report says about that.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use common::*;
use hotcell::{Capability, Control, CreateError, EngineError, Policy};

#[tokio::test]
async fn sockets_of_the_host_are_out_of_reach() {
    let Some(engine) = engine("sockets_of_the_host_are_out_of_reach").await else { return };
    let place = Place::new();
    let socket = place.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let probe = format!(
        "
import socket
try:
    socket.socket(socket.AF_UNIX).connect({socket:?})
    print('connected')
except OSError as error:
    print(error.strerror)"
    );
    assert_eq!(stdout(&engine.run(python(&probe)).await.unwrap()), "No such file or directory\n");
    assert!(listener.accept().is_err());
    // A socket is never shared by name.
    let policy = Policy::builder().read(&socket).build().unwrap();
    match engine.create(&policy).await {
        Err(EngineError::Create(CreateError::Path { path, .. })) => assert_eq!(path, socket),
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert_eq!(python_outside(&probe), "connected\n");
    assert!(listener.accept().is_ok());
}

/// A read-only mount keeps nobody from connecting; the report says whether something else does.
#[tokio::test]
async fn a_socket_in_a_shown_tree_is_as_the_report_says() {
    let test = "a_socket_in_a_shown_tree_is_as_the_report_says";
    let Some(engine) = engine(test).await else { return };
    let place = Place::new();
    let shown = place.dir("shown");
    let socket = shown.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect({socket:?}); print('connected')");
    assert_eq!(python_outside(&connect), "connected\n");
    for (policy, open) in [
        (Policy::builder().read(&shown), !is_root()),
        (Policy::builder().overlay(&shown), false),
        (Policy::builder().write(&shown), true),
    ] {
        let output = engine.run_with(&policy.build().unwrap(), python(&connect)).await.unwrap();
        assert_eq!(text(&output.stdout) == "connected\n", open, "{}", text(&output.stderr));
        // Asked for where a tree is only read, and then said truly.
        let said = output.outcome.report.controls.iter().find(|entry| entry.control == Control::Sockets);
        assert!(said.is_none_or(|said| matches!(said.actual, Capability::Enforced { .. }) != open), "{said:?}");
    }
}

/// What was planned cannot always be had: sysfs knows no id-mapped mounts.
#[tokio::test]
async fn a_tree_that_cannot_be_mapped_is_reported() {
    let Some(engine) = engine("a_tree_that_cannot_be_mapped_is_reported").await else { return };
    let policy = Policy::builder().read("/sys/class").build().unwrap();
    let output = engine.run_with(&policy, sh("ls /sys/class")).await.unwrap();
    assert!(stdout(&output).contains("net"), "{}", stdout(&output));
    let said = output.outcome.report.controls.iter().find(|entry| entry.control == Control::Sockets);
    assert!(matches!(said.unwrap().actual, Capability::Approximated { .. }), "{said:?}");
}
