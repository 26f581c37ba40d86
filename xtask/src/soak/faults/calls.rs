//! The system calls of a set-up, and which of them are made to fail with what.

use std::collections::BTreeMap;

use hotcell_linux::seccomp::{Arch, rule};

/// One call of one of the helper's processes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// `spawner`, `child1`, `child1.program`.
    pub(super) role: String,
    pub(super) number: u32,
    /// The how many-th with this number in this process, from 1.
    pub(super) occurrence: u32,
}

/// A call and what it fails with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) call: Call,
    pub(super) errno: &'static Errno,
}

/// An error number with its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Errno {
    pub(super) name: &'static str,
    pub(super) number: i32,
}

/// What calls fail with: no memory, no room, no descriptors, a signal, no permission.
pub(super) const ERRNOS: &[Errno] = &[
    Errno { name: "ENOMEM", number: 12 },
    Errno { name: "ENOSPC", number: 28 },
    Errno { name: "EMFILE", number: 24 },
    Errno { name: "EINTR", number: 4 },
    Errno { name: "EPERM", number: 1 },
];

/// Nothing fails.
pub(super) const NONE: Errno = Errno { name: "nothing", number: 0 };

/// Calls that do not return, so that they cannot fail.
const ENDS: &[&str] = &["exit", "exit_group", "rt_sigreturn"];

/// Calls that confine a box: a smoke test lets each of them fail.
const CONFINING: &[&str] = &[
    "seccomp",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "capset",
    "prctl",
    "pivot_root",
    "setresuid",
    "setresgid",
    "setgroups",
    "unshare",
    "mount_setattr",
    "umount2",
    "prlimit64",
];

impl Call {
    pub(super) fn name(&self) -> String {
        let known = Arch::native().and_then(|arch| rule(arch, self.number));
        known.map_or_else(|| format!("call {}", self.number), |rule| rule.name.to_owned())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Call { role, occurrence, .. } = &self.call;
        write!(f, "{role}, {} #{occurrence} with {}", self.call.name(), self.errno.name)
    }
}

/// The calls in a log of the injector's, in their order.
pub(super) fn read_log(log: &str) -> Vec<Call> {
    let mut counts: BTreeMap<(String, u32), u32> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((role, number)) = line.split_once(' ') else { continue };
        let Ok(number) = number.parse() else { continue };
        let occurrence = counts.entry((role.to_owned(), number)).or_default();
        *occurrence += 1;
        let call = Call { role: role.to_owned(), number, occurrence: *occurrence };
        if role != "later" && !ENDS.contains(&call.name().as_str()) {
            calls.push(call);
        }
    }
    calls
}

/// Every call with every error.
pub(super) fn every(calls: &[Call]) -> Vec<Fault> {
    calls.iter().flat_map(|call| ERRNOS.iter().map(|errno| Fault { call: call.clone(), errno })).collect()
}

/// A few: of the calls with the same number in a process the first and the last, the errors in turn. The calls that
/// confine are tried with EPERM too.
pub(super) fn some(calls: &[Call]) -> Vec<Fault> {
    let mut last: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    for call in calls {
        last.insert((&call.role, call.number), call.occurrence);
    }
    let is_chosen =
        |call: &&Call| call.occurrence == 1 || last.get(&(call.role.as_str(), call.number)) == Some(&call.occurrence);
    let mut faults = Vec::new();
    for (call, errno) in calls.iter().filter(is_chosen).zip(ERRNOS.iter().cycle()) {
        faults.push(Fault { call: call.clone(), errno });
        let not_permitted = ERRNOS.last().filter(|last| *last != errno);
        if let Some(errno) = not_permitted.filter(|_| CONFINING.contains(&call.name().as_str())) {
            faults.push(Fault { call: call.clone(), errno });
        }
    }
    faults
}

/// Of [`some`], the calls that confine.
pub(super) fn confining(calls: &[Call]) -> Vec<Fault> {
    let confines = |fault: &Fault| CONFINING.contains(&fault.call.name().as_str());
    some(calls).into_iter().filter(confines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `read` and `exit_group` here.
    fn numbers() -> (u32, u32) {
        if cfg!(target_arch = "x86_64") { (0, 231) } else { (63, 94) }
    }

    #[test]
    fn calls_are_counted_per_process_and_number() {
        let (read, exit) = numbers();
        let log = format!("spawner {read}\nchild1 {read}\nspawner {read}\ninjected\nspawner {exit}\nlater {read}\n");
        let calls = read_log(&log);
        let seen: Vec<_> = calls.iter().map(|call| (call.role.as_str(), call.occurrence)).collect();
        assert_eq!(seen, [("spawner", 1), ("child1", 1), ("spawner", 2)]);
        assert_eq!(calls[0].name(), "read");
    }

    #[test]
    fn all_pairs_are_all_pairs() {
        let calls = read_log(&format!("spawner {0}\nspawner {0}\nspawner {0}\n", numbers().0));
        let faults = every(&calls);
        assert_eq!(faults.len(), 15);
        assert_eq!(faults[14].to_string(), "spawner, read #3 with EPERM");
        let few: Vec<_> = some(&calls).iter().map(|fault| (fault.call.occurrence, fault.errno.name)).collect();
        assert_eq!(few, [(1, "ENOMEM"), (3, "ENOSPC")]);
    }
}
