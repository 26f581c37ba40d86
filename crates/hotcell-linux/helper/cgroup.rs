//! The cgroups of one box: made before it, removed after it.
//!
//! The library hands over the directories under which boxes may live: one for v2, one per controller for v1.

use crate::sys::{self, Fd};
use crate::text::Text;

pub const BASES_MAX: usize = 8;
pub const NAME_MAX: usize = 96;
pub type Name = Text<NAME_MAX>;

pub struct Cgroups {
    /// 0: none, 1: v1, 2: v2.
    pub version: u8,
    bases: [Fd; BASES_MAX],
    count: usize,
    prefix: [u8; 48],
    prefix_length: usize,
}

/// Files through which a process can put itself in a cgroup of version 1.
pub struct Entrances {
    files: [Fd; BASES_MAX],
}

impl Entrances {
    /// Puts the calling process in. A process may move itself without the wait that moving another one takes.
    pub fn enter(&self) -> sys::Result<()> {
        for file in self.files.iter().filter(|file| **file >= 0) {
            sys::write(*file, b"0")?;
        }
        Ok(())
    }

    pub fn close(&self) {
        for file in self.files.iter().filter(|file| **file >= 0) {
            sys::close(*file);
        }
    }
}

impl Cgroups {
    pub fn none() -> Self {
        Self { version: 0, bases: [-1; BASES_MAX], count: 0, prefix: [0; 48], prefix_length: 0 }
    }

    pub fn new(version: u8, bases: &[Fd], prefix: &[u8]) -> sys::Result<Self> {
        let mut cgroups = Self::none();
        let prefix = prefix.strip_suffix(b"\0").unwrap_or(prefix);
        if bases.len() > BASES_MAX || prefix.len() > cgroups.prefix.len() {
            return Err(sys::EINVAL);
        }
        cgroups.version = version;
        cgroups.count = bases.len();
        cgroups.bases[..bases.len()].copy_from_slice(bases);
        cgroups.prefix_length = prefix.len();
        cgroups.prefix[..prefix.len()].copy_from_slice(prefix);
        Ok(cgroups)
    }

    /// The name of a box's cgroup: the same in every hierarchy, never used twice by this spawner.
    pub fn name(&self, serial: u32) -> Name {
        Name::new().push(&self.prefix[..self.prefix_length]).push(b"-").number(u64::from(serial))
    }

    /// The hierarchies whose bits are set.
    fn chosen(&self, mask: u8) -> impl Iterator<Item = (usize, Fd)> + '_ {
        let bases = self.bases[..self.count].iter().copied().enumerate();
        bases.filter(move |(index, _)| mask & (1 << index) != 0)
    }

    /// Makes the cgroup `name` in the hierarchies of `mask`; removes what it made if one fails.
    pub fn make(&self, name: &Name, mask: u8) -> sys::Result<()> {
        let path = Name::new().push(name.as_bytes()).end();
        let mut made = 0;
        for (index, base) in self.chosen(mask) {
            if let Err(errno) = sys::mkdirat(base, path.as_bytes(), 0o755) {
                self.remove(name, made);
                return Err(errno);
            }
            made |= 1 << index;
        }
        Ok(())
    }

    /// The descriptor to clone into, with v2.
    pub fn open_v2(&self, name: &Name) -> sys::Result<Option<Fd>> {
        if self.version != 2 {
            return Ok(None);
        }
        let path = Name::new().push(name.as_bytes()).end();
        sys::openat(self.bases[0], path.as_bytes(), sys::O_RDONLY | sys::O_DIRECTORY, 0).map(Some)
    }

    /// Opens the files through which a process can put itself in, with v1. Whoever writes to them acts with the rights
    /// of the spawner, which opened them.
    pub fn open_v1(&self, name: &Name, mask: u8) -> sys::Result<Entrances> {
        let mut entrances = Entrances { files: [-1; BASES_MAX] };
        if self.version == 1 {
            let path = Text::<128>::new().push(name.as_bytes()).push(b"/tasks").end();
            for (index, base) in self.chosen(mask) {
                match sys::openat(base, path.as_bytes(), sys::O_WRONLY, 0) {
                    Ok(file) => entrances.files[index] = file,
                    Err(errno) => {
                        entrances.close();
                        return Err(errno);
                    }
                }
            }
        }
        Ok(entrances)
    }

    /// Puts another process in, with v1. Slow where it is rare: the kernel waits until no process is being started.
    pub fn attach_v1(&self, name: &Name, mask: u8, pid: i32) -> sys::Result<()> {
        if self.version != 1 {
            return Ok(());
        }
        let number = Text::<12>::new().number(pid as u64);
        for (base, _) in self.chosen(mask) {
            self.write(name, base, b"cgroup.procs", number.as_bytes())?;
        }
        Ok(())
    }

    /// Writes one of the cgroup's files.
    pub fn write(&self, name: &Name, base: usize, file: &[u8], value: &[u8]) -> sys::Result<()> {
        let base = *self.bases[..self.count].get(base).ok_or(sys::EINVAL)?;
        let path = Text::<192>::new().push(name.as_bytes()).push(b"/").name(file).end();
        let file = sys::openat(base, path.as_bytes(), sys::O_WRONLY, 0)?;
        let result = sys::write(file, value);
        sys::close(file);
        if result? == value.len() { Ok(()) } else { Err(sys::EINVAL) }
    }

    /// Removes the cgroup from the hierarchies of `mask`. The last process has been reaped, but the kernel may need a
    /// moment to let go of it; then it says EBUSY.
    pub fn remove(&self, name: &Name, mask: u8) {
        let path = Name::new().push(name.as_bytes()).end();
        for (_, base) in self.chosen(mask) {
            for _ in 0..200 {
                if sys::unlinkat(base, path.as_bytes(), sys::AT_REMOVEDIR) != Err(sys::EBUSY) {
                    break;
                }
                sys::pause_briefly();
            }
        }
    }
}
