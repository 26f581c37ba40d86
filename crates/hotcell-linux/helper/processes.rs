//! Looking at everything that runs in the box, through its own procfs.
//!
//! Numbers that come from here are used to kill, but only in the box's own pid namespace and only by its init, which
//! reaps: a number read here stays its process's until the init itself waits for it or its parent does. A process that
//! slips away between two looks is found by the next one.

use crate::sys::{self, Fd};
use crate::text::{Text, parse_number};

/// One process, as `/proc/N/stat` tells.
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// Ended and not yet waited for.
    pub ended: bool,
    pub threads: u64,
    /// Clock ticks, user and system, of the process and of the children that it waited for.
    pub ticks: u64,
    /// Clock ticks since boot.
    pub started: u64,
}

/// What everything in the box uses.
#[derive(Default)]
pub struct Sample {
    pub tasks: u64,
    pub ticks: u64,
    pub memory_kib: u64,
}

/// Whether a look saw every process that was there when it began.
#[derive(PartialEq)]
enum Look {
    Whole,
    /// One ended between the listing and its turn. What it started meanwhile is not in the listing, and nobody was seen
    /// who could have started it: only another look tells.
    Missed,
}

/// Calls `visit` with every process but the init itself.
fn each(mut visit: impl FnMut(&Process)) -> sys::Result<Look> {
    let directory = sys::openat(sys::AT_FDCWD, b"/proc\0", sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    let own = sys::getpid();
    let mut buffer = [0u8; 4096];
    let mut seen = Look::Whole;
    loop {
        let length = match sys::getdents(directory, &mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        let mut at = 0;
        while at + 19 < length {
            // struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
            let size = usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
            if size == 0 {
                break;
            }
            if let Some(pid) = parse_number(&buffer[at + 19..at + size]) {
                match look(directory, pid) {
                    Ok(Some(process)) if process.pid != own => visit(&process),
                    Err(sys::ENOENT | sys::ESRCH) => seen = Look::Missed,
                    // Ourselves, or one that is hidden from us and always will be.
                    Ok(_) | Err(_) => {}
                }
            }
            at += size;
        }
    }
    sys::close(directory);
    Ok(seen)
}

fn read_file(directory: Fd, pid: u64, file: &[u8], buffer: &mut [u8]) -> sys::Result<usize> {
    let path = Text::<48>::new().number(pid).push(b"/").push(file).end();
    let descriptor = sys::openat(directory, path.as_bytes(), sys::O_RDONLY, 0)?;
    let length = sys::read(descriptor, buffer);
    sys::close(descriptor);
    length
}

fn look(directory: Fd, pid: u64) -> sys::Result<Option<Process>> {
    let mut buffer = [0; 512];
    let length = read_file(directory, pid, b"stat", &mut buffer)?;
    Ok(parse_stat(pid as i32, &buffer[..length]))
}

/// The name of the command is between parentheses and may contain anything: fields are counted from the last ')'.
fn parse_stat(pid: i32, line: &[u8]) -> Option<Process> {
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = line.get(end + 2..)?;
    let ended = matches!(rest.first(), Some(b'Z' | b'X'));
    let mut fields = rest.split(|byte| *byte == b' ');
    let mut field = |skip: usize| fields.nth(skip).and_then(parse_number);
    // After the name: state, ppid, pgrp, session, tty, tpgid, flags, four fault counts, utime, stime, cutime, cstime,
    // priority, nice, threads, itrealvalue, starttime.
    let parent = field(1)? as i32;
    let user = field(9)?;
    let ticks = user + field(0)? + field(0)? + field(0)?;
    let threads = field(2)?;
    let started = field(1)?;
    Some(Process { pid, parent, ended, threads, ticks, started })
}

/// Sums up what everything in the box uses now.
pub fn sample() -> sys::Result<Sample> {
    let directory = sys::openat(sys::AT_FDCWD, b"/proc\0", sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    let mut total = Sample::default();
    let result = each(|process| {
        total.tasks += process.threads;
        total.ticks += process.ticks;
        let mut buffer = [0; 2048];
        let mut field = |file: &[u8], name: &[u8]| {
            let length = read_file(directory, process.pid as u64, file, &mut buffer).ok()?;
            kib_after(name, &buffer[..length])
        };
        // A process can keep others from seeing how its memory is shared; then all of it counts.
        total.memory_kib += field(b"smaps_rollup", b"Pss:").or_else(|| field(b"status", b"VmRSS:")).unwrap_or(0);
    });
    sys::close(directory);
    result.map(|_| total)
}

fn kib_after(name: &[u8], text: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let value = line.strip_prefix(name)?;
        let start = value.iter().position(u8::is_ascii_digit)?;
        parse_number(&value[start..])
    })
}

/// Kills a program that the init started (`root`, unless it has ended), and all that it started.
///
/// Descendants are found by their parents. A daemon has the init for a parent, and the kernel does not say whose it
/// was: every one that started no earlier than the program (`since`, in ticks) is taken for its. `started_here` says which children of the
/// init are other programs that it started itself.
pub fn kill_tree(root: Option<i32>, since: u64, started_here: impl Fn(i32) -> bool) -> sys::Result<()> {
    let own = sys::getpid();
    let mut doomed = Marks::new()?;
    if let Some(root) = root {
        doomed.mark(root);
    }
    // What forks while we look is found by the next look. Each is killed when it is found, so that a chain of processes
    // that start one another and end is cut and not only followed.
    let (mut chased, mut waited) = (0, 0);
    while chased < LOOKS_MAX && waited < PAUSES_MAX {
        let (mut alive, mut found) = (false, false);
        let look = each(|process| {
            let daemon = process.parent == own && process.started >= since && !started_here(process.pid);
            if daemon || doomed.has(process.pid) || doomed.has(process.parent) {
                found |= !doomed.has(process.pid);
                doomed.mark(process.pid);
                if !process.ended {
                    alive = true;
                    let _ = sys::kill(process.pid, sys::SIGKILL);
                }
            }
        })?;
        if !alive && look == Look::Whole {
            return Ok(());
        }
        if found || look == Look::Missed {
            chased += 1;
        } else {
            // All are killed; they end when they get a processor, for which we may have to make room.
            waited += 1;
            sys::pause_briefly();
        }
    }
    // Something keeps ahead of us, or does not die: then the box ends, and it with that.
    Err(sys::EBUSY)
}

/// Signals everything that this process started, and what that started.
///
/// The first process of a box may leave that to the kernel; any other would signal everybody.
pub fn signal_all(signal: i32) -> sys::Result<()> {
    let own = sys::getpid();
    if own == 1 {
        let _ = sys::kill(-1, signal);
        return Ok(());
    }
    let mut seen = Marks::new()?;
    for _ in 0..LOOKS_MAX {
        let mut found = false;
        let look = each(|process| {
            if (process.parent == own || seen.has(process.parent)) && !seen.has(process.pid) {
                found = true;
                seen.mark(process.pid);
                let _ = sys::kill(process.pid, signal);
            }
        })?;
        if !found && look == Look::Whole {
            break;
        }
    }
    Ok(())
}

/// How often processes that nobody has seen before may turn up.
const LOOKS_MAX: u32 = 1000;
/// How often killed processes are waited for, a tenth of a millisecond each time.
const PAUSES_MAX: u32 = 50_000;

/// A set of process numbers: one bit for each that the kernel can give out.
struct Marks {
    bits: *mut u8,
}

impl Marks {
    /// The kernel's largest process number is 4 194 303.
    const BYTES: usize = (4 << 20) / 8;

    fn new() -> sys::Result<Self> {
        Ok(Self { bits: sys::map(None, Self::BYTES)? })
    }

    fn place(&self, pid: i32) -> Option<(*mut u8, u8)> {
        let pid = usize::try_from(pid).ok()?;
        // SAFETY: the index is below the length of the mapping.
        (pid / 8 < Self::BYTES).then(|| (unsafe { self.bits.add(pid / 8) }, 1 << (pid % 8)))
    }

    fn mark(&mut self, pid: i32) {
        if let Some((byte, bit)) = self.place(pid) {
            // SAFETY: `place` gives pointers into the live mapping only.
            unsafe { *byte |= bit };
        }
    }

    fn has(&self, pid: i32) -> bool {
        // SAFETY: `place` gives pointers into the live mapping only.
        self.place(pid).is_some_and(|(byte, bit)| unsafe { *byte } & bit != 0)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        sys::unmap(self.bits, Self::BYTES);
    }
}
