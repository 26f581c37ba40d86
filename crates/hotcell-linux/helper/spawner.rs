//! The spawner: makes boxes for one engine, and ends them all when the engine is gone.
//!
//! Single-threaded, one request at a time. What can be done ahead of a request is done ahead: a *blank* is a child that
//! already sits in its namespaces and its cgroup and only waits for its orders.
//!
//! ```text
//! free ──prepare──▶ blank ──create──▶ live ──reaped──▶ gone ──release──▶ free
//! ```

use crate::cgroup::{Cgroups, Name};
use crate::placeholder::{Placeholders, Wanted};
use crate::record::Inbox;
use crate::setup::Start;
use crate::sys::{self, Errno, Fd, PollFd};
use crate::text::Text;
use crate::wire::{DESCRIPTORS_MAX, Malformed, Reader, SAME_USER, STAGE, event, request, stage, tree_flag};

const SLOTS: usize = 4096;
/// The namespaces without which there is no box, and those that one may have besides.
const ALWAYS: u64 = sys::CLONE_NEWNS | sys::CLONE_NEWPID | sys::CLONE_NEWIPC | sys::CLONE_NEWUTS;
const OPTIONAL: u64 = sys::CLONE_NEWUSER | sys::CLONE_NEWNET | STAGE | SAME_USER;
/// For how long a box counts as starting, if nothing is heard of it.
const STARTING_MILLISECONDS: u64 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Free = 0,
    Blank = 1,
    Live = 2,
    Gone = 3,
}

/// A place for one box. All-zero is a free one.
#[derive(Clone, Copy)]
struct Slot {
    state: State,
    id: u32,
    serial: u32,
    pid: i32,
    pidfd: Fd,
    /// While blank: where its orders go.
    orders: Fd,
    /// While live: the far end of the box's conversation with the library, for the spawner's own events.
    conversation: Fd,
    /// To be freed as soon as it is gone: the library does not ask for more.
    released: bool,
    /// The hierarchies in which it has a cgroup, and those in which its process has been put there.
    groups: u8,
    attached: u8,
    /// The namespaces that a blank was made with.
    namespaces: u64,
    /// The user and group that a blank was made for.
    ids: Ids,
    /// A blank that has made, or is making, the usual base.
    has_base: bool,
}

/// A user namespace that maps the owner of trees to the user of a slot's boxes, kept for the next box. Zero: none.
#[derive(Clone, Copy)]
struct OwnerMap {
    namespace: Fd,
    owner: Ids,
    /// The user of the host that it is mapped to: that of a container can be any.
    outside: u32,
    stage: bool,
}

/// The root of a container on the host, and what stands for it on file systems.
const STAGE_ROOT: u32 = crate::wire::STAGE_ROOT;
const OVERFLOW: u32 = 65534;

/// A group that no file belongs to: a tree whose map knows no other has no group that the kernel could write back.
const NOBODYS_GROUP: u32 = u32::MAX - 1;

/// User and group inside the box.
type Ids = (u32, u32);

/// What went wrong in a create request, and where.
struct Failure {
    stage: u8,
    index: u32,
    errno: Errno,
}

fn at(stage: u8) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { stage, index: 0, errno }
}

struct Spawner {
    engine: Fd,
    children: Fd,
    /// Read by every init; its write end is only here, so it ends when the spawner does.
    lifeline: Fd,
    slots: *mut Slot,
    /// Two for each slot: without and with the group of the owner.
    owner_maps: *mut OwnerMap,
    /// How many of them have ever been used; the rest is memory that nobody has touched.
    used: usize,
    cgroups: Cgroups,
    placeholders: Placeholders,
    privileged: bool,
    user_base: u32,
    warm: u32,
    default_namespaces: u64,
    default_ids: Ids,
    default_groups: u8,
    next_serial: u32,
    /// A box was made a moment ago.
    starting: bool,
    /// The base that most boxes have.
    base: &'static [u8],
}

/// Serves the engine until it is gone.
pub fn run(engine: Fd) -> ! {
    match start(engine) {
        Ok(mut spawner) => {
            let _ = spawner.serve();
            spawner.end()
        }
        Err(errno) => sys::exit(errno.0),
    }
}

fn start(engine: Fd) -> sys::Result<Spawner> {
    // A terminal's interrupt is for the engine; its end reaches us as the end of the socket.
    let _ = sys::setsid();
    sys::default_signals()?;
    sys::raise_descriptor_limit()?;
    sys::umask(0);
    sys::prctl(sys::PR_SET_NAME, sys::c(b"hotcell-spawner\0"), 0)?;
    sys::prctl(sys::PR_SET_CHILD_SUBREAPER, 1, 0)?;
    // Whatever else the engine's process had open is not ours.
    sys::close_range(3, u32::MAX)?;
    let mask = 1u64 << (sys::SIGCHLD - 1);
    sys::block_signals(u64::MAX)?;
    let children = sys::signal_descriptor(mask)?;
    let [lifeline, _write_end] = sys::pipe()?;
    Ok(Spawner {
        engine,
        children,
        lifeline,
        slots: sys::map(None, SLOTS * size_of::<Slot>())?.cast(),
        owner_maps: sys::map(None, 2 * SLOTS * size_of::<OwnerMap>())?.cast(),
        used: 0,
        cgroups: Cgroups::none(),
        placeholders: Placeholders::new()?,
        privileged: false,
        user_base: 0,
        warm: 0,
        default_namespaces: 0,
        default_ids: (0, 0),
        default_groups: 0,
        next_serial: 1,
        starting: false,
        base: b"",
    })
}

impl Spawner {
    #[expect(clippy::mut_from_ref, reason = "the table is a mapping of its own and no two borrows of it overlap")]
    fn slots(&self) -> &'static mut [Slot] {
        // SAFETY: a mapping of SLOTS entries, of which `used` are asked for, that lives as long as the process; the spawner has one thread and no
        // function keeps the slice across a call that takes it again.
        unsafe { core::slice::from_raw_parts_mut(self.slots, self.used) }
    }

    fn serve(&mut self) -> sys::Result<()> {
        let mut inbox = Inbox::new()?;
        loop {
            let mut set = [
                PollFd { descriptor: self.engine, events: sys::POLLIN, returned: 0 },
                PollFd { descriptor: self.children, events: sys::POLLIN, returned: 0 },
            ];
            // What is prepared ahead takes the machine from a box that is starting: that one comes first.
            let patience = match (self.needs_blank(), self.starting) {
                (false, _) => None,
                (true, true) => Some(STARTING_MILLISECONDS),
                (true, false) => Some(0),
            };
            match sys::poll(&mut set, patience) {
                Ok(0) => {
                    self.starting = false;
                    if self.prepare(self.default_namespaces, self.default_ids, false, true).is_err() {
                        // Not again in vain: whoever asks for a box hears why.
                        self.warm = 0;
                    }
                    continue;
                }
                Ok(_) => {}
                Err(sys::EINTR) => continue,
                Err(errno) => return Err(errno),
            }
            if set[1].returned != 0 {
                self.reap()?;
            }
            if set[0].returned != 0 {
                match inbox.receive(self.engine) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(sys::EPROTO) => {
                        // A request that did not arrive whole, for want of descriptors perhaps: whoever sent it sees the
                        // end of the box's conversation.
                        inbox.clear();
                        continue;
                    }
                    Err(errno) => return Err(errno),
                }
                let result = self.handle(&mut inbox);
                inbox.clear();
                result?;
            }
        }
    }

    fn handle(&mut self, inbox: &mut Inbox) -> sys::Result<()> {
        let mut tag = Reader::new(inbox.record());
        match tag.u8()? {
            request::HELLO => self.hello(inbox),
            request::CREATE => self.create(inbox),
            request::KILL => {
                let id = tag.u32()?;
                if let Some(slot) = self.slots().iter().find(|slot| slot.state == State::Live && slot.id == id) {
                    let _ = sys::pidfd_kill(slot.pidfd);
                }
                Ok(())
            }
            request::RELEASE => {
                let id = tag.u32()?;
                let known = |slot: &Slot| slot.id == id && matches!(slot.state, State::Live | State::Gone);
                if let Some(index) = self.slots().iter().position(known) {
                    self.slots()[index].released = true;
                    self.starting = false;
                    if self.slots()[index].state == State::Gone {
                        self.free(index);
                    }
                }
                Ok(())
            }
            _ => Err(sys::EPROTO),
        }
    }

    fn hello(&mut self, inbox: &mut Inbox) -> sys::Result<()> {
        let mut reader = Reader::new(inbox.record());
        reader.u8()?;
        self.privileged = reader.u8()? != 0;
        if self.privileged {
            // Not readable by anybody else. (An ordinary user's spawner has to stay readable by that user: the files
            // in which it maps the users of its boxes would otherwise belong to root.)
            sys::prctl(sys::PR_SET_DUMPABLE, 0, 0)?;
        }
        self.user_base = reader.u32()?;
        // Every slot has a user of its own, from here on.
        self.user_base.checked_add(SLOTS as u32).ok_or(sys::EINVAL)?;
        self.warm = reader.u32()?;
        self.default_namespaces = read_namespaces(&mut reader)?;
        self.default_ids = (reader.u32()?, reader.u32()?);
        self.default_groups = reader.u8()?;
        let version = reader.u8()?;
        let count = reader.u8()? as usize;
        let bases = inbox.descriptors.get(..count.min(inbox.count)).ok_or(sys::EPROTO)?;
        self.cgroups = Cgroups::new(version, bases, reader.text()?)?;
        self.base = keep(reader.bytes()?)?;
        for index in 0..count {
            // Kept for good: taken out of the inbox, which would close them.
            let _ = inbox.take(index);
        }
        let (errno, stage) = match self.trial() {
            Ok(()) => (0, 0),
            Err(failure) => {
                self.warm = 0;
                (failure.errno.0, failure.stage)
            }
        };
        let answer = Text::<8>::new().push(&errno.to_le_bytes()).push(&[stage]);
        sys::send(self.engine, answer.as_bytes(), &[])?;
        if self.privileged && errno == 0 {
            // Most trees that a box sees are the caller's own.
            let _ = self.owner_map(0, (sys::getuid(), sys::getgid()), false);
        }
        Ok(())
    }

    /// Half makes a box and waits until it says that it can mount things. It is kept for the first that is asked for.
    fn trial(&mut self) -> core::result::Result<(), Failure> {
        let index = self.prepare(self.default_namespaces, self.default_ids, true, true)?;
        let mut word = [0; 4];
        let (length, _) = sys::receive(self.slots()[index].orders, &mut word, &mut []).map_err(at(stage::TRIAL))?;
        if length == 0 {
            return Err(Failure { stage: stage::TRIAL, index: 0, errno: sys::EPERM });
        }
        match i32::from_le_bytes(word) {
            0 => Ok(()),
            errno => Err(Failure { stage: stage::TRIAL, index: 0, errno: Errno(errno) }),
        }
    }

    fn needs_blank(&self) -> bool {
        let blanks = self.slots().iter().filter(|slot| slot.state == State::Blank).count();
        (blanks as u32) < self.warm
    }

    /// Makes a blank: a child in its namespaces and cgroup that waits for its orders.
    fn prepare(
        &mut self,
        namespaces: u64,
        ids: Ids,
        trial: bool,
        has_base: bool,
    ) -> core::result::Result<usize, Failure> {
        let index = match self.slots().iter().position(|slot| slot.state == State::Free) {
            Some(index) => index,
            None if self.used < SLOTS => {
                self.used += 1;
                self.used - 1
            }
            None => return Err(Failure { stage: stage::SLOT, index: 0, errno: sys::EAGAIN }),
        };
        let groups = self.default_groups;
        let (serial, name) = self.make_cgroup(groups).map_err(at(stage::CGROUP))?;
        match self.fork_blank(namespaces, ids, index, serial, trial, has_base) {
            Ok(()) => Ok(index),
            Err(failure) => {
                self.cgroups.remove(&name, groups);
                Err(failure)
            }
        }
    }

    /// Makes the cgroup of the next box. A helper in another process namespace can have our number, and so our names: then
    /// the next one is tried.
    fn make_cgroup(&mut self, groups: u8) -> sys::Result<(u32, Name)> {
        for _ in 0..SLOTS {
            let serial = self.next_serial;
            self.next_serial += 1;
            let name = self.cgroups.name(serial);
            match self.cgroups.make(&name, groups) {
                Err(sys::EEXIST) => {}
                made => return made.map(|()| (serial, name)),
            }
        }
        Err(sys::EEXIST)
    }

    /// Puts a blank's process in those of its cgroups in which it has not put itself.
    fn attach(&mut self, index: usize) -> core::result::Result<(), Failure> {
        let slot = &mut self.slots()[index];
        let name = self.cgroups.name(slot.serial);
        let missing = slot.groups & !slot.attached;
        self.cgroups.attach_v1(&name, missing, slot.pid).map_err(at(stage::ATTACH))?;
        slot.attached |= missing;
        Ok(())
    }

    fn kill_and_free(&mut self, index: usize) {
        let slot = self.slots()[index];
        let _ = sys::pidfd_kill(slot.pidfd);
        sys::wait_for(slot.pid);
        self.free(index);
    }

    fn fork_blank(
        &mut self,
        namespaces: u64,
        ids: Ids,
        index: usize,
        serial: u32,
        trial: bool,
        has_base: bool,
    ) -> core::result::Result<(), Failure> {
        let name = self.cgroups.name(serial);
        let cgroup = self.cgroups.open_v2(&name).map_err(at(stage::CGROUP))?;
        let entrances = self.cgroups.open_v1(&name, self.default_groups).map_err(at(stage::CGROUP))?;
        let [ours, theirs] = match sys::record_pair() {
            Ok(pair) => pair,
            Err(errno) => {
                entrances.close();
                if let Some(cgroup) = cgroup {
                    sys::close(cgroup);
                }
                return Err(Failure { stage: stage::HANDOVER, index: 0, errno });
            }
        };
        // A network namespace takes the kernel longer than all others together: the new process makes it by itself, while
        // we go on.
        let network = namespaces & sys::CLONE_NEWNET;
        let forked = sys::fork_into(namespaces & !(network | STAGE | SAME_USER), cgroup);
        if matches!(forked, Ok(sys::Forked::Child)) {
            let base = if has_base { self.base } else { b"" };
            let start = Start {
                orders: theirs,
                lifeline: self.lifeline,
                entrances,
                privileged: self.privileged,
                stage: namespaces & STAGE != 0,
                trial,
                base,
            };
            crate::setup::run(&start, network as usize)
        }
        entrances.close();
        if let Some(cgroup) = cgroup {
            sys::close(cgroup);
        }
        match forked {
            Err(errno) => {
                sys::close(ours);
                sys::close(theirs);
                Err(Failure { stage: stage::CLONE, index: 0, errno })
            }
            Ok(sys::Forked::Child) => sys::exit(1),
            Ok(sys::Forked::Parent { pid, pidfd }) => {
                sys::close(theirs);
                self.slots()[index] = Slot {
                    state: State::Blank,
                    id: 0,
                    serial,
                    pid,
                    pidfd,
                    orders: ours,
                    conversation: -1,
                    released: false,
                    groups: self.default_groups,
                    // It puts itself in those, first of all.
                    attached: self.default_groups,
                    namespaces,
                    ids,
                    has_base,
                };
                let mapped = if namespaces & sys::CLONE_NEWUSER == 0 {
                    Ok(())
                } else {
                    self.write_maps(pid, ids, index).map_err(at(stage::ID_MAP))
                };
                // It waits for this before it acts as its user.
                let outside = self.outside_user(index).to_le_bytes();
                let told = mapped.and_then(|()| sys::send(ours, &outside, &[]).map_err(at(stage::HANDOVER)));
                told.map(|_| ()).inspect_err(|_| self.kill_and_free(index))
            }
        }
    }

    /// The host's user for a box: one of its own where we may choose, else the caller's.
    fn outside_user(&self, index: usize) -> u32 {
        let slot = &self.slots()[index];
        if slot.namespaces & SAME_USER != 0 { slot.ids.0 } else { self.user_base + index as u32 }
    }

    /// Maps the box's user (and group) to one on the host, and nothing else.
    fn write_maps(&self, pid: i32, (inside_uid, inside_gid): Ids, index: usize) -> sys::Result<()> {
        let (uid, gid) = if self.privileged {
            (self.outside_user(index), self.outside_user(index))
        } else {
            write_process_file(pid, b"/setgroups\0", b"deny")?;
            (sys::getuid(), sys::getgid())
        };
        let map = |inside: u32, outside: u32| {
            Text::<40>::new().number(u64::from(inside)).push(b" ").number(u64::from(outside)).push(b" 1\n")
        };
        write_process_file(pid, b"/gid_map\0", map(inside_gid, gid).as_bytes())?;
        write_process_file(pid, b"/uid_map\0", map(inside_uid, uid).as_bytes())
    }

    fn create(&mut self, inbox: &mut Inbox) -> sys::Result<()> {
        let mut reader = Reader::new(inbox.record());
        reader.u8()?;
        let id = reader.u32()?;
        let result = self.create_box(id, inbox);
        self.starting = true;
        let conversation = inbox.take(0).ok_or(sys::EPROTO)?;
        match result {
            Ok(index) => {
                self.slots()[index].conversation = conversation;
                let name = self.cgroups.name(self.slots()[index].serial);
                if tell_created(conversation, None, name.as_bytes()).is_err() {
                    // Nobody would ever use it. The end of its conversation tells whoever waits for it.
                    self.kill_and_free(index);
                }
            }
            Err(failure) => {
                // The library may be gone already; if not, the end of the conversation says as much.
                let _ = tell_created(conversation, Some(&failure), b"");
                sys::close(conversation);
            }
        }
        Ok(())
    }

    fn create_box(&mut self, id: u32, inbox: &mut Inbox) -> core::result::Result<usize, Failure> {
        let malformed = |_| Failure { stage: stage::RECORD, index: 0, errno: sys::EPROTO };
        // The reader borrows the record; the inbox itself is only touched again when the reader is done.
        let record: *const [u8] = inbox.record();
        // SAFETY: the record's memory is unchanged until `inbox.clear()`, which only our caller calls, later.
        let mut reader = Reader::new(unsafe { &*record });
        reader.u8().map_err(malformed)?;
        reader.u32().map_err(malformed)?;
        let namespaces = read_namespaces(&mut reader).map_err(malformed)?;
        let fresh = reader.u8().map_err(malformed)? != 0;
        let ids = (reader.u32().map_err(malformed)?, reader.u32().map_err(malformed)?);
        let groups = reader.u8().map_err(malformed)?;
        let usual_base = reader.u8().map_err(malformed)? != 0;
        let ready = self.slots().iter().position(|slot| {
            !fresh
                && slot.state == State::Blank
                && slot.namespaces == namespaces
                && slot.ids == ids
                && slot.has_base == usual_base
        });
        let index = match ready {
            Some(index) => index,
            None => self.prepare(namespaces, ids, false, usual_base)?,
        };
        let ordered = self
            .add_groups(index, groups)
            .and_then(|()| self.give_orders(index, &mut reader, inbox))
            // While the init builds its view: it waits for the word before it hides its cgroup's place from the box.
            .and_then(|()| self.attach(index));
        match ordered {
            Ok(()) => {
                // An init that does not wait for the word may have closed this already.
                let _ = sys::send(self.slots()[index].orders, &[1], &[]);
                let slot = &mut self.slots()[index];
                slot.state = State::Live;
                slot.id = id;
                sys::close(slot.orders);
                slot.orders = -1;
                Ok(index)
            }
            Err(failure) => {
                self.kill_and_free(index);
                Err(failure)
            }
        }
    }

    /// Makes the cgroups that this box needs beyond the usual ones.
    fn add_groups(&mut self, index: usize, groups: u8) -> core::result::Result<(), Failure> {
        let slot = &mut self.slots()[index];
        let missing = groups & !slot.groups;
        self.cgroups.make(&self.cgroups.name(slot.serial), missing).map_err(at(stage::CGROUP))?;
        slot.groups |= missing;
        Ok(())
    }

    /// Does on the host what a box needs there (limits, placeholders, source trees) and hands the rest to its init.
    fn give_orders(
        &mut self,
        index: usize,
        reader: &mut Reader<'_>,
        inbox: &mut Inbox,
    ) -> core::result::Result<(), Failure> {
        let malformed = |_| Failure { stage: stage::RECORD, index: 0, errno: sys::EPROTO };
        let name = self.cgroups.name(self.slots()[index].serial);
        for number in 0..reader.u32().map_err(malformed)? {
            let base = reader.u8().map_err(malformed)? as usize;
            let (file, value) = (reader.text().map_err(malformed)?, reader.bytes().map_err(malformed)?);
            self.cgroups.write(&name, base, file, value).map_err(|errno| Failure {
                stage: stage::LIMIT,
                index: number,
                errno,
            })?;
        }
        for number in 0..reader.u32().map_err(malformed)? {
            let wanted = Wanted::read(reader).map_err(malformed)?;
            self.placeholders.hold(index as u32, &wanted).map_err(|errno| Failure {
                stage: stage::PLACEHOLDER,
                index: number,
                errno,
            })?;
        }
        // The base, where it is not the usual one, is the init's business.
        reader.bytes().map_err(malformed)?;
        let mut descriptors = [-1; DESCRIPTORS_MAX];
        descriptors[0] = *inbox.descriptors[..inbox.count].first().ok_or(malformed(Malformed))?;
        let mut count = 1;
        let sent = self.open_trees(index, reader, &mut descriptors, &mut count).and_then(|()| {
            inbox.forward(self.slots()[index].orders, &mut descriptors, count).map_err(at(stage::HANDOVER))
        });
        for descriptor in &descriptors[1..count] {
            sys::close(*descriptor);
        }
        sent.map(|_| ())
    }

    /// Opens the source trees, if we have the right to; otherwise the init does, inside its own namespaces.
    fn open_trees(
        &self,
        slot: usize,
        reader: &mut Reader<'_>,
        descriptors: &mut [Fd; DESCRIPTORS_MAX],
        count: &mut usize,
    ) -> core::result::Result<(), Failure> {
        let malformed = |_| Failure { stage: stage::RECORD, index: 0, errno: sys::EPROTO };
        if !self.privileged {
            return Ok(());
        }
        for number in 0..reader.u32().map_err(malformed)? {
            let tree = crate::view::Tree::read(reader).map_err(malformed)?;
            let namespace = if tree.flags & tree_flag::ID_MAPPED == 0 {
                None
            } else {
                let group = tree.flags & tree_flag::NO_GROUP == 0;
                Some(self.owner_map(slot, tree.owner, group).map_err(at(stage::MAP_NAMESPACE))?)
            };
            let place = descriptors.get_mut(*count).ok_or(malformed(Malformed))?;
            *place = tree.open(namespace).map_err(|errno| Failure { stage: stage::TREE, index: number, errno })?;
            *count += 1;
        }
        Ok(())
    }

    /// The namespace through which trees of `owner` are shown to boxes in this slot.
    fn owner_map(&self, slot: usize, owner: Ids, group: bool) -> sys::Result<Fd> {
        let (uid, gid) = owner;
        let owner = (uid, if group { gid } else { NOBODYS_GROUP });
        // SAFETY: a mapping of two entries for each of SLOTS, of which `slot` is one; nothing else refers to it meanwhile.
        let map = unsafe { &mut *self.owner_maps.add(2 * slot + usize::from(group)) };
        // A stage's runtime may act as the root of its container, which is nobody, before it gives a file away.
        let stage = self.slots()[slot].namespaces & STAGE != 0;
        let outside = self.outside_user(slot);
        if map.namespace > 0 {
            if (map.owner, map.outside, map.stage) == (owner, outside, stage) {
                return Ok(map.namespace);
            }
            sys::close(map.namespace);
            map.namespace = 0;
        }
        *map = OwnerMap { namespace: map_namespace(owner, outside, stage)?, owner, outside, stage };
        Ok(map.namespace)
    }

    fn reap(&mut self) -> sys::Result<()> {
        let mut drain = [0; 128];
        while sys::read(self.children, &mut drain).is_ok() {}
        loop {
            let mut usage = sys::Rusage::default();
            let (pid, status) = match sys::reap(&mut usage) {
                Ok(Some(ended)) => ended,
                // No child has ended, or there is none.
                Ok(None) | Err(_) => return Ok(()),
            };
            let Some(index) = self
                .slots()
                .iter()
                .position(|slot| slot.pid == pid && matches!(slot.state, State::Live | State::Blank))
            else {
                continue;
            };
            let slot = &mut self.slots()[index];
            if slot.state == State::Blank {
                // It could not use its namespaces, or was killed: no more of them ahead of being asked.
                self.warm = 0;
                self.free(index);
                continue;
            }
            slot.state = State::Gone;
            sys::close(slot.pidfd);
            slot.pidfd = -1;
            let released = slot.released;
            self.placeholders.release(index as u32);
            let record = Text::<8>::new().push(&[event::GONE]).push(&status.to_le_bytes());
            if sys::send(slot.conversation, record.as_bytes(), &[]).is_err() {
                // The library has let go of its end. Should it not have, the end of ours says the same.
                sys::close(slot.conversation);
                slot.conversation = -1;
            }
            if released {
                self.free(index);
            }
        }
    }

    /// Gives a slot back: its process is reaped.
    fn free(&mut self, index: usize) {
        let slot = &mut self.slots()[index];
        if slot.pidfd > 0 {
            sys::close(slot.pidfd);
        }
        if slot.orders > 0 {
            sys::close(slot.orders);
        }
        if slot.conversation > 0 {
            sys::close(slot.conversation);
        }
        let name = self.cgroups.name(slot.serial);
        self.cgroups.remove(&name, slot.groups);
        self.placeholders.release(index as u32);
        self.slots()[index].state = State::Free;
    }

    /// Ends every box, waits until nothing of them runs, and removes what they had on the host.
    fn end(&mut self) -> ! {
        for slot in self.slots().iter().filter(|slot| matches!(slot.state, State::Live | State::Blank)) {
            let _ = sys::pidfd_kill(slot.pidfd);
        }
        for index in 0..self.used {
            let slot = self.slots()[index];
            if matches!(slot.state, State::Live | State::Blank) {
                sys::wait_for(slot.pid);
            }
            if slot.state != State::Free {
                self.free(index);
            }
        }
        sys::exit(0)
    }
}

/// The namespaces of a box. Other flags of `clone3` are no namespaces: with some of them the box would share this process's
/// memory or descriptors.
fn read_namespaces(reader: &mut Reader<'_>) -> core::result::Result<u64, Malformed> {
    let asked = reader.u64()?;
    if asked & ALWAYS == ALWAYS && asked & !(ALWAYS | OPTIONAL) == 0 { Ok(asked) } else { Err(Malformed) }
}

/// Copies bytes to memory that stays.
fn keep(bytes: &[u8]) -> sys::Result<&'static [u8]> {
    let place = sys::map(None, bytes.len().max(1))?;
    // SAFETY: a fresh mapping of at least that length, which is never unmapped.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        Ok(core::slice::from_raw_parts(place, bytes.len()))
    }
}

fn tell_created(conversation: Fd, failure: Option<&Failure>, name: &[u8]) -> sys::Result<()> {
    let (errno, stage, index) = failure.map_or((0, 0, 0), |failure| (failure.errno.0, failure.stage, failure.index));
    let record = Text::<128>::new()
        .push(&[event::CREATED])
        .push(&errno.to_le_bytes())
        .push(&[stage])
        .push(&index.to_le_bytes())
        .push(&(name.len() as u32).to_le_bytes())
        .push(name);
    sys::send(conversation, record.as_bytes(), &[]).map(|_| ())
}

fn write_process_file(pid: i32, file: &[u8], value: &[u8]) -> sys::Result<()> {
    let path = Text::<64>::new().push(b"/proc/").number(pid as u64).name(file).end();
    let descriptor = sys::openat(sys::AT_FDCWD, path.as_bytes(), sys::O_WRONLY, 0)?;
    let result = sys::write(descriptor, value);
    sys::close(descriptor);
    result.map(|_| ())
}

/// A user namespace that maps the owner of a tree to the box's user, for id-mapped mounts.
fn map_namespace(owner: (u32, u32), outside: u32, stage: bool) -> sys::Result<Fd> {
    let [wait, hold] = sys::pipe()?;
    let forked = sys::fork_into(sys::CLONE_NEWUSER, None);
    let (pid, pidfd) = match forked {
        Err(errno) => {
            sys::close(wait);
            sys::close(hold);
            return Err(errno);
        }
        Ok(sys::Forked::Child) => {
            // Holds the namespace open until the spawner has it.
            sys::close(hold);
            let _ = sys::read(wait, &mut [0]);
            sys::exit(0)
        }
        Ok(sys::Forked::Parent { pid, pidfd }) => (pid, pidfd),
    };
    let line = |map: Text<80>, inside: u32, outside: u32| {
        map.number(u64::from(inside)).push(b" ").number(u64::from(outside)).push(b" 1\n")
    };
    let map = |inside: u32| {
        let map = line(Text::new(), inside, outside);
        if stage && inside != OVERFLOW { line(map, OVERFLOW, STAGE_ROOT) } else { map }
    };
    let result = write_process_file(pid, b"/uid_map\0", map(owner.0).as_bytes())
        .and_then(|()| write_process_file(pid, b"/gid_map\0", map(owner.1).as_bytes()))
        .and_then(|()| {
            let path = Text::<64>::new().push(b"/proc/").number(pid as u64).push(b"/ns/user").end();
            sys::openat(sys::AT_FDCWD, path.as_bytes(), sys::O_RDONLY, 0)
        });
    sys::close(hold);
    sys::close(wait);
    let _ = sys::pidfd_kill(pidfd);
    sys::wait_for(pid);
    sys::close(pidfd);
    result
}
