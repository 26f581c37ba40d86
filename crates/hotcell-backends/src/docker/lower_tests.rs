#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use std::fs;

use hotcell_core::backend::SandboxId;
use hotcell_core::plan::plan;
use serde_json::Value;

use super::super::{labels, probe};
use super::*;

/// Docker with root's rights and version 1 of cgroups.
pub(crate) fn engine() -> EngineFacts {
    EngineFacts {
        podman: false,
        version: "20.10.24".into(),
        components: Vec::new(),
        api: "1.41".into(),
        rootless: false,
        remaps_users: false,
        cgroup_version: Some(1),
        cgroup_driver: "cgroupfs".into(),
        memory: true,
        swap: true,
        pids: true,
        cpu: true,
        runtimes: BTreeMap::from([("runc".into(), "runc".into()), ("gvisor".into(), "/usr/bin/runsc".into())]),
        default_runtime: "runc".into(),
        storage: "overlay2".into(),
        kernel: "6.1".into(),
        architecture: "amd64".into(),
    }
}

fn here() -> Here {
    Here { landlock: Abi(0), root: geteuid().is_root(), mounts_inside: false, swap_in_use: false }
}

fn image() -> Image {
    Image { id: format!("sha256:{}", "0".repeat(64)), environment: BTreeMap::new(), volumes: Vec::new() }
}

/// A place for our files and one for the policy's trees.
struct Setting {
    directory: tempfile::TempDir,
    place: Place,
}

impl Setting {
    fn new() -> Self {
        // Not below /tmp, where the private place of the container would be.
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = directory.path().join("place");
        fs::create_dir(&place).unwrap();
        Self { place: Place::at(place), directory }
    }

    fn tree(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir_all(&path).unwrap();
        if here().root {
            std::os::unix::fs::chown(&path, Some(4242), Some(4242)).unwrap();
        }
        path
    }

    fn lower_with(&self, policy: &Policy, engine: &EngineFacts, image: &Image) -> Result<Lowered, CreateError> {
        let capabilities = probe::capabilities(engine, here(), None);
        let ground = Ground { engine, here: here(), place: &self.place, sockets: &[], runtime: None };
        lower(&plan(policy, &capabilities).unwrap(), image, &ground)
    }

    fn lower(&self, policy: &Policy) -> Result<Lowered, CreateError> {
        self.lower_with(policy, &engine(), &image())
    }

    /// The request as it is sent, without what differs from run to run.
    fn request(&self, lowered: &Lowered) -> String {
        let mut hardened = lowered.hardened.clone();
        let profile = profile::profile(Arch::native().unwrap(), &FilterOptions::default()).to_json();
        assert_eq!(hardened.seccomp, profile, "it is our profile");
        hardened.seccomp = "PROFILE".into();
        let id = SandboxId::new("docker-1-1").unwrap();
        hardened.labels = labels::labels(&labels::Owner::current().unwrap(), &id);
        hardened.labels.insert(labels::OWNER.into(), "OWNER".into());
        let value: Value = serde_json::to_value(hardened.body()).unwrap();
        let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
        let user = format!("\"{}:{}\"", hardened.user, hardened.group);
        let owner = format!("uid={},gid={}", hardened.user, hardened.group);
        let init = hardened.binds[0].source.file_name().unwrap().to_str().unwrap().to_owned();
        text.replace(self.directory.path().to_str().unwrap(), "DIRECTORY")
            .replace(&user, "\"USER:GROUP\"")
            .replace(&owner, "uid=USER,gid=GROUP")
            .replace(&init, "init-DIGEST")
            .replace(env!("CARGO_PKG_VERSION"), "VERSION")
    }
}

/// `UPDATE_GOLDEN=1 cargo test -p hotcell-backends docker` writes the files anew.
fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docker/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
        return;
    }
    let golden = fs::read_to_string(&path).unwrap();
    assert_eq!(found, golden, "{name} differs; if that is meant, run again with UPDATE_GOLDEN=1 and review");
}

#[test]
fn the_request_for_the_default_policy_is_as_written_down() {
    let setting = Setting::new();
    let lowered = setting.lower(&Policy::default()).unwrap();
    assert!(lowered.holder.is_none());
    compare("default.json", &setting.request(&lowered));
}

#[test]
fn the_request_for_a_rich_policy_is_as_written_down() {
    let setting = Setting::new();
    let (read, write) = (setting.tree("read"), setting.tree("write"));
    fs::create_dir_all(write.join(".git/hooks")).unwrap();
    fs::write(write.join(".git/config"), "").unwrap();
    fs::create_dir(read.join("secret")).unwrap();
    fs::write(read.join("key"), "").unwrap();
    let policy = Policy::builder()
        .read(&read)
        .write(&write)
        .deny(read.join("secret"))
        .deny(read.join("key"))
        .network(NetworkMode::Open)
        .memory(64 << 20)
        .processes(32)
        .open_files(128)
        .disk(64 << 20)
        .approximate(Control::DiskDirect)
        .build()
        .unwrap();
    let image = Image { volumes: vec!["/data".into()], ..image() };
    let lowered = setting.lower_with(&policy, &engine(), &image).unwrap();
    assert!(lowered.holder.is_some(), "absent protected paths are held");
    compare("rich.json", &setting.request(&lowered));
}

#[test]
fn private_places_together_have_the_disk_limit() {
    let setting = Setting::new();
    for volumes in [Vec::new(), vec![PathBuf::from("/data"), PathBuf::from("/tmp")]] {
        let policy = Policy::builder().disk(100 << 20).build().unwrap();
        let image = Image { volumes, ..image() };
        let hardened = setting.lower_with(&policy, &engine(), &image).unwrap().hardened;
        let sum = hardened.tmpfs.values().map(|tmpfs| tmpfs.bytes).sum::<u64>() + hardened.shared_memory;
        assert!(sum <= 100 << 20 && sum > 99 << 20, "{sum}");
    }
    let tiny = Policy::builder().disk(64 << 10).build().unwrap();
    assert!(matches!(setting.lower(&tiny), Err(CreateError::Setup { .. })));
}

#[test]
fn nobody_is_the_hosts_root() {
    let setting = Setting::new();
    let root = Policy::builder().user(BoxUser::ROOT).build().unwrap();
    assert!(matches!(setting.lower(&root), Err(CreateError::Refused(_))));
    let rootless = EngineFacts { rootless: true, ..engine() };
    assert_eq!(setting.lower_with(&root, &rootless, &image()).unwrap().hardened.user, 0, "it is the caller there");
    let tree = setting.tree("owned");
    if here().root {
        std::os::unix::fs::chown(&tree, Some(0), Some(0)).unwrap();
        let policy = Policy::builder().write(&tree).build().unwrap();
        assert!(matches!(setting.lower(&policy), Err(CreateError::Path { .. })));
    }
}

#[test]
fn trees_are_written_by_their_owner_or_not_at_all() {
    let setting = Setting::new();
    let tree = setting.tree("owned");
    let policy = Policy::builder().write(&tree).build().unwrap();
    let owner = if here().root { 4242 } else { geteuid().as_raw() };
    assert_eq!(setting.lower(&policy).unwrap().hardened.user, owner);
    let other = Policy::builder().write(&tree).user(BoxUser::from_uid(1234).unwrap()).build().unwrap();
    assert!(setting.lower(&other).is_err());
    let remapped = EngineFacts { remaps_users: true, ..engine() };
    assert!(setting.lower_with(&policy, &remapped, &image()).is_err());
    if here().root {
        let second = setting.tree("second");
        std::os::unix::fs::chown(&second, Some(4243), Some(4243)).unwrap();
        let both = Policy::builder().write(&tree).write(&second).build().unwrap();
        assert!(matches!(setting.lower(&both), Err(CreateError::Path { .. })));
    }
}

#[test]
fn limits_that_the_engine_cannot_hold_are_not_sent() {
    let setting = Setting::new();
    let bare = EngineFacts { memory: false, pids: false, cpu: false, cgroup_version: None, ..engine() };
    let hardened = setting.lower_with(&Policy::default(), &bare, &image()).unwrap().hardened;
    assert_eq!((hardened.memory, hardened.processes, hardened.nano_cpus), (None, None, None));
    let explicit = Policy::builder().memory(1 << 30).build().unwrap();
    assert!(plan(&explicit, &probe::capabilities(&bare, here(), None)).is_err(), "and asking for them is refused");
    assert!(matches!(
        setting.lower(&Policy::builder().memory(1 << 20).build().unwrap()),
        Err(CreateError::Setup { .. })
    ));
}

#[test]
fn a_runtime_that_the_engine_lacks_is_refused() {
    let capabilities = probe::capabilities(&engine(), here(), Some("runsc"));
    let refusal = plan(&Policy::default(), &capabilities).unwrap_err().to_string();
    assert!(refusal.contains("has no OCI runtime `runsc`; it has: gvisor, runc"), "{refusal}");
    let gvisor = probe::capabilities(&engine(), here(), Some("gvisor"));
    assert!(plan(&Policy::default(), &gvisor).is_ok());
    assert_eq!(gvisor.isolation.as_str(), "user-kernel");
    assert_eq!(probe::capabilities(&engine(), here(), None).isolation.as_str(), "container");
}

#[test]
fn gvisor_is_shown_no_trees() {
    let setting = Setting::new();
    let engine = EngineFacts { default_runtime: "gvisor".into(), ..engine() };
    let tree = setting.tree("tree");
    for policy in [Policy::builder().read(&tree), Policy::builder().write(&tree)] {
        let error = setting.lower_with(&policy.build().unwrap(), &engine, &image()).err().unwrap();
        assert!(matches!(error, CreateError::Refused(_)), "{error}");
    }
    let denied = Policy::builder().deny(&tree).build().unwrap();
    let hardened = setting.lower_with(&denied, &engine, &image()).unwrap().hardened;
    assert!(hardened.processes > Some(257), "gVisor's own processes are counted too");
}

#[test]
fn podman_gets_the_profile_as_a_file() {
    let setting = Setting::new();
    let podman = EngineFacts { podman: true, ..engine() };
    let hardened = setting.lower_with(&Policy::default(), &podman, &image()).unwrap().hardened;
    let profile = fs::read_to_string(&hardened.seccomp).unwrap();
    assert_eq!(profile, profile::profile(Arch::native().unwrap(), &FilterOptions::default()).to_json());
}

#[test]
fn further_limits_are_never_above_those_of_the_init() {
    let shown = "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         8388608              8388608              bytes     \n\
                 Max pending signals       unlimited            unlimited            signals   \n\
                 Max nice priority         0                    0                    \n";
    let (memlock, pending) = (Resource::Memlock as u32, Resource::Sigpending as u32);
    assert_eq!(further_limits(shown), [(memlock, 8_388_608, 8_388_608), (pending, 4096, 4096)]);
    assert_eq!(further_limits(&fs::read_to_string("/proc/self/limits").unwrap()).len(), 3);
}
