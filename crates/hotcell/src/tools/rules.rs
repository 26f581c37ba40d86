//! Rules of the policy as a person would write them, so that a refusal can be traced to the line that made it.

use std::path::{Path, PathBuf};

use hotcell_core::outcome::Status;
use hotcell_core::policy::{Access, Limits, Policy};

use super::text;

/// What somebody wanted to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Read,
    Write,
}

/// A rule and what can be done under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) instead: String,
    /// Whether it is about this path, and not about all that no rule names.
    pub(super) names_path: bool,
}

/// The rule of the policy that stands in the way, if one does. The path is absolute and without links.
pub(super) fn of_path(policy: &Policy, path: &Path, wish: Wish) -> Option<Rule> {
    let path = normal(path);
    let files = &policy.filesystem;
    // Shallow to deep, so the last match is the deepest.
    let Some(nearest) = files.rules.iter().rev().find(|rule| path.starts_with(&rule.path)) else {
        let hidden = "filesystem: no rule names this path";
        return (wish == Wish::Write && !is_private(&path)).then(|| Rule {
            name: format!("{hidden}, so it is not writable"),
            instead: write_elsewhere(policy),
            names_path: false,
        });
    };
    let key = |access: Access| format!("filesystem.{access} = [{:?}]", text::path(&nearest.path));
    match (nearest.access, wish) {
        (Access::Deny, _) => Some(Rule {
            name: key(Access::Deny),
            instead: "work without it; only the person who set the policy can lift the rule".to_owned(),
            names_path: true,
        }),
        (Access::Read, Wish::Write) => {
            Some(Rule { name: key(Access::Read), instead: write_elsewhere(policy), names_path: true })
        }
        (Access::Write, Wish::Write) => {
            let protected = files.protected_paths();
            let hit = protected.iter().find(|protected| path.starts_with(&protected.path))?;
            let name = hit.path.strip_prefix(&hit.tree).unwrap_or(&hit.path);
            Some(Rule {
                name: format!("filesystem.protect = [{:?}]", text::path(name)),
                instead: "leave it as it is: programs of the host would run it or take orders from it".to_owned(),
                names_path: true,
            })
        }
        _ => None,
    }
}

/// Why a path may be absent from the box although it may be there on the host.
pub(super) fn of_absence(policy: &Policy, path: &Path) -> Option<Rule> {
    let path = normal(path);
    let named = policy.filesystem.rules.iter().any(|rule| path.starts_with(&rule.path));
    (!named && !is_private(&path)).then(|| Rule {
        name: "filesystem: only what its rules name, and the system directories, can be seen".to_owned(),
        instead: format!("look at what there is with list_files; the policy shows {}", shown(policy)),
        names_path: false,
    })
}

/// Places that every box has to itself.
fn is_private(path: &Path) -> bool {
    ["/tmp", "/home/hotcell", "/dev/shm", "/var/tmp"].iter().any(|place| path.starts_with(place))
}

/// Without `.` and `..`, by text.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

fn paths_with(policy: &Policy, wanted: impl Fn(Access) -> bool) -> Vec<String> {
    policy.filesystem.rules.iter().filter(|rule| wanted(rule.access)).map(|rule| text::path(&rule.path)).collect()
}

fn shown(policy: &Policy) -> String {
    let paths = paths_with(policy, |access| access > Access::Deny);
    if paths.is_empty() { "no files of the host but system directories".to_owned() } else { paths.join(", ") }
}

/// Where can be written.
pub(super) fn writable(policy: &Policy) -> Vec<String> {
    let mut paths = paths_with(policy, |access| access >= Access::Overlay);
    paths.push("/tmp".to_owned());
    paths
}

fn write_elsewhere(policy: &Policy) -> String {
    format!("write to {}", writable(policy).join(" or "))
}

/// The rule that says whether there is a network.
pub(super) fn of_network(policy: &Policy) -> String {
    format!("network.mode = \"{}\"", policy.network)
}

/// The limit that ended a command, if one did.
pub(super) fn of_limit(limits: &Limits, status: Status) -> Option<Rule> {
    let (name, value, instead) = match status {
        Status::TimedOut => (
            "timeout",
            limits.timeout.value.map(|time| format!("{} s", time.as_secs_f64())),
            "do less in one command, or run it in the background",
        ),
        Status::OutOfMemory => {
            ("memory", limits.memory.value.map(bytes), "use less memory: smaller pieces, fewer processes")
        }
        Status::CpuTime => (
            "cpu_time",
            limits.cpu_time.value.map(|time| format!("{} s", time.as_secs_f64())),
            "do less in one command; for a context or a background process all that the box used since its start counts, and a new one starts from zero",
        ),
        Status::Processes => {
            ("processes", limits.processes.value.map(|most| most.to_string()), "start fewer processes at the same time")
        }
        Status::Disk => ("disk", limits.disk.value.map(bytes), "remove files that are not needed any more"),
        Status::Output => {
            ("output", limits.output.value.map(bytes), "write less, or write to a file and read parts of it")
        }
        _ => return None,
    };
    let name = match value {
        Some(value) => format!("limits.{name} = \"{value}\""),
        None => format!("limits.{name}"),
    };
    Some(Rule { name, instead: instead.to_owned(), names_path: false })
}

/// A number of bytes as people write it.
pub(super) fn bytes(count: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if count >= unit && count.is_multiple_of(unit) {
            return format!("{} {name}", count / unit);
        }
    }
    format!("{count} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy::builder().write("/w").read("/w/r").deny("/w/d").overlay("/o").build().unwrap()
    }

    #[test]
    fn the_deepest_rule_is_named() {
        let policy = policy();
        let name = |path: &str, wish| of_path(&policy, Path::new(path), wish).map(|rule| rule.name);
        assert_eq!(name("/w/d/x", Wish::Read).as_deref(), Some("filesystem.deny = [\"/w/d\"]"));
        assert_eq!(name("/w/r/../d", Wish::Read).as_deref(), Some("filesystem.deny = [\"/w/d\"]"));
        assert_eq!(name("/w/r/x", Wish::Write).as_deref(), Some("filesystem.read = [\"/w/r\"]"));
        assert_eq!(name("/w/.git/hooks/x", Wish::Write).as_deref(), Some("filesystem.protect = [\".git/hooks\"]"));
        assert!(name("/etc/x", Wish::Write).is_some_and(|name| name.contains("no rule names")));
        for (path, wish) in
            [("/w/x", Wish::Write), ("/w/r/x", Wish::Read), ("/o/.git/hooks/x", Wish::Write), ("/tmp/x", Wish::Write)]
        {
            assert_eq!(name(path, wish), None, "{path}");
        }
    }

    #[test]
    fn what_no_rule_names_may_be_absent_for_that_reason() {
        let policy = policy();
        assert!(of_absence(&policy, Path::new("/root/x")).is_some());
        assert!(of_absence(&policy, Path::new("/w/../root/x")).is_some());
        assert_eq!(of_absence(&policy, Path::new("/w/x")), None);
        assert_eq!(of_absence(&policy, Path::new("/tmp/x")), None);
    }

    #[test]
    fn limits_are_named_with_their_value() {
        let limits = Limits::default();
        assert_eq!(of_limit(&limits, Status::OutOfMemory).unwrap().name, "limits.memory = \"1 GiB\"");
        assert_eq!(of_limit(&limits, Status::Exited(1)), None);
    }
}
