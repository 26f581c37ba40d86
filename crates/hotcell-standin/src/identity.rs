//! Names of users and groups, and names that nobody else has.

use std::fs::{self, File};
use std::io::Read;

/// The name of a user, or the number as text.
pub(crate) fn user_name(uid: u32) -> String {
    name("/etc/passwd", uid)
}

/// The name of a group, or the number as text.
pub(crate) fn group_name(gid: u32) -> String {
    name("/etc/group", gid)
}

/// The number of a user.
pub(crate) fn user_number(name: &str) -> Option<u32> {
    number("/etc/passwd", name)
}

/// The number of a group.
pub(crate) fn group_number(name: &str) -> Option<u32> {
    number("/etc/group", name)
}

fn name(table: &str, number: u32) -> String {
    let text = fs::read_to_string(table).unwrap_or_default();
    let wanted = number.to_string();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    });
    found.unwrap_or(wanted)
}

fn number(table: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(table).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Random bytes as hexadecimal digits, `length` of them.
pub(crate) fn random_hex(length: usize) -> String {
    let mut bytes = vec![0; length.div_ceil(2)];
    // Where there is no randomness, names that come twice are the least of a test's worries.
    let _ = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(length);
    text
}

/// A random name in the form of a version 4 UUID.
pub(crate) fn uuid() -> String {
    let digits = random_hex(30);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_match() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_number("root"), Some(0));
        assert_eq!(group_number(&group_name(0)), Some(0));
        assert_eq!(user_name(4_000_000_001), "4000000001");
        assert_eq!(uuid().len(), 36);
        assert_ne!(uuid(), uuid());
    }
}
