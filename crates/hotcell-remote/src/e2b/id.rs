//! The name of a sandbox, which becomes part of a host name and of paths.

use std::fmt;
use std::str::FromStr;

use hotcell_core::text::Printable;

/// The name of a sandbox: lowercase letters, digits and `-`, so that it stays one name wherever it is put.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxId(String);

/// With a port and a dash in front it must be one label of a host name, which has at most 63 characters.
const LONGEST: usize = 63 - "65535-".len();

/// A name that no sandbox can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the id of a sandbox: lowercase letters, digits and `-`, at most {LONGEST} of them", Printable(.0))]
pub struct IdError(String);

impl SandboxId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let edges = text.starts_with('-') || text.ends_with('-');
        if text.is_empty() || text.len() > LONGEST || edges || !text.bytes().all(known) {
            return Err(IdError(text.chars().take(2 * LONGEST).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_one_name_everywhere_is_an_id() {
        for good in ["i1", "abc123", "0", "9a-b", &"a".repeat(LONGEST)] {
            assert_eq!(good.parse::<SandboxId>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "../x",
            "a.evil.example",
            "a/b",
            "a@b",
            "a:1",
            "A",
            "a b",
            "a%2e",
            "a?b",
            "a#b",
            "a\\b",
            "a\n",
            "-a",
            "a-",
            "ä",
            "a\0",
            &"a".repeat(LONGEST + 1),
        ] {
            bad.parse::<SandboxId>().unwrap_err();
        }
    }

    #[test]
    fn a_wrong_id_is_not_repeated_at_any_length() {
        assert!("a/".repeat(1 << 20).parse::<SandboxId>().unwrap_err().to_string().len() < 500);
    }
}
