//! What to make: the description of one box, as steps that its init runs.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::wire::{HERE, SAME_USER, STAGE, Writer, cover, placeholder, request, step, tree_flag};

/// The namespaces of a box, each on its own switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces {
    /// A user namespace: capabilities of nothing but the box itself.
    pub user: bool,
    /// A network namespace: nothing but a loopback interface of its own.
    pub network: bool,
    /// Not a box, but a stage on which a runtime makes one: it keeps the caller's rights until it executes that.
    pub stage: bool,
    /// With `stage`: it works on a container that somebody else made, whose user is the host's of the same number.
    pub same_user: bool,
}

impl Namespaces {
    /// Flags for `clone3`. Mount, pid, ipc and uts are always new: there is no box without them.
    pub(crate) fn flags(self) -> u64 {
        let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        if self.user {
            flags |= libc::CLONE_NEWUSER;
        }
        if self.network {
            flags |= libc::CLONE_NEWNET;
        }
        flags as u64 | if self.stage { STAGE } else { 0 } | if self.same_user { SAME_USER } else { 0 }
    }
}

/// Who owns a tree on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// How a tree is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct TreeOptions {
    /// No writing.
    pub read_only: bool,
    /// Device nodes work (only for the device nodes themselves).
    pub devices: bool,
    /// No execution.
    pub no_exec: bool,
    /// The owner of the tree is shown as the box's user.
    pub id_mapped: bool,
    /// With `id_mapped`, for trees that are only read: sockets and pipes in it cannot be talked to.
    pub no_sockets: bool,
    /// It is shown at a place that earlier steps made in the root, not at one inside another tree.
    pub own_place: bool,
}

impl TreeOptions {
    fn flags(self) -> u32 {
        let mut flags = tree_flag::RECURSIVE;
        if self.read_only {
            flags |= tree_flag::READ_ONLY;
        }
        if !self.devices {
            flags |= tree_flag::NO_DEVICES;
        }
        if self.no_exec {
            flags |= tree_flag::NO_EXEC;
        }
        if self.id_mapped {
            flags |= tree_flag::ID_MAPPED;
        }
        if self.no_sockets {
            flags |= tree_flag::NO_GROUP;
        }
        if self.own_place {
            flags |= tree_flag::OWN_PLACE;
        }
        flags
    }
}

/// Something to cover a place with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Something empty.
    Empty {
        /// The place is a directory.
        directory: bool,
        /// The cover can be listed or read.
        readable: bool,
    },
    /// A file that names the directory that it is in.
    Here,
}

impl Cover {
    fn number(self) -> u8 {
        match self {
            Self::Empty { directory: true, readable: true } => cover::EMPTY_DIRECTORY,
            Self::Empty { directory: false, readable: true } => cover::EMPTY_FILE,
            Self::Empty { directory: true, readable: false } => cover::DENIED_DIRECTORY,
            Self::Empty { directory: false, readable: false } => cover::DENIED_FILE,
            Self::Here => cover::HERE,
        }
    }
}

/// A tree of the host's, pinned: the helper refuses if another file has taken its place.
#[derive(Debug, Clone)]
pub struct Tree {
    path: PathBuf,
    device: u64,
    inode: u64,
    owner: Owner,
    mode: u32,
    directory: bool,
    options: TreeOptions,
    /// It is a mount namespace, and not shown at all.
    namespace: bool,
}

impl Tree {
    /// Pins what is at `path` now. Fails where there is nothing.
    pub fn pin(path: &Path, options: TreeOptions) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self::from_metadata(path, &metadata, options))
    }

    /// Pins what the caller has looked at already.
    pub fn from_metadata(path: &Path, metadata: &Metadata, options: TreeOptions) -> Self {
        Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            owner: Owner { uid: metadata.uid(), gid: metadata.gid() },
            mode: metadata.mode() & 0o777,
            directory: metadata.is_dir(),
            options,
            namespace: false,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.directory
    }

    /// Who owns it.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Its permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }
}

/// Something empty on the host to mount on, while boxes need it.
#[derive(Debug, Clone)]
pub struct Placeholder {
    /// The writable tree that it is in.
    pub root: PathBuf,
    /// Device and inode of that tree.
    pub root_identity: (u64, u64),
    /// Where, relative to the tree: every component but the last exists.
    pub path: PathBuf,
    /// What it is.
    pub kind: PlaceholderKind,
}

/// What a placeholder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceholderKind {
    /// An empty file.
    File,
    /// An empty directory.
    Directory,
    /// A file that names the directory that it is in, for readers that do not accept an empty one.
    Here,
}

impl PlaceholderKind {
    fn number(self) -> u8 {
        match self {
            Self::File => placeholder::FILE,
            Self::Directory => placeholder::DIRECTORY,
            Self::Here => placeholder::HERE,
        }
    }

    /// What covers it in the box.
    pub fn cover(self, readable: bool) -> Cover {
        match self {
            Self::Here if readable => Cover::Here,
            kind => Cover::Empty { directory: kind == Self::Directory, readable },
        }
    }
}

/// One write to a cgroup file of the box.
#[derive(Debug, Clone)]
pub(crate) struct LimitWrite {
    pub(crate) base: u8,
    pub(crate) file: &'static str,
    pub(crate) value: String,
}

/// The description of a box. Steps run in the order in which they are added.
#[derive(Debug, Clone)]
pub struct CellSpec {
    pub(crate) namespaces: Namespaces,
    pub(crate) user: Owner,
    pub(crate) groups: u8,
    pub(crate) limits: Vec<LimitWrite>,
    pub(crate) placeholders: Vec<Placeholder>,
    pub(crate) trees: Vec<Tree>,
    pub(crate) steps: Vec<u8>,
    pub(crate) descriptions: Vec<String>,
    /// What comes first and is the same for most boxes.
    base: Base,
}

/// How much of a description is its base.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    trees: usize,
    step_bytes: usize,
    steps: usize,
}

impl CellSpec {
    /// A box with these namespaces whose programs run as `user` (inside).
    #[must_use]
    pub fn new(namespaces: Namespaces, user: Owner) -> Self {
        Self {
            namespaces,
            user,
            groups: 0,
            limits: Vec::new(),
            placeholders: Vec::new(),
            trees: Vec::new(),
            steps: Vec::new(),
            descriptions: Vec::new(),
            base: Base::default(),
        }
    }

    /// Says that everything so far is the base: what does not depend on the policy, and what the spawner may have done
    /// before anybody asks. Its trees are opened by the init with the rights of anybody.
    pub fn end_base(&mut self) {
        self.base = Base { trees: self.trees.len(), step_bytes: self.steps.len(), steps: self.descriptions.len() };
    }

    /// The base, as it is sent.
    pub(crate) fn base_record(&self) -> Vec<u8> {
        let trees = encode_trees(&self.trees[..self.base.trees]);
        [trees.as_slice(), &self.steps[..self.base.step_bytes]].concat()
    }

    /// Writes `value` to a file of the box's cgroup before anything runs in it.
    pub fn limit(&mut self, base: u8, file: &'static str, value: String) {
        self.groups |= 1 << base;
        self.limits.push(LimitWrite { base, file, value });
    }

    /// Needs a placeholder on the host.
    pub fn placeholder(&mut self, placeholder: Placeholder) {
        self.placeholders.push(placeholder);
    }

    fn step(&mut self, description: String, encoded: Writer) {
        self.steps.extend_from_slice(&encoded.finish());
        self.descriptions.push(description);
    }

    fn tree(&mut self, tree: Tree) -> u32 {
        self.trees.push(tree);
        self.trees.len() as u32 - 1
    }

    /// Whether a runtime makes the box on a stage.
    pub fn is_stage(&self) -> bool {
        self.namespaces.stage
    }

    /// How many steps there are so far.
    pub fn step_count(&self) -> usize {
        self.descriptions.len()
    }

    /// Makes the cgroup of the box the root of what it sees.
    pub fn cgroup_namespace(&mut self) {
        self.step("enter a cgroup namespace".into(), Writer::new(step::CGROUP_NAMESPACE));
    }

    /// The root tmpfs, with room for `bytes` and `inodes`.
    pub fn root(&mut self, bytes: u64, inodes: u64) {
        let encoded = Writer::new(step::ROOT).text(bytes.to_string()).text(inodes.to_string());
        self.step("mount the root tmpfs".into(), encoded);
    }

    /// A directory of the root, with its parents.
    pub fn directory(&mut self, path: &Path, mode: u32) {
        self.step(format!("make the directory {}", path.display()), Writer::new(step::DIRECTORY).path(path).u32(mode));
    }

    /// A file of the root, with its parents.
    pub fn file(&mut self, path: &Path, mode: u32, contents: &[u8]) {
        let encoded = Writer::new(step::FILE).path(path).u32(mode).bytes(contents);
        self.step(format!("write {}", path.display()), encoded);
    }

    /// A symbolic link of the root, with its parents.
    pub fn symlink(&mut self, path: &Path, target: impl AsRef<OsStr>) {
        self.step(format!("link {}", path.display()), Writer::new(step::SYMLINK).path(path).text(target));
    }

    /// Shows `tree` at `place`, making the place where it is in the root.
    pub fn attach(&mut self, tree: Tree, place: &Path) {
        let description = format!("show {} at {}", tree.path.display(), place.display());
        let number = self.tree(tree);
        self.step(description, Writer::new(step::ATTACH).u32(number).path(place));
    }

    /// Shows `tree` at `place` through an overlay whose changes are kept in the root tmpfs, and whose directory of
    /// changes [`crate::Cell::uppers`] gives, in the order of these calls.
    pub fn overlay(&mut self, tree: Tree, place: &Path, lower: &Path, upper: &Path, work: &Path) {
        let description = format!("overlay {} at {}", tree.path.display(), place.display());
        let number = self.tree(tree);
        let encoded = Writer::new(step::OVERLAY).u32(number).path(place).path(lower).path(upper).path(work);
        self.step(description, encoded);
    }

    /// Binds one place of the view onto another.
    pub fn bind(&mut self, from: &Path, to: &Path, options: TreeOptions) {
        let encoded = Writer::new(step::BIND).path(from).path(to).u32(options.flags());
        self.step(format!("bind {} onto {}", from.display(), to.display()), encoded);
    }

    /// Binds a directory onto itself, so that it can be neither renamed nor removed.
    pub fn pin(&mut self, path: &Path) {
        self.step(format!("pin {}", path.display()), Writer::new(step::PIN).path(path));
    }

    /// Mounts a directory of the root onto itself, so that it stays writable when the root no longer is.
    pub fn private(&mut self, path: &Path) {
        self.step(format!("open {} for writing", path.display()), Writer::new(step::PRIVATE).path(path));
    }

    /// Makes what places are covered with; before the first cover.
    pub fn covers(&mut self) {
        let covers = Path::new("/.hotcell/covers");
        self.directory(&covers.join("empty-directory"), 0o555);
        self.file(&covers.join("empty-file"), 0o444, b"");
        self.directory(&covers.join("denied-directory"), 0);
        self.file(&covers.join("denied-file"), 0, b"");
        self.file(&covers.join("here"), 0o444, HERE);
        let options = TreeOptions { read_only: true, no_exec: true, own_place: true, ..TreeOptions::default() };
        self.bind(covers, covers, options);
    }

    /// Covers a place with something empty of the same kind.
    pub fn mask(&mut self, path: &Path, cover: Cover) {
        let encoded = Writer::new(step::MASK).path(path).u8(cover.number());
        self.step(format!("cover {}", path.display()), encoded);
    }

    /// Covers a file of the box's procfs, if it is there.
    pub fn mask_in_proc(&mut self, path: &Path, cover: Cover) {
        let encoded = Writer::new(step::MASK_IN_PROC).path(path).u8(cover.number());
        self.step(format!("cover {}", path.display()), encoded);
    }

    /// A procfs of the box's own.
    pub fn proc(&mut self, path: &Path) {
        self.step(format!("mount a fresh procfs at {}", path.display()), Writer::new(step::PROC).path(path));
    }

    /// A devpts of the box's own.
    pub fn devpts(&mut self, path: &Path) {
        self.step(format!("mount a fresh devpts at {}", path.display()), Writer::new(step::DEVPTS).path(path));
    }

    /// Changes the mode of a directory of the root.
    pub fn mode(&mut self, path: &Path, mode: u32) {
        self.step(format!("set the mode of {}", path.display()), Writer::new(step::MODE).path(path).u32(mode));
    }

    /// Makes the root read-only.
    pub fn seal(&mut self) {
        self.step("make the root read-only".into(), Writer::new(step::SEAL));
    }

    /// Enters the root and lets go of the host's.
    pub fn pivot(&mut self) {
        self.step("enter the new root".into(), Writer::new(step::PIVOT));
    }

    /// Brings the loopback interface up.
    pub fn loopback(&mut self) {
        self.step("bring the loopback interface up".into(), Writer::new(step::LOOPBACK));
    }

    /// Sets the host name.
    pub fn hostname(&mut self, name: &str) {
        self.step("set the host name".into(), Writer::new(step::HOSTNAME).text(name));
    }

    /// Limits a resource (`RLIMIT_*`) of the init, which starts the programs of the box.
    pub fn limit_init(&mut self, resource: u32, most: u64) {
        let encoded = Writer::new(step::LIMIT).u32(resource).u64(most).u64(most);
        self.step("limit the init".into(), encoded);
    }

    /// Becomes the box's user; the numbers are those inside the user namespace, if there is one.
    pub fn identity(&mut self, uid: u32, gid: u32) {
        self.step("become the box's user".into(), Writer::new(step::IDENTITY).u32(uid).u32(gid));
    }

    /// Restricts by Landlock.
    pub fn landlock(&mut self, rules: &crate::landlock::Rules) {
        self.step("restrict by Landlock".into(), Writer::new(step::LANDLOCK).append(&rules.encode()));
    }

    /// Drops every capability.
    pub fn drop_capabilities(&mut self) {
        self.step("drop every capability".into(), Writer::new(step::CAPABILITIES));
    }

    /// Promises never to gain privileges.
    pub fn no_new_privs(&mut self) {
        self.step("set no_new_privs".into(), Writer::new(step::NO_NEW_PRIVS));
    }

    /// Loads the system call filter; with `listen`, refused calls are announced on [`crate::Cell::listener`].
    pub fn seccomp(&mut self, program: &crate::seccomp::Program, listen: bool) {
        let encoded = Writer::new(step::SECCOMP).bytes(program.as_bytes()).u8(u8::from(listen));
        self.step("load the system call filter".into(), encoded);
    }

    /// A stage: a place of the host to mount a bundle at, where nobody else sees it. The root is made in `rootfs` below it.
    pub fn stage(&mut self, place: &Path) {
        self.step(format!("mount a bundle at {}", place.display()), Writer::new(step::STAGE).path(place));
    }

    /// A file of the bundle: these pieces, with the number of the box's user on the host between them.
    pub fn bundle_file(&mut self, name: &str, pieces: &[&[u8]]) {
        let mut encoded = Writer::new(step::BUNDLE).text(name).u32(pieces.len() as u32);
        for piece in pieces {
            encoded = encoded.bytes(piece);
        }
        self.step(format!("write {name} of the bundle"), encoded);
    }

    /// Works on the mounts of a container: `namespace` is its mount namespace, by a name in `/proc`, and `seen` what is known
    /// to be it. The first step.
    pub fn enter(&mut self, namespace: &Path, seen: &Metadata) {
        let tree = Tree { namespace: true, ..Tree::from_metadata(namespace, seen, TreeOptions::default()) };
        let number = self.tree(tree);
        self.step("enter the container's mounts".into(), Writer::new(step::ENTER).u32(number));
    }

    /// Shows a place of the view as `name` in the bundle too, for a runtime to mount from there: the names that lead to the place
    /// itself may be changed by the code in other boxes.
    pub fn expose(&mut self, path: &Path, name: &str, directory: bool) {
        let encoded = Writer::new(step::EXPOSE).path(path).text(name).u8(u8::from(directory));
        self.step(format!("show {} to the runtime", path.display()), encoded);
    }

    /// Gives a directory of the root to the box's user on the host.
    pub fn owner(&mut self, path: &Path) {
        self.step(format!("give {} to the box's user", path.display()), Writer::new(step::OWNER).path(path));
    }

    /// Shows a runtime its own processes, and no cgroups to change.
    pub fn own_processes(&mut self) {
        self.step("show the runtime its own processes".into(), Writer::new(step::OWN_PROCESSES));
    }

    /// Executes a runtime; the last step. The first process of its container talks on its standard input: records, or with
    /// `stream` bytes there and on its standard output.
    pub fn execute<'a>(
        &mut self,
        stream: bool,
        words: impl ExactSizeIterator<Item = &'a OsStr>,
        environment: impl ExactSizeIterator<Item = &'a OsStr>,
    ) {
        let mut encoded = Writer::new(step::EXECUTE).u8(u8::from(stream)).u32(words.len() as u32);
        for word in words {
            encoded = encoded.text(word);
        }
        encoded = encoded.u32(environment.len() as u32);
        for variable in environment {
            encoded = encoded.text(variable);
        }
        self.step("execute the runtime".into(), encoded);
    }

    /// The create request. `usual_base`: the spawner knows the base already.
    pub(crate) fn encode(&self, id: u32, fresh: bool, usual_base: bool) -> Vec<u8> {
        let mut writer = Writer::new(request::CREATE)
            .u32(id)
            .u64(self.namespaces.flags())
            .u8(u8::from(fresh))
            .u32(self.user.uid)
            .u32(self.user.gid)
            .u8(self.groups)
            .u8(u8::from(usual_base))
            .u32(self.limits.len() as u32);
        for limit in &self.limits {
            writer = writer.u8(limit.base).text(limit.file).bytes(limit.value.as_bytes());
        }
        writer = writer.u32(self.placeholders.len() as u32);
        for placeholder in &self.placeholders {
            let (device, inode) = placeholder.root_identity;
            writer = writer
                .path(&placeholder.root)
                .u64(device)
                .u64(inode)
                .path(&placeholder.path)
                .u8(placeholder.kind.number());
        }
        let base = if usual_base { Vec::new() } else { self.base_record() };
        writer
            .bytes(&base)
            .append(&encode_trees(&self.trees[self.base.trees..]))
            .append(&self.steps[self.base.step_bytes..])
            .finish()
    }

    /// The host path of a tree that the spawner opens, by its number among those.
    pub(crate) fn opened_tree(&self, number: u32) -> Option<PathBuf> {
        self.trees.get(self.base.trees + number as usize).map(|tree| tree.path.clone())
    }

    /// The host path of the tree that was being opened after so many things were done, if it was one.
    pub(crate) fn tree_path(&self, done: u32) -> Option<PathBuf> {
        match self.at(done as usize) {
            At::Tree(number) => self.trees.get(number).map(|tree| tree.path.clone()),
            At::Step(_) => None,
        }
    }

    /// What was being done after so many things were done, in words.
    pub(crate) fn describe(&self, done: u32) -> String {
        match self.at(done as usize) {
            At::Tree(number) => match self.trees.get(number) {
                Some(tree) => format!("open {}", tree.path.display()),
                None => "get ready".into(),
            },
            At::Step(number) => self.descriptions.get(number).cloned().unwrap_or_else(|| "get ready".into()),
        }
    }

    /// Trees of the base, steps of the base, other trees, other steps: in this order they are done.
    fn at(&self, done: usize) -> At {
        let base = self.base;
        if done < base.trees {
            return At::Tree(done);
        }
        let done = done - base.trees;
        if done < base.steps {
            return At::Step(done);
        }
        let done = done - base.steps;
        let trees = self.trees.len() - base.trees;
        if done < trees { At::Tree(base.trees + done) } else { At::Step(base.steps + done - trees) }
    }
}

enum At {
    Tree(usize),
    Step(usize),
}

/// A list of trees, with its length.
fn encode_trees(trees: &[Tree]) -> Vec<u8> {
    // The first byte of a record is its kind, which a list has not.
    let mut writer = Writer::new(0).u32(trees.len() as u32);
    for tree in trees {
        writer = writer
            .path(&tree.path)
            .u64(tree.device)
            .u64(tree.inode)
            .u32(if tree.namespace { tree_flag::NAMESPACE } else { tree.options.flags() })
            .u32(tree.owner.uid)
            .u32(tree.owner.gid);
    }
    writer.finish().split_off(1)
}
