//! Every number, with every argument value that a rule looks at.

use std::collections::{BTreeMap, BTreeSet};

use super::super::bpf::{IF_AT_LEAST, IF_EQUAL};
use super::super::compile::compile_rules;
use super::super::rules::rules;
use super::super::{MAX_INSTRUCTIONS, compile};
use super::*;

const AUDIT_ARCH_I386: u32 = 0x4000_0003;
const AUDIT_ARCH_ARM: u32 = 0x4000_0028;

/// Every combination of the values that `condition` looks at, their neighbours, and each of them with
/// upper bits set; arguments that it ignores stay zero.
pub(super) fn argument_cases(condition: &Condition) -> Vec<[u64; 6]> {
    let mut interesting: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    collect(condition, &mut interesting);
    let mut cases = vec![[0; 6]];
    for (index, values) in interesting {
        cases = cases
            .iter()
            .flat_map(|case| {
                values.iter().map(move |value| {
                    let mut case = *case;
                    case[index] = *value;
                    case
                })
            })
            .collect();
    }
    cases
}

fn collect(condition: &Condition, interesting: &mut BTreeMap<usize, BTreeSet<u64>>) {
    let mut add = |index: usize, mask: u64, value: u64| {
        let values = interesting.entry(index).or_default();
        values.extend([0, value, value ^ 1, u64::MAX]);
        values.extend([value | 1 << 32, value | 1 << 63, value | !mask]);
        if mask.count_ones() < 32 {
            values.extend((0..64).map(|bit| 1 << bit).filter(|bit| mask & bit != 0));
        }
    };
    match *condition {
        Condition::Int { argument, mask, values } => {
            for value in values {
                add(argument.index(), u64::from(mask), u64::from(*value));
            }
        }
        Condition::Long { argument, mask, values } => {
            for value in values {
                add(argument.index(), mask, *value);
            }
        }
        Condition::On(_) => {}
        Condition::All(group) | Condition::Any(group) => {
            for one in group {
                collect(one, interesting);
            }
        }
        Condition::Not(inner) => collect(inner, interesting),
    }
}

fn cases_of(rule: &Rule) -> Vec<[u64; 6]> {
    match rule.action {
        Action::AllowIf(condition) | Action::AllowUnless(condition) => argument_cases(&condition),
        _ => vec![[0; 6], [u64::MAX; 6]],
    }
}

/// All calls of the table with their cases, and every other number up to 600.
fn all_calls(arch: Arch) -> Vec<SeccompData> {
    let mut calls = Vec::new();
    let mut listed = BTreeSet::new();
    for rule in rules() {
        let Some(number) = rule.number(arch) else {
            continue;
        };
        listed.insert(number);
        let cases = cases_of(&rule);
        calls.extend(cases.iter().map(|args| SeccompData::new(arch, number, *args)));
    }
    let others = (0..=600).chain([0x3fff_ffff, 0x8000_0000, u32::MAX]);
    calls.extend(
        others.filter(|number| !listed.contains(number)).map(|number| SeccompData::new(arch, number, [u64::MAX; 6])),
    );
    calls
}

#[test]
fn the_program_says_what_the_table_says() {
    let table: Vec<Rule> = rules().collect();
    for arch in ARCHES {
        let calls = all_calls(arch);
        for options in all_options() {
            let program = checked(compile(arch, &options));
            for data in &calls {
                assert_eq!(
                    verdict(&program, data),
                    interpret(arch, &table, &options, data),
                    "{arch:?} {options:?} {data:x?}"
                );
            }
        }
    }
}

#[test]
fn foreign_abis_are_killed() {
    for arch in ARCHES {
        for options in all_options() {
            let program = checked(compile(arch, &options));
            let foreign = ARCHES.into_iter().filter(|other| *other != arch).map(Arch::audit_value).chain([
                AUDIT_ARCH_I386,
                AUDIT_ARCH_ARM,
                0,
                u32::MAX,
            ]);
            for foreign in foreign {
                for nr in (0..=600).chain(0x4000_0000..=0x4000_0258) {
                    let mut data = SeccompData::new(arch, nr, [0; 6]);
                    data.arch = foreign;
                    assert_eq!(verdict(&program, &data), Verdict::KillProcess, "{data:x?}");
                }
            }
        }
    }
}

#[test]
fn x32_calls_are_killed_on_x86_64_and_unknown_on_aarch64() {
    for options in all_options() {
        let x86_64 = checked(compile(Arch::X86_64, &options));
        let aarch64 = checked(compile(Arch::Aarch64, &options));
        for nr in (0x4000_0000..=0x4000_0258).chain([0x7fff_ffff, 0xc000_0000, u32::MAX]) {
            let data = SeccompData::new(Arch::X86_64, nr, [0; 6]);
            assert_eq!(verdict(&x86_64, &data), Verdict::KillProcess, "{nr:#x}");
            let data = SeccompData::new(Arch::Aarch64, nr, [0; 6]);
            assert_eq!(verdict(&aarch64, &data), Verdict::Errno(38), "{nr:#x}");
        }
    }
}

#[test]
fn notification_replaces_eperm_and_nothing_else() {
    for arch in ARCHES {
        for network in [Network::Private, Network::Host] {
            let program = |notify_denied| checked(compile(arch, &FilterOptions { network, notify_denied }));
            let (plain, notifying) = (program(false), program(true));
            for data in all_calls(arch) {
                let expected = match verdict(&plain, &data) {
                    Verdict::Errno(1) => Verdict::Notify,
                    other => other,
                };
                assert_eq!(verdict(&notifying, &data), expected, "{data:x?}");
            }
        }
    }
}

#[test]
fn the_host_network_only_takes_away_and_only_from_setsockopt() {
    for arch in ARCHES {
        let program = |network| checked(compile(arch, &FilterOptions { network, notify_denied: false }));
        let (private, host) = (program(Network::Private), program(Network::Host));
        let mut differences = 0;
        for data in all_calls(arch) {
            let (before, after) = (verdict(&private, &data), verdict(&host, &data));
            if before != after {
                assert_eq!((before, after), (Verdict::Allow, Verdict::Errno(1)));
                let name = super::super::rule(arch, data.nr).map(|rule| rule.name);
                assert_eq!(name, Some("setsockopt"));
                differences += 1;
            }
        }
        assert!(differences > 0);
    }
}

/// A row that allows or says "not implemented" changes the outcome when it is removed. A row that
/// says "not permitted" repeats the default, with a reason; it is alive if turning it around shows.
#[test]
fn no_row_is_dead() {
    let table: Vec<Rule> = rules().collect();
    let options = FilterOptions { network: Network::Host, notify_denied: false };
    for arch in ARCHES {
        let whole = checked(compile(arch, &options));
        for (index, rule) in table.iter().enumerate() {
            let Some(number) = rule.number(arch) else {
                continue;
            };
            let mut changed = table.clone();
            if rule.action == Action::Refuse(Errno::NotPermitted) {
                changed[index].action = Action::Allow;
            } else {
                changed.remove(index);
            }
            let changed = checked(compile_rules(arch, changed.into_iter(), &options));
            // The highest number has nothing above it, so removing its row moves the boundary; its
            // outcome still has to differ.
            let differs = cases_of(rule).iter().any(|args| {
                let data = SeccompData::new(arch, number, *args);
                verdict(&whole, &data) != verdict(&changed, &data)
            });
            assert!(differs, "{arch:?}: the row of {} does nothing", rule.name);
        }
    }
}

/// No instruction that nothing reaches, and no comparison that always goes the same way.
#[test]
fn every_branch_is_taken() {
    for arch in ARCHES {
        let mut calls = all_calls(arch);
        let mut foreign = SeccompData::new(arch, 0, [0; 6]);
        foreign.arch = AUDIT_ARCH_I386;
        calls.push(foreign);
        for options in all_options() {
            let program = checked(compile(arch, &options));
            let mut taken: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            for data in &calls {
                run(&program, data, |at, skip| {
                    taken.entry(at).or_default().insert(skip);
                })
                .expect("a checked program ends with a verdict");
            }
            for (at, instruction) in program.instructions.iter().enumerate() {
                let ways = taken.get(&at).map_or(0, BTreeSet::len);
                let expected = match instruction.code {
                    IF_EQUAL | IF_AT_LEAST => 2,
                    _ => 1,
                };
                assert_eq!(ways, expected, "{arch:?} {options:?} {at}: {instruction:?}");
            }
        }
    }
}

#[test]
fn programs_are_short() {
    for arch in ARCHES {
        for options in all_options() {
            let program = compile(arch, &options);
            assert_eq!(program.as_bytes().len(), 8 * program.instructions.len());
            // The kernel takes ten times as much, and a guest can stack filters of its own.
            let length = program.instructions.len();
            assert!(length < MAX_INSTRUCTIONS / 10, "{arch:?}: {length} instructions");
        }
    }
}

/// A binary search: some 100 ranges take 7 comparisons, after 3 instructions of preparation.
#[test]
fn calls_that_need_no_arguments_are_decided_quickly() {
    for arch in ARCHES {
        let program = checked(compile(arch, &FilterOptions::default()));
        for rule in rules().filter(|rule| matches!(rule.action, Action::Allow | Action::Refuse(_))) {
            let Some(number) = rule.number(arch) else { continue };
            let mut steps = 0;
            let data = SeccompData::new(arch, number, [0; 6]);
            run(&program, &data, |_, _| steps += 1).expect("a checked program ends with a verdict");
            assert!(steps <= 12, "{arch:?} {}: {steps} instructions", rule.name);
        }
    }
}

#[test]
fn bytes_are_the_instructions_in_native_order() {
    let program = compile(Arch::X86_64, &FilterOptions::default());
    let expected: Vec<u8> = program
        .instructions
        .iter()
        .flat_map(|instruction| {
            let [a, b] = instruction.code.to_ne_bytes();
            let [e, f, g, h] = instruction.k.to_ne_bytes();
            [a, b, instruction.jt, instruction.jf, e, f, g, h]
        })
        .collect();
    assert_eq!(program.as_bytes(), expected);
}
