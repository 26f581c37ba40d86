//! What a policy asks for, control by control.

use std::fmt::Display;

use crate::capability::Control;
use crate::config::Origin;
use crate::config::quantity::{show_duration, show_size};
use crate::policy::{Access, Limit, NetworkMode, Policy};
use crate::runtime::RuntimeChoice;
use crate::text::PrintablePath;

/// One control that a policy asks for.
pub(super) struct Asked {
    pub(super) control: Control,
    /// For people.
    pub(super) requested: String,
    /// Everything but a default limit, and sockets, counts as asked for: it is what makes the box a box.
    pub(super) explicit: bool,
    pub(super) origin: Option<Origin>,
}

impl Asked {
    fn always(control: Control, requested: impl Into<String>) -> Self {
        Self { control, requested: requested.into(), explicit: true, origin: None }
    }
}

/// Every control that the policy asks for, in the order of [`Control::ALL`].
pub(super) fn asked_controls(policy: &Policy) -> Vec<Asked> {
    let is_remote = matches!(policy.runtime, RuntimeChoice::Kind(kind) if kind.is_remote());
    let mut asked = filesystem(policy, is_remote);
    asked.push(match policy.network {
        NetworkMode::Deny => Asked::always(Control::Network, "no network"),
        NetworkMode::Open if is_remote => Asked::always(Control::OpenNetwork, "the server's network"),
        NetworkMode::Open => Asked::always(Control::OpenNetwork, "the host's network"),
    });
    asked.push(Asked::always(Control::Environment, environment(policy)));
    asked.push(Asked::always(Control::Syscalls, "dangerous system calls refused"));
    asked.push(Asked::always(Control::Privileges, "no privileges, none to gain"));
    asked.push(Asked::always(Control::ProcessIsolation, "own processes only, all ended with the box"));
    asked.extend(limits(policy));
    if policy.process.tty {
        asked.push(Asked::always(Control::Tty, "a terminal"));
    }
    if let Some(user) = policy.process.user {
        asked.push(Asked::always(Control::User, format!("{user} (uid {})", user.uid())));
    }
    asked
}

fn filesystem(policy: &Policy, is_remote: bool) -> Vec<Asked> {
    let files = &policy.filesystem;
    let unwritten = if is_remote { "all of this machine" } else { "system directories" };
    let mut asked = vec![
        Asked::always(Control::FilesystemView, view(policy, is_remote)),
        Asked::always(Control::ReadOnly, with_paths(unwritten, policy, Access::Read)),
    ];
    if files.rules.iter().any(|rule| rule.access == Access::Read) {
        // Not every kernel can hold it for everybody, and few trees have sockets: the report says what is held.
        asked.push(Asked {
            control: Control::Sockets,
            requested: "none of the host's in trees that are only read".to_owned(),
            explicit: false,
            origin: None,
        });
    }
    for (control, access) in [(Control::Overlay, Access::Overlay), (Control::DenyPaths, Access::Deny)] {
        if let Some(first) = files.rules.iter().find(|rule| rule.access == access) {
            asked.push(Asked {
                control,
                requested: with_paths("", policy, access),
                explicit: true,
                origin: Some(first.origin.clone()),
            });
        }
    }
    // In an overlay the host is safe until the commit, which Hotcell itself does.
    let protected = files.protected_paths().iter().filter(|protected| protected.access == Access::Write).count();
    if protected > 0 {
        asked.push(Asked::always(Control::ProtectedPaths, format!("{protected} protected paths in writable trees")));
    }
    asked
}

/// How much of the host is seen. What a remote box sees leaves this machine, and people want to know that.
fn view(policy: &Policy, is_remote: bool) -> String {
    let count = |least: Access| policy.filesystem.rules.iter().filter(|rule| rule.access >= least).count();
    let shown = match count(Access::Read) {
        0 => return "no host paths".to_owned(),
        1 => "1 host path".to_owned(),
        count => format!("{count} host paths"),
    };
    match count(Access::Write) {
        _ if !is_remote => shown,
        0 => format!("{shown}, copied to the server"),
        back => format!("{shown}, copied to the server; changes in {back} of them brought back"),
    }
}

/// The paths with this access, after what is there anyway.
fn with_paths(already: &str, policy: &Policy, access: Access) -> String {
    let paths = policy.filesystem.rules.iter().filter(|rule| rule.access == access);
    let paths = paths.map(|rule| PrintablePath(&rule.path).to_string());
    let all: Vec<String> = (!already.is_empty()).then(|| already.to_owned()).into_iter().chain(paths).collect();
    all.join(", ")
}

fn environment(policy: &Policy) -> String {
    format!("{} passed, {} set, the rest scrubbed", policy.env.pass.len(), policy.env.set.len())
}

fn limits(policy: &Policy) -> Vec<Asked> {
    let limits = &policy.limits;
    let writes_directly = policy.filesystem.rules.iter().any(|rule| rule.access == Access::Write);
    let disk_direct = writes_directly.then(|| limit(Control::DiskDirect, &limits.disk, |bytes| show_size(*bytes)));
    [
        limit(Control::Memory, &limits.memory, |bytes| show_size(*bytes)),
        limit(Control::Cpus, &limits.cpus, shown),
        limit(Control::CpuTime, &limits.cpu_time, |time| show_duration(*time)),
        limit(Control::ProcessCount, &limits.processes, shown),
        limit(Control::OpenFiles, &limits.open_files, shown),
        limit(Control::Disk, &limits.disk, |bytes| show_size(*bytes)),
        disk_direct.flatten(),
        limit(Control::Output, &limits.output, |bytes| show_size(*bytes)),
        limit(Control::Timeout, &limits.timeout, |time| show_duration(*time)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn shown(value: &impl Display) -> String {
    value.to_string()
}

/// An unlimited resource asks for nothing.
fn limit<T>(control: Control, limit: &Limit<T>, show: impl Fn(&T) -> String) -> Option<Asked> {
    let value = limit.value.as_ref()?;
    let requested = format!("at most {}", show(value));
    Some(Asked { control, requested, explicit: limit.explicit, origin: Some(limit.origin.clone()) })
}
