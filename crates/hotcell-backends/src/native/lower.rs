//! From a plan to the steps that make a box.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hotcell_core::backend::CreateError;
use hotcell_core::plan::Plan;
use hotcell_core::policy::{Access, Limits, NetworkMode, PathRule, Policy};
use hotcell_core::text::PrintablePath;
use hotcell_linux::landlock::{self, Abi, Rules};
use hotcell_linux::seccomp::{self, Arch, FilterOptions, Network};
use hotcell_linux::{Cell, CellSpec, Cover, Namespaces, Owner, Tree, TreeOptions};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::probe::Machine;
use super::{limits, protect, view};
use crate::cell::{OverlayTree, Upper};

/// A tmpfs without a limit would have the half of the machine's memory; this is what "unlimited" means for it.
pub(super) const UNLIMITED_DISK: u64 = 1 << 50;
/// Directories and files of every box, in pages.
const LEAST_DISK: u64 = 256 << 10;
/// A file of a tmpfs takes about a kibibyte of memory that its size does not count.
pub(super) const BYTES_PER_FILE: u64 = 4096;

/// A tree that the box sees through an overlay.
#[derive(Debug)]
pub(crate) struct LoweredOverlay {
    pub(super) place: PathBuf,
    /// The tree itself, whatever its path leads to later.
    pub(super) lower: OwnedFd,
    pub(super) owner: Owner,
}

/// A plan in terms of the helper.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) spec: CellSpec,
    pub(crate) overlays: Vec<LoweredOverlay>,
    /// Trees that may be shown with the owners that they have on the host.
    readable: BTreeSet<PathBuf>,
}

impl Lowered {
    /// Nothing but what every box has.
    pub(super) fn new(spec: CellSpec) -> Self {
        Self { spec, overlays: Vec::new(), readable: BTreeSet::new() }
    }

    /// Whether a tree that is only read is shown as it is on the host, with sockets that can be talked to.
    pub(crate) fn shows_sockets(&self, not_mapped: &BTreeSet<PathBuf>) -> bool {
        self.readable.intersection(not_mapped).next().is_some()
    }

    /// Whether a tree may be shown without mapping its owner.
    pub(crate) fn may_show_unmapped(&self, tree: &Path) -> bool {
        self.readable.contains(tree)
    }
}

/// Lowers `plan` for `machine`; trees in `not_mapped` are shown with the owners that they have on the host.
pub(super) fn lower(plan: &Plan, machine: &Machine, not_mapped: &BTreeSet<PathBuf>) -> Result<Lowered, CreateError> {
    let policy = &plan.policy;
    let uid = policy.process.user.unwrap_or_default().uid();
    let user = Owner { uid, gid: uid };
    let open_network = policy.network == NetworkMode::Open;
    let namespaces = Namespaces {
        user: machine.uses_user_namespace(),
        network: !open_network && machine.layers.network_namespace,
        stage: false,
        same_user: false,
    };
    // With a user namespace these are numbers inside it; without one, of the host.
    let user = if namespaces.user { user } else { PLAIN_USER };
    let disk = checked_disk(policy)?;
    let mut rules = Rules::new(machine.findings.landlock, false);
    let mut spec = base(namespaces, user, machine.findings.privileged, disk, &mut rules);
    limits::cgroup(&mut spec, &policy.limits, &machine.cgroups)?;
    if !machine.layers.view {
        view::show_host(&mut spec);
    }

    let mut lowering = Lowering { policy, machine, not_mapped, base: Base::Host, lowered: Lowered::new(spec), rules };
    for rule in &policy.filesystem.rules {
        lowering.path_rule(rule)?;
    }
    protect::add(&mut lowering.lowered.spec, &policy.filesystem)?;
    Ok(lowering.finish(open_network))
}

/// What a box has whatever its policy, but for its user and the room on its disk.
fn base(namespaces: Namespaces, user: Owner, privileged: bool, disk: u64, rules: &mut Rules) -> CellSpec {
    let mut spec = CellSpec::new(namespaces, user);
    if privileged {
        spec.identity(user.uid, user.gid);
    }
    spec.root(disk, (disk / BYTES_PER_FILE).clamp(1024, 1 << 22));
    view::base(&mut spec, rules, user.uid, !namespaces.network);
    spec.end_base();
    spec
}

/// The base of a box of the default policy, which can be made before anybody asks for it.
pub(super) fn usual_base(namespaces: Namespaces, user: Owner, privileged: bool) -> CellSpec {
    let user = if namespaces.user { user } else { PLAIN_USER };
    let disk = Limits::default().disk.value.unwrap_or(UNLIMITED_DISK);
    base(namespaces, user, privileged, disk, &mut Rules::new(Abi(0), false))
}

/// The user of boxes that have no user namespace to map it: nobody's.
const PLAIN_USER: Owner = Owner { uid: 0x7800_0000, gid: 0x7800_0000 };

pub(super) fn checked_disk(policy: &Policy) -> Result<u64, CreateError> {
    let disk = policy.limits.disk.value.unwrap_or(UNLIMITED_DISK);
    if disk >= LEAST_DISK {
        return Ok(disk);
    }
    Err(CreateError::Setup {
        step: "limiting the disk".into(),
        reason: format!("{disk} bytes have no room for the files that every box has"),
        hint: "256 KiB is the least".into(),
    })
}

/// What there is in the view besides what rules show.
#[derive(Debug, Clone, Copy)]
pub(super) enum Base<'a> {
    /// The host's system directories.
    Host,
    /// The directories of an image, at this place of the host.
    Image(&'a Path),
    /// Something that is not the host's, and not a rule's business.
    Foreign,
}

/// A policy's rules on their way.
pub(super) struct Lowering<'a> {
    pub(super) policy: &'a Policy,
    pub(super) machine: &'a Machine,
    pub(super) not_mapped: &'a BTreeSet<PathBuf>,
    pub(super) base: Base<'a>,
    pub(super) lowered: Lowered,
    pub(super) rules: Rules,
}

impl Lowering<'_> {
    pub(super) fn path_rule(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        if rule.path == Path::new("/") {
            return Err(bad_path(&rule.path, "the root is the box's own", "name the directories that the box needs"));
        }
        match rule.access {
            Access::Deny => {
                self.refuse_other_names(rule)?;
                self.deny(rule)
            }
            _ => self.show(rule),
        }
    }

    /// A denied path that a link shows under another name would not be hidden there.
    fn refuse_other_names(&self, rule: &PathRule) -> Result<(), CreateError> {
        let Some(denied) = real_path(&rule.path) else { return Ok(()) };
        for shown in self.policy.filesystem.rules.iter().filter(|shown| shown.access != Access::Deny) {
            let Ok(source) = fs::canonicalize(&shown.path) else { continue };
            let Ok(below) = denied.strip_prefix(&source) else { continue };
            let place = shown.path.join(below);
            if self.policy.filesystem.access(&place) != Access::Deny {
                let reason = format!("it is denied, but a link shows it as {}", place.display());
                return Err(bad_path(&rule.path, &reason, "deny it under that name too, or name real paths only"));
            }
        }
        Ok(())
    }

    fn show(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        let missing = |error: std::io::Error| {
            bad_path(&rule.path, &error.to_string(), "name a path that exists, or leave the rule out")
        };
        let metadata = look_at(&rule.path).map_err(|error| match fs::canonicalize(&rule.path) {
            Ok(leads_to) if is_link(&error) => {
                let reason = format!("a link leads from it to `{}`", PrintablePath(&leads_to));
                bad_path(&rule.path, &reason, "name the real path: whoever can change a link decides what is shown")
            }
            _ => missing(error),
        })?;
        let source = rule.path.clone();
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(bad_path(
                &rule.path,
                "it is neither a directory nor a file",
                "sockets and devices are never shared",
            ));
        }
        let id_mapped = self.machine.findings.privileged
            && self.machine.uses_user_namespace()
            && !self.not_mapped.contains(&source);
        if rule.access == Access::Write && self.machine.findings.privileged && !id_mapped {
            return Err(bad_path(
                &rule.path,
                "its owner cannot be shown as the box's user here, so nothing could be written",
                "run Hotcell as the owner of the tree, or use an overlay",
            ));
        }
        let options = TreeOptions {
            read_only: rule.access != Access::Write,
            devices: false,
            no_exec: false,
            id_mapped,
            no_sockets: rule.access == Access::Read,
            own_place: false,
        };
        let tree = Tree::from_metadata(&source, &metadata, options);
        if rule.access == Access::Read {
            self.lowered.readable.insert(source.clone());
        }
        self.make_place(&rule.path, tree.is_directory());
        protect::pin_above(&mut self.lowered.spec, &self.policy.filesystem, &rule.path);
        let access = if rule.access == Access::Read { landlock::Access::Read } else { landlock::Access::Write };
        self.rules.allow(&rule.path, access, tree.is_directory());
        if rule.access == Access::Overlay {
            if !tree.is_directory() {
                return Err(bad_path(
                    &rule.path,
                    "only a directory can be an overlay",
                    "name the directory that it is in",
                ));
            }
            let owner = tree.owner();
            let hidden = PathBuf::from(format!("/.hotcell/overlay-{}", self.lowered.overlays.len()));
            let (lower, upper, work) = (hidden.join("lower"), hidden.join("upper"), hidden.join("work"));
            for (path, mode) in [(&lower, 0o700), (&upper, tree.mode()), (&work, 0o700)] {
                self.lowered.spec.directory(path, mode);
            }
            if self.lowered.spec.is_stage() && self.machine.findings.privileged {
                // Made by root there, and not by the box's user.
                self.lowered.spec.owner(&upper);
            }
            let pinned = pin(&source, &metadata).map_err(missing)?;
            self.lowered.spec.overlay(tree, &rule.path, &lower, &upper, &work);
            self.lowered.overlays.push(LoweredOverlay { place: rule.path.clone(), lower: pinned, owner });
        } else {
            self.lowered.spec.attach(tree, &rule.path);
        }
        Ok(())
    }

    /// Makes the place to mount on, unless a tree that is shown already has it.
    fn make_place(&mut self, path: &Path, directory: bool) {
        let above = path.parent().map_or(Access::Deny, |parent| self.policy.filesystem.access(parent));
        if above != Access::Deny {
            return;
        }
        if directory {
            self.lowered.spec.directory(path, 0o755);
        } else {
            self.lowered.spec.file(path, 0o644, b"");
        }
    }

    /// Hides a path, but for what deeper rules show again.
    fn deny(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        let path = &rule.path;
        let above = path.parent().map_or(Access::Deny, |parent| self.policy.filesystem.access(parent));
        match (self.base, above) {
            (Base::Image(image), Access::Deny) => return self.deny_in_image(image, path),
            (Base::Foreign, Access::Deny) => return Ok(()),
            _ => {}
        }
        let shown_again: Vec<&PathRule> = self
            .policy
            .filesystem
            .rules
            .iter()
            .filter(|deeper| deeper.access != Access::Deny && deeper.path != *path && deeper.path.starts_with(path))
            .collect();
        let exists = match fs::symlink_metadata(path) {
            Ok(metadata) => Some(metadata).filter(|metadata| !protect::is_placeholder(path, metadata)),
            // What the caller may not even look up, the box cannot either.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => None,
            Err(error) => return Err(bad_path(path, &error.to_string(), "it is denied, and must be looked at")),
        };
        match exists {
            Some(metadata) if metadata.is_symlink() && above == Access::Write => Err(bad_path(
                path,
                "a symbolic link in a writable tree cannot be denied",
                "deny what it points to, or make the tree an overlay",
            )),
            // Hidden already: nothing shows what is above it, and a link leads only to what the box sees.
            Some(metadata) if metadata.is_symlink() => Ok(()),
            Some(_) if !shown_again.is_empty() => {
                protect::pin_above(&mut self.lowered.spec, &self.policy.filesystem, path);
                let cover = PathBuf::from(format!("/.hotcell/deny-{}", self.lowered.spec.step_count()));
                self.lowered.spec.directory(&cover, 0o111);
                for deeper in shown_again {
                    let below = deeper.path.strip_prefix(path).unwrap_or(&deeper.path);
                    if deeper.path.is_dir() {
                        self.lowered.spec.directory(&cover.join(below), 0o755);
                    } else {
                        self.lowered.spec.file(&cover.join(below), 0o644, b"");
                    }
                }
                if above == Access::Deny && !view::shows(path) {
                    self.lowered.spec.directory(path, 0o111);
                }
                let options = TreeOptions {
                    read_only: true,
                    devices: false,
                    no_exec: true,
                    id_mapped: false,
                    no_sockets: false,
                    own_place: false,
                };
                self.lowered.spec.bind(&cover, path, options);
                Ok(())
            }
            Some(metadata) if above != Access::Deny || view::shows(path) => {
                protect::pin_above(&mut self.lowered.spec, &self.policy.filesystem, path);
                self.lowered.spec.mask(path, Cover::Empty { directory: metadata.is_dir(), readable: false });
                Ok(())
            }
            Some(_) => Ok(()),
            None if above == Access::Write => protect::reserve(&mut self.lowered.spec, &self.policy.filesystem, path),
            // What is not there, in a tree that cannot be written, cannot come to be there.
            None => Ok(()),
        }
    }

    /// Hides a path of the image's. What deeper rules would show again below it is refused: nothing could be mounted there.
    fn deny_in_image(&mut self, image: &Path, path: &Path) -> Result<(), CreateError> {
        let link = || bad_path(path, "a link of the image's is there, or on the way", "deny what it leads to");
        let metadata = match view::look_in_image(image, path) {
            Ok(metadata) if metadata.is_symlink() => return Err(link()),
            Ok(metadata) => metadata,
            Err(error) if is_link(&error) => return Err(link()),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(()),
            Err(error) => return Err(bad_path(path, &error.to_string(), "it is denied, and must be looked at")),
        };
        self.lowered.spec.mask(path, Cover::Empty { directory: metadata.is_dir(), readable: false });
        Ok(())
    }

    fn finish(mut self, open_network: bool) -> Lowered {
        let layers = self.machine.layers;
        let spec = &mut self.lowered.spec;
        if !open_network && layers.network_namespace {
            spec.loopback();
        }
        spec.hostname("hotcell");
        // Also where the box has no cgroup of its own: the name of the one that it shares tells about the host.
        spec.cgroup_namespace();
        spec.mode(Path::new("/.hotcell"), 0);
        spec.seal();
        spec.pivot();
        spec.no_new_privs();
        if let Some((resource, most)) = limits::most_processes(&self.policy.limits, self.machine) {
            // Programs have it too; the init starts them and must not go beyond it either.
            spec.limit_init(resource, most);
        }
        if self.machine.findings.landlock > Abi(0) {
            spec.landlock(&self.rules);
        }
        if layers.privileges {
            spec.drop_capabilities();
        }
        if layers.seccomp
            && let Some(arch) = Arch::native()
        {
            let network = if open_network { Network::Host } else { Network::Private };
            let notify_denied = self.machine.findings.seccomp_notify;
            spec.seccomp(filter(arch, FilterOptions { network, notify_denied }), notify_denied);
        }
        self.lowered
    }
}

impl LoweredOverlay {
    /// The overlay with its directory of changes. With `privileged`, what is committed is given to the owner of the tree.
    pub(crate) fn tree(self, upper: OwnedFd, privileged: bool) -> std::io::Result<OverlayTree> {
        let caller = privileged.then_some((self.owner.uid, self.owner.gid));
        Ok(OverlayTree { place: self.place, lower: self.lower, upper: Upper::Layer(upper), caller })
    }
}

/// The overlays of a box that has been made, with their directories of changes.
pub(crate) fn overlay_trees(
    overlays: Vec<LoweredOverlay>,
    cell: &Cell,
    machine: &Machine,
) -> Result<Vec<OverlayTree>, CreateError> {
    let pair =
        |(overlay, upper): (LoweredOverlay, &OwnedFd)| overlay.tree(upper.try_clone()?, machine.findings.privileged);
    overlays.into_iter().zip(cell.uppers()).map(pair).collect::<std::io::Result<_>>().map_err(|error| {
        CreateError::Setup {
            step: "keeping the changes of an overlay".into(),
            reason: error.to_string(),
            hint: "this process may have too many open files: `ulimit -n`".into(),
        }
    })
}

/// The filter for these options; there are few, and each is compiled once.
pub(crate) fn filter(arch: Arch, options: FilterOptions) -> &'static seccomp::Program {
    static FILTERS: [OnceLock<seccomp::Program>; 4] = [const { OnceLock::new() }; 4];
    let number = usize::from(options.network == Network::Host) * 2 + usize::from(options.notify_denied);
    FILTERS[number].get_or_init(|| seccomp::compile(arch, &options))
}

/// Where a path really is; of one that does not exist, where it would be.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().or_else(|| Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?)))
}

/// What is at a path that has no link in it. Names are checked when a policy is made and used when a box is; meanwhile
/// the code in another box may have put a link there.
pub(crate) fn look_at(path: &Path) -> std::io::Result<fs::Metadata> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    fs::File::from(opened).metadata()
}

pub(crate) fn is_link(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Opens the directory that was looked at, and no other that has taken its place since.
fn pin(path: &Path, seen: &fs::Metadata) -> std::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    let opened = rustix::fs::fstat(&directory)?;
    if (opened.st_dev, opened.st_ino) != (seen.dev(), seen.ino()) {
        return Err(std::io::ErrorKind::StaleNetworkFileHandle.into());
    }
    Ok(directory)
}

pub(crate) fn bad_path(path: &Path, reason: &str, hint: &str) -> CreateError {
    CreateError::Path { path: path.to_owned(), reason: reason.to_owned(), hint: hint.to_owned() }
}

/// What failed while a box was made, and what may help.
pub(crate) fn explain(error: &hotcell_linux::CreateError) -> CreateError {
    let (step, reason) = match error {
        hotcell_linux::CreateError::Step { step, source, .. } => (step.clone(), source.to_string()),
        other => ("talking to the helper process".to_owned(), crate::registry::with_causes(other)),
    };
    let hint = if step.starts_with("open ") && reason.contains("Invalid argument") {
        "the file system there knows no id-mapped mounts: run as the tree's owner, or use a copy elsewhere"
    } else if reason.contains("Stale") {
        "the path changed while the box was being made: try again"
    } else {
        "`hotcell doctor` shows what this machine can do"
    };
    CreateError::Setup { step, reason, hint: hint.to_owned() }
}
