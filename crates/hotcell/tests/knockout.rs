//! Boxes with one layer switched off: what that layer alone holds goes through, and what two layers hold still does not.
//! So each of these probes can fail, and a claim of depth is one that was tried.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use common::*;
use hotcell::capability::{Capability, Control};
use hotcell::policy::NetworkMode;
use hotcell::{Engine, EngineError, Policy, SpawnConfig};
use hotcell_backends::native::Layers;

/// An engine without a layer, and one with all; none where no box can be made.
async fn pair(test: &str, without: Layers) -> Option<(Engine, Engine)> {
    let whole = engine(test).await?;
    Some((engine_with(without).await, whole))
}

/// A policy that is refused without the layer, and is accepted with these words.
async fn accepted(engine: &Engine, policy: &Policy, control: Control, in_so_many_words: Policy) -> Policy {
    let refusal = engine.plan(policy).await.expect_err("a box without a layer was made without being asked for");
    assert!(refusal.to_string().contains(control.as_str()), "{refusal}");
    in_so_many_words
}

#[tokio::test]
async fn without_the_filter_the_kernel_is_open() {
    let without = Layers { seccomp: false, ..Layers::ALL };
    let Some((open, whole)) = pair("without_the_filter_the_kernel_is_open", without).await else { return };
    let words = Policy::builder().approximate(Control::Syscalls).build().unwrap();
    let policy = accepted(&open, &Policy::default(), Control::Syscalls, words).await;
    let probe = r"
import ctypes, os, platform, socket
libc = ctypes.CDLL(None)
arm = platform.machine() == 'aarch64'
print('keyring', libc.syscall(219 if arm else 250, 0, -2, 1) > 0)
print('seccomp', [line.split()[1] for line in open('/proc/self/status') if line.startswith('Seccomp:')])
print('namespace', libc.unshare(0x10000000) == 0)
";
    assert_eq!(
        stdout(&open.run_with(&policy, python(probe)).await.unwrap()),
        "keyring True\nseccomp ['0']\nnamespace True\n"
    );
    assert_eq!(stdout(&whole.run(python(probe)).await.unwrap()), "keyring False\nseccomp ['2']\nnamespace False\n");
    // And programs could be left behind that run as the owner of the tree.
    let place = Place::new();
    let script = sh("echo x > program; chmod 4755 program");
    for (engine, name, set) in [(&open, "open", true), (&whole, "whole", false)] {
        let tree = place.dir(name);
        let policy = Policy::builder().write(&tree).cwd(&tree).approximate(Control::Syscalls).build().unwrap();
        engine.run_with(&policy, script.clone()).await.unwrap();
        assert_eq!(fs::metadata(tree.join("program")).unwrap().mode() & 0o4000 != 0, set, "{name}");
    }
    // Capabilities, the view and the network do not depend on it.
    let depth = "cat /etc/shadow; mount -t tmpfs none /tmp; touch /usr/x; ls /sys; grep CapEff /proc/self/status; cat /proc/net/dev | wc -l";
    let output = open.run_with(&policy, sh(depth)).await.unwrap();
    assert_eq!(text(&output.stdout), "CapEff:\t0000000000000000\n3\n");
}

#[tokio::test]
async fn without_the_network_namespace_the_host_is_reached() {
    let without = Layers { network_namespace: false, ..Layers::ALL };
    let Some((open, whole)) = pair("without_the_network_namespace_the_host_is_reached", without).await else { return };
    let words = Policy::builder().approximate(Control::Network).build().unwrap();
    let policy = accepted(&open, &Policy::default(), Control::Network, words).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = format!(
        "import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 5); print('connected')\nexcept OSError: print('refused')"
    );
    assert_eq!(stdout(&whole.run(python(&probe)).await.unwrap()), "refused\n");
    assert!(listener.accept().is_err());
    assert_eq!(stdout(&open.run_with(&policy, python(&probe)).await.unwrap()), "connected\n");
    assert!(listener.accept().is_ok());
}

#[tokio::test]
async fn without_landlock_the_view_still_holds() {
    const NAME: &str = "without_landlock_the_view_still_holds";
    let without = Layers { landlock: false, ..Layers::ALL };
    let Some((open, whole)) = pair(NAME, without).await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    place.file("tree/file", "content");
    place.file("tree/denied", "CANARY");
    place.file("beside", "CANARY");
    let policy = Policy::builder().read(&tree).deny(tree.join("denied")).cwd(&tree).build().unwrap();
    let probe = "cat file denied ../beside /etc/shadow; echo x >> file; chmod 777 file; touch new /usr/new /etc/new; echo x > /proc/sys/kernel/hostname; \
                 kill -9 1; ls /proc | grep -c '^[0-9]'";
    for (engine, name) in [(&open, "without"), (&whole, "with")] {
        let output = engine.run_with(&policy, sh(probe)).await.unwrap();
        let seen = text(&output.stdout);
        assert!(seen.starts_with("content") && !seen.contains("CANARY"), "{name}: {seen}");
        assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), "content", "{name}");
        assert!(!tree.join("new").exists(), "{name}");
    }
    // What Landlock alone holds: with the host's network come the abstract sockets of its users.
    let scope = whole.capabilities()[0].of(Control::FilesystemView);
    let name = format!("hotcell-test-{}", marker());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let probe = format!(
        "import socket\ntry: socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('connected')\nexcept OSError: print('refused')"
    );
    let network = Policy::builder().network(NetworkMode::Open).build().unwrap();
    assert_eq!(stdout(&open.run_with(&network, python(&probe)).await.unwrap()), "connected\n");
    assert!(listener.accept().is_ok());
    if fs::read_to_string("/sys/kernel/security/lsm").is_ok_and(|list| !list.contains("landlock")) {
        return skip(NAME, &format!("this kernel has no Landlock, so the whole box is open in the same way ({scope})"));
    }
    assert_eq!(stdout(&whole.run_with(&network, python(&probe)).await.unwrap()), "refused\n");
    assert!(listener.accept().is_err());
}

/// The place of a process among the host's cgroups is the host's business, whether the box has one of its own or not.
#[tokio::test]
async fn with_and_without_cgroups_their_names_are_hidden() {
    let without = Layers { cgroups: false, ..Layers::ALL };
    let Some((open, whole)) = pair("with_and_without_cgroups_their_names_are_hidden", without).await else { return };
    let hosts = fs::read_link("/proc/self/ns/cgroup").unwrap();
    for engine in [open, whole] {
        let probe = sh("readlink /proc/self/ns/cgroup; cut -d: -f3 /proc/self/cgroup");
        let output = stdout(&engine.run(probe).await.unwrap());
        let mut lines = output.lines();
        assert!(
            lines.next().is_some_and(|own| own.starts_with("cgroup:") && own != hosts.to_str().unwrap()),
            "{output}"
        );
        assert!(lines.all(|name| name == "/"), "{output}");
    }
}

#[tokio::test]
async fn without_cgroups_memory_is_only_approximated() {
    let without = Layers { cgroups: false, ..Layers::ALL };
    let Some((open, whole)) = pair("without_cgroups_memory_is_only_approximated", without).await else { return };
    for control in [Control::Memory, Control::CpuTime] {
        assert!(matches!(open.capabilities()[0].of(control), Capability::Approximated { .. }), "{control}");
    }
    let limited = || Policy::builder().memory(64 << 20);
    match open.create(&limited().build().unwrap()).await {
        Err(EngineError::Refused(refusal)) => assert!(refusal.to_string().contains("memory"), "{refusal}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    let sandbox = open.create(&limited().approximate(Control::Memory).build().unwrap()).await.unwrap();
    assert!(run_in(&*sandbox, sh("true")).await.status().success());
    if matches!(whole.capabilities()[0].of(Control::Memory), Capability::Enforced { .. }) {
        assert!(whole.create(&limited().build().unwrap()).await.is_ok());
    } else {
        skip("without_cgroups_memory_is_only_approximated", "this user has no cgroups, so the whole box is the same");
    }
}

/// The user and the effective capabilities that a command and the first process of its box have on the host.
async fn on_the_host(engine: &Engine, policy: &Policy) -> [(String, String); 2] {
    let sandbox = engine.create(policy).await.unwrap();
    let word = marker();
    let _process = sandbox.spawn(SpawnConfig::new("sleep").arg(&word)).await.unwrap();
    until("the command runs", || processes_with(&word).len() == 1);
    let pid = processes_with(&word)[0];
    let init: u32 = status_of(pid, "PPid").unwrap().parse().unwrap();
    [pid, init].map(|pid| {
        let users = status_of(pid, "Uid").unwrap();
        (users.split_whitespace().next().unwrap().to_owned(), status_of(pid, "CapEff").unwrap())
    })
}

#[tokio::test]
async fn without_dropping_privileges_the_box_keeps_some() {
    const NONE: &str = "0000000000000000";
    let without = Layers { privileges: false, ..Layers::ALL };
    let Some((open, whole)) = pair("without_dropping_privileges_the_box_keeps_some", without).await else { return };
    let words = Policy::builder().approximate(Control::Privileges).build().unwrap();
    let policy = accepted(&open, &Policy::default(), Control::Privileges, words).await;
    let [(_, command), (_, init)] = on_the_host(&whole, &Policy::default()).await;
    assert_eq!((command.as_str(), init.as_str()), (NONE, NONE));
    // The bounding set is emptied before anything else, so no command gets any even so: two layers hold that.
    let [(_, command), (_, init)] = on_the_host(&open, &policy).await;
    assert_eq!(command, NONE);
    assert_ne!(init, NONE);
}

#[tokio::test]
async fn without_the_user_namespace_boxes_share_a_user() {
    const NAME: &str = "without_the_user_namespace_boxes_share_a_user";
    let without = Layers { user_namespace: false, ..Layers::ALL };
    if !is_root() {
        return skip(NAME, "only root can make a box without a user namespace");
    }
    let Some((open, whole)) = pair(NAME, without).await else { return };
    let [(first, capabilities), _] = on_the_host(&open, &Policy::default()).await;
    assert_eq!(capabilities, "0000000000000000");
    assert!(first.parse::<u32>().unwrap() >= 0x7800_0000, "{first}");
    let keep = (whole.create(&Policy::default()).await.unwrap(), open.create(&Policy::default()).await.unwrap());
    let [(second, _), _] = on_the_host(&open, &Policy::default()).await;
    assert_eq!(first, second);
    drop(keep);
    // The rest of the box is as before.
    let output = open
        .run(sh("cat /etc/shadow; touch /usr/x; ls /proc | grep -c '^[0-9]'; unshare -U true || echo refused"))
        .await
        .unwrap();
    assert!(
        text(&output.stdout).ends_with("refused\n") && !text(&output.stdout).contains("root:"),
        "{}",
        text(&output.stdout)
    );
}
