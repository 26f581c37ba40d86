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

    /// Removes cgroups of spawners that were killed before they could do so themselves. Only what bears our name and a
    /// number that no process has, and only if it is empty: others are left alone.
    pub(crate) fn sweep(&self) {
        for base in &self.bases {
            let Ok(entries) = std::fs::read_dir(&base.path) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let spawner = name
                    .to_str()
                    .and_then(|name| name.strip_prefix("hotcell-")?.split('-').next()?.parse::<u32>().ok());
                if spawner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    remove_when_empty(&entry.path());
                }
            }
        }
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

/// Removes a cgroup whose processes have been killed and may take a moment to end. Nobody waits for this but the end of an
/// engine whose helper was killed.
fn remove_when_empty(path: &Path) {
    for _ in 0..400 {
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            _ => return,
        }
    }
}
