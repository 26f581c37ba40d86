//! Any call to the compiled system call filters.
//!
//! The input is calls: a byte of choices (filter, architecture, whether the number stays among those that exist), the number
//! and six arguments. Holds: the compiled filter says what the table of rules says, read row by row.
#![no_main]

use std::sync::OnceLock;

use hotcell_linux::seccomp::condition::Condition;
use hotcell_linux::seccomp::evaluate::{SeccompData, Verdict, evaluate};
use hotcell_linux::seccomp::rules::{Action, Errno, rules};
use hotcell_linux::seccomp::{Arch, FilterOptions, Network, Program, compile, rule};
use libfuzzer_sys::fuzz_target;

/// Numbers of architectures: the two that filters are made for, i386 and 32-bit ARM.
const ARCHITECTURES: [u32; 4] = [0xC000_003E, 0xC000_00B7, 0x4000_0003, 0x4000_0028];
const CALL: usize = 1 + 4 + 6 * 8;

fuzz_target!(|data: &[u8]| {
    for call in data.chunks_exact(CALL).take(16) {
        let (choices, data) = read_call(call);
        compare_with_table(choices, &data);
    }
});

fn read_call(bytes: &[u8]) -> (u8, SeccompData) {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let argument = |index: usize| u64::from(word(5 + index * 8 + 4)) << 32 | u64::from(word(5 + index * 8));
    let choices = bytes[0];
    let arch = ARCHITECTURES[usize::from(choices >> 3 & 3)];
    // Most numbers are no calls at all: half of the time, stay among those that are.
    let nr = if choices & 0x20 == 0 { word(1) % 600 } else { word(1) };
    let args = [argument(0), argument(1), argument(2), argument(3), argument(4), argument(5)];
    (choices, SeccompData { nr, arch, instruction_pointer: args[0] ^ args[5], args })
}

/// One of the eight filters that there are.
fn options(choices: u8) -> (Arch, FilterOptions) {
    let arch = if choices & 1 == 0 { Arch::X86_64 } else { Arch::Aarch64 };
    let network = if choices & 2 == 0 { Network::Private } else { Network::Host };
    (arch, FilterOptions { network, notify_denied: choices & 4 != 0 })
}

fn compare_with_table(choices: u8, data: &SeccompData) {
    static FILTERS: OnceLock<Vec<Program>> = OnceLock::new();
    let compiled = |choices| {
        let (arch, options) = options(choices);
        compile(arch, &options)
    };
    let filters = FILTERS.get_or_init(|| (0..8).map(compiled).collect());
    let (arch, options) = options(choices);
    let found = evaluate(&filters[usize::from(choices & 7)], data);
    assert_eq!(found, Ok(by_the_table(arch, &options, data)), "{arch:?} {options:?} {data:?}");
}

/// What the table says about a call, read row by row.
fn by_the_table(arch: Arch, options: &FilterOptions, data: &SeccompData) -> Verdict {
    if data.arch != arch.audit_value() || arch == Arch::X86_64 && data.nr >= 0x4000_0000 {
        return Verdict::KillProcess;
    }
    let refused = match rule(arch, data.nr).map(|rule| rule.action) {
        Some(Action::Allow) => return Verdict::Allow,
        Some(Action::AllowIf(condition)) if holds(&condition, options, &data.args) => return Verdict::Allow,
        Some(Action::AllowUnless(condition)) if !holds(&condition, options, &data.args) => return Verdict::Allow,
        Some(Action::Refuse(errno)) => errno,
        None if data.nr > highest(arch) => Errno::NotImplemented,
        _ => Errno::NotPermitted,
    };
    match refused {
        Errno::NotPermitted if options.notify_denied => Verdict::Notify,
        errno => Verdict::Errno(errno.value()),
    }
}

/// The highest number that the table knows.
fn highest(arch: Arch) -> u32 {
    rules().filter_map(|rule| rule.number(arch)).max().unwrap_or_default()
}

fn holds(condition: &Condition, options: &FilterOptions, args: &[u64; 6]) -> bool {
    match condition {
        Condition::Int { argument, mask, values } => {
            values.iter().any(|value| args[argument.index()] as u32 & mask == *value)
        }
        Condition::Long { argument, mask, values } => {
            values.iter().any(|value| args[argument.index()] & mask == *value)
        }
        Condition::On(network) => options.network == *network,
        Condition::All(all) => all.iter().all(|one| holds(one, options, args)),
        Condition::Any(any) => any.iter().any(|one| holds(one, options, args)),
        Condition::Not(inner) => !holds(inner, options, args),
        other => panic!("the table has a condition that this target does not know: {other:?}"),
    }
}
