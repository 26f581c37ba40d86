//! A check: one attack, as data.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use hotcell::Control;
use hotcell::policy::PolicyBuilder;
use serde::{Serialize, Serializer};

use crate::arena::Arena;
use crate::target::Boxed;

/// One attack, what it would mean if it worked, and how it is tried.
///
/// Nothing here says how a success is recognised: a planted secret in the output, a changed or contacted object on the
/// host, a process that outlives its box and a system call that was reached are looked for after every attempt.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name: the group, a dot, and what is attacked.
    pub id: &'static str,
    /// Which part of the box it is about.
    pub group: Group,
    /// What is tried.
    pub tries: &'static str,
    /// What happens in a safe box.
    pub safe: &'static str,
    /// What an attacker would have won.
    pub impact: Impact,
    /// Known vulnerabilities of this class.
    pub cves: &'static [&'static str],
    /// How it is tried.
    pub attempt: Attempt,
    /// What the policy allows beyond the default.
    pub grant: Grant,
    /// Where it can be tried at all.
    pub needs: &'static [Need],
    /// A control that not every box holds: where the plan itself says that it is only approximated, there is nothing to
    /// prove.
    pub control: Option<Control>,
}

/// What a check's policy allows beyond the default.
pub type Grant = fn(PolicyBuilder, &Arena) -> PolicyBuilder;

/// The part of the box that a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Files and directories.
    Filesystem,
    /// Other processes, signals, the environment, terminals.
    Process,
    /// System calls that a box has no use for.
    Kernel,
    /// Everything that leaves the box, or comes in.
    Network,
    /// Memory, processors, processes, disk, output, time.
    Resources,
    /// Hotcell's own code on the host's side.
    Supervisor,
    /// What must still work.
    Work,
}

impl Group {
    /// All groups, in the order of reports.
    pub const ALL: &'static [Self] =
        &[Self::Filesystem, Self::Process, Self::Kernel, Self::Network, Self::Resources, Self::Supervisor, Self::Work];

    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Process => "process",
            Self::Kernel => "kernel",
            Self::Network => "network",
            Self::Resources => "resources",
            Self::Supervisor => "supervisor",
            Self::Work => "work",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What an attacker would have won; the classes are those of gVisor's security policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Impact {
    /// Code runs, or files change, outside of the box.
    Escape,
    /// Data of the host is read.
    HostLeak,
    /// Data leaves the box where it must not.
    Exfil,
    /// Another box is reached.
    Lateral,
    /// The host stops working.
    HostDoS,
    /// Another box stops working.
    PeerDoS,
    /// More rights inside the box than were given.
    InternalEsc,
    /// Data inside the box is read by who must not.
    InternalRead,
    /// The box itself stops working.
    SelfDoS,
    /// What the host believes about the box is wrong.
    Integrity,
}

/// How a check is tried.
#[derive(Debug, Clone, Copy)]
pub enum Attempt {
    /// The intruder with these arguments. `{name}` stands for something that is planted for it; see [`Arena::expand`].
    Intruder(&'static [&'static str]),
    /// System calls whose own code must not be reached.
    Calls(&'static [Call]),
    /// The same, after trying to get namespaces of its own: for calls that want capabilities.
    NestedCalls(&'static [Call]),
    /// A shell script with the same `{name}`s; it ends with `echo done`.
    Shell(&'static str),
    /// Host-side code: the naive way of doing something as the control, and Hotcell's way.
    Supervisor(Supervised),
}

/// A system call with arguments that only its own code would complain about.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The kernel's name of it.
    pub name: &'static str,
    /// Numbers, `bad` (a pointer to nowhere), `buffer` (a zeroed page), `s:TEXT`.
    pub arguments: &'static [&'static str],
}

/// A system call as data.
pub const fn call(name: &'static str, arguments: &'static [&'static str]) -> Call {
    Call { name, arguments }
}

/// What a piece of host-side code saw: anything an attacker could get shows up in it.
pub type Seen = Result<String, String>;

/// Host-side code under attack by what a guest left.
#[derive(Debug, Clone, Copy)]
pub struct Supervised {
    /// The obvious way of doing it, which falls for the attack.
    pub naive: fn(&Arena) -> Seen,
    /// Hotcell's way. An error means that it could not be tried, not that the attack was refused.
    pub hotcell: for<'a> fn(&'a Boxed, &'a Arena) -> Seeing<'a>,
}

/// Host-side code at work.
pub type Seeing<'a> = Pin<Box<dyn Future<Output = Seen> + 'a>>;

/// Something without which a check cannot be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// An x86_64 machine.
    X86_64,
    /// Root on the host: an ordinary user is refused with or without a box.
    Root,
    /// An address of this machine that is not of its loopback.
    Address,
    /// This version of Landlock: what only Landlock holds is said by `hotcell doctor` where it is missing.
    Landlock(u32),
    /// A program on the host, by name.
    Program(&'static str),
    /// The host's own system directories, rather than those of an image.
    HostSystem,
    /// A name for the user of the box.
    UserName,
    /// A device node that this user may open.
    Device(&'static str),
    /// A helper process of Hotcell's on this machine.
    Helper,
}

/// A check about `group`, named `id`, that tries `tries`; the rest is added with the methods below.
pub const fn check(id: &'static str, group: Group, tries: &'static str) -> Check {
    Check {
        id,
        group,
        tries,
        safe: "",
        impact: Impact::Escape,
        cves: &[],
        attempt: Attempt::Intruder(&[]),
        grant: |policy, _| policy,
        needs: &[],
        control: None,
    }
}

impl Check {
    /// What happens in a safe box.
    pub const fn safe(mut self, outcome: &'static str) -> Self {
        self.safe = outcome;
        self
    }

    /// What an attacker would have won.
    pub const fn impact(mut self, impact: Impact) -> Self {
        self.impact = impact;
        self
    }

    /// Known vulnerabilities of this class.
    pub const fn cves(mut self, cves: &'static [&'static str]) -> Self {
        self.cves = cves;
        self
    }

    /// Tries it with the intruder.
    pub const fn intruder(mut self, arguments: &'static [&'static str]) -> Self {
        self.attempt = Attempt::Intruder(arguments);
        self
    }

    /// Tries it with system calls.
    pub const fn calls(mut self, calls: &'static [Call]) -> Self {
        self.attempt = Attempt::Calls(calls);
        self
    }

    /// Tries it with system calls, after trying to get namespaces of its own.
    pub const fn nested_calls(mut self, calls: &'static [Call]) -> Self {
        self.attempt = Attempt::NestedCalls(calls);
        self
    }

    /// Tries it with a shell script.
    pub const fn shell(mut self, script: &'static str) -> Self {
        self.attempt = Attempt::Shell(script);
        self
    }

    /// Tries it with host-side code.
    pub const fn supervised(mut self, supervised: Supervised) -> Self {
        self.attempt = Attempt::Supervisor(supervised);
        self
    }

    /// What the policy allows beyond the default.
    pub const fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }

    /// Where it can be tried at all.
    pub const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// A control that not every box holds.
    pub const fn control(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// Whether it tries something that must work, rather than something that must not.
    pub fn must_work(&self) -> bool {
        self.group == Group::Work
    }
}
