//! Boxes that a server makes on another machine: what is left to attack there.
//!
//! What isolates such a box is the server's word, and its kernel is not this machine's. What protects this machine is ours, and is
//! tried: what is sent, what is brought back, and what our own side makes of what the box says.

use hotcell::{Capabilities, Capability, Control, RuntimeKind};

use crate::check::{Check, Group};

/// Why a check says nothing about a box of a server with these capabilities, if so.
pub(crate) fn beyond(check: &Check, capabilities: &Capabilities) -> Option<String> {
    if capabilities.kind == RuntimeKind::Opensandbox && check.id == "resources.output-streams" {
        return Some(KEPT_THERE.to_owned());
    }
    let control = control(check)?;
    match capabilities.of(control) {
        Capability::Enforced { .. } => None,
        _ if ITS_WORD.contains(&control) => Some(format!("the server's word: {control}")),
        actual => Some(format!("the box says so itself: {control} is {actual}")),
    }
}

/// The limit is held, and the check cannot see it: it asks the command whether it could write.
const KEPT_THERE: &str = "its output is kept in files there until it is read: the command has written it before it is ended, and \
                          this machine takes no more than the limit";

/// What isolates a box where it is.
const ITS_WORD: [Control; 4] = [Control::Syscalls, Control::Privileges, Control::ProcessIsolation, Control::Network];

/// The control that a check is about, where a server could be the one who holds it.
fn control(check: &Check) -> Option<Control> {
    if let Some((control, _)) = EXCEPTIONS.iter().find(|(_, checks)| checks.contains(&check.id)) {
        return *control;
    }
    match check.group {
        Group::Process => Some(Control::ProcessIsolation),
        Group::Kernel => Some(Control::Syscalls),
        Group::Network => Some(Control::Network),
        // A limit that is asked for is refused where it is only approximated; what is left has no number.
        Group::Resources => Some(Control::ProcessIsolation),
        Group::Filesystem | Group::Supervisor | Group::Work => None,
    }
}

/// Checks that are not about what the rest of their group is about.
const EXCEPTIONS: &[(Option<Control>, &[&str])] = &[
    (Some(Control::Environment), &["process.environment", "process.parent-environment"]),
    (Some(Control::Output), &["resources.output", "resources.output-streams"]),
    (Some(Control::Timeout), &["resources.timeout-daemon", "resources.timeout-stopped", "resources.timeout-relay"]),
    (
        Some(Control::Memory),
        &[
            "resources.memory",
            "resources.memory-approximated",
            "resources.memory-in-children",
            "resources.memory-in-memfd",
            "resources.memory-in-dev-shm",
            "resources.memory-in-sysv",
            "resources.memory-in-pipes",
            "resources.memory-in-sockets",
            "resources.memory-in-page-tables",
            "resources.locked-memory",
        ],
    ),
    (
        Some(Control::ProcessCount),
        &["resources.processes", "resources.sessions", "resources.zombies", "resources.threads"],
    ),
    (Some(Control::CpuTime), &["resources.cpu-time", "resources.cpu-time-approximated"]),
    (Some(Control::Cpus), &["resources.cpus"]),
    (Some(Control::Disk), &["resources.disk", "resources.disk-allocate", "resources.disk-overlay", "resources.files"]),
    (Some(Control::OpenFiles), &["resources.open-files", "resources.files-in-flight", "resources.raise-limit"]),
    // The root, the mounts, the devices and the kernel there are the server's.
    (
        Some(Control::ProcessIsolation),
        &[
            "filesystem.leave-root",
            "filesystem.denied-unmasked",
            "filesystem.denied-in-alias",
            "filesystem.remount-shown",
            "filesystem.next-box",
            "filesystem.kernel-state",
            "filesystem.kernel-addresses",
            "filesystem.kernel-controls",
            "filesystem.sys",
            "filesystem.cgroup-controls",
            "filesystem.devices",
            // What else runs in a box, and beside it, ends when the server says so.
            "supervisor.signaled-init",
            "supervisor.inherited-descriptor",
            "supervisor.dropped-box",
            "supervisor.destroyed-box",
            "supervisor.dropped-command",
            "supervisor.other-box",
            "supervisor.earlier-box",
        ],
    ),
    (Some(Control::Privileges), &["filesystem.honoured-set-user-id"]),
    (Some(Control::Syscalls), &["filesystem.lease"]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hotcell_backends::e2b::E2bBackend;
    use hotcell_backends::opensandbox::OpenSandboxBackend;

    use super::*;
    use crate::checks;

    #[test]
    fn exceptions_are_checks_and_are_there_once() {
        let known: BTreeSet<&str> = checks::all().map(|check| check.id).collect();
        let mut seen = BTreeSet::new();
        for id in EXCEPTIONS.iter().flat_map(|(_, checks)| *checks) {
            assert!(known.contains(id), "{id}");
            assert!(seen.insert(id), "{id} is there twice");
        }
    }
    #[test]
    fn what_a_server_only_claims_is_not_tried_and_what_protects_this_machine_is() {
        for capabilities in [OpenSandboxBackend::capabilities(), E2bBackend::capabilities(RuntimeKind::E2b)] {
            let beyond = |id: &str| {
                let check = checks::all().find(|check| check.id == id).unwrap();
                beyond(check, &capabilities)
            };
            for (id, control) in
                [("kernel.bpf", "syscalls"), ("network.udp", "network"), ("process.kill", "process-isolation")]
            {
                assert_eq!(beyond(id), Some(format!("the server's word: {control}")), "{id}");
            }
            assert!(beyond("resources.memory").unwrap().contains("approximated"));
            for id in [
                "filesystem.denied",
                "process.environment",
                "resources.output",
                "supervisor.commit-protected",
                "work.git",
            ] {
                assert_eq!(beyond(id), None, "{id}");
            }
        }
    }
}
