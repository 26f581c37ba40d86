//! Why layers do not make a policy.

use std::path::PathBuf;

use crate::config::{ConfigError, Origin};
use crate::presets::Preset;
use crate::text::{Printable, PrintablePath};

/// Why the layers of configuration do not make a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// One layer is wrong in itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A path that cannot be one.
    #[error("{at}: `{key}` cannot name `{}`: {reason}", PrintablePath(.path))]
    BadPath {
        /// Where it was written.
        at: Box<Origin>,
        /// The key.
        key: &'static str,
        /// The path as written.
        path: PathBuf,
        /// Why not, and what to write instead.
        reason: String,
    },
    /// A relative path that leaves the root, or a project file's path outside it.
    #[error("{at}: `{key}` names `{}`, which is outside of `{}`; {instead}", PrintablePath(.path), PrintablePath(.root))]
    PathOutsideRoot {
        /// Where it was written.
        at: Box<Origin>,
        /// The key.
        key: &'static str,
        /// The path as written.
        path: PathBuf,
        /// The root.
        root: PathBuf,
        /// What to write instead.
        instead: &'static str,
    },
    /// One layer says two different things about the same path or variable.
    #[error("{at}: `{key}` contradicts `{earlier_key}` at {earlier}: both name `{}`; keep one", Printable(.name))]
    Contradiction {
        /// The later of the two.
        at: Box<Origin>,
        /// Its key.
        key: &'static str,
        /// The earlier of the two.
        earlier: Box<Origin>,
        /// Its key.
        earlier_key: &'static str,
        /// The path or variable.
        name: String,
    },
    /// A project file asks for more than the user grants.
    #[error("{at}: a project file can only tighten: `{key}` asks for {}, but {}; if you trust it, {instead}",
        Printable(.asked), Printable(.allowed))]
    ProjectLoosens {
        /// Where it was written.
        at: Box<Origin>,
        /// The key.
        key: String,
        /// What it asks for.
        asked: String,
        /// What the user's own layers grant.
        allowed: String,
        /// What the user would have to write.
        instead: String,
    },
    /// A layer asks for what the chosen preset holds closed.
    #[error(
        "{at}: `{key}` asks for {asked}, but {chosen} chooses the preset `{preset}`, which holds that closed; drop one of the two"
    )]
    HeldByPreset {
        /// Where it was written.
        at: Box<Origin>,
        /// The key.
        key: &'static str,
        /// What it asks for.
        asked: &'static str,
        /// The preset.
        preset: Preset,
        /// Where the preset was chosen.
        chosen: Box<Origin>,
    },
    /// A limit or variable that a program gave and no kernel can hold.
    #[error("{at}: `{key}` {reason}")]
    BadValue {
        /// Where it came from.
        at: Box<Origin>,
        /// The key.
        key: String,
        /// Why not.
        reason: String,
    },
}
