//! The table against a list of all system calls.

use std::collections::BTreeMap;

use super::super::rules::rules;
use super::*;

/// The 32-bit ABI's calls with 64-bit times. The list has them for aarch64 too, whose kernel does not.
const TIME64_CALLS: std::ops::RangeInclusive<u32> = 403..=423;

fn known_calls(arch: Arch) -> BTreeMap<u32, &'static str> {
    (0..=600usize)
        .filter_map(|number| {
            let name = match arch {
                Arch::X86_64 => syscalls::x86_64::Sysno::new(number)?.name(),
                Arch::Aarch64 => syscalls::aarch64::Sysno::new(number)?.name(),
            };
            Some((u32::try_from(number).ok()?, name))
        })
        .filter(|(number, _)| arch == Arch::X86_64 || !TIME64_CALLS.contains(number))
        .map(|(number, name)| match name {
            // The kernel's name for it on aarch64 is the one that x86_64 uses.
            "fstatat" => (number, "newfstatat"),
            _ => (number, name),
        })
        .collect()
}

#[test]
fn every_call_has_exactly_one_row_with_the_right_number() {
    for arch in ARCHES {
        let mut table = BTreeMap::new();
        for rule in rules() {
            if let Some(number) = rule.number(arch) {
                let earlier = table.insert(number, rule.name);
                assert_eq!(earlier, None, "{arch:?}: two rows for number {number}");
            }
        }
        assert_eq!(table, known_calls(arch), "{arch:?}");
    }
}

#[test]
fn numbers_agree_with_the_c_library_of_this_machine() {
    let Some(arch) = Arch::native() else { return };
    for (name, number) in [
        ("read", libc::SYS_read),
        ("clone", libc::SYS_clone),
        ("ioctl", libc::SYS_ioctl),
        ("socket", libc::SYS_socket),
        ("prctl", libc::SYS_prctl),
        ("mount", libc::SYS_mount),
        ("clone3", libc::SYS_clone3),
    ] {
        let rule = u32::try_from(number).ok().and_then(|number| super::super::rule(arch, number));
        assert_eq!(rule.map(|rule| rule.name), Some(name));
    }
}

#[test]
fn every_row_has_a_reason() {
    for rule in rules() {
        assert!(rule.why.len() > 10, "{} has no reason", rule.name);
        assert!(rule.x86_64.is_some() || rule.aarch64.is_some(), "{} has no number", rule.name);
    }
}
