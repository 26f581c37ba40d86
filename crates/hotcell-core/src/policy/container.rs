//! What containers and virtual machines are made of: their root file system, and who runs them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// What containers and virtual machines are made of. Backends without images have no use for it.
///
/// ```
/// use hotcell_core::policy::{Policy, PullPolicy};
/// let policy = Policy::builder().image("debian:12").pull(PullPolicy::Never).build()?;
/// assert_eq!(policy.container.image.as_deref(), Some("debian:12"));
/// # Ok::<(), hotcell_core::layers::PolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ContainerPolicy {
    /// The image; none means that of the backend.
    pub image: Option<String>,
    /// The OCI runtime by which containers run, as a name or an absolute path; none means that of the backend.
    pub runtime: Option<String>,
    /// Whether an image may be fetched.
    pub pull: PullPolicy,
}

/// Whether an image is fetched from its registry; ordered by how much is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PullPolicy {
    /// Never: an image that is not here is an error.
    Never,
    /// When it is not here.
    #[default]
    Missing,
    /// Before every box.
    Always,
}

impl PullPolicy {
    /// The name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Missing => "missing",
            Self::Always => "always",
        }
    }
}

/// A pull policy that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an image is pulled \"never\", when it is \"missing\", or \"always\"")]
pub struct UnknownPullPolicy;

impl FromStr for PullPolicy {
    type Err = UnknownPullPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPullPolicy> {
        [Self::Never, Self::Missing, Self::Always]
            .into_iter()
            .find(|policy| policy.as_str() == name)
            .ok_or(UnknownPullPolicy)
    }
}

impl fmt::Display for PullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for PullPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The longest name of an image, registry, path, tag and digest together.
const LONGEST_NAME: usize = 512;

/// Why this cannot name an image. Whether it exists is not looked at.
pub(crate) fn check_image(name: &str) -> Result<(), &'static str> {
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME {
        Err("an image's name has 1 to 512 characters")
    } else if !name.bytes().all(possible) || !name.as_bytes()[0].is_ascii_alphanumeric() {
        Err("write it as NAME, NAME:TAG or NAME@sha256:DIGEST")
    } else {
        Ok(())
    }
}

/// Why this cannot name an OCI runtime. Whether it exists is not looked at.
pub(crate) fn check_runtime(name: &str) -> Result<(), &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) && name.bytes().all(plain);
    let is_path = name.starts_with('/') && !name.contains('\0') && name.len() < 4096;
    if is_name || is_path { Ok(()) } else { Err("write a name such as runc, crun or runsc, or an absolute path") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_options_and_no_surprises() {
        for good in ["debian", "debian:12", "registry.example.org:5000/a/b:c", "a@sha256:0123", "sha256:0123"] {
            assert_eq!(check_image(good), Ok(()), "{good}");
        }
        for bad in ["", "-v", "a b", "a\n", "a\0", ".", "/etc", &"a".repeat(513)] {
            assert!(check_image(bad).is_err(), "{bad:?}");
        }
        for good in ["runc", "runsc", "io.containerd.runc.v2", "/usr/bin/crun"] {
            assert_eq!(check_runtime(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "./runc", "a b", "/a\0b"] {
            assert!(check_runtime(bad).is_err(), "{bad:?}");
        }
    }
}
