//! The table as a seccomp profile in the JSON of container engines and OCI runtimes.
//!
//! A container's first process loads the exact filter by itself; the profile is what holds before that, and what is left
//! if it were not loaded. So it is never wider than the filter. The format knows, per call, alternatives of tests
//! `(argument & mask) == value`, at most one per argument, and nothing that says "not". Every condition on bits can be put
//! in that form by deciding bit after bit until the condition holds or cannot hold any more.
//!
//! Where that would take very many alternatives the profile refuses more than the filter: what is *not* to be one of
//! some numbers is compared in its lower sixteen bits only (an `ioctl` request has its kind and number there, its direction and
//! size above), and a call that needs more than [`MOST_ALTERNATIVES`] is refused altogether.

use std::fmt::Write as _;

use super::condition::Condition;
use super::rules::{Action, Errno, Rule, rules};
use super::{Arch, FilterOptions};

/// A call with more alternatives than this is refused: runtimes turn each into several instructions of one program.
pub const MOST_ALTERNATIVES: usize = 256;

/// How long a condition is worked on before it counts as one that needs too many alternatives.
const MOST_STEPS: usize = 1 << 16;

/// What is compared of a number that is not to be one of some.
const NEGATED_BITS: u32 = 0xffff;

/// A seccomp profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    arch: Arch,
    entries: Vec<Entry>,
}

/// Calls that are treated alike. Everything that no entry allows is refused with `EPERM`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    names: Vec<&'static str>,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// Allowed if all of these tests pass; two entries for one call are alternatives.
    Allow(Vec<Test>),
    Refuse(Errno),
}

/// `(argument & mask) == value`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    argument: usize,
    mask: u64,
    value: u64,
}

/// The profile for programs of `arch`.
///
/// Notification is not for a profile: it is the exact filter's business, and its `EPERM` is one here too.
pub fn profile(arch: Arch, options: &FilterOptions) -> Profile {
    from_rules(arch, rules(), options)
}

/// The profile of these rows; [`profile`] passes the whole table.
pub(super) fn from_rules(arch: Arch, rules: impl Iterator<Item = Rule>, options: &FilterOptions) -> Profile {
    let (mut allowed, mut missing, mut tested) = (Vec::new(), Vec::new(), Vec::new());
    for rule in rules.filter(|rule| rule.number(arch).is_some()) {
        let (condition, wanted) = match rule.action {
            Action::Allow => {
                allowed.push(rule.name);
                continue;
            }
            // `EPERM` is what happens without an entry.
            Action::Refuse(Errno::NotPermitted) => continue,
            Action::Refuse(Errno::NotImplemented) => {
                missing.push(rule.name);
                continue;
            }
            Action::AllowIf(condition) => (condition, true),
            Action::AllowUnless(condition) => (condition, false),
        };
        let mut alternatives = Vec::new();
        let mut expansion = Expansion { condition: &condition, wanted, options, found: &mut alternatives, steps: 0 };
        if expansion.expand(Known::default()) {
            let entries = alternatives.iter().map(|known| known.tests());
            tested.extend(entries.map(|tests| Entry { names: vec![rule.name], outcome: Outcome::Allow(tests) }));
        }
    }
    let plain = [(allowed, Outcome::Allow(Vec::new())), (missing, Outcome::Refuse(Errno::NotImplemented))];
    let plain = plain.into_iter().filter(|(names, _)| !names.is_empty());
    let entries = plain.map(|(names, outcome)| Entry { names, outcome }).chain(tested).collect();
    Profile { arch, entries }
}

impl Profile {
    /// The profile as engines and runtimes read it, one entry per line.
    ///
    /// Only the one architecture is listed: calls of another ABI, i386 and x32 included, then kill the process.
    pub fn to_json(&self) -> String {
        let arch = match self.arch {
            Arch::X86_64 => "SCMP_ARCH_X86_64",
            Arch::Aarch64 => "SCMP_ARCH_AARCH64",
        };
        let mut json = format!(
            "{{\n\"defaultAction\":\"SCMP_ACT_ERRNO\",\n\"defaultErrnoRet\":{},\n\"architectures\":[\"{arch}\"],\n\"syscalls\":[",
            Errno::NotPermitted.value()
        );
        for (index, entry) in self.entries.iter().enumerate() {
            json.push_str(if index == 0 { "\n" } else { ",\n" });
            entry.write(&mut json);
        }
        json.push_str("\n]\n}\n");
        json
    }
}

impl Entry {
    /// Names are words of this table, so nothing needs escaping.
    fn write(&self, json: &mut String) {
        let names = self.names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",");
        let _ = write!(json, "{{\"names\":[{names}],");
        match &self.outcome {
            Outcome::Refuse(errno) => {
                let _ = write!(json, "\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":{}}}", errno.value());
            }
            Outcome::Allow(tests) => {
                json.push_str("\"action\":\"SCMP_ACT_ALLOW\"");
                for (index, Test { argument, mask, value }) in tests.iter().enumerate() {
                    json.push_str(if index == 0 { ",\"args\":[" } else { "," });
                    let _ = write!(
                        json,
                        "{{\"index\":{argument},\"value\":{mask},\"valueTwo\":{value},\"op\":\"SCMP_CMP_MASKED_EQ\"}}"
                    );
                }
                json.push_str(if tests.is_empty() { "}" } else { "]}" });
            }
        }
    }
}

/// What is decided about the arguments so far: which bits, and what they are.
#[derive(Clone, Copy, Debug, Default)]
struct Known([(u64, u64); 6]);

impl Known {
    fn tests(&self) -> Vec<Test> {
        let arguments = self.0.iter().enumerate().filter(|(_, (mask, _))| *mask != 0);
        arguments.map(|(argument, (mask, value))| Test { argument, mask: *mask, value: *value }).collect()
    }

    fn with(mut self, bit: Bit, set: bool) -> Self {
        if let Some((mask, value)) = self.0.get_mut(bit.argument) {
            *mask |= bit.mask;
            *value |= if set { bit.mask } else { 0 };
        }
        self
    }
}

/// One bit of one argument.
#[derive(Clone, Copy)]
struct Bit {
    argument: usize,
    mask: u64,
}

/// What a condition comes to as far as the arguments are known.
enum Truth {
    Settled(bool),
    /// It depends on this bit, among others.
    Open(Bit),
}

/// Finds the alternatives under which a condition is as wanted.
struct Expansion<'a> {
    condition: &'a Condition,
    wanted: bool,
    options: &'a FilterOptions,
    found: &'a mut Vec<Known>,
    steps: usize,
}

impl Expansion<'_> {
    /// False if there are too many.
    fn expand(&mut self, known: Known) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return false;
        }
        match self.truth(self.condition, &known, self.wanted) {
            Truth::Settled(truth) if truth == self.wanted => {
                self.found.push(known);
                self.found.len() <= MOST_ALTERNATIVES
            }
            Truth::Settled(_) => true,
            Truth::Open(bit) => self.expand(known.with(bit, false)) && self.expand(known.with(bit, true)),
        }
    }

    /// `wanted` is false below an odd number of negations: there a match may be assumed too often, but never overlooked.
    fn truth(&self, condition: &Condition, known: &Known, wanted: bool) -> Truth {
        match *condition {
            Condition::Int { argument, mask, values } => {
                let compared = if wanted || mask != u32::MAX { mask } else { NEGATED_BITS };
                let reachable = values.iter().filter(|value| *value & !mask == 0);
                let values = reachable.map(|value| u64::from(value & compared));
                one_of(argument.index(), compared.into(), values, known)
            }
            Condition::Long { argument, mask, values } => {
                let reachable = values.iter().copied().filter(|value| value & !mask == 0);
                one_of(argument.index(), mask, reachable, known)
            }
            Condition::On(network) => Truth::Settled(network == self.options.network),
            Condition::All(group) => self.group(group, known, wanted, false),
            Condition::Any(group) => self.group(group, known, wanted, true),
            Condition::Not(inner) => match self.truth(inner, known, !wanted) {
                Truth::Settled(truth) => Truth::Settled(!truth),
                open => open,
            },
        }
    }

    /// One member that is `decisive` settles a group; else all of them must be settled.
    fn group(&self, group: &[Condition], known: &Known, wanted: bool, decisive: bool) -> Truth {
        let mut open = None;
        for member in group {
            match self.truth(member, known, wanted) {
                Truth::Settled(truth) if truth == decisive => return Truth::Settled(decisive),
                Truth::Settled(_) => {}
                Truth::Open(bit) => open = open.or(Some(bit)),
            }
        }
        open.map_or(Truth::Settled(!decisive), Truth::Open)
    }
}

/// Whether the bits `mask` of an argument are one of `values`.
fn one_of(argument: usize, mask: u64, values: impl Iterator<Item = u64>, known: &Known) -> Truth {
    let (known_mask, known_value) = known.0.get(argument).copied().unwrap_or_default();
    let possible = values.filter(|value| (value ^ known_value) & known_mask & mask == 0).count();
    let unknown = mask & !known_mask;
    match (possible, unknown) {
        (0, _) => Truth::Settled(false),
        (_, 0) => Truth::Settled(true),
        // From the highest down: the kinds of a number are told apart before the numbers of a kind.
        _ => Truth::Open(Bit { argument, mask: 1 << (63 - unknown.leading_zeros()) }),
    }
}
