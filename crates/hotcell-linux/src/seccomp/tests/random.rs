//! Random tables against the compiler.

use proptest::prelude::*;

use super::super::compile::compile_rules;
use super::super::condition::Argument;
use super::*;

/// Few values, so that random arguments meet random conditions often.
const WORDS: [u32; 6] = [0, 1, 2, 0x80, 0x8000_0000, u32::MAX];

fn word() -> impl Strategy<Value = u32> {
    prop::sample::select(&WORDS)
}

pub(super) fn double_word() -> impl Strategy<Value = u64> {
    (word(), word()).prop_map(|(high, low)| u64::from(high) << 32 | u64::from(low))
}

fn argument() -> impl Strategy<Value = Argument> {
    prop::sample::select(&[
        Argument::First,
        Argument::Second,
        Argument::Third,
        Argument::Fourth,
        Argument::Fifth,
        Argument::Sixth,
    ])
}

/// The table is made of constants; a test run can afford to leak its stand-ins.
fn leak<T>(values: Vec<T>) -> &'static [T] {
    values.leak()
}

fn condition() -> impl Strategy<Value = Condition> {
    let int = (argument(), word(), prop::collection::vec(word(), 0..12))
        .prop_map(|(argument, mask, values)| Condition::Int { argument, mask, values: leak(values) });
    let long = (argument(), double_word(), prop::collection::vec(double_word(), 0..6))
        .prop_map(|(argument, mask, values)| Condition::Long { argument, mask, values: leak(values) });
    let on = prop::sample::select(&[Network::Private, Network::Host]).prop_map(Condition::On);
    prop_oneof![4 => int, 4 => long, 1 => on].prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|group| Condition::All(leak(group))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|group| Condition::Any(leak(group))),
            inner.prop_map(|one| Condition::Not(Box::leak(Box::new(one)))),
        ]
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Allow),
        Just(Action::Refuse(Errno::NotPermitted)),
        Just(Action::Refuse(Errno::NotImplemented)),
        condition().prop_map(Action::AllowIf),
        condition().prop_map(Action::AllowUnless),
    ]
}

pub(super) fn table() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::btree_map(0..60u32, action(), 0..40).prop_map(|rows| {
        rows.into_iter()
            .map(|(number, action)| Rule {
                name: "random",
                x86_64: Some(number),
                aarch64: Some(number),
                action,
                why: "random",
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Long conditions in many rows make programs whose jumps do not reach, so this covers the
    /// stepping stones too.
    #[test]
    fn a_program_says_what_its_table_says(
        table in table(),
        arguments in prop::collection::vec(prop::array::uniform6(double_word()), 1..40),
        host in any::<bool>(),
        notify_denied in any::<bool>(),
    ) {
        let network = if host { Network::Host } else { Network::Private };
        let options = FilterOptions { network, notify_denied };
        for arch in ARCHES {
            let program = checked(compile_rules(arch, table.iter().copied(), &options));
            for args in &arguments {
                for number in (0..70).chain([0x4000_0000, u32::MAX]) {
                    let data = SeccompData::new(arch, number, *args);
                    prop_assert_eq!(
                        verdict(&program, &data),
                        interpret(arch, &table, &options, &data)
                    );
                }
            }
        }
    }
}
