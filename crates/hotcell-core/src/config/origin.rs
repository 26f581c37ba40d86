//! Where a value was written.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::text::{Printable, PrintablePath};

/// The sources of configuration, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Layer {
    /// Built in.
    Default,
    /// The user's own file.
    User,
    /// The file of the project that the code runs in: it may only tighten, because a stranger may have written it.
    Project,
    /// `HOTCELL_*` variables.
    Environment,
    /// Command-line flags.
    Flags,
    /// The program that calls the library.
    Api,
}

impl Layer {
    /// A few words for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User => "user file",
            Self::Project => "project file",
            Self::Environment => "environment",
            Self::Flags => "flags",
            Self::Api => "the calling program",
        }
    }
}

/// Where a value was written; displayed as `hotcell.toml:3`, `HOTCELL_MEMORY`, `--memory` or the layer's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// The file, for values from files.
    pub file: Option<PathBuf>,
    /// The line in the file, counted from 1.
    pub line: Option<u32>,
    /// The flag or variable, for values from those.
    pub name: Option<String>,
}

impl Origin {
    /// Somewhere in this layer.
    pub fn layer(layer: Layer) -> Self {
        Self { layer, file: None, line: None, name: None }
    }

    /// A flag, written as the user writes it: `--memory`.
    pub fn flag(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::layer(Layer::Flags) }
    }

    /// An environment variable.
    pub fn variable(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::layer(Layer::Environment) }
    }

    /// A line of a file.
    pub fn line(layer: Layer, file: impl Into<PathBuf>, line: u32) -> Self {
        Self { file: Some(file.into()), line: Some(line), ..Self::layer(layer) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.file, self.line) {
            (Some(name), _, _) => Printable(name).fmt(f),
            (None, Some(file), Some(line)) => write!(f, "{}:{line}", PrintablePath(file)),
            (None, Some(file), None) => PrintablePath(file).fmt(f),
            (None, None, _) => f.write_str(self.layer.as_str()),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// A value from this place.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}
