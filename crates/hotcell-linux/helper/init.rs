//! The init: pid 1 of a box. Reaps, starts programs, passes signals on and opens files, all from inside the view and
//! under the same restrictions as what it starts.

use crate::launch::{Failure, Launcher, open_terminal};
use crate::processes;
use crate::record::Inbox;
use crate::streams::{Streams, WAITED_FOR};
use crate::sys::{self, Fd, PollFd};
use crate::text::Text;
use crate::transport::Transport;
use crate::wire::{Reader, notice, order, spawn_flag, spawn_stage};

const PROGRAMS_MAX: usize = 1024;
/// What is waited for besides the descriptors of programs: orders, ends of children, the end of the spawner.
const OWN_DESCRIPTORS: usize = 3;
const POLL_MAX: usize = OWN_DESCRIPTORS + PROGRAMS_MAX * WAITED_FOR;
/// There is no spawner whose end would have to be noticed.
pub const NO_LIFELINE: Fd = -1;

#[derive(Clone, Copy)]
struct Program {
    token: u32,
    /// Zero: a free entry.
    pid: i32,
    /// When it was started, in ticks since boot.
    since: u64,
    streams: Streams,
}

pub struct Init {
    transport: Transport,
    lifeline: Fd,
    inbox: Inbox,
    programs: *mut Program,
    /// How many entries have ever been used.
    used: usize,
    poll_set: *mut PollFd,
    launcher: Launcher,
}

/// Ends this process, and everything that it started with it. The kernel sees to that where it is pid 1.
pub fn leave(code: i32) -> ! {
    if sys::getpid() != 1 {
        let _ = processes::kill_tree(None, 0, |_| false);
    }
    sys::exit(code)
}

impl Init {
    pub fn new(transport: Transport, lifeline: Fd, inbox: Inbox) -> sys::Result<Self> {
        Ok(Self {
            transport,
            lifeline,
            inbox,
            programs: sys::map(None, PROGRAMS_MAX * size_of::<Program>())?.cast(),
            used: 0,
            poll_set: sys::map(None, POLL_MAX * size_of::<PollFd>())?.cast(),
            launcher: Launcher::new()?,
        })
    }

    fn programs(&mut self) -> &mut [Program] {
        // SAFETY: a mapping of PROGRAMS_MAX entries, of which `used` are asked for, that lives as long as the process.
        unsafe { core::slice::from_raw_parts_mut(self.programs, self.used) }
    }

    fn is_on_stream(&self) -> bool {
        matches!(self.transport, Transport::Stream(_))
    }

    pub fn serve(mut self) -> ! {
        let mask = 1u64 << (sys::SIGCHLD - 1);
        let Ok(children) = sys::signal_descriptor(mask) else { leave(1) };
        loop {
            let [orders, child, lifeline] = self.wait(children);
            if lifeline {
                // The spawner is gone. When pid 1 ends, the kernel ends everything in the box.
                leave(1)
            }
            // First of all, while the answers of poll are about the programs that it was asked about.
            if self.move_bytes().is_err() {
                leave(1)
            }
            if child {
                let mut drain = [0; 128];
                while sys::read(children, &mut drain).is_ok() {}
                self.reap();
            }
            if orders {
                match self.transport.receive(&mut self.inbox) {
                    Ok(true) => {}
                    // The library let go of the box.
                    Ok(false) => leave(0),
                    Err(_) => leave(1),
                }
                if self.handle().is_err() {
                    leave(1)
                }
                self.inbox.clear();
            }
        }
    }

    /// Waits until there is something to do; says which of its own descriptors it is about.
    fn wait(&mut self, children: Fd) -> [bool; OWN_DESCRIPTORS] {
        let own = [self.transport.waits_on(), children, self.lifeline];
        let moved = if self.is_on_stream() { self.used } else { 0 };
        // SAFETY: a mapping of POLL_MAX entries, of which there are at most that many, and that only this value uses.
        let set = unsafe { core::slice::from_raw_parts_mut(self.poll_set, OWN_DESCRIPTORS + moved * WAITED_FOR) };
        let (first, rest) = set.split_at_mut(OWN_DESCRIPTORS);
        for (entry, descriptor) in first.iter_mut().zip(own) {
            *entry = PollFd { descriptor, events: sys::POLLIN, returned: 0 };
        }
        for (entries, program) in rest.chunks_exact_mut(WAITED_FOR).zip(self.programs()) {
            entries.copy_from_slice(&program.streams.wait_for());
        }
        match sys::poll(set, None) {
            Ok(_) | Err(sys::EINTR) => {}
            Err(_) => leave(1),
        }
        [0, 1, 2].map(|index| set[index].returned != 0)
    }

    /// Moves what programs read and write, where that is the init's business.
    fn move_bytes(&mut self) -> sys::Result<()> {
        if !self.is_on_stream() {
            return Ok(());
        }
        for index in 0..self.used {
            // SAFETY: `wait` has filled so many entries of the mapping, and nothing else has been done since.
            let ready = unsafe {
                let first = self.poll_set.add(OWN_DESCRIPTORS + index * WAITED_FOR);
                [0, 1, 2].map(|entry| (*first.add(entry)).returned != 0)
            };
            if ready.contains(&true) {
                // SAFETY: an entry of the table, which moving bytes does not touch.
                let program = unsafe { &mut *self.programs.add(index) };
                program.streams.go_on(program.token, ready, &mut self.transport)?;
            }
        }
        Ok(())
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
                let told = reader.u64()?;
                let (root, since) = match self.program(token) {
                    // Its own clock is the better one: the library's may be of another kernel.
                    Some(program) => (Some(program.pid), program.since),
                    None => (None, told),
                };
                // SAFETY: the table is not changed while this borrow of it lives; nothing is reaped meanwhile.
                let programs = unsafe { core::slice::from_raw_parts(self.programs.cast_const(), self.used) };
                processes::kill_tree(root, since, |child| programs.iter().any(|program| program.pid == child))
            }
            order::SIGNAL_ALL => processes::signal_all(reader.i32()?),
            order::OPEN if self.is_on_stream() => self.done(token, Err(sys::EOPNOTSUPP), None),
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
            order::END => leave(0),
            order::INPUT..=order::OUTPUT_CLOSE if self.is_on_stream() => self.handle_stream(kind, token, &mut reader),
            _ => Err(sys::EPROTO),
        }
    }

    /// Orders about what programs read and write. A program may have ended before they came.
    fn handle_stream(&mut self, kind: u8, token: u32, reader: &mut Reader<'_>) -> sys::Result<()> {
        let found = self.programs().iter().position(|program| program.pid != 0 && program.token == token);
        let Some(index) = found else { return Ok(()) };
        // SAFETY: an entry of the table, which the transport does not touch.
        let streams = unsafe { &mut (*self.programs.add(index)).streams };
        match kind {
            order::INPUT => streams.input(token, reader.bytes()?, &self.transport),
            order::INPUT_END => {
                streams.end_input();
                Ok(())
            }
            order::CREDIT => streams.credit(reader.u8()?, reader.u32()?),
            order::RESIZE => {
                streams.resize(reader.u32()?, reader.u32()?);
                Ok(())
            }
            order::OUTPUT_CLOSE => streams.close_output(token, reader.u8()?, &self.transport),
            _ => Err(sys::EPROTO),
        }
    }

    fn say(&self, record: Text<64>, descriptors: &[Fd]) -> sys::Result<()> {
        self.transport.say(record.as_bytes(), descriptors)
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

    fn program(&mut self, token: u32) -> Option<&mut Program> {
        self.programs().iter_mut().find(|program| program.pid != 0 && program.token == token)
    }

    fn pid_of(&mut self, token: u32) -> Option<i32> {
        self.program(token).map(|program| program.pid)
    }

    fn free_entry(&mut self) -> Option<usize> {
        if let Some(index) = self.programs().iter().position(|program| program.pid == 0) {
            return Some(index);
        }
        if self.used == PROGRAMS_MAX {
            return None;
        }
        self.used += 1;
        let last = self.used - 1;
        self.programs()[last] = Program { token: 0, pid: 0, since: 0, streams: Streams::ELSEWHERE };
        Some(last)
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

    fn try_spawn(&mut self, token: u32, reader: &mut Reader<'_>) -> Result<(u64, Option<Fd>), Failure> {
        let entry = self.free_entry().ok_or((spawn_stage::TABLE, sys::EAGAIN))?;
        let ordered = self.launcher.read(reader)?;
        let since = sys::ticks_since_boot();
        if self.is_on_stream() {
            let (mut streams, theirs) = Streams::make(&ordered)?;
            let pid = self.launcher.start(&ordered, theirs.standard).inspect_err(|_| streams.abandon())?;
            self.programs()[entry] = Program { token, pid, since, streams };
            return Ok((since, None));
        }
        let enter = |init: &mut Self, standard| {
            let pid = init.launcher.start(&ordered, standard)?;
            init.programs()[entry] = Program { token, pid, since, streams: Streams::ELSEWHERE };
            Ok(())
        };
        if ordered.flags & spawn_flag::TERMINAL != 0 {
            let terminal = open_terminal(ordered.rows, ordered.columns);
            let (ours, theirs) = terminal.map_err(|errno| (spawn_stage::TERMINAL, errno))?;
            let started = enter(self, [theirs; 3]);
            sys::close(theirs);
            return started.map(|()| (since, Some(ours))).inspect_err(|_| sys::close(ours));
        }
        match self.inbox.descriptors[..self.inbox.count] {
            [input, output, error] => enter(self, [input, output, error]).map(|()| (since, None)),
            _ => Err((spawn_stage::RECORD, sys::EPROTO)),
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
            let mut streams = core::mem::replace(&mut program.streams, Streams::ELSEWHERE);
            if streams.finish(token, &mut self.transport).is_err() {
                leave(1)
            }
            let micros = |[seconds, micros]: [i64; 2]| (seconds * 1_000_000 + micros) as u64;
            let record = Text::new()
                .push(&[notice::EXITED])
                .push(&token.to_le_bytes())
                .push(&status.to_le_bytes())
                .push(&micros(usage.user).to_le_bytes())
                .push(&micros(usage.system).to_le_bytes())
                .push(&(usage.max_resident as u64).to_le_bytes());
            if self.say(record, &[]).is_err() {
                leave(1)
            }
        }
    }
}
