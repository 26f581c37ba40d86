//! What the table, the compiler and the evaluator promise each other.

mod evaluator;
mod exhaustive;
mod profile;
mod random;
mod table;

use super::bpf::Program;
use super::condition::Condition;
use super::evaluate::{SeccompData, Verdict, check, run};
use super::rules::{Action, Errno, Rule};
use super::{Arch, FilterOptions, Network};

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

fn all_options() -> impl Iterator<Item = FilterOptions> {
    [Network::Private, Network::Host]
        .into_iter()
        .flat_map(|network| [false, true].map(|notify_denied| FilterOptions { network, notify_denied }))
}

/// What the rules say, read directly: the yardstick for the compiled program.
fn interpret(arch: Arch, rules: &[Rule], options: &FilterOptions, data: &SeccompData) -> Verdict {
    if data.arch != arch.audit_value() {
        return Verdict::KillProcess;
    }
    if arch == Arch::X86_64 && data.nr >= 0x4000_0000 {
        return Verdict::KillProcess;
    }
    let refuse = |errno: Errno| {
        if options.notify_denied && errno == Errno::NotPermitted {
            Verdict::Notify
        } else {
            Verdict::Errno(errno.value())
        }
    };
    let allow_or_refuse = |allowed: bool| {
        if allowed { Verdict::Allow } else { refuse(Errno::NotPermitted) }
    };
    let highest = rules.iter().filter_map(|rule| rule.number(arch)).max();
    let row = rules.iter().find(|rule| rule.number(arch) == Some(data.nr)).map(|rule| rule.action);
    match row {
        Some(Action::Allow) => Verdict::Allow,
        Some(Action::AllowIf(condition)) => allow_or_refuse(holds(&condition, options, &data.args)),
        Some(Action::AllowUnless(condition)) => allow_or_refuse(!holds(&condition, options, &data.args)),
        Some(Action::Refuse(errno)) => refuse(errno),
        None if highest.is_none_or(|highest| data.nr > highest) => refuse(Errno::NotImplemented),
        None => refuse(Errno::NotPermitted),
    }
}

fn holds(condition: &Condition, options: &FilterOptions, args: &[u64; 6]) -> bool {
    match *condition {
        Condition::Int { argument, mask, values } => values.contains(&(args[argument.index()] as u32 & mask)),
        Condition::Long { argument, mask, values } => values.contains(&(args[argument.index()] & mask)),
        Condition::On(network) => network == options.network,
        Condition::All(all) => all.iter().all(|one| holds(one, options, args)),
        Condition::Any(any) => any.iter().any(|one| holds(one, options, args)),
        Condition::Not(inner) => !holds(inner, options, args),
    }
}

/// Runs a program that has been checked before.
fn verdict(program: &Program, data: &SeccompData) -> Verdict {
    run(program, data, |_, _| {}).expect("a checked program ends with a verdict")
}

fn checked(program: Program) -> Program {
    check(&program).expect("the compiler writes valid programs");
    program
}
