//! The table: every system call, what the box does with it, and why.
//!
//! One file per subject, and one for what is refused. Calls that share an outcome and a reason stand
//! in one [`Group`]. The table is complete for the kernel version it was written against (a test
//! compares it with a list of all system calls), so a call that a later kernel adds is refused until
//! somebody writes its row.
//!
//! When a row is added, ask: can the call reach past the namespaces and mounts of the box; does an
//! ordinary program need it; and if it is refused, will that program take `EPERM` or only `ENOSYS`
//! as the sign to do without?

mod descriptors;
mod files;
mod ipc;
mod memory;
mod process_control;
mod processes;
mod refused;
mod signals_and_time;
mod sockets;

use super::Arch;
use super::condition::Condition;

/// All subjects, in the order of reading.
const TABLE: &[&[Group]] = &[
    files::GROUPS,
    descriptors::GROUPS,
    memory::GROUPS,
    processes::GROUPS,
    process_control::GROUPS,
    signals_and_time::GROUPS,
    sockets::GROUPS,
    ipc::GROUPS,
    refused::GROUPS,
];

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It proceeds, whatever its arguments are.
    Allow,
    /// It proceeds if the condition holds, else it is not permitted.
    AllowIf(Condition),
    /// It is not permitted if the condition holds, else it proceeds.
    AllowUnless(Condition),
    /// It fails.
    Refuse(Errno),
}

/// How a refused call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Errno {
    /// `EPERM`: the box does not permit it. With notification, a supervisor hears of it.
    NotPermitted,
    /// `ENOSYS`: as if the kernel did not have the call, so that programs do without it.
    NotImplemented,
}

impl Errno {
    /// The number that the caller sees.
    pub const fn value(self) -> u16 {
        match self {
            Errno::NotPermitted => 1,
            Errno::NotImplemented => 38,
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The kernel's name of the call.
    pub name: &'static str,
    /// Its number on x86_64, if it has one there.
    pub x86_64: Option<u32>,
    /// Its number on aarch64, if it has one there.
    pub aarch64: Option<u32>,
    /// What happens to it.
    pub action: Action,
    /// Why.
    pub why: &'static str,
}

impl Rule {
    /// The number of the call on `arch`.
    pub const fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

/// The whole table.
pub fn rules() -> impl Iterator<Item = Rule> {
    TABLE.iter().copied().flatten().flat_map(|group| {
        group.calls.iter().map(|call| Rule {
            name: call.name,
            x86_64: call.x86_64,
            aarch64: call.aarch64,
            action: group.action,
            why: group.why,
        })
    })
}

/// The row for a number, to name a refused call and give the reason.
///
/// ```
/// use hotcell_linux::seccomp::{Arch, rule};
///
/// let ptrace = rule(Arch::X86_64, 101);
/// assert_eq!(ptrace.map(|rule| rule.name), Some("ptrace"));
/// ```
pub fn rule(arch: Arch, number: u32) -> Option<Rule> {
    rules().find(|rule| rule.number(arch) == Some(number))
}

/// Calls that share an outcome and a reason.
struct Group {
    why: &'static str,
    action: Action,
    calls: &'static [Call],
}

/// A system call and its numbers.
struct Call {
    name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

/// A call with a number of its own on each architecture: x86_64 first, then aarch64.
const fn call(name: &'static str, x86_64: u32, aarch64: u32) -> Call {
    Call { name, x86_64: Some(x86_64), aarch64: Some(aarch64) }
}

/// A call since Linux 5.1, when all architectures began to number alike.
const fn shared(name: &'static str, number: u32) -> Call {
    call(name, number, number)
}

/// A call that aarch64 never had: mostly what a later call of the same table replaced.
const fn x86_64_only(name: &'static str, number: u32) -> Call {
    Call { name, x86_64: Some(number), aarch64: None }
}
