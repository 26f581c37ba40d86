//! A stage: namespaces and a view of our own in which somebody else's runtime makes the container.
//!
//! The steps make the root of the container as they make that of a native box, but at a place that has a name; the last
//! one executes the runtime there. What the runtime mounts, runs and writes down is in the stage's own mounts, processes and
//! cgroup: when the stage is killed, nothing of it is left.

use crate::sys::{self, Fd};
use crate::view::View;
use crate::wire::{Reader, notice};

/// How many words a command line has at most, and how many variables there are.
const WORDS_MAX: usize = 64;
/// What the runtime and the first process of the container complain to.
const LOG: &[u8] = b"runtime.log\0";

/// Shows the runtime its own processes, and a cgroup that it can neither change nor look beyond: the box's cgroup, in which
/// everything is already, is the spawner's.
pub fn show_own() -> sys::Result<()> {
    let hardened = sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NODEV | sys::MOUNT_ATTR_NOEXEC;
    mount_at(b"proc\0", hardened, b"/proc\0")?;
    // In a user namespace it cannot be taken away, and is covered.
    let _ = sys::umount_detach(b"/sys/fs/cgroup\0");
    mount_at(b"cgroup2\0", hardened | sys::MOUNT_ATTR_RDONLY, b"/sys/fs/cgroup\0")
}

fn mount_at(kind: &[u8], attributes: u64, path: &[u8]) -> sys::Result<()> {
    let mount = sys::fsmount(sys::fsopen(kind)?, attributes)?;
    let place = sys::openat(sys::AT_FDCWD, path, sys::O_PATH | sys::O_DIRECTORY, 0)?;
    sys::move_mount(mount, place).map(|_| ())
}

/// The command that becomes the stage's first process.
pub struct Command {
    arguments: [usize; WORDS_MAX + 1],
    environment: [usize; WORDS_MAX + 1],
    /// Whether the container's first process talks on a stream of bytes rather than on the conversation itself.
    stream: bool,
}

impl Command {
    /// Reads a command, which refers to the record from then on.
    pub fn read(reader: &mut Reader<'_>) -> sys::Result<Self> {
        let stream = reader.u8()? != 0;
        Ok(Self { stream, arguments: read_words(reader)?, environment: read_words(reader)? })
    }

    /// Tells the library that everything is in place, and becomes the runtime. Returns only if that fails.
    pub fn execute(&self, view: &View, conversation: Fd) -> sys::Result<()> {
        let flags = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_APPEND;
        let log = sys::openat(view.stage(), LOG, flags, 0o600)?;
        let (talk, far) = if self.stream {
            let [near, far] = sys::stream_pair()?;
            (near, Some(far))
        } else {
            (conversation, None)
        };
        let nothing = sys::openat(sys::AT_FDCWD, b"/dev/null\0", sys::O_RDWR, 0)?;
        self.announce(view, conversation, log, far)?;
        sys::fchdir(view.stage())?;
        // High enough to be out of the way of what follows.
        let [talk, log] = [sys::dup_above(talk, 16)?, sys::dup_above(log, 16)?];
        // Runtimes pass descriptors on from three; some put pipes of their own in place of the standard ones.
        let standard = if self.stream { talk } else { nothing };
        sys::dup3(standard, 0, 0)?;
        sys::dup3(standard, 1, 0)?;
        sys::dup3(log, 2, 0)?;
        let first_passed = crate::contained::FIRST_PASSED;
        if !self.stream {
            sys::dup3(talk, first_passed, 0)?;
        }
        sys::close_range(first_passed as u32 + u32::from(!self.stream), u32::MAX)?;
        sys::umask(0o022);
        sys::block_signals(0)?;
        if self.arguments[0] == 0 {
            return Err(sys::EINVAL);
        }
        // SAFETY: the first word is a NUL-terminated string of the record, which is still there; `read_words` looked at its end.
        let program = unsafe { core::ffi::CStr::from_ptr(self.arguments[0] as *const core::ffi::c_char) };
        // SAFETY: both are lists of such strings that end in a null pointer.
        Err(unsafe { sys::execve(program.to_bytes_with_nul(), self.arguments.as_ptr(), self.environment.as_ptr()) })
    }

    /// The root and the directories of changes, the log, and the far end of the stream if there is one.
    fn announce(&self, view: &View, conversation: Fd, log: Fd, far: Option<Fd>) -> sys::Result<()> {
        let (kept, uppers, _) = view.kept();
        let mut descriptors = [-1; crate::view::KEPT_MAX + 2];
        let mut count = 0;
        for descriptor in kept.iter().chain([&log]).chain(far.iter()) {
            *descriptors.get_mut(count).ok_or(sys::EINVAL)? = *descriptor;
            count += 1;
        }
        let record = [notice::STAGED, uppers, u8::from(far.is_some())];
        sys::send(conversation, &record, &descriptors[..count]).map(|_| ())
    }
}

/// A list of words, as `execve` wants it.
fn read_words(reader: &mut Reader<'_>) -> sys::Result<[usize; WORDS_MAX + 1]> {
    let mut words = [0; WORDS_MAX + 1];
    let count = reader.u32()? as usize;
    for word in words[..WORDS_MAX].get_mut(..count).ok_or(sys::EINVAL)? {
        *word = sys::c(reader.text()?);
    }
    Ok(words)
}
