//! What an image says about how it is meant to be run.

use crate::platform;

/// An image's own defaults. They were written by whoever made the image: text to judge, not orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageConfig {
    /// Variables, each `NAME=VALUE`.
    pub env: Vec<String>,
    /// Where programs start; `/` if it is empty.
    pub working_dir: String,
    /// The user (and group, after a colon) as a name or number; root if it is empty.
    pub user: String,
    /// What is always run.
    pub entrypoint: Vec<String>,
    /// Arguments of the entrypoint, or the command if there is none.
    pub cmd: Vec<String>,
    /// The processor it was built for, as images call it: `amd64`, `arm64`, …
    pub architecture: String,
}

impl Default for ImageConfig {
    /// Nothing, for this machine's architecture.
    fn default() -> Self {
        Self {
            env: Vec::new(),
            working_dir: String::new(),
            user: String::new(),
            entrypoint: Vec::new(),
            cmd: Vec::new(),
            architecture: platform::architecture().to_owned(),
        }
    }
}
