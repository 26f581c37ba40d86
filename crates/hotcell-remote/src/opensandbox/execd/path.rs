//! Paths in a sandbox, and which of them can be named.

use super::super::super::http::CallError;
use super::Execd;

impl Execd {
    /// Execd puts the values of variables into paths and knows no way to write a `$` that is none, and takes paths that are
    /// not absolute from wherever it was started. A path that would lead elsewhere is refused.
    pub(super) fn named<'a>(&self, operation: &'static str, path: &'a str) -> Result<&'a str, CallError> {
        match path {
            _ if !path.starts_with('/') => {
                Err(self.impossible(operation, format!("the path `{path}` is not absolute")))
            }
            _ if path.contains('$') => {
                Err(self
                    .impossible(operation, format!("the path `{path}` has a `$` in it, which it takes as a variable")))
            }
            _ if path.contains('\0') => Err(self.impossible(operation, "a path has a NUL in it")),
            _ => Ok(path),
        }
    }
}
