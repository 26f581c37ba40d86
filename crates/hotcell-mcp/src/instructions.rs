//! What a model is told about the box, made from the policy so that it is true.

use std::path::Path;

use hotcell::plan::EnforcementReport;
use hotcell::policy::{Access, NetworkMode, Policy};
use hotcell::text::PrintablePath;

/// The text of `instructions`.
pub(crate) fn for_model(policy: &Policy, workspace: &Path, report: &EnforcementReport) -> String {
    let mut lines = vec![format!(
        "These tools run commands and code and work on files in one sandbox ({}, isolation {}) that is kept between calls.",
        report.backend, report.isolation
    )];
    lines.push(workspace_line(policy, workspace));
    let others: Vec<String> = policy
        .filesystem
        .rules
        .iter()
        .filter(|rule| rule.path != workspace)
        .map(|rule| format!("`{}` ({})", PrintablePath(&rule.path), rule.access))
        .collect();
    if !others.is_empty() {
        lines.push(format!("Other paths: {}.", others.join(", ")));
    }
    lines.push(
        match policy.network {
            NetworkMode::Deny => {
                "There is no network: nothing can be downloaded or installed from it. Do not retry; say what is missing."
            }
            _ => "The network is open.",
        }
        .to_owned(),
    );
    lines.push("Other files of the user's and the user's variables are not visible, and `/tmp` and the home directory are the sandbox's own.".to_owned());
    lines.extend(limits_line(policy));
    lines.push("A refusal names the rule that caused it and what may be done instead; it stays the same when it is asked again.".to_owned());
    lines.join("\n")
}

fn workspace_line(policy: &Policy, workspace: &Path) -> String {
    let shown = PrintablePath(workspace);
    match policy.filesystem.access(workspace) {
        Access::Write => format!("The workspace is `{shown}`. What is written there changes the user's files at once."),
        Access::Overlay => format!(
            "The workspace is `{shown}`. Changes to it stay in a layer of the sandbox: `workspace_diff` shows them, and only \
             `workspace_commit` writes them to the user's files."
        ),
        Access::Read => format!("The workspace is `{shown}`. It is read-only; write to `/tmp` instead."),
        _ => format!("The workspace is `{shown}`, a directory of the sandbox's own."),
    }
}

fn limits_line(policy: &Policy) -> Option<String> {
    let limits = &policy.limits;
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let parts: Vec<String> = [
        limits.timeout.value.map(|time| format!("{} s for each command", time.as_secs())),
        limits.memory.value.map(|bytes| format!("{} of memory", mebibytes(bytes))),
        limits.disk.value.map(|bytes| format!("{} of disk", mebibytes(bytes))),
        limits.processes.value.map(|count| format!("{count} processes")),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("Limits: {}.", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use hotcell::runtime::{Isolation, RuntimeKind};

    use super::*;

    fn told(policy: &Policy) -> String {
        let report =
            EnforcementReport { backend: RuntimeKind::Native, isolation: Isolation::Process, controls: Vec::new() };
        for_model(policy, Path::new("/work"), &report)
    }

    #[test]
    fn a_model_is_told_what_the_policy_says() {
        let overlay = told(&Policy::builder().overlay("/work").build().unwrap());
        assert!(overlay.contains("only `workspace_commit` writes them"), "{overlay}");
        assert!(overlay.contains("no network"), "{overlay}");
        let write = told(&Policy::builder().write("/work").read("/data").network(NetworkMode::Open).build().unwrap());
        assert!(write.contains("changes the user's files at once"), "{write}");
        assert!(write.contains("`/data` (read)") && write.contains("network is open"), "{write}");
        let read = told(&Policy::builder().read("/work").build().unwrap());
        assert!(read.contains("It is read-only"), "{read}");
    }
}
