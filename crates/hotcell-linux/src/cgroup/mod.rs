//! Finding the cgroups that boxes may live in, and reading what a box used.
//!
//! Version 2 where it has the controllers, else version 1, else none. What is found here is tried at once: the spawner's
//! first box, half made at its greeting, gets a cgroup in every directory. The spawner makes and removes the cgroups of boxes; it gets the directories
//! found here as descriptors.

mod find;
mod group;

pub(crate) use group::ticks_per_second;
pub use group::{Group, Usage};

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which version of cgroups is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        })
    }
}

/// A controller that limits something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Memory, tmpfs and shared memory included.
    Memory,
    /// Processes and threads.
    Pids,
    /// CPU bandwidth.
    Cpu,
    /// CPU time used.
    CpuTime,
}

impl Controller {
    const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::CpuTime, Self::Cpu];

    /// Its name in version 1.
    fn v1_name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::CpuTime => "cpuacct",
        }
    }
}

/// A directory under which boxes get their cgroups, and what it controls.
#[derive(Debug)]
struct Base {
    path: PathBuf,
    directory: OwnedFd,
    controllers: Vec<Controller>,
}

/// Where boxes of this process get their cgroups.
#[derive(Debug)]
pub struct Layout {
    version: Option<Version>,
    bases: Vec<Base>,
    /// Why there is nothing, or not everything, and what would help; about one controller, or about all.
    problems: Vec<(Option<Controller>, String)>,
    /// The command that would change it.
    advice: Option<String>,
}

impl Layout {
    /// Looks for what this process may use, now.
    pub fn detect() -> Self {
        find::detect()
    }

    /// No cgroups at all.
    pub fn none(reason: &str) -> Self {
        Self { version: None, bases: Vec::new(), problems: vec![(None, reason.to_owned())], advice: None }
    }

    /// The version in use, if any.
    pub fn kind(&self) -> Option<Version> {
        self.version
    }

    /// What stands in the way of more.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(|(_, problem)| problem.as_str())
    }

    /// The command that would give this process a cgroup, where there is one.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// What stands in the way of a controller, as closely as it is known.
    pub fn problem_of(&self, controller: Controller) -> Option<&str> {
        let about = |wanted| self.problems.iter().find(|(about, _)| *about == wanted);
        about(Some(controller)).or_else(|| about(None)).map(|(_, problem)| problem.as_str())
    }

    /// Whether boxes can be limited in this respect.
    pub fn has(&self, controller: Controller) -> bool {
        self.base_of(controller).is_some()
    }

    /// The number of the base that has a controller.
    pub fn base_of(&self, controller: Controller) -> Option<u8> {
        self.bases.iter().position(|base| base.controllers.contains(&controller)).map(|index| index as u8)
    }

    /// The directory of a base on the host.
    pub fn path_of(&self, controller: Controller) -> Option<&Path> {
        self.bases.iter().find(|base| base.controllers.contains(&controller)).map(|base| base.path.as_path())
    }

    /// Removes cgroups of spawners that were killed before they could do so themselves.
    pub(crate) fn sweep(&self) {
        self.unowned().iter().for_each(|path| remove_when_empty(path));
    }

    /// Empty cgroups of spawners that were killed before they could remove them.
    pub fn abandoned(&self) -> Vec<PathBuf> {
        self.unowned().into_iter().filter(|path| is_empty(path)).collect()
    }

    /// Removes those of [`Layout::abandoned`] that stay empty for a moment. A spawner in another process namespace looks like
    /// one that is gone, but puts a box into its cgroup at once; and the kernel removes none that has processes.
    pub fn remove_abandoned(&self) -> Vec<(PathBuf, io::Result<()>)> {
        let found = self.unowned();
        if !found.is_empty() {
            std::thread::sleep(TIME_TO_ENTER);
        }
        let mut removed = Vec::new();
        for path in found.into_iter().filter(|path| is_empty(path)) {
            match std::fs::remove_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => removed.push((path, result)),
            }
        }
        removed
    }

    /// What bears our name and a number that no process has.
    fn unowned(&self) -> Vec<PathBuf> {
        let entries = self.bases.iter().filter_map(|base| std::fs::read_dir(&base.path).ok()).flatten().flatten();
        let unowned = entries.filter(|entry| {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("hotcell-")?.split('-').next());
            number.and_then(|number| number.parse().ok()).is_some_and(is_gone)
        });
        unowned.map(|entry| entry.path()).collect()
    }

    pub(crate) fn bases(&self) -> Vec<&OwnedFd> {
        self.bases.iter().map(|base| &base.directory).collect()
    }

    /// The bases that every box uses, one bit each: all but the share of CPUs, which few policies limit.
    pub(crate) fn usual(&self) -> u8 {
        let usual = |base: &Base| base.controllers.iter().any(|controller| *controller != Controller::Cpu);
        self.bases.iter().enumerate().filter(|(_, base)| usual(base)).fold(0, |bits, (index, _)| bits | 1 << index)
    }

    pub(crate) fn version(&self) -> u8 {
        match self.version {
            None => 0,
            Some(Version::V1) => 1,
            Some(Version::V2) => 2,
        }
    }

    /// The cgroup of a box that the spawner named: opened now, while it is certainly there, and read later beneath these
    /// descriptors. A limit that could not be watched is no limit, so what cannot be opened is an error.
    pub(crate) fn group(&self, name: &str) -> io::Result<Option<Group>> {
        let Some(version) = self.version else { return Ok(None) };
        let mut group = Group::new(version);
        for (index, base) in self.bases.iter().enumerate() {
            match File::open(base.path.join(name)) {
                Ok(directory) => group.add(directory.into(), &base.controllers),
                // Only boxes that need them have one in the unusual bases.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.usual() & (1 << index) == 0 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(group))
    }
}

/// How long a cgroup may be empty before a box enters it; by far.
const TIME_TO_ENTER: Duration = Duration::from_millis(500);

/// Whether no living process has this number. Asked of the kernel, because /proc may hide the processes of others; one that has
/// died and that nobody has noticed is not living.
fn is_gone(pid: u32) -> bool {
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return true };
    // SAFETY: signal 0 is sent to nobody; the call only looks.
    if unsafe { libc::kill(pid, 0) } != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return true;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in brackets, can hold anything.
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('Z' | 'X'))
}

/// Whether a cgroup has no processes.
fn is_empty(path: &Path) -> bool {
    match std::fs::read(path.join("cgroup.procs")) {
        Ok(processes) => processes.is_empty(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes a cgroup whose processes have been killed and may take a moment to end. Nobody waits for this but the end of an
/// engine whose helper was killed.
fn remove_when_empty(path: &Path) {
    for _ in 0..400 {
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(path: &Path) -> Layout {
        let directory = File::open(path).unwrap().into();
        let base = Base { path: path.to_owned(), directory, controllers: vec![Controller::Pids] };
        Layout { version: Some(Version::V2), bases: vec![base], problems: Vec::new(), advice: None }
    }

    #[test]
    fn only_what_is_empty_and_of_a_spawner_that_is_gone_is_removed() {
        let place = std::env::temp_dir().join(format!("hotcell-cgroups-{}", std::process::id()));
        // No process has this number: it is larger than any that the kernel gives.
        let (gone, own) = (4_194_305_u32, std::process::id());
        let busy = place.join(format!("hotcell-{gone}-2"));
        let names = [
            format!("hotcell-{gone}-1"),
            format!("hotcell-{gone}-2"),
            format!("hotcell-{own}-1"),
            "hotcell-engines-x".to_owned(),
            format!("other-{gone}-1"),
        ];
        for name in &names {
            std::fs::create_dir_all(place.join(name)).unwrap();
        }
        std::fs::write(busy.join("cgroup.procs"), "17\n").unwrap();
        // Dead, and not yet waited for.
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        let died = (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            is_gone(dead.id())
        });
        assert!(died && !is_gone(own));
        let layout = layout(&place);
        assert_eq!(layout.abandoned(), [place.join(&names[0])]);
        let removed = layout.remove_abandoned();
        assert!(matches!(&removed[..], [(path, Ok(()))] if *path == place.join(&names[0])), "{removed:?}");
        assert!(names[1..].iter().all(|name| place.join(name).exists()));
        dead.wait().unwrap();
        std::fs::remove_dir_all(&place).unwrap();
    }
}
