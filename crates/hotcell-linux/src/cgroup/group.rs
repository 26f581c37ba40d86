//! The cgroup of one box: reading what it used and which limits it hit.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Controller, Version};

/// What a box used so far, as far as its cgroup tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all processes, ended ones included.
    pub cpu: Option<Duration>,
    /// Of which in user mode.
    pub cpu_user: Option<Duration>,
    /// Of which in the kernel.
    pub cpu_system: Option<Duration>,
    /// The most memory at any moment.
    pub peak_memory: Option<u64>,
    /// The most processes at any moment.
    pub peak_processes: Option<u64>,
    /// How many processes the kernel killed for want of memory.
    pub memory_kills: u64,
    /// How often a process could not be started because of the limit.
    pub process_refusals: u64,
}

/// The directories of one box's cgroup. It can be read while it exists, that is, until the box is released.
#[derive(Debug)]
pub struct Group {
    version: Version,
    directories: Vec<(OwnedFd, Vec<Controller>)>,
    /// Files that have been read. Most boxes run one command and read each once; from the second time on it stays open.
    files: Mutex<HashMap<&'static str, Option<File>>>,
}

impl Group {
    pub(super) fn new(version: Version) -> Self {
        Self { version, directories: Vec::new(), files: Mutex::default() }
    }

    pub(super) fn add(&mut self, directory: OwnedFd, controllers: &[Controller]) {
        self.directories.push((directory, controllers.to_vec()));
    }

    /// The cgroups that a process is in now, for reading: a box's, by its first process. Nothing is made or removed there.
    /// `None`: none of them counts anything that is of interest.
    pub fn of_process(pid: u32) -> io::Result<Option<Self>> {
        super::find::of_process(pid)
    }

    fn read(&self, controller: Controller, name: &'static str) -> Option<String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(file)) = files.get(name) {
            return read_from_start(file);
        }
        let file = self.open(controller, name)?;
        let text = read_from_start(&file);
        let again = files.contains_key(name);
        files.insert(name, again.then_some(file));
        text
    }

    fn open(&self, controller: Controller, name: &str) -> Option<File> {
        let (directory, _) = self.directories.iter().find(|(_, controllers)| controllers.contains(&controller))?;
        let path = CString::new(name).ok()?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: `path` is NUL-terminated; the result is checked.
        let descriptor = unsafe { libc::openat(directory.as_raw_fd(), path.as_ptr(), flags) };
        // SAFETY: the descriptor is new and nobody else's.
        (descriptor >= 0).then(|| unsafe { File::from_raw_fd(descriptor) })
    }

    fn number(&self, controller: Controller, name: &'static str) -> Option<u64> {
        self.read(controller, name)?.trim().parse().ok()
    }

    /// The value behind `key` in a file of "key value" lines.
    fn keyed(&self, controller: Controller, name: &'static str, key: &str) -> Option<u64> {
        keyed(&self.read(controller, name)?, key)
    }

    /// The CPU time of everything that ran in the box.
    pub fn cpu(&self) -> Option<Duration> {
        match self.version {
            Version::V1 => self.number(Controller::CpuTime, "cpuacct.usage").map(Duration::from_nanos),
            Version::V2 => self.keyed(Controller::CpuTime, "cpu.stat", "usage_usec").map(Duration::from_micros),
        }
    }

    /// How many processes the kernel killed for want of memory.
    pub fn memory_kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.keyed(Controller::Memory, file, "oom_kill").unwrap_or(0)
    }

    /// Everything that can be read.
    pub fn usage(&self) -> Usage {
        let (cpu_user, cpu_system, peak_memory) = match self.version {
            Version::V1 => (
                self.number(Controller::CpuTime, "cpuacct.usage_user").map(Duration::from_nanos),
                self.number(Controller::CpuTime, "cpuacct.usage_sys").map(Duration::from_nanos),
                self.number(Controller::Memory, "memory.max_usage_in_bytes"),
            ),
            Version::V2 => {
                let stat = self.read(Controller::CpuTime, "cpu.stat").unwrap_or_default();
                let time = |key| keyed(&stat, key).map(Duration::from_micros);
                (time("user_usec"), time("system_usec"), self.number(Controller::Memory, "memory.peak"))
            }
        };
        Usage {
            cpu: cpu_user.zip(cpu_system).map(|(user, system)| user + system),
            cpu_user,
            cpu_system,
            peak_memory,
            // The init is one of them.
            peak_processes: self.number(Controller::Pids, "pids.peak").map(|peak| peak.saturating_sub(1)),
            memory_kills: self.memory_kills(),
            process_refusals: self.keyed(Controller::Pids, "pids.events", "max").unwrap_or(0),
        }
    }
}

/// These files are short, and tell the present when they are read from their start.
fn read_from_start(file: &File) -> Option<String> {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The unit in which the kernel tells process times.
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: no memory is involved.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::keyed;

    #[test]
    fn a_key_is_matched_whole() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(keyed(text, "oom_kill"), Some(3));
        assert_eq!(keyed(text, "oom"), None);
    }
}
