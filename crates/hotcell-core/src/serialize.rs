//! How durations and paths look in reports: milliseconds, and text even when a path is not UTF-8.

use std::path::Path;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Whole milliseconds; a report needs no more and JSON numbers stay exact.
pub(crate) fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_millis(*duration))
}

/// Whole milliseconds, or null.
pub(crate) fn optional_millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(whole_millis).serialize(serializer)
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// serde refuses paths that are not UTF-8; a report must not fail because of a file name.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Like [`path`], for an optional one.
pub(crate) fn optional_path<S: Serializer>(
    path: &Option<std::path::PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
