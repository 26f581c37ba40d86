//! Placeholders: something to mount on where a protected path does not exist yet.
//!
//! A mount needs a place. Where a protected path (`.git/hooks` in a tree without `.git`) is missing from a tree that the
//! box may write, the spawner makes the first missing component, empty, for as long as boxes need it. Each box holds a
//! shared lock on it; whoever lets go last removes it, unless the user has put something there meanwhile. A
//! placeholder is known by its mode, which it has from the first moment and which nothing else has: one that survived a
//! power cut or a SIGKILL of the spawner is adopted and removed by the next box.

use crate::sys::{self, Fd};
use crate::wire::{HERE, Malformed, Reader, placeholder};

/// The owner's alone, and sticky, which means nothing on a file and little on a directory. (The library knows these too.)
const DIRECTORY_MODE: u32 = 0o1700;
const FILE_MODE: u32 = 0o1600;
const TYPE_MASK: u32 = 0o170_000;
const TYPE_DIRECTORY: u32 = 0o040_000;
const TYPE_FILE: u32 = 0o100_000;
const NAME_MAX: usize = 64;
const MAX: usize = 2048;

#[derive(Clone, Copy)]
struct Held {
    /// Zero: free. Else the slot number plus one.
    owner: u32,
    parent: Fd,
    lock: Fd,
    kind: u8,
    name: [u8; NAME_MAX],
}

/// A placeholder that a box needs.
pub struct Wanted<'a> {
    root: &'a [u8],
    device: u64,
    inode: u64,
    path: &'a [u8],
    kind: u8,
}

impl<'a> Wanted<'a> {
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            root: reader.text()?,
            device: reader.u64()?,
            inode: reader.u64()?,
            path: reader.text()?,
            kind: reader.u8()?,
        })
    }
}

/// Every placeholder that a box of this spawner needs.
pub struct Placeholders {
    table: *mut Held,
}

impl Placeholders {
    pub fn new() -> sys::Result<Self> {
        // Fresh memory is zero, and a zero entry is a free one.
        Ok(Self { table: sys::map(None, MAX * size_of::<Held>())?.cast() })
    }

    fn table(&mut self) -> &mut [Held] {
        // SAFETY: a mapping of MAX entries that only this value uses; all-zero is a valid entry.
        unsafe { core::slice::from_raw_parts_mut(self.table, MAX) }
    }

    /// Makes, or joins, a placeholder below its tree, which must be the file that the library saw.
    pub fn hold(&mut self, slot: u32, wanted: &Wanted<'_>) -> sys::Result<()> {
        let root = sys::openat(sys::AT_FDCWD, wanted.root, sys::O_PATH | sys::O_DIRECTORY, 0)?;
        let result = self.hold_below(slot, root, wanted);
        sys::close(root);
        result
    }

    fn hold_below(&mut self, slot: u32, root: Fd, wanted: &Wanted<'_>) -> sys::Result<()> {
        let seen = sys::fstat(root)?;
        if seen.device != wanted.device || seen.inode != wanted.inode {
            return Err(sys::ESTALE);
        }
        let (parent_path, name) = split(wanted.path);
        let mut stored = [0; NAME_MAX];
        stored.get_mut(..name.len()).ok_or(sys::EINVAL)?.copy_from_slice(name);
        let parent_path = crate::text::Text::<512>::new().push(b"./").push(parent_path).end();
        let parent = sys::openat2(
            root,
            parent_path.as_bytes(),
            sys::O_PATH | sys::O_DIRECTORY,
            0,
            sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS,
        )?;
        let lock = match make_or_join(parent, name, wanted.kind) {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                // Something real is there by now: the mount goes onto that, and it stays when the box ends.
                sys::close(parent);
                return Ok(());
            }
            Err(errno) => {
                sys::close(parent);
                return Err(errno);
            }
        };
        let held = Held { owner: slot + 1, parent, lock, kind: wanted.kind, name: stored };
        let Some(place) = self.table().iter_mut().find(|held| held.owner == 0) else {
            held.let_go();
            return Err(sys::EAGAIN);
        };
        *place = held;
        Ok(())
    }

    /// Lets go of everything that a box held, removing what nobody else needs.
    pub fn release(&mut self, slot: u32) {
        for held in self.table().iter_mut().filter(|held| held.owner == slot + 1) {
            held.let_go();
            held.owner = 0;
        }
    }
}

impl Held {
    /// Lets go of it, and removes it if nobody else needs it.
    fn let_go(&self) {
        let length = self.name.iter().position(|byte| *byte == 0).map_or(NAME_MAX, |end| end + 1);
        let name = &self.name[..length];
        // Upgrading fails while another box, of this or another program, still holds it shared.
        if sys::flock(self.lock, sys::LOCK_EX | sys::LOCK_NB).is_ok()
            && is_untouched(self.lock, self.kind)
            && is_linked(self.parent, name, self.lock)
        {
            let flags = if self.kind == placeholder::DIRECTORY { sys::AT_REMOVEDIR } else { 0 };
            let _ = sys::unlinkat(self.parent, name, flags);
        }
        sys::close(self.lock);
        sys::close(self.parent);
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The locked placeholder, or `None` where something that is not a placeholder stands there.
fn make_or_join(parent: Fd, name: &[u8], kind: u8) -> sys::Result<Option<Fd>> {
    let directory = kind == placeholder::DIRECTORY;
    // A box that lets go may remove the placeholder between our opening and our locking it: then try again.
    for _ in 0..100 {
        let (lock, fresh) = match make(parent, name, kind) {
            Ok(Some(lock)) => (lock, true),
            Ok(None) => continue,
            Err(sys::EEXIST) => {
                let only = if directory { sys::O_DIRECTORY } else { 0 };
                match sys::openat(parent, name, sys::O_RDONLY | sys::O_NOFOLLOW | sys::O_NONBLOCK | only, 0) {
                    Ok(lock) => (lock, false),
                    Err(sys::ENOENT) => continue,
                    // Not ours: something else of that name that we may not even read.
                    Err(_) => return Ok(None),
                }
            }
            Err(errno) => return Err(errno),
        };
        if sys::flock(lock, sys::LOCK_SH | sys::LOCK_NB).is_err() {
            sys::close(lock);
            sys::pause_briefly();
            continue;
        }
        if !is_linked(parent, name, lock) {
            sys::close(lock);
            continue;
        }
        if !fresh && !is_untouched(lock, kind) {
            sys::close(lock);
            return Ok(None);
        }
        return Ok(Some(lock));
    }
    Err(sys::EBUSY)
}

/// Makes a placeholder and opens it; `None` if a box that joined it has removed it again. One that cannot be opened does
/// not stay.
fn make(parent: Fd, name: &[u8], kind: u8) -> sys::Result<Option<Fd>> {
    if kind == placeholder::DIRECTORY {
        sys::mkdirat(parent, name, DIRECTORY_MODE)?;
        return match sys::openat(parent, name, sys::O_RDONLY | sys::O_NOFOLLOW | sys::O_DIRECTORY, 0) {
            Err(sys::ENOENT) => Ok(None),
            Err(errno) => {
                // Only if it is empty, and then nothing is lost even if it is another one by now.
                let _ = sys::unlinkat(parent, name, sys::AT_REMOVEDIR);
                Err(errno)
            }
            opened => opened.map(Some),
        };
    }
    let written = kind == placeholder::HERE;
    let access = if written { sys::O_WRONLY } else { sys::O_RDONLY };
    let file = sys::openat(parent, name, access | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW, FILE_MODE)?;
    if !written {
        return Ok(Some(file));
    }
    // Not kept open for writing: the file system could not be made read-only meanwhile.
    let opened = sys::write(file, HERE)
        .and_then(|_| sys::openat(parent, name, sys::O_RDONLY | sys::O_NOFOLLOW | sys::O_NONBLOCK, 0));
    if opened.is_err() && is_linked(parent, name, file) {
        let _ = sys::unlinkat(parent, name, 0);
    }
    sys::close(file);
    match opened {
        Err(sys::ENOENT) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether `name` still leads to the file that is open as `descriptor`.
fn is_linked(parent: Fd, name: &[u8], descriptor: Fd) -> bool {
    let Ok(there) = sys::openat(parent, name, sys::O_PATH | sys::O_NOFOLLOW, 0) else { return false };
    let same = match (sys::fstat(there), sys::fstat(descriptor)) {
        (Ok(a), Ok(b)) => a.device == b.device && a.inode == b.inode,
        _ => false,
    };
    sys::close(there);
    same
}

/// Whether this is a placeholder as a spawner made it. (A directory that got an entry cannot be removed anyway.)
fn is_untouched(descriptor: Fd, kind: u8) -> bool {
    let Ok(stat) = sys::fstat(descriptor) else { return false };
    let (file_type, mode, most) = match kind {
        placeholder::DIRECTORY => (TYPE_DIRECTORY, DIRECTORY_MODE, u64::MAX),
        placeholder::HERE => (TYPE_FILE, FILE_MODE, HERE.len() as u64),
        _ => (TYPE_FILE, FILE_MODE, 0),
    };
    stat.mode & TYPE_MASK == file_type && stat.mode & 0o7777 == mode && stat.size <= most
}
