//! Policies for common cases, by name.
//!
//! A preset takes the place of the defaults: files, variables and flags say more, and a project file can still only tighten.
//! Its workspace is the directory that somebody works in.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::config::{Bound, Config, FilesystemConfig, Layer, Origin, Sourced};
use crate::policy::{Access, NetworkMode};
use crate::suggest::{did_you_mean, nearest};
use crate::text::Printable;

/// The name of a policy for a common case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// The workspace can be read.
    ReadOnly,
    /// The workspace is written directly.
    WorkspaceWrite,
    /// The workspace is written in an overlay.
    WorkspaceOverlay,
    /// As an overlay, and nothing opens the network.
    Offline,
    /// As an overlay, with a network and room for packages.
    PackageInstall,
}

impl Preset {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 5] =
        [Self::ReadOnly, Self::WorkspaceWrite, Self::WorkspaceOverlay, Self::Offline, Self::PackageInstall];

    /// The name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::WorkspaceOverlay => "workspace-overlay",
            Self::Offline => "offline",
            Self::PackageInstall => "package-install",
        }
    }

    /// What it grants, in a sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::ReadOnly => "the workspace can be read, nothing of yours can be changed; no network",
            Self::WorkspaceWrite => "the workspace is written directly; no network",
            Self::WorkspaceOverlay => "the workspace is written in a layer that you commit or throw away; no network",
            Self::Offline => {
                "the workspace is written in a layer; no network, and neither another setting nor another preset can open one"
            }
            Self::PackageInstall => {
                "the workspace is written in a layer; the host's whole network, and room for packages"
            }
        }
    }

    /// The preset as a `hotcell.toml` that one can edit. As a file of the user's own it makes the same policy; its limits then
    /// are asked for, and its network no longer holds against other settings.
    ///
    /// ```
    /// use hotcell_core::config::{Config, Layer};
    /// use hotcell_core::presets::Preset;
    /// let text = Preset::WorkspaceWrite.toml();
    /// let config = Config::parse(text, "hotcell.toml", Layer::User)?;
    /// assert_eq!(config.filesystem.write[0].value.to_str(), Some("."));
    /// # Ok::<(), hotcell_core::config::ConfigError>(())
    /// ```
    pub fn toml(self) -> &'static str {
        match self {
            Self::ReadOnly => include_str!("presets/read-only.toml"),
            Self::WorkspaceWrite => include_str!("presets/workspace-write.toml"),
            Self::WorkspaceOverlay => include_str!("presets/workspace-overlay.toml"),
            Self::Offline => include_str!("presets/offline.toml"),
            Self::PackageInstall => include_str!("presets/package-install.toml"),
        }
    }

    /// Puts the preset into a layer of defaults: what it says wins over what was there, except for limits that the caller has lifted.
    pub(crate) fn add_to(self, defaults: &mut Config, workspace: Option<&Path>) {
        if let Some(workspace) = workspace {
            self.show(&mut defaults.filesystem, workspace);
        }
        defaults.network.mode = Some(self.sourced(self.network()));
        if self == Self::PackageInstall {
            let limits = &mut defaults.limits;
            self.bound(&mut limits.memory, 8 << 30);
            self.bound(&mut limits.disk, 4 << 30);
            self.bound(&mut limits.processes, 1024);
            self.bound(&mut limits.open_files, 8192);
            self.bound(&mut limits.timeout, Duration::from_secs(30 * 60));
            self.bound(&mut limits.cpu_time, Duration::from_secs(2 * 60 * 60));
        }
    }

    fn show(self, files: &mut FilesystemConfig, workspace: &Path) {
        for rules in [&mut files.read, &mut files.write, &mut files.overlay] {
            rules.retain(|rule| rule.value != workspace);
        }
        let rules = match self.access() {
            Access::Write => &mut files.write,
            Access::Overlay => &mut files.overlay,
            _ => &mut files.read,
        };
        rules.push(self.sourced(workspace.to_owned()));
    }

    /// What may be done with the workspace.
    pub fn access(self) -> Access {
        match self {
            Self::ReadOnly => Access::Read,
            Self::WorkspaceWrite => Access::Write,
            Self::WorkspaceOverlay | Self::Offline | Self::PackageInstall => Access::Overlay,
        }
    }

    /// Whether there is a network.
    pub fn network(self) -> NetworkMode {
        if self == Self::PackageInstall { NetworkMode::Open } else { NetworkMode::Deny }
    }

    /// Whether nothing else may open the network while somebody names it: neither a setting nor another preset.
    pub fn holds_network(self) -> bool {
        self == Self::Offline
    }

    fn sourced<T>(self, value: T) -> Sourced<T> {
        let origin = Origin { name: Some(format!("the preset {self}")), ..Origin::layer(Layer::Default) };
        Sourced::new(value, origin)
    }

    /// Sets a limit, unless the caller has lifted it: a shell or an agent's box lives until somebody ends it, whatever the preset.
    fn bound<T>(self, limit: &mut Option<Sourced<Bound<T>>>, value: T) {
        if !matches!(limit, Some(Sourced { value: Bound::Unlimited, .. })) {
            *limit = Some(self.sourced(Bound::At(value)));
        }
    }
}

/// A preset that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a preset{}; presets: {}", Printable(.name), did_you_mean(.suggestion), known_names())]
pub struct UnknownPreset {
    /// What was written.
    pub name: String,
    /// The nearest name.
    pub suggestion: Option<String>,
}

fn known_names() -> String {
    Preset::ALL.map(Preset::as_str).join(", ")
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == name).ok_or_else(|| UnknownPreset {
            name: name.to_owned(),
            suggestion: nearest(name, Self::ALL.map(Self::as_str)).map(str::to_owned),
        })
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Preset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
