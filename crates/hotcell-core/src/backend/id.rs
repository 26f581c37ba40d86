//! Names of boxes and of the commands in them.

use std::fmt;

use serde::Serialize;

/// The name of a box: 1 to 64 of `a-z`, `0-9` and `-`, so that it can be part of a path, a cgroup or a host name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SandboxId(String);

/// A text that is no sandbox id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox id is 1 to 64 characters of a-z, 0-9 and `-`, and starts with a letter or digit")]
pub struct BadSandboxId;

impl SandboxId {
    /// Checks the text.
    pub fn new(text: impl Into<String>) -> Result<Self, BadSandboxId> {
        let text = text.into();
        let well_formed = !text.starts_with('-')
            && (1..=64).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if well_formed { Ok(Self(text)) } else { Err(BadSandboxId) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The number of a command in its box. Not a process id of the host: nothing is ever killed by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ProcessId(pub u64);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::SandboxId;

    #[test]
    fn ids_cannot_be_paths() {
        for bad in ["", "-a", "a/b", "..", "A", "a b", "a\0", &"a".repeat(65)] {
            assert!(SandboxId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(SandboxId::new("box-7f").unwrap().as_str(), "box-7f");
    }
}
