#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use std::os::unix::fs::symlink;

use hotcell_core::policy::Policy;

use super::super::holder::Holders;
use super::*;

struct Setting {
    directory: tempfile::TempDir,
    place: Place,
}

impl Setting {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = directory.path().join("place");
        fs::create_dir(&place).unwrap();
        Self { place: Place::at(place), directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tree(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).unwrap();
        self.path(name)
    }

    fn lower_near(&self, policy: &Policy, sockets: &[&Path]) -> Result<Trees, CreateError> {
        let private = BTreeSet::from(["/tmp".into(), "/home/hotcell".into(), "/var/tmp".into()]);
        let around = Surroundings { private: &private, sockets, place: &self.place, mounts_inside: false };
        lower(&policy.filesystem, &around, &mut Holders::blank())
    }

    fn lower(&self, policy: &Policy) -> Result<Trees, CreateError> {
        self.lower_near(policy, &[])
    }
}

fn bind<'a>(trees: &'a Trees, target: &Path) -> &'a Bind {
    trees.binds.iter().find(|bind| bind.target == target).unwrap_or_else(|| panic!("{target:?} in {trees:?}"))
}

#[track_caller]
fn refused(result: Result<Trees, CreateError>, why: &str) {
    match result {
        Err(CreateError::Path { reason, .. }) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn trees_are_where_they_are_on_the_host() {
    let setting = Setting::new();
    let (read, write) = (setting.tree("read"), setting.tree("write"));
    let trees = setting.lower(&Policy::builder().read(&read).write(&write).build().unwrap()).unwrap();
    assert_eq!(*bind(&trees, &read), Bind { source: read.clone(), target: read, read_only: true });
    assert_eq!(*bind(&trees, &write), Bind { source: write.clone(), target: write.clone(), read_only: false });
    assert_eq!(trees.written.len(), 1);
    let depths: Vec<usize> = trees.binds.iter().map(|bind| bind.target.components().count()).collect();
    assert!(depths.is_sorted(), "what is deeper comes later");
}

#[test]
fn denied_paths_are_covered_and_stay_covered() {
    let setting = Setting::new();
    let tree = setting.tree("tree");
    fs::create_dir_all(tree.join(".git/hooks")).unwrap();
    fs::write(tree.join("key"), "secret").unwrap();
    let policy =
        Policy::builder().write(&tree).deny(tree.join("key")).deny(tree.join(".git/hooks")).deny(tree.join("later"));
    let trees = setting.lower(&policy.build().unwrap()).unwrap();
    for (name, cover) in [("key", "denied-file"), (".git/hooks", "denied-directory"), ("later", "denied-file")] {
        let bind = bind(&trees, &tree.join(name));
        assert!(bind.read_only && bind.source.ends_with(cover), "{name}: {bind:?}");
    }
    assert!(trees.holds_names, "what does not exist must not come to exist");
}

#[test]
fn protected_paths_cannot_be_written_or_moved() {
    let setting = Setting::new();
    let tree = setting.tree("tree");
    fs::create_dir_all(tree.join(".git/hooks")).unwrap();
    fs::write(tree.join(".git/config"), "").unwrap();
    let trees = setting.lower(&Policy::builder().write(&tree).build().unwrap()).unwrap();
    assert!(!bind(&trees, &tree.join(".git")).read_only, "pinned, so that it cannot be renamed");
    for name in [".git/hooks", ".git/config"] {
        let path = tree.join(name);
        assert_eq!(*bind(&trees, &path), Bind { source: path.clone(), target: path, read_only: true });
    }
    for (name, cover) in [(".bashrc", "empty-file"), (".vscode", "empty-directory"), (".git/commondir", "here")] {
        assert!(bind(&trees, &tree.join(name)).source.ends_with(cover), "{name}");
    }
    assert!(trees.holds_names);
}

#[test]
fn what_containers_cannot_hold_is_refused() {
    let setting = Setting::new();
    let tree = setting.tree("tree/inner");
    let outer = setting.path("tree");
    symlink(&tree, setting.path("link")).unwrap();
    let policy = |path: &Path| Policy::builder().read(path).build().unwrap();
    refused(setting.lower(&policy(&setting.path("missing"))), "No such file");
    refused(setting.lower(&policy(&setting.path("link"))), "a link leads from it");
    for own in ["/proc", "/proc/self", "/sys/fs", "/dev", "/dev/shm", "/.hotcell"] {
        refused(setting.lower(&policy(Path::new(own))), "is the container's own");
    }
    refused(setting.lower(&policy(Path::new("/home"))), "`/home/hotcell` is the container's own");
    refused(setting.lower(&policy(Path::new("/var"))), "is the container's own");
    let shown_again = Policy::builder().read(&outer).deny(&tree).read(setting.tree("tree/inner/deep")).build().unwrap();
    refused(setting.lower(&shown_again), "is not, which containers cannot hold");
    let overlay = Policy::builder().overlay(&outer).build().unwrap();
    refused(setting.lower(&overlay), "have no overlays");
    symlink("/etc/passwd", outer.join("alias")).unwrap();
    let link = Policy::builder().write(&outer).deny(outer.join("alias")).build().unwrap();
    refused(setting.lower(&link), "a symbolic link in a writable tree");
}

#[test]
fn a_tree_that_leads_to_an_engine_is_refused() {
    let setting = Setting::new();
    let tree = setting.tree("tree");
    let socket = tree.join("deep/engine.sock");
    fs::create_dir_all(tree.join("deep")).unwrap();
    fs::write(&socket, "").unwrap();
    symlink(&socket, setting.path("alias.sock")).unwrap();
    let policy = Policy::builder().read(&tree).build().unwrap();
    refused(setting.lower_near(&policy, &[&socket]), "the engine listens below it");
    refused(setting.lower_near(&policy, &[&setting.path("alias.sock")]), "the engine listens below it");
    assert!(setting.lower_near(&policy, &[&setting.path("other.sock")]).is_ok());
}

#[test]
fn mount_points_are_read_as_the_kernel_writes_them() {
    assert_eq!(unescape(r"/a\040b\134c"), Path::new(r"/a b\c"));
    assert_eq!(unescape(r"/a\"), Path::new(r"/a\"));
    assert!(mount_points().iter().any(|path| path == Path::new("/proc")));
    let below_proc = Lowering {
        policy: &Policy::default().filesystem,
        around: &Surroundings {
            private: &BTreeSet::new(),
            sockets: &[],
            place: &Place::at("/".into()),
            mounts_inside: false,
        },
        holder: &mut Holders::blank(),
        mounted: vec!["/usr/share".into()],
        binds: BTreeMap::new(),
        holds_names: false,
        written: Vec::new(),
        points: Vec::new(),
        denied: Vec::new(),
    };
    let mut lowering = below_proc;
    let policy = Policy::builder().read("/usr").build().unwrap();
    let error = lowering.show(&policy.filesystem.rules[0]).unwrap_err();
    assert!(error.to_string().contains("`/usr/share` is mounted below it"), "{error}");
}
