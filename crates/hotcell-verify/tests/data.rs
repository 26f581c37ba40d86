//! The checks as data: nothing is named twice, nothing names what is not there.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

use std::collections::BTreeSet;

use hotcell_verify::check::Attempt;
use hotcell_verify::{Group, checks, cve, expect};

fn ids() -> BTreeSet<&'static str> {
    checks::all().map(|check| check.id).collect()
}

#[test]
fn every_check_has_a_name_of_its_own_in_its_group() {
    assert_eq!(ids().len(), checks::all().count());
    for check in checks::all() {
        let (group, name) = check.id.split_once('.').unwrap();
        assert_eq!(group, check.group.as_str(), "{}", check.id);
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", check.id);
    }
}

#[test]
fn every_attack_says_what_it_tries_and_what_is_safe() {
    for check in checks::all() {
        assert!(!check.tries.is_empty(), "{}", check.id);
        assert!(check.group == Group::Work || !check.safe.is_empty(), "{}", check.id);
        assert!(!check.tries.ends_with('.') && !check.safe.ends_with('.'), "{}", check.id);
    }
}

#[test]
fn there_are_enough_attacks_in_every_group() {
    let attacks = checks::all().filter(|check| check.group != Group::Work).count();
    assert!(attacks >= 110, "{attacks}");
    for group in Group::ALL {
        assert!(checks::all().filter(|check| check.group == *group).count() >= 10, "{group}");
    }
}

#[test]
fn every_word_in_braces_stands_for_something() {
    let arena = hotcell_verify::arena::Arena::new().unwrap();
    for check in checks::all() {
        let Attempt::Intruder(words) = check.attempt else { continue };
        for word in words {
            let expanded = arena.expand(word).unwrap().into_string().unwrap();
            assert!(!expanded.contains('{'), "{}: {word}", check.id);
        }
    }
}

#[test]
fn known_vulnerabilities_and_checks_name_each_other() {
    let ids = ids();
    let mut recorded = BTreeSet::new();
    for record in cve::RECORDS {
        assert!(recorded.insert(record.id), "{} is there twice", record.id);
        assert!(!record.checks.is_empty() || record.absent.is_some(), "{} is proven by nothing", record.id);
        for check in record.checks {
            assert!(ids.contains(check), "{} is proven by {check}, which does not exist", record.id);
        }
    }
    for check in checks::all() {
        for cve in check.cves {
            assert!(recorded.contains(cve), "{} names {cve}, of which there is no record", check.id);
        }
    }
}

#[test]
fn known_gaps_are_gaps_of_checks_that_exist() {
    let ids = ids();
    let mut seen = BTreeSet::new();
    for gap in expect::all() {
        assert!(ids.contains(gap.check), "{gap:?}");
        assert!(seen.insert((gap.sandbox, gap.check)), "{gap:?} is there twice");
        assert_ne!(gap.sandbox, "native", "native boxes have no known gaps");
    }
}
