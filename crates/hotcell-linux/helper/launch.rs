//! Starting one program: what it is started with, and the new process between clone and exec.

use crate::confine;
use crate::sys::{self, Errno, Fd};
use crate::text::Text;
use crate::wire::{Reader, spawn_flag, spawn_stage};

const CHILD_STACK: usize = 64 * 1024;
const LIMITS_MAX: usize = 16;
/// Argument lists up to this length need no memory of their own.
const SCRATCH_POINTERS: usize = 512;

/// Where and by what a program could not be started.
pub type Failure = (u8, Errno);

/// A program as it was ordered; points into the record of the order.
pub struct Ordered {
    pub flags: u32,
    pub rows: u32,
    pub columns: u32,
    directory: (*const u8, usize),
    search: (*const u8, usize),
    limits: [(u32, u64, u64); LIMITS_MAX],
    limit_count: usize,
    arguments: Pointers,
    environment: Pointers,
}

/// What a new process needs between clone and exec; it shares the init's memory until then.
struct Launch<'a> {
    ordered: &'a Ordered,
    standard: [Fd; 3],
    failed: Option<Failure>,
}

/// Where [`launch`] finds its work: the new process has a stack of its own, and nothing else to be told by.
static mut LAUNCH: *mut Launch<'static> = core::ptr::null_mut();

/// The memory in which new processes begin, one after the other.
pub struct Launcher {
    stack: *mut u8,
}

impl Launcher {
    pub fn new() -> sys::Result<Self> {
        Ok(Self { stack: sys::map(None, CHILD_STACK)? })
    }

    /// Reads the order for a program. The record has to live until the program has been started.
    pub fn read(&mut self, reader: &mut Reader<'_>) -> Result<Ordered, Failure> {
        let malformed = |_| (spawn_stage::RECORD, sys::EPROTO);
        let flags = reader.u32().map_err(malformed)?;
        let (rows, columns) = (reader.u32().map_err(malformed)?, reader.u32().map_err(malformed)?);
        let directory = reader.text().map_err(malformed)?;
        let search = reader.text().map_err(malformed)?;
        let mut limits = [(0, 0, 0); LIMITS_MAX];
        let limit_count = reader.u32().map_err(malformed)? as usize;
        for limit in limits.get_mut(..limit_count).ok_or((spawn_stage::RECORD, sys::EPROTO))? {
            *limit =
                (reader.u32().map_err(malformed)?, reader.u64().map_err(malformed)?, reader.u64().map_err(malformed)?);
        }
        // The near end of the new process's stack is free until it starts, and far from what it uses then.
        let scratch = self.stack.cast::<usize>();
        let arguments = Pointers::read(reader, scratch, SCRATCH_POINTERS)?;
        // SAFETY: both halves lie within the first 8 KiB of a stack of 64 KiB.
        let environment = Pointers::read(reader, unsafe { scratch.add(SCRATCH_POINTERS) }, SCRATCH_POINTERS)?;
        if arguments.count == 0 {
            return Err((spawn_stage::RECORD, sys::EPROTO));
        }
        Ok(Ordered {
            flags,
            rows,
            columns,
            directory: (directory.as_ptr(), directory.len()),
            search: (search.as_ptr(), search.len()),
            limits,
            limit_count,
            arguments,
            environment,
        })
    }

    /// Clones onto a stack of its own, sharing memory, and goes on when the new process has executed or given up.
    pub fn start(&mut self, ordered: &Ordered, standard: [Fd; 3]) -> Result<i32, Failure> {
        let flags = sys::CLONE_VM | sys::CLONE_VFORK | sys::SIGCHLD as usize;
        let mut work = Launch { ordered, standard, failed: None };
        // SAFETY: one thread; the new process reads LAUNCH while this one waits inside the system call (CLONE_VFORK), so
        // what it points to outlives its use.
        let pid = unsafe {
            LAUNCH = (&raw mut work).cast();
            sys::clone_onto(flags, self.stack.add(CHILD_STACK), launch)
        };
        if pid < 0 {
            return Err((spawn_stage::CLONE, Errno(-pid as i32)));
        }
        // SAFETY: a live local, written by the new process through LAUNCH.
        match unsafe { (&raw const work.failed).read_volatile() } {
            None => Ok(pid as i32),
            Some(failure) => {
                sys::wait_for(pid as i32);
                Err(failure)
            }
        }
    }
}

/// A NULL-terminated array of pointers into a record, as `execve` wants it.
struct Pointers {
    list: *mut usize,
    count: usize,
    /// How long the mapping is that it has to itself; zero where it is in the scratch memory.
    bytes: usize,
}

impl Pointers {
    /// Reads a list, into `scratch` if it fits there.
    fn read(reader: &mut Reader<'_>, scratch: *mut usize, room: usize) -> Result<Self, Failure> {
        let malformed = |_| (spawn_stage::RECORD, sys::EPROTO);
        let count = reader.u32().map_err(malformed)? as usize;
        // Each string takes at least five bytes of a record that is at most RECORD_MAX long.
        if count > crate::wire::RECORD_MAX / 5 {
            return Err((spawn_stage::RECORD, sys::EPROTO));
        }
        let (list, bytes) = if count < room {
            (scratch, 0)
        } else {
            let bytes = (count + 1) * size_of::<usize>();
            (sys::map(None, bytes).map_err(|errno| (spawn_stage::RECORD, errno))?.cast::<usize>(), bytes)
        };
        let pointers = Self { list, count, bytes };
        for index in 0..count {
            let text = reader.text().map_err(malformed)?;
            // SAFETY: index < count, and there are count + 1 places.
            unsafe { list.add(index).write(sys::c(text)) };
        }
        // SAFETY: the last place.
        unsafe { list.add(count).write(0) };
        Ok(pointers)
    }
}

impl Drop for Pointers {
    fn drop(&mut self) {
        if self.bytes > 0 {
            sys::unmap(self.list.cast(), self.bytes);
        }
    }
}

/// Makes a terminal in the box's own devpts: the library's end and the program's.
pub fn open_terminal(rows: u32, columns: u32) -> sys::Result<(Fd, Fd)> {
    const TIOCSPTLCK: usize = 0x4004_5431;
    let flags = sys::O_RDWR | sys::O_NOCTTY;
    let master = match sys::openat(sys::AT_FDCWD, b"/dev/pts/ptmx\0", flags, 0) {
        // Whoever mounted it may show it only at its old place.
        Err(sys::EACCES | sys::ENOENT) => sys::openat(sys::AT_FDCWD, b"/dev/ptmx\0", flags, 0)?,
        other => other?,
    };
    let unlock = 0i32;
    let slave = sys::ioctl(master, TIOCSPTLCK, &raw const unlock as usize)
        .and_then(|_| set_terminal_size(master, rows, columns))
        .and_then(|_| open_other_end(master));
    match slave {
        Ok(slave) => Ok((master, slave)),
        Err(errno) => {
            sys::close(master);
            Err(errno)
        }
    }
}

pub fn set_terminal_size(terminal: Fd, rows: u32, columns: u32) -> sys::Result<usize> {
    const TIOCSWINSZ: usize = 0x5414;
    let size = [rows as u16, columns as u16, 0, 0];
    sys::ioctl(terminal, TIOCSWINSZ, size.as_ptr() as usize)
}

fn open_other_end(master: Fd) -> sys::Result<Fd> {
    const TIOCGPTPEER: usize = 0x5441;
    const TIOCGPTN: usize = 0x8004_5430;
    let flags = sys::O_RDWR | sys::O_NOCTTY;
    match sys::ioctl(master, TIOCGPTPEER, flags | sys::O_CLOEXEC) {
        // A kernel that is not Linux may not know how; then by its number.
        Err(sys::ENOTTY | sys::EINVAL) => {
            let mut number = 0u32;
            sys::ioctl(master, TIOCGPTN, &raw mut number as usize)?;
            // SAFETY: a live local that the kernel wrote through the pointer above.
            let number = unsafe { (&raw const number).read_volatile() };
            let path = Text::<32>::new().push(b"/dev/pts/").number(number.into()).end();
            sys::openat(sys::AT_FDCWD, path.as_bytes(), flags, 0)
        }
        other => other.map(|slave| slave as Fd),
    }
}

/// The new process, between clone and exec: on its own stack, in the init's memory.
extern "C" fn launch() -> ! {
    // SAFETY: `Launcher::start` set it to a live value and waits until this process executes or ends.
    let work = unsafe { &mut *LAUNCH };
    let failure = try_launch(work);
    work.failed = Some(failure);
    sys::exit(127)
}

fn try_launch(work: &Launch<'_>) -> Failure {
    let ordered = work.ordered;
    if let Err(errno) = new_session(work) {
        return (spawn_stage::SESSION, errno);
    }
    // SAFETY: pointers and lengths of slices of the record, which lives until the init goes on.
    let (directory, search) = unsafe {
        (
            core::slice::from_raw_parts(ordered.directory.0, ordered.directory.1),
            core::slice::from_raw_parts(ordered.search.0, ordered.search.1),
        )
    };
    if let Err(errno) = sys::chdir(directory) {
        return (spawn_stage::DIRECTORY, errno);
    }
    for (resource, soft, hard) in &ordered.limits[..ordered.limit_count] {
        if let Err(errno) = sys::set_limit(*resource, *soft, *hard) {
            return (spawn_stage::LIMITS, errno);
        }
    }
    if let Err(errno) = confine::refuse_openat2() {
        return (spawn_stage::FILTER, errno);
    }
    (spawn_stage::EXEC, execute(ordered, search))
}

fn new_session(work: &Launch<'_>) -> sys::Result<()> {
    const TIOCSCTTY: usize = 0x540e;
    sys::setsid()?;
    sys::umask(0o022);
    for (number, descriptor) in work.standard.iter().enumerate() {
        // The init keeps 0 to 2 for nothing else, so the sources are all above them, or there already.
        if *descriptor != number as Fd {
            sys::dup3(*descriptor, number as Fd, 0)?;
        }
    }
    sys::close_range(3, u32::MAX)?;
    if work.ordered.flags & spawn_flag::TERMINAL != 0 {
        sys::ioctl(0, TIOCSCTTY, 0)?;
    }
    sys::block_signals(0)?;
    Ok(())
}

/// Executes the program: as named where the name has a slash, else from the first directory of the search path that
/// has it. Returns the reason why it could not.
fn execute(ordered: &Ordered, search: &[u8]) -> Errno {
    let (arguments, environment) = (ordered.arguments.list, ordered.environment.list);
    // SAFETY: the arguments are a NULL-terminated array of NUL-terminated strings with at least one entry.
    let name = unsafe { text_at(*arguments as *const u8) };
    if name.contains(&b'/') {
        // SAFETY: both arrays are NULL-terminated and point into the record.
        return unsafe { sys::execve(name, arguments, environment) };
    }
    let mut reason = sys::ENOENT;
    for directory in search[..search.len() - 1].split(|byte| *byte == b':') {
        if directory.is_empty() || directory.len() + name.len() > 4000 {
            continue;
        }
        let path = Text::<4096>::new().push(directory).push(b"/").push(name);
        // SAFETY: as above.
        match unsafe { sys::execve(path.as_bytes(), arguments, environment) } {
            sys::ENOENT | sys::ENOTDIR => {}
            // Remembered, but a later directory may have one that can be executed.
            sys::EACCES => reason = sys::EACCES,
            errno => return errno,
        }
    }
    reason
}

/// The string at `start`, NUL included.
///
/// # Safety
/// `start` must point to a NUL-terminated string that outlives the result.
pub unsafe fn text_at<'a>(start: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the string ends in NUL, and nothing after it is read.
    while unsafe { *start.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: `length` bytes and the NUL belong to the string.
    unsafe { core::slice::from_raw_parts(start, length + 1) }
}
