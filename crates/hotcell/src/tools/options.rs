//! What a toolbox is made of.

use std::path::PathBuf;
use std::time::Duration;

use hotcell_core::policy::Policy;
use hotcell_core::text::{Printable, PrintablePath};

use crate::EngineError;
use crate::interpreter::Languages;

/// What a toolbox is made of. Everything a model asks for can only be narrower than this.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolboxOptions {
    /// What the code in the box may do.
    pub policy: Policy,
    /// The directory that relative paths start from; one that the policy shows.
    pub workspace: PathBuf,
    /// The languages of `run_code`.
    pub languages: Languages,
    /// The tools that there are; none means all that the policy has a use for.
    pub tools: Option<Vec<String>>,
    /// How much of everything a result holds.
    pub limits: ToolLimits,
}

impl ToolboxOptions {
    /// For boxes of this policy, with this workspace.
    pub fn new(policy: Policy, workspace: impl Into<PathBuf>) -> Self {
        Self {
            policy,
            workspace: workspace.into(),
            languages: Languages::default(),
            tools: None,
            limits: ToolLimits::default(),
        }
    }
}

/// How much a result holds, and how long a call takes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ToolLimits {
    /// The most bytes of text of each stream or file in a result: half from its head, half from its tail.
    pub text: usize,
    /// The most entries of a list.
    pub entries: usize,
    /// The most bytes of a file that is read, written or edited.
    pub file: u64,
    /// The most bytes of an image.
    pub image: u64,
    /// The most processes in the background.
    pub background: usize,
    /// How long a call takes unless it says otherwise.
    pub timeout: Duration,
    /// The longest that a call may ask for.
    pub longest: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            text: 32 << 10,
            entries: 1000,
            file: 8 << 20,
            image: 4 << 20,
            background: 16,
            timeout: Duration::from_secs(120),
            longest: Duration::from_secs(600),
        }
    }
}

/// Why there is no toolbox. Nothing is left of a box that was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The box could not be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The workspace cannot be used.
    #[error("`{}` cannot be the workspace: {reason}; name a directory that the policy shows", PrintablePath(.path))]
    Workspace {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no such tool.
    #[error("there is no tool `{}`; the tools are {known}", Printable(.name))]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
}
