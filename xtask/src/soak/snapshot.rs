//! Everything that a box could leave behind, counted at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::getuid;

use super::cgroups::{self, Hierarchy};
use super::proc;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The first of the users that boxes of root have on the host.
const BOX_USERS: u32 = 0x7800_0000;

/// What is looked at.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    hierarchies: Vec<Hierarchy>,
    /// Directories whose files count.
    directories: Vec<PathBuf>,
    /// The helper of a live engine, whose descriptors count too.
    helper: Option<u32>,
    /// Whether what has ended but was not waited for counts. Who waits for the children of a killed program is the
    /// machine's init, which may take its time.
    zombies: bool,
}

impl Scope {
    /// Everything, with the files in `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        let directories = vec![directory.to_owned(), PathBuf::from("/dev/shm")];
        Self { hierarchies: cgroups::hierarchies(), directories, helper: None, zombies: true }
    }

    pub(super) fn with_helper(mut self, helper: Option<u32>) -> Self {
        self.helper = helper;
        self
    }

    pub(super) fn without_zombies(mut self) -> Self {
        self.zombies = false;
        self
    }
}

/// How many there are of each thing: its class and a name that does not change from one box to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    counts: BTreeMap<(&'static str, String), usize>,
}

impl Snapshot {
    pub(super) fn take(scope: &Scope) -> Self {
        let mut snapshot = Self::default();
        snapshot.processes(scope.zombies);
        snapshot.mounts();
        for path in cgroups::of_boxes(&scope.hierarchies) {
            let above = path.parent().unwrap_or(&path).display().to_string();
            snapshot.add("cgroup", above);
        }
        for directory in &scope.directories {
            snapshot.files(directory);
        }
        snapshot.ipc();
        snapshot.keys();
        snapshot.descriptors("descriptor", std::process::id(), |_| true);
        if let Some(helper) = scope.helper {
            // One namespace for each place that a box ever had is kept for the next box there: as many as boxes at the
            // same time, which is no constant. The part that counts on it looks at their number.
            snapshot.descriptors("helper's descriptor", helper, |target| !target.starts_with("user:"));
        }
        snapshot
    }

    fn add(&mut self, class: &'static str, name: impl Into<String>) {
        *self.counts.entry((class, name.into())).or_default() += 1;
    }

    fn processes(&mut self, zombies: bool) {
        let mut namespaces: BTreeSet<(String, (u64, u64))> = BTreeSet::new();
        for process in proc::processes() {
            if process.is_zombie {
                if zombies {
                    self.add("zombie", process.name);
                }
                continue;
            }
            namespaces.extend(proc::namespaces(process.pid));
            self.add("process", process.name);
        }
        // The same namespace under another name.
        for (kind, _) in namespaces.into_iter().filter(|(kind, _)| !kind.ends_with("_for_children")) {
            self.add("namespace", kind);
        }
    }

    fn mounts(&mut self) {
        for line in fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines() {
            self.add("mount", line.split(' ').nth(4).unwrap_or_default());
        }
    }

    fn files(&mut self, directory: &Path) {
        let me = getuid();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if !me.is_root() && data.uid() != me.as_raw() {
                continue;
            }
            let path = entry.path();
            self.add("file", path.display().to_string());
            if data.is_dir() {
                self.files(&path);
            }
        }
    }

    fn ipc(&mut self) {
        for kind in ["shm", "msg", "sem"] {
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            for _ in 0..objects_of(&table, getuid().as_raw()) {
                self.add("IPC object", kind);
            }
        }
    }

    fn keys(&mut self) {
        for line in fs::read_to_string("/proc/keys").unwrap_or_default().lines() {
            // Number, flags, uses, time, permissions, user, group, kind, description.
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words.get(7..).unwrap_or_default().join(" ");
            self.add("key", name.split(':').next().unwrap_or_default());
        }
        for line in fs::read_to_string("/proc/key-users").unwrap_or_default().lines() {
            let user = line.split(':').next().and_then(|user| user.trim().parse::<u32>().ok());
            if user.is_some_and(|user| user >= BOX_USERS) {
                self.add("key", "of a box's user");
            }
        }
    }

    fn descriptors(&mut self, class: &'static str, pid: u32, counts: impl Fn(&str) -> bool) {
        for target in proc::descriptors(pid).unwrap_or_default().iter().filter(|target| counts(target)) {
            // Sockets, pipes and the like are told apart by numbers that are never the same again.
            let name = target.split_once(":[").map_or(target.as_str(), |(kind, _)| kind);
            // Nor is the directory of the look itself.
            if !name.starts_with("/proc/") {
                self.add(class, name);
            }
        }
    }

    /// How many there are of a class.
    pub(super) fn count(&self, class: &str) -> usize {
        self.counts.iter().filter(|((of, _), _)| *of == class).map(|(_, count)| count).sum()
    }

    /// What there is more of than in `baseline`, or less, in words.
    pub(super) fn differences(&self, baseline: &Self) -> Vec<String> {
        self.compare(baseline, |before, now| before != now)
    }

    /// What there is more of than in `baseline`, in words: for when something else may still have been going away then.
    pub(super) fn leaks(&self, baseline: &Self) -> Vec<String> {
        self.compare(baseline, |before, now| before < now)
    }

    fn compare(&self, baseline: &Self, is_worth_telling: fn(usize, usize) -> bool) -> Vec<String> {
        let keys: BTreeSet<_> = self.counts.keys().chain(baseline.counts.keys()).collect();
        let mut found = Vec::new();
        for key in keys {
            let [before, now] = [baseline, self].map(|snapshot| snapshot.counts.get(key).copied().unwrap_or(0));
            if is_worth_telling(before, now) {
                found.push(format!("{} {}: {before} before, {now} now", key.0, key.1));
            }
        }
        found
    }
}

/// How many objects in a table of `/proc/sysvipc` are ours to look at: root's are all.
fn objects_of(table: &str, user: u32) -> usize {
    let mut lines = table.lines();
    let column = lines.next().and_then(|titles| titles.split_whitespace().position(|title| title == "uid"));
    let owner = |line: &str| line.split_whitespace().nth(column?)?.parse::<u32>().ok();
    lines.filter(|line| user == 0 || owner(line) == Some(user)).count()
}

/// What is compared: [`Snapshot::differences`] or [`Snapshot::leaks`].
pub(super) type Compare = fn(&Snapshot, &Snapshot) -> Vec<String>;

/// Waits until nothing is found against `baseline`; what still is after a long time, and how long that took.
pub(super) fn settle(
    scope: &Scope,
    baseline: &Snapshot,
    patience: Duration,
    compare: Compare,
) -> (Vec<String>, Duration) {
    let started = Instant::now();
    loop {
        let differences = compare(&Snapshot::take(scope), baseline);
        if differences.is_empty() || started.elapsed() > patience {
            return (differences, started.elapsed());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_behind_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let scope = Scope::new(directory.path());
        let of_files = |snapshot: &Snapshot, baseline: &Snapshot| {
            let all = snapshot.differences(baseline);
            all.into_iter().filter(|line| line.starts_with("file")).collect::<Vec<_>>()
        };
        let before = Snapshot::take(&scope);
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/left"), "").unwrap();
        let after = Snapshot::take(&scope);
        assert_eq!(after.count("file"), before.count("file") + 2);
        let found = of_files(&after, &before);
        assert!(found.len() == 2 && found[1].ends_with("sub/left: 0 before, 1 now"), "{found:?}");
        assert_eq!(of_files(&before, &after).len(), 2, "what is missing is a difference too");
        assert!(after.leaks(&before).len() >= 2 && !before.leaks(&after).iter().any(|line| line.contains("sub")));
    }

    #[test]
    fn objects_of_others_do_not_count() {
        let table = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid\n\
                     0 1 600 0 0 0 0 1000 1000\n 0 2 600 0 0 0 0 7 7\n";
        assert_eq!((objects_of(table, 0), objects_of(table, 7), objects_of(table, 8)), (2, 1, 0));
    }

    #[test]
    fn an_open_descriptor_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("open");
        fs::write(&path, "").unwrap();
        let scope = Scope::new(directory.path());
        let before = Snapshot::take(&scope);
        let file = fs::File::open(&path).unwrap();
        let found = Snapshot::take(&scope).differences(&before);
        drop(file);
        assert!(
            found.iter().any(|line| line.starts_with("descriptor") && line.contains("open: 0 before")),
            "{found:?}"
        );
    }

    #[test]
    fn waiting_ends_when_all_is_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let scope = Scope {
            hierarchies: Vec::new(),
            directories: vec![directory.path().into()],
            ..Scope::new(directory.path())
        };
        let before = Snapshot::default();
        let (left, _) = settle(&scope, &before, Duration::ZERO, Snapshot::differences);
        assert!(!left.is_empty(), "nothing is not what there is");
    }
}
