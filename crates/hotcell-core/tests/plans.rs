//! Plans and refusals as people see them, for three kinds of machine.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use std::time::Duration;

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::plan::{Refusal, choose, plan};
use hotcell_core::policy::{BoxUser, NetworkMode, Policy};
use hotcell_core::runtime::{Isolation, RuntimeKind};

/// A Linux machine with everything.
fn full() -> Capabilities {
    let enforced = [
        (Control::FilesystemView, "mount namespace and Landlock"),
        (Control::ReadOnly, "read-only binds and Landlock"),
        (Control::Sockets, "id-mapped mounts"),
        (Control::Overlay, "overlayfs"),
        (Control::DenyPaths, "mount namespace"),
        (Control::ProtectedPaths, "read-only binds"),
        (Control::Network, "network namespace"),
        (Control::OpenNetwork, "the host's network namespace"),
        (Control::Environment, "the init process"),
        (Control::Syscalls, "seccomp"),
        (Control::Privileges, "no_new_privs and empty capability sets"),
        (Control::ProcessIsolation, "pid namespace"),
        (Control::Memory, "cgroup v2 memory.max"),
        (Control::Cpus, "cgroup v2 cpu.max"),
        (Control::CpuTime, "cgroup v2 cpu.stat"),
        (Control::ProcessCount, "cgroup v2 pids.max"),
        (Control::OpenFiles, "RLIMIT_NOFILE"),
        (Control::Disk, "sized tmpfs"),
        (Control::Output, "the supervisor"),
        (Control::Timeout, "the supervisor"),
        (Control::Tty, "devpts"),
        (Control::User, "user namespace"),
    ];
    let start = Capabilities::new(RuntimeKind::Native, Isolation::Process)
        .with(Control::DiskDirect, Capability::unsupported("direct writes are not counted", "use an overlay"));
    enforced.into_iter().fold(start, |all, (control, by)| all.with(control, Capability::enforced(by)))
}

/// The same without cgroups.
fn without_cgroups() -> Capabilities {
    full()
        .with(Control::Memory, Capability::approximated("RLIMIT_AS", "per process, address space and not memory"))
        .with(Control::ProcessCount, Capability::approximated("RLIMIT_NPROC", "per user"))
        .with(Control::CpuTime, Capability::approximated("RLIMIT_CPU", "per process"))
        .with(Control::Cpus, Capability::unsupported("no cgroup cpu controller", "run under systemd with Delegate=yes"))
}

/// Landlock and seccomp only.
fn without_user_namespaces() -> Capabilities {
    let missing = |what: &str| {
        Capability::unsupported(
            format!("{what} needs a user namespace, and this machine forbids them"),
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        )
    };
    without_cgroups()
        .with(Control::FilesystemView, Capability::approximated("Landlock", "names and metadata can be seen"))
        .with(Control::Overlay, missing("an overlay"))
        .with(Control::DenyPaths, missing("denying a path inside a visible tree"))
        .with(Control::ProtectedPaths, missing("protecting paths that do not exist yet"))
        .with(Control::ProcessIsolation, Capability::approximated("Landlock scopes", "processes can be seen"))
        .with(Control::User, missing("another user"))
}

fn rich_policy() -> Policy {
    Policy::builder()
        .root("/srv/app")
        .read("docs")
        .write("src")
        .overlay("vendor")
        .deny("src/keys")
        .network(NetworkMode::Open)
        .set_env("TOKEN", "hunter2")
        .memory(64 << 20)
        .cpus(1.5)
        .timeout(Duration::from_millis(1500))
        .user(BoxUser::ROOT)
        .tty(true)
        .build()
        .unwrap()
}

fn refused(policy: &Policy, capabilities: &Capabilities) -> Refusal {
    plan(policy, capabilities).unwrap_err()
}

#[test]
fn the_default_policy_on_a_full_machine() {
    insta::assert_snapshot!(plan(&Policy::default(), &full()).unwrap());
}

#[test]
fn a_rich_policy_on_a_full_machine() {
    let plan = plan(&rich_policy(), &full()).unwrap();
    insta::assert_snapshot!(plan);
    let json = serde_json::to_string_pretty(&plan.report()).unwrap();
    insta::assert_snapshot!("report_json", json);
    assert!(!serde_json::to_string(&plan).unwrap().contains("hunter2"), "plans show no values of variables");
}

#[test]
fn the_default_policy_without_cgroups() {
    insta::assert_snapshot!(plan(&Policy::default(), &without_cgroups()).unwrap());
}

#[test]
fn a_rich_policy_without_cgroups() {
    insta::assert_snapshot!(refused(&rich_policy(), &without_cgroups()));
}

#[test]
fn a_rich_policy_without_user_namespaces() {
    insta::assert_snapshot!(refused(&rich_policy(), &without_user_namespaces()));
}

#[test]
fn a_limit_that_somebody_asked_for_is_not_approximated_without_their_word() {
    let exact = Policy::builder().memory(64 << 20).build().unwrap();
    assert!(plan(&exact, &without_cgroups()).is_err());
    let accepted = Policy::builder().memory(64 << 20).approximate(Control::Memory).build().unwrap();
    assert_eq!(plan(&accepted, &without_cgroups()).unwrap().actual(Control::Memory).unwrap().level(), "approximated");
}

#[test]
fn a_disk_limit_on_direct_writes_is_honest() {
    let default = Policy::builder().write("/srv").build().unwrap();
    let plan_of = |policy: &Policy| plan(policy, &full());
    assert_eq!(plan_of(&default).unwrap().actual(Control::DiskDirect).unwrap().level(), "unsupported");
    let asked = Policy::builder().write("/srv").disk(1 << 30);
    assert!(plan_of(&asked.clone().build().unwrap()).is_err());
    assert!(plan_of(&asked.approximate(Control::DiskDirect).build().unwrap()).is_ok());
    let overlay = Policy::builder().overlay("/srv").disk(1 << 30).build().unwrap();
    assert_eq!(plan_of(&overlay).unwrap().actual(Control::DiskDirect), None);
}

#[test]
fn isolation_and_runtime_are_not_negotiable() {
    let vm = Policy::builder().isolation(Isolation::MicroVm).build().unwrap();
    insta::assert_snapshot!(refused(&vm, &full()));
    let other = Policy::builder().runtime(RuntimeKind::Qemu).build().unwrap();
    insta::assert_snapshot!("another_backend", refused(&other, &full()));
}

#[test]
fn the_first_backend_that_holds_everything_is_chosen() {
    let of_kind = |kind: RuntimeKind| Capabilities { kind, isolation: kind.usual_isolation(), ..full() };
    let candidates =
        [without_cgroups(), of_kind(RuntimeKind::E2b), of_kind(RuntimeKind::Docker), of_kind(RuntimeKind::Qemu)];
    let exact = Policy::builder().memory(64 << 20).build().unwrap();
    assert_eq!(choose(&exact, &candidates).unwrap().kind, RuntimeKind::Docker);
    assert_eq!(choose(&Policy::default(), &candidates).unwrap().kind, RuntimeKind::Native);
    let remote = Policy::builder().runtime(RuntimeKind::E2b).build().unwrap();
    assert_eq!(choose(&remote, &candidates).unwrap().kind, RuntimeKind::E2b);
    let absent = Policy::builder().runtime(RuntimeKind::Wasm).build().unwrap();
    let none = choose(&absent, &candidates).unwrap_err();
    assert_eq!(none.to_string(), "the wasm backend is not available, so nothing was run");
    insta::assert_snapshot!(choose(&exact, &[without_cgroups(), without_user_namespaces()]).unwrap_err());
}

/// What a remote backend says of itself.
fn remote(kind: RuntimeKind) -> Capabilities {
    let word = || Capability::approximated("the server", "its word; nothing of it can be checked from here");
    let servers = [
        Control::Network,
        Control::Syscalls,
        Control::Privileges,
        Control::ProcessIsolation,
        Control::Memory,
        Control::Cpus,
        Control::CpuTime,
        Control::ProcessCount,
        Control::OpenFiles,
        Control::Disk,
    ];
    let ours = [
        (Control::FilesystemView, "copies"),
        (Control::ReadOnly, "nothing of it is there but copies"),
        (Control::Sockets, "sockets are not copied"),
        (Control::Environment, "what is sent"),
    ];
    let start = Capabilities { kind, isolation: Isolation::Remote, ..full() };
    let start = ours.into_iter().fold(start, |all, (control, by)| all.with(control, Capability::enforced(by)));
    servers.into_iter().fold(start, |all, control| all.with(control, word()))
}

const ISOLATING: [Control; 4] = [Control::Network, Control::Syscalls, Control::Privileges, Control::ProcessIsolation];

#[test]
fn the_default_policy_on_a_remote_box() {
    let policy = Policy::builder().runtime(RuntimeKind::Opensandbox).read("/srv/app").build().unwrap();
    insta::assert_snapshot!(plan(&policy, &remote(RuntimeKind::Opensandbox)).unwrap());
}

#[test]
fn naming_a_remote_runtime_trusts_its_server_with_what_isolates_and_with_nothing_else() {
    let kinds = RuntimeKind::ALL.iter().copied();
    for kind in kinds {
        // Everything that can be asked for, so that every control is decided on.
        let policy = rich_policy_for(kind);
        for control in Control::ALL.iter().copied() {
            let word = Capability::approximated("the server", "its word");
            let capabilities = Capabilities { kind, isolation: kind.usual_isolation(), ..full() }
                .with(Control::DiskDirect, Capability::enforced("a quota"))
                .with(control, word);
            let planned = plan(&policy, &capabilities);
            let asked = control != Control::Network && control != Control::Sockets;
            match ISOLATING.contains(&control) {
                true if kind.is_remote() => assert!(planned.is_ok(), "{kind} {control}"),
                // The policy opens the network; see below.
                _ if !asked => assert!(planned.is_ok(), "{kind} {control}"),
                _ => assert!(planned.unwrap_err().to_string().contains("can only approximate it"), "{kind} {control}"),
            }
        }
        // No network at all is asked for by the default policy.
        let policy = Policy::builder().runtime(kind).build().unwrap();
        let capabilities = Capabilities { kind, isolation: kind.usual_isolation(), ..full() }
            .with(Control::Network, Capability::approximated("the server", "its word"));
        assert_eq!(plan(&policy, &capabilities).is_ok(), kind.is_remote(), "{kind}");
    }
}

/// A policy that asks for every control but `network`, each limit in so many words.
fn rich_policy_for(kind: RuntimeKind) -> Policy {
    Policy::builder()
        .runtime(kind)
        .root("/srv/app")
        .read("docs")
        .write("src")
        .overlay("vendor")
        .deny("src/keys")
        .network(NetworkMode::Open)
        .memory(1 << 30)
        .cpus(2.0)
        .cpu_time(Duration::from_secs(1))
        .processes(8)
        .open_files(64)
        .disk(1 << 20)
        .output(1 << 20)
        .timeout(Duration::from_secs(1))
        .tty(true)
        .user(BoxUser::ROOT)
        .build()
        .unwrap()
}

#[test]
fn a_remote_server_is_not_trusted_unless_it_is_named() {
    let unnamed = Policy::default();
    let refusal = refused(&unnamed, &remote(RuntimeKind::E2b));
    assert_eq!(refusal.rules.len(), ISOLATING.len(), "{refusal}");
    // Nor with what it does not even claim.
    let named = Policy::builder().runtime(RuntimeKind::E2b).build().unwrap();
    for control in ISOLATING {
        let without = remote(RuntimeKind::E2b).with(control, Capability::unsupported("no such thing", "ask for one"));
        assert_eq!(refused(&named, &without).rules.len(), 1, "{control}");
    }
}

#[test]
fn a_remote_box_holds_default_limits_by_its_servers_word_and_asked_ones_if_that_is_accepted() {
    let kind = RuntimeKind::Cube;
    let asked = Policy::builder().runtime(kind).memory(64 << 20);
    assert!(plan(&asked.clone().build().unwrap(), &remote(kind)).is_err());
    assert!(plan(&asked.approximate(Control::Memory).build().unwrap(), &remote(kind)).is_ok());
}

#[test]
fn no_isolation_level_is_taken_from_a_servers_word() {
    for level in Isolation::LEVELS {
        let policy = Policy::builder().runtime(RuntimeKind::Opensandbox).isolation(*level).build().unwrap();
        let refusal = refused(&policy, &remote(RuntimeKind::Opensandbox));
        assert_eq!(refusal.rules.len(), 1, "{refusal}");
        assert!(refusal.to_string().contains("leave the level out to trust the server"), "{refusal}");
    }
    let policy = Policy::builder().runtime(RuntimeKind::E2b).isolation(Isolation::Container).build().unwrap();
    insta::assert_snapshot!(refused(&policy, &remote(RuntimeKind::E2b)));
}
