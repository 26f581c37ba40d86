//! The native box: what the kernel and this user's rights allow.

use hotcell_backends::native::Controller;
use hotcell_backends::native::{Machine, NativeBackend, UserNamespace};
use hotcell_backends::registry::StartOptions;
use hotcell_core::capability::{Capability, Control};

use super::{Diagnosis, Finding, State, finding};

pub(super) async fn examine() -> Diagnosis {
    match NativeBackend::start(StartOptions::warm(0)).await {
        Ok(backend) => diagnose(&backend),
        Err(error) => Diagnosis {
            kernel: String::new(),
            user: String::new(),
            findings: vec![finding("helper process", State::Missing, error.to_string(), None)],
            capabilities: Vec::new(),
            remote_problem: None,
        },
    }
}

fn diagnose(backend: &NativeBackend) -> Diagnosis {
    let machine = backend.machine();
    let mut findings =
        vec![namespaces(machine), privileges(machine), landlock(machine), seccomp(machine), cgroups(machine)];
    for (control, name) in [
        (Control::Memory, "memory limit"),
        (Control::CpuTime, "CPU time limit"),
        (Control::Cpus, "CPU share"),
        (Control::ProcessCount, "process limit"),
        (Control::Disk, "disk limit"),
        (Control::Overlay, "overlay workspaces"),
    ] {
        if matches!(machine.user_namespace, UserNamespace::Missing(_)) {
            // Said once is enough.
            break;
        }
        findings.push(capability(name, &backend.capabilities().of(control)));
    }
    let user = match machine.findings.privileged {
        true => "root".to_owned(),
        false => format!("uid {}", machine.findings.user),
    };
    Diagnosis {
        kernel: machine.findings.kernel.clone(),
        user,
        findings,
        capabilities: vec![backend.capabilities().clone()],
        remote_problem: None,
    }
}

fn namespaces(machine: &Machine) -> Finding {
    match &machine.user_namespace {
        UserNamespace::Works => finding(
            "namespaces",
            State::Good,
            "user, mount, pid, network, ipc, uts and cgroup namespaces can be made",
            None,
        ),
        UserNamespace::Without(why) => {
            finding("namespaces", State::Limited, "all but user namespaces can be made", Some(why.clone()))
        }
        UserNamespace::Missing(why) => {
            finding("namespaces", State::Missing, "no box can be made here", Some(why.clone()))
        }
    }
}

fn privileges(machine: &Machine) -> Finding {
    let inherited = if machine.findings.no_new_privs { "; this process already has no_new_privs" } else { "" };
    if machine.findings.privileged {
        let whose = if machine.user_namespace == UserNamespace::Works { "of its own" } else { "that owns nothing" };
        let detail = format!("root: every box gets a host user {whose}{inherited}");
        return finding("privileges", State::Good, detail, None);
    }
    let detail = format!(
        "an ordinary user: boxes run as uid {} on the host, with no privileges{inherited}",
        machine.findings.user
    );
    finding("privileges", State::Good, detail, None)
}

fn landlock(machine: &Machine) -> Finding {
    match machine.findings.landlock.0 {
        0 => finding(
            "Landlock",
            State::Missing,
            "this kernel has none: the mount namespace alone holds the file rules",
            Some("use Linux 5.13 or later with `landlock` in the `lsm=` boot parameter".into()),
        ),
        version @ 1..=5 => finding(
            "Landlock",
            State::Limited,
            format!("version {version}: no scopes"),
            Some("Linux 6.12 has them".into()),
        ),
        version => finding("Landlock", State::Good, format!("version {version} is used"), None),
    }
}

fn seccomp(machine: &Machine) -> Finding {
    match (machine.findings.seccomp, machine.findings.seccomp_notify) {
        (true, true) => finding("seccomp", State::Good, "filters can be loaded, refused calls are counted", None),
        (true, false) => finding(
            "seccomp",
            State::Limited,
            "filters can be loaded, refused calls are not counted",
            Some("Linux 5.0 can count them".into()),
        ),
        (false, _) => finding(
            "seccomp",
            State::Missing,
            "no filter can be loaded",
            Some("use a kernel with CONFIG_SECCOMP_FILTER".into()),
        ),
    }
}

fn cgroups(machine: &Machine) -> Finding {
    let problem = machine.cgroups.problem_of(Controller::Memory).unwrap_or("no controller is available");
    match machine.cgroups.kind() {
        Some(version) => finding("cgroups", State::Good, format!("{version} is used"), None),
        None => finding(
            "cgroups",
            State::Missing,
            format!("none can be used, so memory and CPU time can only be approximated: {problem}"),
            machine.cgroups.advice().map(str::to_owned),
        ),
    }
}

fn capability(name: &str, capability: &Capability) -> Finding {
    match capability {
        Capability::Approximated { by, how } => {
            finding(name, State::Limited, format!("approximated by {by}: {how}"), None)
        }
        Capability::Unsupported { why, hint } => finding(name, State::Missing, why.clone(), Some(hint.clone())),
        other => finding(name, State::Good, other.to_string(), None),
    }
}
