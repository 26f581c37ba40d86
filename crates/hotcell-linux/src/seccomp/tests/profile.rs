//! The profile for container engines is never wider than the filter, and no narrower than programs can bear.

use proptest::prelude::*;
use serde_json::Value;

use super::super::compile::compile_rules;
use super::super::profile::{MOST_ALTERNATIVES, from_rules, profile};
use super::super::rules::rules;
use super::exhaustive::argument_cases;
use super::random::{double_word, table};
use super::*;

/// A profile as an engine reads it.
struct Read(Value);

impl Read {
    fn new(json: &str) -> Self {
        Self(serde_json::from_str(json).expect("a profile is JSON"))
    }

    fn entries(&self) -> &[Value] {
        self.0["syscalls"].as_array().expect("a list")
    }

    /// What libseccomp makes of it: tests of an entry go together, entries for one call are alternatives.
    fn allows(&self, name: &str, args: &[u64; 6]) -> bool {
        assert_eq!(self.0["defaultAction"], "SCMP_ACT_ERRNO");
        self.entries().iter().any(|entry| {
            let named = entry["names"].as_array().expect("names").iter().any(|other| other == name);
            let tests = entry["args"].as_array().map(Vec::as_slice).unwrap_or_default();
            let number = |test: &Value, key: &str| test[key].as_u64().expect("a number");
            named
                && entry["action"] == "SCMP_ACT_ALLOW"
                && tests.iter().all(|test| {
                    assert_eq!(test["op"], "SCMP_CMP_MASKED_EQ");
                    let argument = args[number(test, "index") as usize];
                    argument & number(test, "value") == number(test, "valueTwo")
                })
        })
    }
}

#[test]
fn it_never_allows_what_the_filter_refuses() {
    for arch in ARCHES {
        for options in all_options() {
            let read = Read::new(&profile(arch, &options).to_json());
            let table: Vec<Rule> = rules().collect();
            for rule in &table {
                let Some(number) = rule.number(arch) else { continue };
                let cases = match &rule.action {
                    Action::AllowIf(condition) | Action::AllowUnless(condition) => argument_cases(condition),
                    _ => vec![[0; 6], [u64::MAX; 6]],
                };
                for args in cases {
                    let exact = interpret(arch, &table, &options, &SeccompData::new(arch, number, args));
                    let allowed = read.allows(rule.name, &args);
                    assert!(!allowed || exact == Verdict::Allow, "{}{args:x?} is allowed on {arch:?}", rule.name);
                }
            }
        }
    }
}

/// The runtimes' library takes several tests of one argument as alternatives, which would be wider.
#[test]
fn no_entry_tests_an_argument_twice() {
    for arch in ARCHES {
        let read = Read::new(&profile(arch, &FilterOptions::default()).to_json());
        for entry in read.entries() {
            let mut indexes: Vec<_> =
                entry["args"].as_array().into_iter().flatten().map(|test| test["index"].as_u64()).collect();
            let count = indexes.len();
            indexes.sort_unstable();
            indexes.dedup();
            assert_eq!(indexes.len(), count, "{entry}");
        }
    }
}

#[test]
fn foreign_calls_are_left_to_the_kill_of_unlisted_architectures() {
    for (arch, name) in [(Arch::X86_64, "SCMP_ARCH_X86_64"), (Arch::Aarch64, "SCMP_ARCH_AARCH64")] {
        let read = Read::new(&profile(arch, &FilterOptions::default()).to_json());
        assert_eq!(read.0["architectures"], serde_json::json!([name]));
        assert!(read.0.get("archMap").is_none());
    }
}

#[test]
fn calls_that_are_said_to_be_missing_are_missing() {
    let read = Read::new(&profile(Arch::X86_64, &FilterOptions::default()).to_json());
    let missing = read.entries().iter().find(|entry| entry["errnoRet"] == 38).expect("an entry");
    let names = missing["names"].as_array().expect("names");
    let expected = rules().filter(|rule| rule.x86_64.is_some() && rule.action == Action::Refuse(Errno::NotImplemented));
    assert_eq!(
        names.iter().map(|name| name.as_str().expect("text")).collect::<Vec<_>>(),
        expected.map(|rule| rule.name).collect::<Vec<_>>()
    );
}

#[test]
fn calls_of_ordinary_programs_pass() {
    let high = 1 << 32;
    let cases: &[(&str, [u64; 6])] = &[
        ("read", [0; 6]),
        ("openat2", [0; 6]),
        ("seccomp", [1, 0, 0, 0, 0, 0]),
        ("prctl", [38, 1, 0, 0, 0, 0]),
        ("prctl", [4, 0, 0, 0, 0, 0]),
        ("prctl", [47, 4, 0, 0, 0, 0]),
        ("landlock_restrict_self", [0; 6]),
        ("clone", [0x003d_0f00, 0, 0, 0, 0, 0]),
        ("clone", [17 | high, 0, 0, 0, 0, 0]),
        ("openat", [0, 0, 0o102, 0o644, 0, 0]),
        ("openat", [0, 0, 0, u64::MAX, 0, 0]),
        ("chmod", [0, 0o1777, 0, 0, 0, 0]),
        ("mknodat", [0, 0, 0o010_644, 0, 0, 0]),
        ("fcntl", [0, 1030, 0, 0, 0, 0]),
        ("socket", [10, 0x80801, 6, 0, 0, 0]),
        ("socket", [16, 0x80003, 0, 0, 0, 0]),
        ("setsockopt", [0, 1, 2, 0, 0, 0]),
        ("setsockopt", [0, 6, 1, 0, 0, 0]),
        ("setsockopt", [0, 41, 26, 0, 0, 0]),
        ("setsockopt", [0, 270, 1, 0, 0, 0]),
        ("sendto", [0, 0, 0, 0x4000, 0, 0]),
    ];
    let requests: &[u64] = &[
        0x5401,
        0x5402,
        0x5403,
        0x5404,
        0x540e,
        0x540f,
        0x5410,
        0x5413,
        0x5414,
        0x541b,
        0x5421,
        0x5422,
        0x5441,
        0x5450,
        0x5451,
        0x5452,
        0x8004_5430,
        0x4004_5431,
        0x802c_542a,
        0x402c_542b,
        0x4004_9409,
        0x4020_940d,
        0xc018_9436,
        0x8008_6601,
        0x801c_581f,
        0xc020_660b,
        0x8008_7601,
        0x8910,
        0x8912,
        0x8913,
        0x8915,
        0x8933,
    ];
    for network in [Network::Private, Network::Host] {
        let read = Read::new(&profile(Arch::X86_64, &FilterOptions { network, notify_denied: false }).to_json());
        for (name, args) in cases {
            assert!(read.allows(name, args), "{name} {args:x?}");
        }
        for request in requests {
            assert!(read.allows("ioctl", &[0, *request, 0, 0, 0, 0]), "ioctl {request:x}");
        }
    }
}

/// Nothing in the table needs so many alternatives that it is refused altogether.
#[test]
fn every_conditional_call_is_in_it() {
    for arch in ARCHES {
        let read = Read::new(&profile(arch, &FilterOptions::default()).to_json());
        for rule in rules().filter(|rule| rule.number(arch).is_some()) {
            let named = |entry: &Value| {
                entry["names"].as_array().is_some_and(|names| names.iter().any(|name| name == rule.name))
            };
            let refused = matches!(rule.action, Action::Refuse(Errno::NotPermitted));
            assert_eq!(read.entries().iter().any(named), !refused, "{}", rule.name);
        }
        let longest = read.entries().chunk_by(|a, b| a["names"] == b["names"]).map(<[Value]>::len).max();
        assert!(longest.is_some_and(|longest| longest <= MOST_ALTERNATIVES), "{longest:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_any_table_it_is_never_wider(
        table in table(),
        arguments in prop::collection::vec(prop::array::uniform6(double_word()), 1..40),
        host in any::<bool>(),
    ) {
        let network = if host { Network::Host } else { Network::Private };
        let options = FilterOptions { network, notify_denied: false };
        // One call at a time: the rows of a random table all have the same name.
        for row in &table {
            let (arch, number) = (Arch::X86_64, row.x86_64.unwrap_or_default());
            let read = Read::new(&from_rules(arch, std::iter::once(*row), &options).to_json());
            let program = checked(compile_rules(arch, std::iter::once(*row), &options));
            for args in &arguments {
                let exact = verdict(&program, &SeccompData::new(arch, number, *args));
                prop_assert!(!read.allows(row.name, args) || exact == Verdict::Allow, "{:?} {:x?}", row.action, args);
            }
        }
    }
}
