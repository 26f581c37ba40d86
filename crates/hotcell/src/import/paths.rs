//! Paths as other sandboxes write them.

use std::path::{Component, Path, PathBuf};

use super::ImportError;
use super::tree::Entry;

/// What paths are relative to.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) workspace: PathBuf,
    pub(super) home: Option<PathBuf>,
}

/// A path as it is written into the policy, and the place that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) written: String,
    pub(super) absolute: PathBuf,
}

/// Why a path cannot be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// It stands for many.
    Pattern,
    /// It is relative and leads out of the workspace.
    Outside,
    /// Somebody else's home, or a home that is not known.
    Home,
}

impl NoPlace {
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Pattern => "it is a pattern, and a rule of Hotcell's names one path with all that is beneath it",
            Self::Outside => "it is relative and leads out of the workspace",
            Self::Home => "only your own home can be written as `~`",
        }
    }

    pub(super) fn instead(self) -> &'static str {
        match self {
            Self::Pattern => "name the paths that it means",
            Self::Outside | Self::Home => "write it as an absolute path",
        }
    }
}

impl Places {
    /// The place that a text stands for.
    pub(super) fn of(&self, entry: &Entry<'_>, text: &str) -> Result<Result<Place, NoPlace>, ImportError> {
        if text.is_empty() || text.contains('\0') {
            return Err(entry.bad_value("is no path: it is empty or has a NUL byte in it"));
        }
        if text.contains(['*', '?', '[', ']', '{', '}']) {
            return Ok(Err(NoPlace::Pattern));
        }
        Ok(self.literal(text))
    }

    /// The place that a text stands for, in which no character has a meaning of its own.
    pub(super) fn literal(&self, text: &str) -> Result<Place, NoPlace> {
        let path = Path::new(text);
        if path.is_absolute() {
            let absolute = normal(path);
            return Ok(Place { written: absolute.to_string_lossy().into_owned(), absolute });
        }
        if let Ok(rest) = path.strip_prefix("~") {
            let home = self.home.as_deref().ok_or(NoPlace::Home)?;
            let inside = beneath(rest).ok_or(NoPlace::Outside)?;
            let written = Path::new("~").join(&inside).to_string_lossy().trim_end_matches('/').to_owned();
            return Ok(Place { written, absolute: normal(&home.join(inside)) });
        }
        if text.starts_with('~') {
            return Err(NoPlace::Home);
        }
        let inside = beneath(path).ok_or(NoPlace::Outside)?;
        let written =
            if inside.as_os_str().is_empty() { ".".to_owned() } else { inside.to_string_lossy().into_owned() };
        Ok(Place { written, absolute: normal(&self.workspace.join(inside)) })
    }

    /// The workspace itself.
    pub(super) fn workspace(&self) -> Place {
        Place { written: ".".to_owned(), absolute: normal(&self.workspace) }
    }

    /// A path beneath a place.
    pub(super) fn inside(&self, place: &Place, text: &str) -> Result<Place, NoPlace> {
        if text.contains(['*', '?', '[', ']', '{', '}']) {
            return Err(NoPlace::Pattern);
        }
        let path = Path::new(text);
        let inside = if path.is_absolute() { None } else { beneath(path) }.ok_or(NoPlace::Outside)?;
        if inside.as_os_str().is_empty() {
            return Ok(place.clone());
        }
        let written = if place.written == "." { inside.clone() } else { Path::new(&place.written).join(&inside) };
        Ok(Place { written: written.to_string_lossy().into_owned(), absolute: normal(&place.absolute.join(inside)) })
    }
}

/// The path without `.` and `..`; none if it leads above its start.
fn beneath(path: &Path) -> Option<PathBuf> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop()?;
            }
            _ => {}
        }
    }
    Some(names.iter().collect())
}

/// An absolute path without `.` and `..`, by its text.
fn normal(path: &Path) -> PathBuf {
    Path::new("/").join(beneath_root(path))
}

fn beneath_root(path: &Path) -> PathBuf {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            _ => {}
        }
    }
    names.iter().collect()
}

/// What is said of a place that a box has of its own.
pub(super) const BOXES_OWN: &str = "a box has a /dev, /proc and /sys of its own, and nothing of the host's in them";

/// Whether a path is in a place that a box has of its own: the host's would show other processes and devices.
pub(super) fn is_boxes_own(path: &Path) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|place| path.starts_with(place))
}

/// Devices that a box has of its own.
pub(super) fn is_own_device(path: &Path) -> bool {
    let names = ["null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd", "ptmx"];
    path.strip_prefix("/dev").is_ok_and(|name| names.iter().any(|own| name == Path::new(own)))
}
