//! The init: pid 1 of a box. Reaps, starts programs, passes signals on and opens files, all from inside the view and
//! under the same restrictions as what it starts.

use crate::confine;
use crate::processes;
use crate::record::Inbox;
use crate::sys::{self, Errno, Fd, PollFd};
use crate::text::Text;
use crate::wire::{Reader, notice, order, spawn_flag, spawn_stage};

const PROGRAMS_MAX: usize = 1024;
const CHILD_STACK: usize = 64 * 1024;
const LIMITS_MAX: usize = 16;
/// Argument lists up to this length need no memory of their own.
const SCRATCH_POINTERS: usize = 512;

#[derive(Clone, Copy)]
struct Program {
    token: u32,
    /// Zero: a free entry.
    pid: i32,
}

pub struct Init {
    conversation: Fd,
    lifeline: Fd,
    inbox: Inbox,
    programs: *mut Program,
    /// How many entries have ever been used.
    used: usize,
    child_stack: *mut u8,
}

/// What a new process needs between clone and exec; it shares the init's memory until then.
struct Launch {
    standard: [Fd; 3],
    terminal: bool,
    directory: *const u8,
    directory_length: usize,
    limits: [(u32, u64, u64); LIMITS_MAX],
    limit_count: usize,
    search: *const u8,
    search_length: usize,
    arguments: *const usize,
    environment: *const usize,
    failed: Option<(u8, Errno)>,
}

/// Where [`launch`] finds its work: the new process has a stack of its own, and nothing else to be told by.
static mut LAUNCH: *mut Launch = core::ptr::null_mut();

impl Init {
    pub fn new(conversation: Fd, lifeline: Fd, inbox: Inbox) -> Self {
        let table = sys::map(None, PROGRAMS_MAX * size_of::<Program>());
        let stack = sys::map(None, CHILD_STACK);
        match (table, stack) {
            (Ok(table), Ok(stack)) => {
                Self { conversation, lifeline, inbox, programs: table.cast(), used: 0, child_stack: stack }
            }
            _ => sys::exit(1),
        }
    }

    fn programs(&mut self) -> &mut [Program] {
        // SAFETY: a mapping of PROGRAMS_MAX entries, of which `used` are asked for, that lives as long as the process.
        unsafe { core::slice::from_raw_parts_mut(self.programs, self.used) }
    }

    pub fn serve(mut self) -> ! {
        let mask = 1u64 << (sys::SIGCHLD - 1);
        let Ok(children) = sys::signal_descriptor(mask) else { sys::exit(1) };
        loop {
            let mut set = [self.conversation, children, self.lifeline].map(|descriptor| PollFd {
                descriptor,
                events: sys::POLLIN,
                returned: 0,
            });
            match sys::poll(&mut set, None) {
                Ok(_) | Err(sys::EINTR) => {}
                Err(_) => sys::exit(1),
            }
            if set[2].returned != 0 {
                // The spawner is gone. When pid 1 ends, the kernel ends everything in the box.
                sys::exit(1)
            }
            if set[1].returned != 0 {
                let mut drain = [0; 128];
                while sys::read(children, &mut drain).is_ok() {}
                self.reap();
            }
            if set[0].returned != 0 {
                match self.inbox.receive(self.conversation) {
                    Ok(true) => {}
                    // The library let go of the box.
                    Ok(false) => sys::exit(0),
                    Err(_) => sys::exit(1),
                }
                if self.handle().is_err() {
                    sys::exit(1)
                }
                self.inbox.clear();
            }
        }
    }

    fn handle(&mut self) -> sys::Result<()> {
        let record: *const [u8] = self.inbox.record();
        // SAFETY: the record's memory is unchanged until `inbox.clear()`, which `serve` calls after this returns.
        let mut reader = Reader::new(unsafe { &*record });
        let (kind, token) = (reader.u8()?, reader.u32()?);
        match kind {
            order::SPAWN => self.spawn(token, &mut reader),
            order::SIGNAL => {
                let signal = reader.i32()?;
                if let Some(pid) = self.pid_of(token) {
                    // It leads a session and so a group of its own; it is not reaped yet, so the number is still its.
                    if sys::kill(-pid, signal).is_err() {
                        let _ = sys::kill(pid, signal);
                    }
                }
                Ok(())
            }
            order::KILL_TREE => {
                let since = reader.u64()?;
                let root = self.pid_of(token);
                // SAFETY: the table is not changed while this borrow of it lives; nothing is reaped meanwhile.
                let programs = unsafe { core::slice::from_raw_parts(self.programs.cast_const(), self.used) };
                processes::kill_tree(root, since, |child| programs.iter().any(|program| program.pid == child))
            }
            order::SIGNAL_ALL => {
                let _ = sys::kill(-1, reader.i32()?);
                Ok(())
            }
            order::OPEN => {
                let (flags, mode, path) = (reader.u64()?, reader.u32()?, reader.text()?);
                let result = sys::openat2(sys::AT_FDCWD, path, flags as usize, mode, sys::RESOLVE_NO_MAGICLINKS);
                let descriptor = result.ok();
                self.done(token, result.map(|_| 0), descriptor)
            }
            order::MAKE_DIRECTORY => {
                let (mode, path) = (reader.u32()?, reader.text()?);
                self.done(token, sys::mkdirat(sys::AT_FDCWD, path, mode), None)
            }
            order::REMOVE => {
                let (directory, path) = (reader.u8()? != 0, reader.text()?);
                let flags = if directory { sys::AT_REMOVEDIR } else { 0 };
                self.done(token, sys::unlinkat(sys::AT_FDCWD, path, flags), None)
            }
            order::RENAME => {
                let (from, to) = (reader.text()?, reader.text()?);
                self.done(token, sys::renameat2(sys::AT_FDCWD, from, sys::AT_FDCWD, to, 0), None)
            }
            order::SAMPLE => {
                let sample = processes::sample()?;
                self.say(
                    Text::new()
                        .push(&[notice::SAMPLED])
                        .push(&token.to_le_bytes())
                        .push(&sample.tasks.to_le_bytes())
                        .push(&sample.ticks.to_le_bytes())
                        .push(&sample.memory_kib.to_le_bytes()),
                    &[],
                )
            }
            order::END => sys::exit(0),
            _ => Err(sys::EPROTO),
        }
    }

    fn say(&self, record: Text<64>, descriptors: &[Fd]) -> sys::Result<()> {
        sys::send(self.conversation, record.as_bytes(), descriptors).map(|_| ())
    }

    fn done(&self, token: u32, result: sys::Result<usize>, descriptor: Option<Fd>) -> sys::Result<()> {
        let errno = result.map_or_else(|errno| errno.0, |_| 0);
        let record = Text::new().push(&[notice::DONE]).push(&token.to_le_bytes()).push(&errno.to_le_bytes());
        match descriptor {
            None => self.say(record, &[]),
            Some(descriptor) => {
                let sent = self.say(record, &[descriptor]);
                sys::close(descriptor);
                sent
            }
        }
    }

    fn pid_of(&mut self, token: u32) -> Option<i32> {
        self.programs().iter().find(|program| program.pid != 0 && program.token == token).map(|program| program.pid)
    }

    fn free_entry(&mut self) -> Option<usize> {
        if let Some(index) = self.programs().iter().position(|program| program.pid == 0) {
            return Some(index);
        }
        if self.used == PROGRAMS_MAX {
            return None;
        }
        self.used += 1;
        Some(self.used - 1)
    }

    fn spawn(&mut self, token: u32, reader: &mut Reader<'_>) -> sys::Result<()> {
        match self.try_spawn(token, reader) {
            Ok((since, terminal)) => {
                let record = Text::new().push(&[notice::STARTED]).push(&token.to_le_bytes()).push(&since.to_le_bytes());
                match terminal {
                    None => self.say(record, &[]),
                    Some(terminal) => {
                        let sent = self.say(record, &[terminal]);
                        sys::close(terminal);
                        sent
                    }
                }
            }
            Err((stage, errno)) => self.say(
                Text::new()
                    .push(&[notice::SPAWN_FAILED])
                    .push(&token.to_le_bytes())
                    .push(&[stage])
                    .push(&errno.0.to_le_bytes()),
                &[],
            ),
        }
    }

    fn try_spawn(&mut self, token: u32, reader: &mut Reader<'_>) -> Result<(u64, Option<Fd>), (u8, Errno)> {
        let malformed = |_| (spawn_stage::RECORD, sys::EPROTO);
        let entry = self.free_entry().ok_or((spawn_stage::TABLE, sys::EAGAIN))?;
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
        let scratch = self.child_stack.cast::<usize>();
        let arguments = Pointers::read(reader, scratch, SCRATCH_POINTERS)?;
        // SAFETY: both halves lie within the first 8 KiB of a stack of 64 KiB.
        let environment = Pointers::read(reader, unsafe { scratch.add(SCRATCH_POINTERS) }, SCRATCH_POINTERS)?;
        if arguments.count == 0 {
            return Err((spawn_stage::RECORD, sys::EPROTO));
        }
        let terminal = flags & spawn_flag::TERMINAL != 0;
        let (standard, master, slave) = if terminal {
            let (master, slave) = open_terminal(rows, columns).map_err(|errno| (spawn_stage::TERMINAL, errno))?;
            ([slave; 3], Some(master), Some(slave))
        } else {
            match self.inbox.descriptors[..self.inbox.count] {
                [input, output, error] => ([input, output, error], None, None),
                _ => return Err((spawn_stage::RECORD, sys::EPROTO)),
            }
        };
        let mut launch = Launch {
            standard,
            terminal,
            directory: directory.as_ptr(),
            directory_length: directory.len(),
            limits,
            limit_count,
            search: search.as_ptr(),
            search_length: search.len(),
            arguments: arguments.list,
            environment: environment.list,
            failed: None,
        };
        let since = sys::ticks_since_boot();
        let started = self.start(&mut launch);
        if let Some(slave) = slave {
            sys::close(slave);
        }
        match started {
            Ok(pid) => {
                self.programs()[entry] = Program { token, pid };
                Ok((since, master))
            }
            Err(failure) => {
                if let Some(master) = master {
                    sys::close(master);
                }
                Err(failure)
            }
        }
    }

    /// Clones onto a stack of its own, sharing memory, and goes on when the new process has executed or given up.
    fn start(&mut self, work: &mut Launch) -> Result<i32, (u8, Errno)> {
        let flags = sys::CLONE_VM | sys::CLONE_VFORK | sys::SIGCHLD as usize;
        // SAFETY: one thread; the new process reads LAUNCH while this one waits inside the system call (CLONE_VFORK).
        let pid = unsafe {
            LAUNCH = core::ptr::from_mut(work);
            sys::clone_onto(flags, self.child_stack.add(CHILD_STACK), launch)
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

    fn reap(&mut self) {
        loop {
            let mut usage = sys::Rusage::default();
            let Ok(Some((pid, status))) = sys::reap(&mut usage) else { return };
            let Some(program) = self.programs().iter_mut().find(|program| program.pid == pid) else {
                // A daemon's end concerns nobody.
                continue;
            };
            program.pid = 0;
            let token = program.token;
            let micros = |[seconds, micros]: [i64; 2]| (seconds * 1_000_000 + micros) as u64;
            let record = Text::new()
                .push(&[notice::EXITED])
                .push(&token.to_le_bytes())
                .push(&status.to_le_bytes())
                .push(&micros(usage.user).to_le_bytes())
                .push(&micros(usage.system).to_le_bytes())
                .push(&(usage.max_resident as u64).to_le_bytes());
            if self.say(record, &[]).is_err() {
                sys::exit(1)
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
    fn read(reader: &mut Reader<'_>, scratch: *mut usize, room: usize) -> Result<Self, (u8, Errno)> {
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
fn open_terminal(rows: u32, columns: u32) -> sys::Result<(Fd, Fd)> {
    const TIOCSPTLCK: usize = 0x4004_5431;
    const TIOCGPTPEER: usize = 0x5441;
    const TIOCSWINSZ: usize = 0x5414;
    let master = sys::openat(sys::AT_FDCWD, b"/dev/pts/ptmx\0", sys::O_RDWR | sys::O_NOCTTY, 0)?;
    let unlock = 0i32;
    let size = [rows as u16, columns as u16, 0, 0];
    let slave = sys::ioctl(master, TIOCSPTLCK, &raw const unlock as usize)
        .and_then(|_| sys::ioctl(master, TIOCSWINSZ, size.as_ptr() as usize))
        .and_then(|_| sys::ioctl(master, TIOCGPTPEER, sys::O_RDWR | sys::O_NOCTTY | sys::O_CLOEXEC));
    match slave {
        Ok(slave) => Ok((master, slave as Fd)),
        Err(errno) => {
            sys::close(master);
            Err(errno)
        }
    }
}

/// The new process, between clone and exec: on its own stack, in the init's memory.
extern "C" fn launch() -> ! {
    // SAFETY: `Init::start` set it to a live value and waits until this process executes or ends.
    let work = unsafe { &mut *LAUNCH };
    let failure = try_launch(work);
    work.failed = Some(failure);
    sys::exit(127)
}

fn try_launch(work: &Launch) -> (u8, Errno) {
    if let Err(errno) = new_session(work) {
        return (spawn_stage::SESSION, errno);
    }
    // SAFETY: pointers and lengths of slices of the record, which lives until the init goes on.
    let (directory, search) = unsafe {
        (
            core::slice::from_raw_parts(work.directory, work.directory_length),
            core::slice::from_raw_parts(work.search, work.search_length),
        )
    };
    if let Err(errno) = sys::chdir(directory) {
        return (spawn_stage::DIRECTORY, errno);
    }
    for (resource, soft, hard) in &work.limits[..work.limit_count] {
        if let Err(errno) = sys::set_limit(*resource, *soft, *hard) {
            return (spawn_stage::LIMITS, errno);
        }
    }
    if let Err(errno) = confine::refuse_openat2() {
        return (spawn_stage::FILTER, errno);
    }
    (spawn_stage::EXEC, execute(work, search))
}

fn new_session(work: &Launch) -> sys::Result<()> {
    const TIOCSCTTY: usize = 0x540e;
    sys::setsid()?;
    sys::umask(0o022);
    for (number, descriptor) in work.standard.iter().enumerate() {
        // The init keeps 0 to 2 for nothing else, so the sources are all above them.
        sys::dup3(*descriptor, number as Fd, 0)?;
    }
    sys::close_range(3, u32::MAX)?;
    if work.terminal {
        sys::ioctl(0, TIOCSCTTY, 0)?;
    }
    sys::block_signals(0)?;
    Ok(())
}

/// Executes the program: as named where the name has a slash, else from the first directory of the search path that
/// has it. Returns the reason why it could not.
fn execute(work: &Launch, search: &[u8]) -> Errno {
    // SAFETY: the arguments are a NULL-terminated array of NUL-terminated strings with at least one entry.
    let name = unsafe { text_at(*work.arguments as *const u8) };
    if name.contains(&b'/') {
        // SAFETY: both arrays are NULL-terminated and point into the record.
        return unsafe { sys::execve(name, work.arguments, work.environment) };
    }
    let mut reason = sys::ENOENT;
    for directory in search[..search.len() - 1].split(|byte| *byte == b':') {
        if directory.is_empty() || directory.len() + name.len() > 4000 {
            continue;
        }
        let path = Text::<4096>::new().push(directory).push(b"/").push(name);
        // SAFETY: as above.
        match unsafe { sys::execve(path.as_bytes(), work.arguments, work.environment) } {
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
unsafe fn text_at<'a>(start: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the string ends in NUL, and nothing after it is read.
    while unsafe { *start.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: `length` bytes and the NUL belong to the string.
    unsafe { core::slice::from_raw_parts(start, length + 1) }
}
