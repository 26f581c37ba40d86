//! A value that must not be printed.

use std::fmt;

use serde::{Serialize, Serializer};

const SHOWN: &str = "[secret]";

/// Holds a value that `Debug`, `Display` and `Serialize` show as `[secret]`.
///
/// ```
/// use hotcell_core::secret::Secret;
/// let key = Secret::new("hunter2".to_owned());
/// assert_eq!(format!("{key} {key:?}"), "[secret] [secret]");
/// assert_eq!(key.expose(), "hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; every call is a place to look at in a review.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

impl<T> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn json_does_not_show_it() {
        assert_eq!(serde_json::to_string(&Secret::new(42)).unwrap(), "\"[secret]\"");
    }
}
