//! Which `envd` is in a sandbox, and what it can.

use std::fmt;

use hotcell_core::text::Printable;

/// The version of the `envd` in a sandbox, `0.6.4`. One that cannot be read is older than every other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvdVersion {
    numbers: [u32; 3],
    text: String,
}

/// Something that `envd` can do since a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ability {
    pub(super) what: &'static str,
    since: [u32; 3],
}

impl Ability {
    pub(super) const RECURSIVE_WATCH: Self = Self { what: "watch what is below a directory", since: [0, 1, 4] };
    pub(super) const METRICS: Self = Self { what: "measure itself", since: [0, 1, 5] };
    pub(super) const NO_STDIN: Self = Self { what: "start a command without standard input", since: [0, 3, 0] };
    pub(super) const DEFAULT_USER: Self = Self { what: "choose the user by itself", since: [0, 4, 0] };
    pub(super) const CLOSE_STDIN: Self = Self { what: "close a command's standard input", since: [0, 5, 2] };
    pub(super) const RAW_UPLOAD: Self = Self { what: "take a file as it is", since: [0, 5, 7] };
}

impl EnvdVersion {
    pub(super) fn parse(text: &str) -> Self {
        let mut numbers = [0; 3];
        let plain = text.trim().trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
        let parts: Vec<Option<u32>> = plain.split('.').map(|part| part.parse().ok()).collect();
        if let [Some(major), Some(minor), Some(patch)] = parts[..] {
            numbers = [major, minor, patch];
        }
        Self { numbers, text: text.chars().take(40).collect() }
    }

    pub(super) fn can(&self, ability: Ability) -> bool {
        self.numbers >= ability.since
    }

    /// What is said where it cannot.
    pub(super) fn lack(&self, ability: Ability) -> String {
        let [major, minor, patch] = ability.since;
        format!("{} with envd {self} in the sandbox; {major}.{minor}.{patch} and newer can", ability.what)
    }
}

impl fmt::Display for EnvdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.is_empty() { f.write_str("of unknown version") } else { write!(f, "{}", Printable(&self.text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_come_with_their_version_and_never_with_an_unreadable_one() {
        for (text, can) in [
            ("0.5.2", true),
            ("0.5.10", true),
            ("v0.6.13", true),
            ("1.0.0-rc.1", true),
            ("99.99.99", true),
            ("0.5.1", false),
            ("0.4.99", false),
            ("", false),
            ("latest", false),
            ("0.5", false),
            ("0.5.2.1", false),
            ("99999999999.0.0", false),
        ] {
            assert_eq!(EnvdVersion::parse(text).can(Ability::CLOSE_STDIN), can, "{text}");
        }
        assert!(EnvdVersion::parse("0.5.1").lack(Ability::CLOSE_STDIN).contains("0.5.2"));
    }
}
