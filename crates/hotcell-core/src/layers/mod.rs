//! How defaults, files, environment and flags become one policy.
//!
//! Later layers win: defaults < user file < project file < environment < flags. Three things go beyond that:
//!
//! **A project file can only tighten.** It is written by whoever wrote the code. Everything it asks for must already
//! be granted by the other layers, otherwise the run is refused with the line and what the user would have to write
//! themselves. So adding a project file never grants more.
//!
//! **A preset takes the place of the defaults.** What it holds, such as the closed network of `offline`, no other layer can
//! undo while somebody names it, not even by naming another preset.
//!
//! **A deny or a protected name holds** against every other layer that names the same path, except a flag: a flag is
//! what the user says now.

mod error;
mod filesystem;
mod paths;
mod preset;
mod project;
mod remote;
mod resolve;

use std::path::PathBuf;

pub use error::PolicyError;
pub use preset::resolve_preset;
pub use remote::resolve_remote;
pub use resolve::{resolve, resolve_languages, resolve_runtime};

use crate::config::Config;

/// The layers, each as it was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layers {
    /// What the caller grants by default, beyond [`crate::policy::Policy::default`]: for instance the current directory,
    /// readable.
    pub defaults: Config,
    /// The user's own file.
    pub user: Option<Config>,
    /// The project's file.
    pub project: Option<Config>,
    /// From [`crate::config::environment_config`].
    pub environment: Config,
    /// From the command line, or from the calling program.
    pub flags: Config,
    /// What a preset is for.
    pub workspace: Workspace,
}

/// The directory that the rules of a preset are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Workspace {
    /// The directory that relative paths start from.
    #[default]
    Root,
    /// This one.
    At(PathBuf),
    /// None: one that is not shown by default, such as a home directory. What the preset says of other things holds.
    Hidden,
}

/// What the text of the layers is relative to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// The directory that relative paths start from, absolute: the project file's, or the current one.
    pub root: PathBuf,
    /// The home directory that `~` stands for.
    pub home: Option<PathBuf>,
}
