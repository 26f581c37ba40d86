//! The cgroups that boxes of this program can have: where they would be, and which there are.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::getuid;

/// A hierarchy in which boxes are limited, and where this process is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// This process's directory.
    pub(super) own: PathBuf,
    /// Whether it is the one of version 2.
    pub(super) unified: bool,
}

/// The controllers that Hotcell uses.
const CONTROLLERS: &[&str] = &["memory", "pids", "cpu", "cpuacct"];

/// The hierarchies that have a controller which Hotcell uses.
pub(super) fn hierarchies() -> Vec<Hierarchy> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), |own| {
        // One without controllers serves no box.
        let available = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
        available.split_whitespace().any(|name| CONTROLLERS.contains(&name))
    })
}

fn find(mounts: &str, membership: &str, is_useful: impl Fn(&Path) -> bool) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let (Some(root), Some(point), Some(kind)) = (before.next(), before.next(), after.next()) else { continue };
        let unified = kind == "cgroup2";
        if !unified && kind != "cgroup" {
            continue;
        }
        let options: Vec<&str> = after.nth(1).unwrap_or_default().split(',').collect();
        if !unified && !options.iter().any(|option| CONTROLLERS.contains(option)) {
            continue;
        }
        let path = membership.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let here = if unified {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|name| CONTROLLERS.contains(&name) && options.contains(&name))
            };
            here.then_some(path)
        });
        let Some(below) = path.and_then(|path| Path::new(path).strip_prefix(root).ok()) else { continue };
        let own = Path::new(point).join(below);
        if !unified || is_useful(&own) {
            found.push(Hierarchy { own, unified });
        }
    }
    found
}

/// The cgroups of boxes that this user's programs have in the places where ours are made. Sorted.
pub(super) fn of_boxes(hierarchies: &[Hierarchy]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for hierarchy in hierarchies {
        // With version 2 a cgroup that holds processes cannot have children with limits: they are beside it.
        let levels = if hierarchy.unified { 3 } else { 1 };
        for directory in hierarchy.own.ancestors().take(levels) {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            found.extend(entries.filter(is_of_a_box).map(|entry| entry.path()));
        }
    }
    found.sort();
    found
}

/// `hotcell-HELPER-NUMBER`, made by this user.
fn is_of_a_box(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let numbers = name.to_str().and_then(|name| name.strip_prefix("hotcell-")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(helper, number)| is_number(helper) && is_number(number))
        && entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == getuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_directories_are_found_in_both_versions() {
        let mounts = "30 1 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 1 0:2 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      32 1 0:3 /outer /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let membership = "4:memory:/mine\n3:cpuset:/\n0::/outer/scope\n";
        let found = find(mounts, membership, |_| true);
        let expected = [("/sys/fs/cgroup/memory/mine", false), ("/sys/fs/cgroup/unified/scope", true)];
        assert_eq!(found, expected.map(|(own, unified)| Hierarchy { own: own.into(), unified }));
        assert_eq!(find(mounts, membership, |_| false).len(), 1);
    }
}
