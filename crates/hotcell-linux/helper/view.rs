//! What the box sees: building its root, step by step, beneath one tmpfs.
//!
//! Every place is opened beneath the new root without following a symbolic link, and every mount is moved onto an open
//! place: a link that somebody planted in a tree makes the step fail, and cannot lead it elsewhere.

use crate::sys::{self, Fd};
use crate::wire::{Malformed, Reader, tree_flag};

const TREES_MAX: usize = crate::wire::DESCRIPTORS_MAX;
pub const KEPT_MAX: usize = 32;

/// Something empty to cover other things with: made by the library's first steps, on a mount that is read-only and
/// without execution, which clones of it are too. The order is that of [`cover`](crate::wire::cover)'s numbers.
const COVERS: [&[u8]; 5] = [
    b".hotcell/covers/empty-directory\0",
    b".hotcell/covers/empty-file\0",
    b".hotcell/covers/denied-directory\0",
    b".hotcell/covers/denied-file\0",
    b".hotcell/covers/here\0",
];

/// A tree of the host's that the box gets to see.
pub struct Tree<'a> {
    path: &'a [u8],
    device: u64,
    inode: u64,
    pub flags: u32,
    pub owner: (u32, u32),
}

impl<'a> Tree<'a> {
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            path: reader.text()?,
            device: reader.u64()?,
            inode: reader.u64()?,
            flags: reader.u32()?,
            owner: (reader.u32()?, reader.u32()?),
        })
    }

    /// Opens the tree as a detached mount with the attributes asked for, if it is the file that the library saw.
    pub fn open(&self, user_namespace: Option<Fd>) -> sys::Result<Fd> {
        if self.flags & tree_flag::NAMESPACE != 0 {
            return self.open_namespace();
        }
        let place = sys::openat2(sys::AT_FDCWD, self.path, sys::O_PATH, 0, sys::RESOLVE_NO_MAGICLINKS)?;
        let opened = self.open_place(place, user_namespace);
        sys::close(place);
        opened
    }

    /// Opens a namespace, if it is the one that the library saw.
    fn open_namespace(&self) -> sys::Result<Fd> {
        let namespace = sys::openat(sys::AT_FDCWD, self.path, sys::O_RDONLY, 0)?;
        match sys::fstat(namespace) {
            Ok(seen) if (seen.device, seen.inode) == (self.device, self.inode) => Ok(namespace),
            Ok(_) => Err(sys::ESTALE),
            Err(errno) => Err(errno),
        }
        .inspect_err(|_| sys::close(namespace))
    }

    fn open_place(&self, place: Fd, user_namespace: Option<Fd>) -> sys::Result<Fd> {
        let seen = sys::fstat(place)?;
        if seen.device != self.device || seen.inode != self.inode {
            return Err(sys::ESTALE);
        }
        let modern = sys::has_mount_setattr();
        if !modern && user_namespace.is_some() {
            // How a kernel that knows id-mapped mounts says that a file system does not.
            return Err(sys::EINVAL);
        }
        // Without `mount_setattr`, what is mounted below could not be restricted: then it is left out.
        let recursive = modern && self.flags & tree_flag::RECURSIVE != 0;
        let mount = sys::open_tree(place, b"\0", recursive)?;
        if !modern {
            // Restricted when it is attached.
            return Ok(mount);
        }
        let id_map = if user_namespace.is_some() { sys::MOUNT_ATTR_IDMAP } else { 0 };
        match sys::mount_setattr(mount, attributes(self.flags) | id_map, recursive, user_namespace) {
            Ok(_) => Ok(mount),
            Err(errno) => {
                sys::close(mount);
                Err(errno)
            }
        }
    }
}

fn attributes(flags: u32) -> u64 {
    let mut attributes = sys::MOUNT_ATTR_NOSUID;
    if flags & tree_flag::READ_ONLY != 0 {
        attributes |= sys::MOUNT_ATTR_RDONLY;
    }
    if flags & tree_flag::NO_DEVICES != 0 {
        attributes |= sys::MOUNT_ATTR_NODEV;
    }
    if flags & tree_flag::NO_EXEC != 0 {
        attributes |= sys::MOUNT_ATTR_NOEXEC;
    }
    attributes
}

/// The view under construction.
pub struct View {
    root: Fd,
    /// Where a runtime finds its bundle, if one makes the container.
    stage: Fd,
    /// Whether the root has links that are not ours: an image's, whose author may want steps to lead elsewhere.
    foreign_links: bool,
    /// Each with its flags.
    trees: [(Fd, u32); TREES_MAX],
    tree_count: usize,
    modern: bool,
    /// Opened when they are first needed.
    covers: [Fd; COVERS.len()],
    /// The root, the upper directories of overlays, and last the seccomp listener: sent to the library when the box is
    /// ready.
    kept: [Fd; KEPT_MAX],
    uppers: usize,
    listener: bool,
}

impl View {
    pub fn new() -> Self {
        Self {
            root: -1,
            stage: -1,
            foreign_links: false,
            trees: [(-1, 0); TREES_MAX],
            tree_count: 0,
            modern: sys::has_mount_setattr(),
            covers: [-1; COVERS.len()],
            kept: [-1; KEPT_MAX],
            uppers: 0,
            listener: false,
        }
    }

    pub fn keep_tree(&mut self, tree: Fd) -> sys::Result<()> {
        self.trees.get_mut(self.tree_count).ok_or(sys::EINVAL)?.0 = tree;
        self.tree_count += 1;
        Ok(())
    }

    pub fn tree_count(&self) -> usize {
        self.tree_count
    }

    pub fn set_tree_flags(&mut self, number: u32, flags: u32) -> sys::Result<()> {
        self.trees[..self.tree_count].get_mut(number as usize).ok_or(sys::EINVAL)?.1 = flags;
        Ok(())
    }

    pub fn keep_listener(&mut self, listener: Fd) {
        self.kept[1 + self.uppers] = listener;
        self.listener = true;
    }

    /// What is sent along when the box is ready, how many uppers are among it, and whether there is a listener.
    pub fn kept(&self) -> (&[Fd], u8, u8) {
        let count = 1 + self.uppers + usize::from(self.listener);
        (&self.kept[..count], self.uppers as u8, u8::from(self.listener))
    }

    /// Opens a place of the view, as it is: no link is followed.
    fn place(&self, path: &[u8]) -> sys::Result<Fd> {
        let path = relative(path);
        sys::openat2(self.root, path, sys::O_PATH | sys::O_NOFOLLOW, 0, sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS)
    }

    /// Attaches a mount. A place that our own steps made in the root has no link in its path but ours, and is looked up
    /// on the way; any other is opened first, as it is.
    ///
    /// Descriptors are left open here and wherever they do no harm: they are closed all at once when the box is set up.
    fn attach(&self, mount: Fd, path: &[u8], own: bool) -> sys::Result<()> {
        if own && !self.foreign_links {
            return sys::move_mount_to(mount, self.root, relative(path)).map(|_| ());
        }
        sys::move_mount(mount, self.place(path)?).map(|_| ())
    }

    /// Attaches a clone of a mount; older kernels restrict it only now.
    fn attach_restricted(&self, mount: Fd, path: &[u8], flags: u32) -> sys::Result<()> {
        self.attach(mount, path, flags & tree_flag::OWN_PLACE != 0)?;
        if !self.modern {
            sys::restrict_mount(relative(path), attributes(flags))?;
        }
        Ok(())
    }

    /// Mounts a place for a bundle, with the directories that one has.
    pub fn make_stage(&mut self, place: &[u8]) -> sys::Result<()> {
        let context = sys::fsopen(b"tmpfs\0")?;
        sys::fsconfig(context, b"mode\0", Some(b"0711\0"))?;
        sys::fsconfig(context, b"size\0", Some(b"16m\0"))?;
        let mount = sys::fsmount(context, sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NODEV)?;
        let place = sys::openat(sys::AT_FDCWD, place, sys::O_PATH | sys::O_DIRECTORY | sys::O_NOFOLLOW, 0)?;
        sys::move_mount(mount, place)?;
        sys::mkdirat(mount, b"rootfs\0", 0o755)?;
        sys::mkdirat(mount, b"state\0", 0o700)?;
        self.stage = mount;
        self.foreign_links = true;
        Ok(())
    }

    /// Goes to the mounts of a container, whose root is the view from here on.
    pub fn enter_container(&mut self, number: u32) -> sys::Result<()> {
        let (namespace, _) = self.take_tree(number)?;
        sys::setns(namespace, sys::CLONE_NEWNS as usize)?;
        let root = sys::openat(sys::AT_FDCWD, b"/\0", sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
        sys::fchdir(root)?;
        self.root = root;
        self.kept[0] = root;
        self.foreign_links = true;
        Ok(())
    }

    /// The place of the bundle.
    pub fn stage(&self) -> Fd {
        self.stage
    }

    /// Writes a file of the bundle: pieces with `number` between them.
    pub fn write_bundle(&self, reader: &mut Reader<'_>, number: u32) -> sys::Result<()> {
        let name = reader.text()?;
        let file = sys::openat(self.stage, name, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, 0o600)?;
        for index in 0..reader.u32()? {
            if index > 0 {
                write_all(file, crate::text::Text::<16>::new().number(u64::from(number)).as_bytes())?;
            }
            write_all(file, reader.bytes()?)?;
        }
        sys::close(file);
        Ok(())
    }

    /// Shows a place of the view, with all that is mounted in it, as `name` in the bundle.
    pub fn expose(&self, path: &[u8], name: &[u8], directory: bool) -> sys::Result<()> {
        let mount = sys::open_tree(self.place(path)?, b"\0", true)?;
        if directory {
            sys::mkdirat(self.stage, name, 0o755)?;
        } else {
            sys::close(sys::openat(self.stage, name, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, 0o644)?);
        }
        let place = sys::openat(self.stage, name, sys::O_PATH | sys::O_NOFOLLOW, 0)?;
        sys::move_mount(mount, place).map(|_| ())
    }

    /// Gives a directory of the root to somebody.
    pub fn set_owner(&self, path: &[u8], owner: u32) -> sys::Result<()> {
        let flags = sys::O_RDONLY | sys::O_DIRECTORY;
        let resolve = sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS;
        let place = sys::openat2(self.root, relative(path), flags, 0, resolve)?;
        let result = sys::fchown(place, owner, owner);
        sys::close(place);
        result.map(|_| ())
    }

    /// Mounts the root: one tmpfs whose size is what the box may write to its private places.
    pub fn make_root(&mut self, size: &[u8], inodes: &[u8]) -> sys::Result<()> {
        let context = sys::fsopen(b"tmpfs\0")?;
        sys::fsconfig(context, b"mode\0", Some(b"0755\0"))?;
        sys::fsconfig(context, b"size\0", Some(size))?;
        sys::fsconfig(context, b"nr_inodes\0", Some(inodes))?;
        let mount = sys::fsmount(context, sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NODEV)?;
        // Any place will do until the pivot; the host's root is always there. A runtime wants one with a name.
        let (directory, path): (Fd, &[u8]) =
            if self.stage < 0 { (sys::AT_FDCWD, b"/\0") } else { (self.stage, b"rootfs\0") };
        let place = sys::openat(directory, path, sys::O_PATH | sys::O_DIRECTORY, 0)?;
        sys::move_mount(mount, place)?;
        sys::fchdir(mount)?;
        self.root = mount;
        self.kept[0] = mount;
        Ok(())
    }

    /// Makes a directory, and its parents with the usual mode.
    pub fn make_directory(&self, path: &[u8], mode: u32) -> sys::Result<()> {
        self.with_parents(path, |directory, name| match sys::mkdirat(directory, name, mode) {
            Err(sys::EEXIST) => Ok(0),
            other => other,
        })
    }

    /// Makes a file with its contents; one that is there already is left alone (it is a mount point then).
    pub fn make_file(&self, path: &[u8], mode: u32, contents: &[u8]) -> sys::Result<()> {
        self.with_parents(path, |directory, name| {
            let file = match sys::openat(directory, name, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, mode) {
                Ok(file) => file,
                Err(sys::EEXIST) => return Ok(0),
                Err(errno) => return Err(errno),
            };
            write_all(file, contents)?;
            // A root with a file open for writing could not be sealed.
            sys::close(file);
            Ok(0)
        })
    }

    pub fn make_symlink(&self, path: &[u8], target: &[u8]) -> sys::Result<()> {
        self.with_parents(path, |directory, name| sys::symlinkat(target, directory, name))
    }

    /// Does something that needs the parents of `path`, making them if they turn out to be missing.
    fn with_parents(&self, path: &[u8], make: impl Fn(Fd, &[u8]) -> sys::Result<usize>) -> sys::Result<()> {
        match self.in_parent(path, &make) {
            Err(sys::ENOENT) => {
                self.make_parents(path)?;
                self.in_parent(path, &make).map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    /// Does something in the directory that `path` is in. Where the root has links of others, none of them leads there: while
    /// a stage is made, one that begins with a slash leads to the host.
    fn in_parent(&self, path: &[u8], make: impl Fn(Fd, &[u8]) -> sys::Result<usize>) -> sys::Result<usize> {
        let path = relative(path);
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/').filter(|_| self.foreign_links) else {
            return make(self.root, path);
        };
        let mut parent = [0; 4096];
        let parent = parent.get_mut(..=slash).ok_or(sys::EINVAL)?;
        parent[..slash].copy_from_slice(&path[..slash]);
        let flags = sys::O_PATH | sys::O_DIRECTORY;
        let directory = sys::openat2(self.root, parent, flags, 0, sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS)?;
        let made = make(directory, &path[slash + 1..]);
        sys::close(directory);
        made
    }

    fn make_parents(&self, path: &[u8]) -> sys::Result<()> {
        let path = relative(path);
        let mut part = [0; 4096];
        for (at, byte) in path.iter().enumerate() {
            if *byte != b'/' || at == 0 {
                continue;
            }
            part.get_mut(..at).ok_or(sys::EINVAL)?.copy_from_slice(&path[..at]);
            *part.get_mut(at).ok_or(sys::EINVAL)? = 0;
            match self.in_parent(&part[..=at], |directory, name| sys::mkdirat(directory, name, 0o755)) {
                Ok(_) | Err(sys::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    pub fn attach_tree(&mut self, number: u32, path: &[u8]) -> sys::Result<()> {
        let (tree, flags) = self.take_tree(number)?;
        self.attach_restricted(tree, path, flags)
    }

    fn take_tree(&mut self, number: u32) -> sys::Result<(Fd, u32)> {
        let (tree, flags) = self.trees[..self.tree_count].get_mut(number as usize).ok_or(sys::EINVAL)?;
        match core::mem::replace(tree, -1) {
            -1 => Err(sys::EINVAL),
            tree => Ok((tree, *flags)),
        }
    }

    /// Binds what is at `from` onto `to`.
    pub fn bind(&self, from: &[u8], to: &[u8], flags: u32) -> sys::Result<()> {
        let recursive = self.modern && flags & tree_flag::RECURSIVE != 0;
        let mount = sys::open_tree(self.place(from)?, b"\0", recursive)?;
        if self.modern {
            sys::mount_setattr(mount, attributes(flags), recursive, None)?;
        }
        self.attach_restricted(mount, to, flags)
    }

    /// Mounts a private directory of the root onto itself. The clone has the restrictions of the root, which is not
    /// sealed yet: it stays writable when the root no longer is.
    pub fn open_private(&self, path: &[u8]) -> sys::Result<()> {
        let mount = if self.foreign_links {
            sys::open_tree(self.place(path)?, b"\0", false)?
        } else {
            sys::open_tree(self.root, relative(path), false)?
        };
        self.attach(mount, path, true)
    }

    /// Covers what is at `path`; `own` as in [`View::attach`].
    pub fn mask(&mut self, path: &[u8], kind: u8, own: bool) -> sys::Result<()> {
        let (path_of_cover, cover) =
            COVERS.get(kind as usize).zip(self.covers.get_mut(kind as usize)).ok_or(sys::EINVAL)?;
        if *cover < 0 {
            *cover = sys::openat(self.root, path_of_cover, sys::O_PATH | sys::O_NOFOLLOW, 0)?;
        }
        let mount = sys::open_tree(*cover, b"\0", false)?;
        let own = if own { tree_flag::OWN_PLACE } else { 0 };
        self.attach_restricted(mount, path, own | tree_flag::READ_ONLY | tree_flag::NO_DEVICES | tree_flag::NO_EXEC)
    }

    /// A fresh procfs of the box's own processes. It is read-only: what a program writes to files that it reaches
    /// through `/proc/self/fd` is not affected, and nothing else there needs writing.
    pub fn mount_proc(&self, path: &[u8]) -> sys::Result<()> {
        let context = sys::fsopen(b"proc\0")?;
        let hardened = sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NODEV | sys::MOUNT_ATTR_NOEXEC;
        let mount = sys::fsmount(context, hardened)?;
        self.attach(mount, path, true)
    }

    /// A terminal multiplexer of the box's own.
    pub fn mount_devpts(&self, path: &[u8]) -> sys::Result<()> {
        let context = sys::fsopen(b"devpts\0")?;
        sys::fsconfig(context, b"ptmxmode\0", Some(b"0666\0"))?;
        sys::fsconfig(context, b"mode\0", Some(b"0600\0"))?;
        let mount = sys::fsmount(context, sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NOEXEC)?;
        self.attach(mount, path, true)
    }

    /// An overlay: reads come from a source tree, writes go to the root tmpfs.
    pub fn mount_overlay(&mut self, reader: &mut Reader<'_>) -> sys::Result<()> {
        let (number, path) = (reader.u32()?, reader.text()?);
        let (lower, upper, work) = (reader.text()?, reader.text()?, reader.text()?);
        let (tree, flags) = self.take_tree(number)?;
        self.attach_restricted(tree, lower, flags | tree_flag::OWN_PLACE)?;
        let context = sys::fsopen(b"overlay\0")?;
        sys::fsconfig(context, b"userxattr\0", None)?;
        sys::fsconfig(context, b"lowerdir\0", Some(relative(lower)))?;
        sys::fsconfig(context, b"upperdir\0", Some(relative(upper)))?;
        sys::fsconfig(context, b"workdir\0", Some(relative(work)))?;
        let mount = sys::fsmount(context, sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NODEV)?;
        self.attach(mount, path, false)?;
        // The overlay has its own reference to the lower tree.
        sys::umount_detach(relative(lower))?;
        let upper = sys::openat2(
            self.root,
            relative(upper),
            sys::O_RDONLY | sys::O_DIRECTORY,
            0,
            sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS,
        )?;
        // One place stays free for the listener.
        if self.uppers + 2 >= KEPT_MAX {
            return Err(sys::EINVAL);
        }
        self.kept[1 + self.uppers] = upper;
        self.uppers += 1;
        Ok(())
    }

    pub fn set_mode(&self, path: &[u8], mode: u32) -> sys::Result<()> {
        let place = sys::openat2(
            self.root,
            relative(path),
            sys::O_RDONLY | sys::O_DIRECTORY,
            0,
            sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS,
        )?;
        let result = sys::fchmod(place, mode);
        sys::close(place);
        result.map(|_| ())
    }

    /// Makes the root read-only. The places that were bound from it stay as they are.
    pub fn seal(&self) -> sys::Result<()> {
        if self.modern {
            return sys::mount_setattr(self.root, sys::MOUNT_ATTR_RDONLY, false, None).map(|_| ());
        }
        sys::restrict_mount(b".\0", sys::MOUNT_ATTR_RDONLY).map(|_| ())
    }

    /// Makes the root this process's, and lets go of the host's.
    pub fn enter(&self) -> sys::Result<()> {
        sys::fchdir(self.root)?;
        sys::pivot_root(b".\0", b".\0")?;
        // The old root now lies on top of the new one: this takes it away.
        sys::umount_detach(b".\0")?;
        sys::chdir(b"/\0").map(|_| ())
    }
}

fn write_all(file: Fd, mut contents: &[u8]) -> sys::Result<()> {
    while !contents.is_empty() {
        let written = sys::write(file, contents)?;
        contents = &contents[written..];
    }
    Ok(())
}

/// The path without its leading slashes, so that it is looked up below the new root; the root itself is ".".
fn relative(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    match &path[start..] {
        b"" | b"\0" => b".\0",
        rest => rest,
    }
}
