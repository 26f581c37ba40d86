//! The trees of a policy as bind mounts of a container.
//!
//! Every source is at the same place inside. A container engine opens sources by name, with its own rights, so the
//! names are looked at without following links, and what is mounted below a tree is a refusal: a bind mount that is not
//! recursive would show what it hides, and a recursive one could not be made read-only everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_core::backend::CreateError;
use hotcell_core::policy::{Access, FilesystemPolicy, PathRule};
use hotcell_core::text::PrintablePath;
use hotcell_linux::{CellSpec, PlaceholderKind};

use super::place::{Cover, Place};
use crate::native::lower::{bad_path, is_link, look_at, real_path};
use crate::native::protect::{self, Found};

/// What no tree may be, contain or be inside of: the container's own.
const RESERVED: &[&str] = &["/proc", "/sys", "/dev", "/.hotcell"];

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) read_only: bool,
}

/// All bind mounts for the trees of a policy.
#[derive(Debug)]
pub(super) struct Trees {
    /// In the order in which they are mounted: what is deeper later.
    pub(super) binds: Vec<Bind>,
    /// Whether names on the host have to be held for protected paths that do not exist.
    pub(super) holds_names: bool,
    /// Trees that can be written, with what they are on the host.
    pub(super) written: Vec<(PathBuf, fs::Metadata)>,
    /// Where trees need something to be mounted on.
    pub(super) points: Vec<PathBuf>,
    /// Denied paths that no tree shows: what the image may have there is hidden.
    pub(super) denied: Vec<String>,
}

/// What lowering the trees needs to know.
pub(super) struct Surroundings<'a> {
    /// Places in the container that are its own and writable.
    pub(super) private: &'a BTreeSet<PathBuf>,
    /// Sockets through which an engine could be talked to.
    pub(super) sockets: &'a [&'a Path],
    pub(super) place: &'a Place,
    /// Whether the trees are mounted once the container runs, and here only need something to be mounted on.
    pub(super) mounts_inside: bool,
}

/// The bind mounts for the trees; `holder` gets the names that have to be held on the host.
pub(super) fn lower(
    policy: &FilesystemPolicy,
    around: &Surroundings<'_>,
    holder: &mut CellSpec,
) -> Result<Trees, CreateError> {
    let mut lowering = Lowering {
        policy,
        around,
        holder,
        mounted: mount_points(),
        binds: BTreeMap::new(),
        holds_names: false,
        written: Vec::new(),
        points: Vec::new(),
        denied: Vec::new(),
    };
    for rule in &policy.rules {
        lowering.rule(rule)?;
    }
    if !around.mounts_inside {
        lowering.protect()?;
    }
    let Lowering { binds, holds_names, written, points, denied, .. } = lowering;
    Ok(Trees { binds: binds.into_values().collect(), holds_names, written, points, denied })
}

struct Lowering<'a> {
    policy: &'a FilesystemPolicy,
    around: &'a Surroundings<'a>,
    holder: &'a mut CellSpec,
    mounted: Vec<PathBuf>,
    /// By depth and target, which is the order of mounting.
    binds: BTreeMap<(usize, PathBuf), Bind>,
    holds_names: bool,
    written: Vec<(PathBuf, fs::Metadata)>,
    points: Vec<PathBuf>,
    denied: Vec<String>,
}

impl Lowering<'_> {
    fn rule(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        if rule.path == Path::new("/") {
            return Err(bad_path(&rule.path, "the root is the image's", "name the directories that the box needs"));
        }
        if rule.path.to_str().is_none() {
            return Err(bad_path(&rule.path, "its name is no text, and engines take names as text", "rename it"));
        }
        match rule.access {
            _ if self.around.mounts_inside => self.mounted_later(rule),
            Access::Deny => self.deny(rule),
            Access::Overlay => Err(bad_path(
                &rule.path,
                "container engines have no overlays",
                "use `read`, `write` on a copy, or the native runtime",
            )),
            Access::Read | Access::Write => self.show(rule),
        }
    }

    /// Something to mount a tree on, unless another that is shown has it.
    fn mounted_later(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        let path = &rule.path;
        if rule.access == Access::Deny {
            return self.deny_in_image(path);
        }
        self.refuse_own_places(path)?;
        self.refuse_sockets(path)?;
        if path.parent().is_some_and(|parent| self.policy.access(parent) != Access::Deny) {
            return Ok(());
        }
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return self.cover(path, Cover::Empty { directory: false });
        }
        self.points.push(path.clone());
        Ok(())
    }

    fn refuse_sockets(&self, path: &Path) -> Result<(), CreateError> {
        match self.around.sockets.iter().find(|socket| leads_to(path, socket)) {
            None => Ok(()),
            Some(socket) => Err(bad_path(
                path,
                &format!(
                    "the engine listens below it, at `{}`: whoever reaches that has the machine",
                    PrintablePath(socket)
                ),
                "name the directories beside it",
            )),
        }
    }

    fn show(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        let path = &rule.path;
        self.refuse_own_places(path)?;
        let metadata = look_at(path).map_err(|error| match fs::canonicalize(path) {
            Ok(leads_to) if is_link(&error) => bad_path(
                path,
                &format!("a link leads from it to `{}`", PrintablePath(&leads_to)),
                "name the real path: whoever can change a link decides what is shown",
            ),
            _ => bad_path(path, &error.to_string(), "name a path that exists, or leave the rule out"),
        })?;
        if !metadata.is_dir() && !metadata.is_file() {
            let reason = "it is neither a directory nor a file";
            return Err(bad_path(path, reason, "sockets and devices are never shared"));
        }
        if let Some(below) = self.mounted.iter().find(|mounted| mounted.starts_with(path) && *mounted != path) {
            return Err(bad_path(
                path,
                &format!("`{}` is mounted below it, which containers cannot be shown safely", PrintablePath(below)),
                "name the directories beside it, or use the native runtime",
            ));
        }
        self.refuse_sockets(path)?;
        self.pin_above(path);
        self.bind(path, path, rule.access == Access::Read);
        if rule.access == Access::Write {
            self.written.push((path.clone(), metadata));
        }
        Ok(())
    }

    /// Neither over what is the container's own, nor around it: engines would make mount points on the host.
    fn refuse_own_places(&self, path: &Path) -> Result<(), CreateError> {
        let reserved = RESERVED.iter().map(Path::new).find(|own| path.starts_with(own) || own.starts_with(path));
        let around = self.around.private.iter().find(|own| own.starts_with(path) && *own != path);
        match reserved.or(around.map(PathBuf::as_path)) {
            Some(own) => Err(bad_path(
                path,
                &format!("`{}` is the container's own", PrintablePath(own)),
                "name directories that have nothing to do with it",
            )),
            None => Ok(()),
        }
    }

    fn bind(&mut self, source: &Path, target: &Path, read_only: bool) {
        let bind = Bind { source: source.to_owned(), target: target.to_owned(), read_only };
        self.binds.insert((target.components().count(), target.to_owned()), bind);
    }

    /// A directory onto itself: nobody inside can rename or remove it.
    fn pin(&mut self, path: &Path) {
        let depth = path.components().count();
        if !self.binds.contains_key(&(depth, path.to_owned())) {
            self.bind(path, path, false);
        }
    }

    /// What is mounted onto a path would else move along with a renamed parent, and leave its place free.
    fn pin_above(&mut self, path: &Path) {
        let Some(parent) = path.parent() else { return };
        let above = self.policy.rules.iter().rev().find(|rule| parent.starts_with(&rule.path));
        let Some(tree) = above.filter(|rule| rule.access == Access::Write) else { return };
        let between: Vec<&Path> = parent.ancestors().take_while(|ancestor| *ancestor != tree.path).collect();
        between.into_iter().rev().for_each(|directory| self.pin(directory));
    }

    fn cover(&mut self, path: &Path, cover: Cover) -> Result<(), CreateError> {
        if path.to_str().is_none() {
            return Err(bad_path(path, "its name is no text, and engines take names as text", "rename it"));
        }
        let source = self.around.place.cover(cover).map_err(|error| CreateError::Setup {
            step: format!("making a cover in `{}`", PrintablePath(self.around.place.path())),
            reason: error.to_string(),
            hint: "remove that directory and try again".into(),
        })?;
        self.bind(&source, path, true);
        Ok(())
    }

    /// Hides a path inside of a tree that is shown. What no tree shows is not in the container to begin with.
    fn deny(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        let path = &rule.path;
        self.refuse_other_names(path)?;
        let above = path.parent().map_or(Access::Deny, |parent| self.policy.access(parent));
        if above == Access::Deny {
            return self.deny_in_image(path);
        }
        let shown_again =
            |deeper: &&PathRule| deeper.access != Access::Deny && deeper.path != *path && deeper.path.starts_with(path);
        if let Some(deeper) = self.policy.rules.iter().find(shown_again) {
            return Err(bad_path(
                path,
                &format!(
                    "it is denied, but `{}` inside of it is not, which containers cannot hold",
                    PrintablePath(&deeper.path)
                ),
                "use the native runtime, or deny what is beside it",
            ));
        }
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => Some(metadata).filter(|metadata| !protect::is_placeholder(path, metadata)),
            // What the caller may not even look up may still be there for the engine, which is root.
            Err(error) if error.kind() == PermissionDenied => {
                return Err(bad_path(path, &error.to_string(), "it is denied, and must be looked at"));
            }
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => None,
            Err(error) => return Err(bad_path(path, &error.to_string(), "it is denied, and must be looked at")),
        };
        match metadata {
            Some(metadata) if metadata.is_symlink() && above == Access::Write => Err(bad_path(
                path,
                "a symbolic link in a writable tree cannot be denied",
                "deny what it points to, or use the native runtime with an overlay",
            )),
            Some(metadata) if metadata.is_symlink() => Ok(()),
            Some(metadata) => {
                self.pin_above(path);
                self.cover(path, Cover::Denied { directory: metadata.is_dir() })
            }
            None if above == Access::Write => self.reserve(path),
            None => Ok(()),
        }
    }

    /// Hides what the image may have at a denied path that no tree shows.
    fn deny_in_image(&mut self, path: &Path) -> Result<(), CreateError> {
        if path.parent().is_some_and(|parent| self.policy.access(parent) != Access::Deny) {
            // Hidden with the tree that shows it.
            return Ok(());
        }
        let shown_again =
            self.policy.rules.iter().any(|rule| rule.access != Access::Deny && rule.path.starts_with(path));
        let own = RESERVED.iter().any(|own| Path::new(own).starts_with(path));
        match path.to_str().filter(|text| !text.contains(':')) {
            // Covering it would cover that as well.
            _ if shown_again || own => Ok(()),
            Some(text) => {
                self.denied.push(text.to_owned());
                Ok(())
            }
            None => Err(bad_path(path, "engines cannot be asked to hide a path of this name", "rename it")),
        }
    }

    /// A denied path that a link shows under another name would not be hidden there.
    fn refuse_other_names(&self, path: &Path) -> Result<(), CreateError> {
        let Some(denied) = real_path(path) else { return Ok(()) };
        for shown in self.policy.rules.iter().filter(|shown| shown.access != Access::Deny) {
            let Ok(source) = fs::canonicalize(&shown.path) else { continue };
            let Ok(below) = denied.strip_prefix(&source) else { continue };
            let place = shown.path.join(below);
            if self.policy.access(&place) != Access::Deny {
                let reason = format!("it is denied, but a link shows it as `{}`", PrintablePath(&place));
                return Err(bad_path(path, &reason, "deny it under that name too, or name real paths only"));
            }
        }
        Ok(())
    }

    /// Keeps a denied path that does not exist from coming into existence.
    fn reserve(&mut self, path: &Path) -> Result<(), CreateError> {
        let tree =
            self.policy.rules.iter().rev().find(|rule| rule.access == Access::Write && path.starts_with(&rule.path));
        let Some(tree) = tree.map(|rule| rule.path.clone()) else { return Ok(()) };
        match protect::find(&tree, path.strip_prefix(&tree).unwrap_or(path))? {
            Found::Until { pins, missing } => {
                pins.iter().for_each(|pin| self.pin(pin));
                let kind = self.hold(&tree, &missing, missing != path)?;
                self.cover(&missing, Cover::Denied { directory: kind == PlaceholderKind::Directory })
            }
            Found::Whole { last, .. } => Err(bad_path(&last, "it appeared while the box was being made", "try again")),
        }
    }

    /// What is there becomes a read-only mount of itself; what is not gets a placeholder on the host, and a cover.
    fn protect(&mut self) -> Result<(), CreateError> {
        let mut reserved = BTreeSet::new();
        for protected in self.policy.protected_paths().iter().filter(|protected| protected.access == Access::Write) {
            if !protected.tree.is_dir() {
                continue;
            }
            let below = protected.path.strip_prefix(&protected.tree).unwrap_or(&protected.path);
            match protect::find(&protected.tree, below)? {
                Found::Whole { pins, last } => {
                    pins.iter().for_each(|pin| self.pin(pin));
                    // Over a pin, but never over what hides it altogether.
                    let key = (last.components().count(), last.clone());
                    if self.binds.get(&key).is_none_or(|bind| !bind.read_only) {
                        self.bind(&last, &last, true);
                    }
                }
                Found::Until { pins, missing } => {
                    pins.iter().for_each(|pin| self.pin(pin));
                    if reserved.insert(missing.clone()) {
                        let kind = self.hold(&protected.tree, &missing, missing != protected.path)?;
                        let cover = match kind {
                            PlaceholderKind::Directory => Cover::Empty { directory: true },
                            PlaceholderKind::Here => Cover::Here,
                            _ => Cover::Empty { directory: false },
                        };
                        self.cover(&missing, cover)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn hold(&mut self, tree: &Path, missing: &Path, below: bool) -> Result<PlaceholderKind, CreateError> {
        self.holds_names = true;
        protect::placeholder(self.holder, tree, missing, below)
    }
}

/// Whether a socket is at the path or below it.
fn leads_to(path: &Path, socket: &Path) -> bool {
    let real = fs::canonicalize(socket).unwrap_or_else(|_| socket.to_owned());
    socket.starts_with(path) || real.starts_with(path)
}

/// Where something is mounted in this process's view.
fn mount_points() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect()
}

/// The kernel writes spaces, tabs, newlines and backslashes as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut path = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        path.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (code, after.get(3..)) {
            (Some(code), Some(behind)) => {
                path.push(char::from(code));
                rest = behind;
            }
            _ => {
                path.push('\\');
                rest = after;
            }
        }
    }
    path.push_str(rest);
    path.into()
}

/// Whose a tree is.
pub(super) fn owner(metadata: &fs::Metadata) -> (u32, u32) {
    (metadata.uid(), metadata.gid())
}

#[cfg(test)]
#[path = "trees_tests.rs"]
mod tests;
