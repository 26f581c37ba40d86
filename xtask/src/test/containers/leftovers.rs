//! What tests left behind: in an engine, and in the realm when the engines have ended.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::api::Connection;
use super::realm::Realm;

/// How long what has been ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Cgroups that the realm and the engines make for themselves.
const OWN_CGROUPS: &[&str] = &["", "daemons", "tests", "docker", "libpod_parent", "libpod_parent/conmon"];

/// Mounts that engines make for themselves, beneath the realm's directory or as they are.
const OWN_MOUNTS: &[&str] =
    &["memory", "memory/docker/data", "memory/podman/root/overlay", "/run/netns", "/run/docker/netns/default"];

/// Everything in an engine that stays until somebody removes it, one line each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Inventory(BTreeSet<String>);

impl Inventory {
    pub(super) fn take(engine: &mut Connection) -> Result<Self> {
        let mut found = BTreeSet::new();
        for container in list(&engine.get("/containers/json?all=true")?) {
            let name = container["Names"][0].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
            found.insert(format!("container {name} ({})", word(&container["State"])));
        }
        for image in list(&engine.get("/images/json")?) {
            let tags: Vec<&str> = list(&image["RepoTags"]).iter().filter_map(Value::as_str).collect();
            found.insert(format!("image {} {}", word(&image["Id"]), tags.join(" ")));
        }
        for network in list(&engine.get("/networks")?) {
            found.insert(format!("network {}", word(&network["Name"])));
        }
        for volume in list(&engine.get("/volumes")?["Volumes"]) {
            found.insert(format!("volume {}", word(&volume["Name"])));
        }
        Ok(Self(found))
    }

    /// What is here and not there.
    pub(super) fn beyond(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// What is still in the realm, some time after its engines ended.
pub(super) fn in_realm(realm: &Realm) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut left = processes(realm);
        left.extend(cgroups(realm));
        left.extend(mounts(realm));
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What the realm left on the machine, when it has ended.
pub(super) fn on_host(name: &str) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter(|line| line.contains(name)).map(|line| format!("mount {line}")).collect()
}

/// Processes other than the realm's first and what that waits for.
fn processes(realm: &Realm) -> Vec<String> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let first = realm.pid().to_string();
    let Some(ours) = namespace(&first) else { return Vec::new() };
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid == first || namespace(&pid).as_ref() != Some(&ours) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // What it waits for. One that has ended has no arguments any more.
        if line.trim() == "cat" || line.is_empty() {
            continue;
        }
        left.push(format!("process {pid}: {}", line.trim()));
    }
    left
}

fn cgroups(realm: &Realm) -> Vec<String> {
    let mut left = BTreeSet::new();
    for entry in fs::read_to_string("/proc/mounts").unwrap_or_default().lines() {
        let mut words = entry.split(' ').skip(1);
        let (Some(point), Some("cgroup" | "cgroup2")) = (words.next(), words.next()) else { continue };
        let root = Path::new(point).join(realm.name());
        find_cgroups(&root, &root, &mut left);
    }
    left.into_iter().map(|path| format!("cgroup {path}")).collect()
}

fn find_cgroups(root: &Path, directory: &Path, left: &mut BTreeSet<String>) {
    let Ok(below) = directory.strip_prefix(root) else { return };
    if was_forgotten_by_podman(directory, below) {
        return;
    }
    if !OWN_CGROUPS.iter().any(|own| Path::new(own) == below) {
        left.insert(below.display().to_string());
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_cgroups(root, &entry.path(), left);
        }
    }
}

/// Podman tries once to remove the cgroup of a container that it has removed. If the kernel has not let go of the last process
/// by then, the cgroup stays: empty, which only one that is removed here was.
fn was_forgotten_by_podman(directory: &Path, below: &Path) -> bool {
    let of_container = below.strip_prefix("libpod_parent").ok().and_then(Path::to_str);
    of_container.is_some_and(|name| name.starts_with("libpod-") && !name.contains('/'))
        && fs::remove_dir(directory).is_ok()
}

fn mounts(realm: &Realm) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{}/mountinfo", realm.pid())).unwrap_or_default();
    foreign_mounts(&text, realm.directory()).into_iter().map(|point| format!("mount {point}")).collect()
}

/// Mounts beneath the realm's directory, or where engines keep namespaces, that are not the engines' own.
fn foreign_mounts(mountinfo: &str, directory: &Path) -> BTreeSet<String> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let is_ours = |point: &&str| {
        let point = Path::new(point);
        point.starts_with(directory) || point.starts_with("/run/netns") || point.starts_with("/run/docker")
    };
    let is_foreign = |point: &&str| !OWN_MOUNTS.iter().any(|own| directory.join(own) == Path::new(point));
    points.filter(is_ours).filter(is_foreign).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_cgroups_of_podmans_are_forgiven() {
        let root = tempfile::tempdir().unwrap();
        for made in ["libpod_parent/libpod-empty", "libpod_parent/libpod-used/inside", "docker/empty"] {
            fs::create_dir_all(root.path().join(made)).unwrap();
        }
        let mut left = BTreeSet::new();
        find_cgroups(root.path(), root.path(), &mut left);
        let left: Vec<&str> = left.iter().map(String::as_str).collect();
        assert_eq!(left, ["docker/empty", "libpod_parent/libpod-used", "libpod_parent/libpod-used/inside"]);
    }

    #[test]
    fn what_is_new_is_left() {
        let of = |lines: &[&str]| Inventory(lines.iter().map(|line| (*line).to_owned()).collect());
        let before = of(&["network bridge", "image a hotcell-test:latest"]);
        assert_eq!(before.beyond(&before), Vec::<String>::new());
        let after = of(&["network bridge", "image a hotcell-test:latest other:tag", "container x (exited)"]);
        assert_eq!(after.beyond(&before), ["container x (exited)", "image a hotcell-test:latest other:tag"]);
    }

    #[test]
    fn mounts_of_containers_are_left_and_those_of_engines_are_not() {
        let text = "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /e/memory/docker/data /e/memory/docker/data rw - ext4 a rw\n\
                    3 1 0:4 / /e/memory/docker/data/overlay2/x/merged rw - overlay overlay rw\n\
                    4 1 0:4 / /run/netns rw - tmpfs tmpfs rw\n5 1 0:4 net:[1] /run/netns/cni-1 rw - nsfs nsfs rw\n";
        let found: Vec<String> = foreign_mounts(text, Path::new("/e")).into_iter().collect();
        assert_eq!(found, ["/e/memory/docker/data/overlay2/x/merged", "/run/netns/cni-1"]);
    }

    #[test]
    fn cgroups_of_containers_are_left_and_those_of_engines_are_not() {
        let root = tempfile::tempdir().unwrap();
        for own in OWN_CGROUPS {
            fs::create_dir_all(root.path().join(own)).unwrap();
        }
        let find = || {
            let mut left = BTreeSet::new();
            find_cgroups(root.path(), root.path(), &mut left);
            left.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(find(), Vec::<String>::new());
        fs::create_dir(root.path().join("docker/0123")).unwrap();
        fs::create_dir(root.path().join("tests/hotcell-1-1")).unwrap();
        assert_eq!(find(), ["docker/0123", "tests/hotcell-1-1"]);
    }
}
