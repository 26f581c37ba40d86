//! How far something is.

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Bytes are read from a file.
    Reading,
    /// Bytes come from a registry.
    Downloading,
}

impl Step {
    /// As one says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Downloading => "downloading",
        }
    }
}

/// A piece of work went on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// To what: the short digest of a blob, or the name of a file. Safe to print.
    pub what: String,
    /// Bytes done of it.
    pub done: u64,
    /// Bytes of it in all, where that is known.
    pub total: Option<u64>,
}

/// Tells nobody.
pub fn silent(_: Progress) {}
