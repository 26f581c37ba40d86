//! The table as classic BPF.
//!
//! The program checks the architecture, finds the call by binary search over number ranges with
//! equal outcome, and tests arguments where a row asks for it.
//!
//! Classic BPF jumps only forward, so the program is written **from its end to its beginning**: the
//! target of every jump already exists when the jump is written, and no offset has to be patched. A
//! conditional jump reaches at most 255 instructions; a target farther away gets a stepping stone
//! (another `RETURN`, or an unconditional `JUMP`) right behind the jump that needs it.

use std::collections::BTreeMap;

use super::bpf::{
    AND, ARCH_OFFSET, ARGUMENTS_OFFSET, IF_AT_LEAST, IF_EQUAL, JUMP, LOAD, NUMBER_OFFSET, Program, RETURN,
    RETURN_ALLOW, RETURN_ERRNO, RETURN_KILL_PROCESS, RETURN_NOTIFY, SockFilter,
};
use super::condition::{Argument, Condition};
use super::rules::{Action, Errno, Rule};
use super::{Arch, FilterOptions};

/// x32 calls carry the x86_64 audit value and this bit in their number.
const X32_FIRST: u32 = 0x4000_0000;

/// Compiles `rules` as they are; [`super::compile`] passes the whole table.
///
/// Of two rows for the same number the later one would win; a test keeps the table free of that.
pub(super) fn compile_rules(arch: Arch, rules: impl Iterator<Item = Rule>, options: &FilterOptions) -> Program {
    let segments = segments(arch, rules, options);
    let mut writer = Writer::default();

    let search = writer.search(&segments, options);
    writer.fall_into(search);
    let known_arch = writer.write(LOAD, NUMBER_OFFSET);
    writer.branch(IF_EQUAL, arch.audit_value(), known_arch, Target::Return(RETURN_KILL_PROCESS));
    writer.write(LOAD, ARCH_OFFSET);
    writer.finish()
}

/// What happens to the calls of one range of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Return(u32),
    Test { condition: Condition, holds: u32, fails: u32 },
}

/// The numbers from `first` up to the next segment.
struct Segment {
    first: u32,
    decision: Decision,
}

fn segments(arch: Arch, rules: impl Iterator<Item = Rule>, options: &FilterOptions) -> Vec<Segment> {
    let by_number: BTreeMap<u32, Decision> =
        rules.filter_map(|rule| Some((rule.number(arch)?, decision(rule.action, options)))).collect();

    let unlisted = Decision::Return(refusal(Errno::NotPermitted, options));
    let too_new = Decision::Return(refusal(Errno::NotImplemented, options));
    let mut segments: Vec<Segment> = Vec::new();
    let mut next = 0;
    for (number, decision) in by_number {
        if next < number {
            append(&mut segments, next, unlisted);
        }
        append(&mut segments, number, decision);
        next = number + 1;
    }
    append(&mut segments, next, too_new);
    if arch == Arch::X86_64 {
        append(&mut segments, X32_FIRST, Decision::Return(RETURN_KILL_PROCESS));
    }
    segments
}

/// Adds a segment, or lets the last one go on if the outcome is the same.
fn append(segments: &mut Vec<Segment>, first: u32, decision: Decision) {
    if segments.last().is_none_or(|last| last.decision != decision) {
        segments.push(Segment { first, decision });
    }
}

fn decision(action: Action, options: &FilterOptions) -> Decision {
    let refused = refusal(Errno::NotPermitted, options);
    match action {
        Action::Allow => Decision::Return(RETURN_ALLOW),
        Action::AllowIf(condition) => Decision::Test { condition, holds: RETURN_ALLOW, fails: refused },
        Action::AllowUnless(condition) => Decision::Test { condition, holds: refused, fails: RETURN_ALLOW },
        Action::Refuse(errno) => Decision::Return(refusal(errno, options)),
    }
}

fn refusal(errno: Errno, options: &FilterOptions) -> u32 {
    match errno {
        Errno::NotPermitted if options.notify_denied => RETURN_NOTIFY,
        // "Not implemented" is an answer that programs probe for and nobody needs to hear about.
        Errno::NotPermitted | Errno::NotImplemented => RETURN_ERRNO | u32::from(errno.value()),
    }
}

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// End with this verdict, wherever there is an instruction for it.
    Return(u32),
    /// The instruction that was the n-th to be written, so the n-th from the end.
    Written(usize),
}

/// Writes a program backwards.
#[derive(Default)]
struct Writer {
    reversed: Vec<SockFilter>,
    /// The most recent `RETURN` of each verdict.
    returns: BTreeMap<u32, usize>,
}

impl Writer {
    /// A conditional jump has 255 as its limit, and writing the stepping stone for its second
    /// target may push the first one away by one.
    const REACH: usize = 254;

    fn finish(mut self) -> Program {
        self.reversed.reverse();
        Program { instructions: self.reversed }
    }

    fn push(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> Target {
        self.reversed.push(SockFilter { code, jt, jf, k });
        Target::Written(self.reversed.len())
    }

    /// Writes an instruction after which execution goes on with what was written before it.
    fn write(&mut self, code: u16, k: u32) -> Target {
        self.push(code, 0, 0, k)
    }

    /// How many instructions lie between the one to be written next and `position`.
    fn distance(&self, position: usize) -> usize {
        self.reversed.len() - position
    }

    /// The position of an instruction that leads to `target` and is near enough for any jump.
    fn within_reach(&mut self, target: Target) -> usize {
        let known = match target {
            Target::Return(verdict) => self.returns.get(&verdict).copied(),
            Target::Written(position) => Some(position),
        };
        if let Some(position) = known.filter(|at| self.distance(*at) <= Self::REACH) {
            return position;
        }
        match target {
            Target::Return(verdict) => {
                self.write(RETURN, verdict);
                self.returns.insert(verdict, self.reversed.len());
            }
            Target::Written(position) => {
                // A program is at most 4096 instructions long, so the distance fits.
                let distance = self.distance(position) as u32;
                self.write(JUMP, distance);
            }
        }
        self.reversed.len()
    }

    /// Makes sure that the instruction written next goes on with `target`.
    fn fall_into(&mut self, target: Target) {
        match target {
            Target::Written(position) if self.distance(position) == 0 => {}
            Target::Written(position) => {
                let distance = self.distance(position) as u32;
                self.write(JUMP, distance);
            }
            Target::Return(verdict) => {
                self.write(RETURN, verdict);
            }
        }
    }

    fn branch(&mut self, code: u16, k: u32, holds: Target, fails: Target) -> Target {
        let holds = self.within_reach(holds);
        let fails = self.within_reach(fails);
        let (jt, jf) = (self.distance(holds), self.distance(fails));
        debug_assert!(jt <= usize::from(u8::MAX) && jf <= usize::from(u8::MAX));
        self.push(code, jt as u8, jf as u8, k)
    }

    /// Binary search over `segments`; the number is in the accumulator.
    fn search(&mut self, segments: &[Segment], options: &FilterOptions) -> Target {
        match segments {
            [] => Target::Return(RETURN_KILL_PROCESS),
            [only] => self.decide(only.decision, options),
            _ => {
                let (below, from) = segments.split_at(segments.len() / 2);
                let split = from[0].first;
                let from = self.search(from, options);
                let below = self.search(below, options);
                self.branch(IF_AT_LEAST, split, from, below)
            }
        }
    }

    fn decide(&mut self, decision: Decision, options: &FilterOptions) -> Target {
        match decision {
            Decision::Return(verdict) => Target::Return(verdict),
            Decision::Test { condition, holds, fails } => {
                self.test(&condition, options, Target::Return(holds), Target::Return(fails))
            }
        }
    }

    /// Writes the code that goes to `holds` or `fails`, and returns where it begins.
    fn test(&mut self, condition: &Condition, options: &FilterOptions, holds: Target, fails: Target) -> Target {
        match settled(condition, options) {
            Some(true) => return holds,
            Some(false) => return fails,
            None => {}
        }
        match *condition {
            Condition::On(_) => fails, // always settled
            Condition::Not(inner) => self.test(inner, options, fails, holds),
            Condition::All(all) => all.iter().rev().fold(holds, |next, one| self.test(one, options, next, fails)),
            Condition::Any(any) => any.iter().rev().fold(fails, |next, one| self.test(one, options, holds, next)),
            Condition::Int { argument, mask, values } => self.compare(low_half(argument), mask, values, holds, fails),
            Condition::Long { argument, mask, values } => values.iter().rev().fold(fails, |next, value| {
                let (value_low, value_high) = halves(*value);
                let (mask_low, mask_high) = halves(mask);
                let low = low_half(argument);
                let low_holds = self.compare(low, mask_low, &[value_low], holds, next);
                self.compare(low + 4, mask_high, &[value_high], low_holds, next)
            }),
        }
    }

    /// Is the word at `offset`, masked, one of `values`?
    fn compare(&mut self, offset: u32, mask: u32, values: &[u32], holds: Target, fails: Target) -> Target {
        let mut first = fails;
        for value in values.iter().rev() {
            first = self.branch(IF_EQUAL, *value, holds, first);
        }
        if mask != u32::MAX {
            self.write(AND, mask);
        }
        self.write(LOAD, offset)
    }
}

/// The outcome of a condition that depends on no argument. Asking first keeps code that nothing can
/// reach out of the program.
fn settled(condition: &Condition, options: &FilterOptions) -> Option<bool> {
    match *condition {
        Condition::On(network) => Some(network == options.network),
        Condition::Not(inner) => settled(inner, options).map(|holds| !holds),
        Condition::All(all) => settled_group(all, options, true),
        Condition::Any(any) => settled_group(any, options, false),
        Condition::Int { values, .. } => values.is_empty().then_some(false),
        Condition::Long { values, .. } => values.is_empty().then_some(false),
    }
}

/// `neutral` is the outcome that leaves a group undecided: one of the other decides it.
fn settled_group(group: &[Condition], options: &FilterOptions, neutral: bool) -> Option<bool> {
    let mut all_neutral = true;
    for condition in group {
        match settled(condition, options) {
            Some(outcome) if outcome != neutral => return Some(outcome),
            Some(_) => {}
            None => all_neutral = false,
        }
    }
    all_neutral.then_some(neutral)
}

fn low_half(argument: Argument) -> u32 {
    // Six arguments of eight bytes: no index can overflow.
    ARGUMENTS_OFFSET + 8 * argument.index() as u32
}

fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}
