//! From a fork of the spawner to the init of a box: waits for its orders and runs the set-up steps.

use crate::cgroup::Entrances;
use crate::confine;
use crate::init::Init;
use crate::record::Inbox;
use crate::stage;
use crate::sys::{self, Fd};
use crate::text::Text;
use crate::transport::Transport;
use crate::view::{self, View};
use crate::wire::{Reader, notice, step};

/// Where the orders and, later, the conversation with the library are.
const CONVERSATION: Fd = 3;
/// The pipe that ends with the spawner: the spawner opens it first of all, so it has this number.
const LIFELINE: Fd = 4;

/// What a new process gets from the spawner that it is a fork of.
pub struct Start {
    /// Where its orders come from.
    pub orders: Fd,
    /// Ends with the spawner.
    pub lifeline: Fd,
    /// The way into its cgroups.
    pub entrances: Entrances,
    /// Whether the spawner opens trees for it.
    pub privileged: bool,
    /// Whether it becomes a stage, and keeps what it takes to execute a runtime.
    pub stage: bool,
    /// Whether to say, on the orders' socket, if the namespaces can be used.
    pub trial: bool,
    /// The base to make before any orders; empty if it comes with them.
    pub base: &'static [u8],
}

/// Runs in the new process: never returns to the spawner's code. `namespaces` are still to be made.
pub fn run(start: &Start, namespaces: usize) -> ! {
    if start.lifeline != LIFELINE || isolate(start).is_err() {
        sys::exit(1)
    }
    let made = if namespaces == 0 { Ok(0) } else { sys::unshare(namespaces) };
    // Some systems let the namespaces be made and refuse every use of them: say so at once.
    let usable = made.and_then(|_| sys::make_private(b"/\0")).map_or_else(|errno| errno.0, |_| 0);
    if start.trial && sys::send(CONVERSATION, &usable.to_le_bytes(), &[]).is_err() || usable != 0 {
        sys::exit(1)
    }
    // The spawner says when it has mapped our user, for which it has to be able to write our files in /proc.
    let mut outside = [0; 4];
    match sys::receive(CONVERSATION, &mut outside, &mut []) {
        Ok((length, _)) if length == outside.len() => {}
        _ => sys::exit(0),
    }
    if sys::prctl(sys::PR_SET_DUMPABLE, 0, 0).is_err() {
        sys::exit(1)
    }
    let mut view = View::new();
    let mut work = Work { outside: u32::from_le_bytes(outside), stage: start.stage, command: None };
    let mut done = 0;
    if !start.base.is_empty() && make_base(start.base, &mut view, &mut work, &mut done).is_err() {
        // Nobody listens yet. Whoever asks for this box hears of its end, and asks for one made from the start.
        sys::exit(1)
    }
    let Ok(mut inbox) = Inbox::new() else { sys::exit(1) };
    match inbox.receive(CONVERSATION) {
        Ok(true) => {}
        // The spawner has ended, or was told not to need this box.
        _ => sys::exit(0),
    }
    let Some(conversation) = inbox.take(0) else { sys::exit(1) };
    let mut result = prepare(&mut inbox, &mut view, start.privileged, &mut work, &mut done);
    if let (Ok(()), Some(command)) = (result, &work.command) {
        // The record that the command refers to is still in the inbox.
        done = done.saturating_sub(1);
        result = command.execute(&view, conversation);
    }
    if let Err(errno) = result {
        let record = Text::<16>::new().push(&[notice::FAILED]).push(&done.to_le_bytes()).push(&errno.0.to_le_bytes());
        let _ = sys::send(conversation, record.as_bytes(), &[]);
        sys::exit(1)
    }
    inbox.clear();
    if sys::dup3(conversation, CONVERSATION, sys::O_CLOEXEC).is_err() {
        sys::exit(1)
    }
    sys::close(conversation);
    let (descriptors, uppers, listener) = view.kept();
    let record = [notice::READY, uppers, listener];
    if sys::send(CONVERSATION, &record, descriptors).is_err() {
        sys::exit(1)
    }
    // What was opened on the way is closed: the init keeps the conversation and the lifeline.
    if sys::close_range(LIFELINE as u32 + 1, u32::MAX).is_err() {
        sys::exit(1)
    }
    match Init::new(Transport::Records(CONVERSATION), LIFELINE, inbox) {
        Ok(init) => init.serve(),
        Err(_) => sys::exit(1),
    }
}

/// Goes to its cgroup and lets go of everything of the spawner's but the two ends that the box needs.
fn isolate(start: &Start) -> sys::Result<()> {
    start.entrances.enter()?;
    sys::prctl(sys::PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0)?;
    sys::prctl(sys::PR_SET_NAME, sys::c(b"hotcell-init\0"), 0)?;
    sys::dup3(1, 0, 0)?;
    sys::dup3(start.orders, CONVERSATION, sys::O_CLOEXEC)?;
    sys::close_range(LIFELINE as u32 + 1, u32::MAX)?;
    // No box executes anything until it has no capabilities at all, so what an execution could keep can go now. A runtime
    // needs it.
    if start.stage { Ok(()) } else { crate::confine::drop_bounding_set() }
}

/// What steps need to know beside the view.
struct Work {
    /// The host's user for the box.
    outside: u32,
    stage: bool,
    /// What is executed when all steps are done.
    command: Option<stage::Command>,
}

/// Killed when the spawner ends, and not readable by others of the same user: a change of identity undoes both.
pub fn stay_bound() -> sys::Result<()> {
    sys::prctl(sys::PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0)?;
    sys::prctl(sys::PR_SET_DUMPABLE, 0, 0)?;
    Ok(())
}

/// Makes the part of a box that does not depend on its policy. Its trees need no rights of the spawner's.
fn make_base(base: &[u8], view: &mut View, work: &mut Work, done: &mut u32) -> sys::Result<()> {
    let mut reader = Reader::new(base);
    for number in 0..reader.u32()? {
        let tree = view::Tree::read(&mut reader)?;
        view.keep_tree(tree.open(None)?)?;
        view.set_tree_flags(number, tree.flags)?;
        *done += 1;
    }
    run_steps(&mut reader, view, work, done)
}

fn run_steps(reader: &mut Reader<'_>, view: &mut View, work: &mut Work, done: &mut u32) -> sys::Result<()> {
    while !reader.is_empty() {
        // Nothing comes after the command.
        if work.command.is_some() {
            return Err(sys::EPROTO);
        }
        run_step(reader, view, work)?;
        *done += 1;
    }
    Ok(())
}

fn prepare(inbox: &mut Inbox, view: &mut View, privileged: bool, work: &mut Work, done: &mut u32) -> sys::Result<()> {
    let record: *const [u8] = inbox.record();
    // SAFETY: the record's memory is unchanged until `inbox.clear()`, which our caller calls when this is done.
    let mut reader = Reader::new(unsafe { &*record });
    skip_to_base(&mut reader)?;
    let base = reader.bytes()?;
    if !base.is_empty() {
        make_base(base, view, work, done)?;
    }
    let first = view.tree_count() as u32;
    // Trees that the spawner opened, because it may; they are the view's from here on.
    for index in 1..inbox.count {
        view.keep_tree(inbox.take(index).ok_or(sys::EPROTO)?)?;
    }
    for number in 0..reader.u32()? {
        let tree = view::Tree::read(&mut reader)?;
        if !privileged {
            view.keep_tree(tree.open(None)?)?;
        }
        view.set_tree_flags(first + number, tree.flags)?;
        *done += 1;
    }
    run_steps(&mut reader, view, work, done)
}

/// Reads over the parts of the record that were for the spawner.
fn skip_to_base(reader: &mut Reader<'_>) -> sys::Result<()> {
    reader.u8()?;
    reader.u32()?;
    reader.u64()?;
    reader.u8()?;
    reader.u32()?;
    reader.u32()?;
    reader.u8()?;
    reader.u8()?;
    for _ in 0..reader.u32()? {
        reader.u8()?;
        reader.text()?;
        reader.bytes()?;
    }
    for _ in 0..reader.u32()? {
        reader.text()?;
        reader.u64()?;
        reader.u64()?;
        reader.text()?;
        reader.u8()?;
    }
    Ok(())
}

fn run_step(reader: &mut Reader<'_>, view: &mut View, work: &mut Work) -> sys::Result<()> {
    let step = reader.u8()?;
    if step >= step::STAGE && !work.stage {
        return Err(sys::EPROTO);
    }
    match step {
        step::ROOT => view.make_root(reader.text()?, reader.text()?),
        step::DIRECTORY => view.make_directory(reader.text()?, reader.u32()?),
        step::FILE => view.make_file(reader.text()?, reader.u32()?, reader.bytes()?),
        step::SYMLINK => view.make_symlink(reader.text()?, reader.text()?),
        step::ATTACH => view.attach_tree(reader.u32()?, reader.text()?),
        step::BIND => view.bind(reader.text()?, reader.text()?, reader.u32()?),
        step::PROC => view.mount_proc(reader.text()?),
        step::DEVPTS => view.mount_devpts(reader.text()?),
        step::OVERLAY => view.mount_overlay(reader),
        step::MODE => view.set_mode(reader.text()?, reader.u32()?),
        step::SEAL => view.seal(),
        step::PIVOT => view.enter(),
        step::PIN => {
            let path = reader.text()?;
            view.bind(path, path, crate::wire::tree_flag::RECURSIVE)
        }
        step::PRIVATE => view.open_private(reader.text()?),
        step::MASK => view.mask(reader.text()?, reader.u8()?, false),
        step::MASK_IN_PROC => match view.mask(reader.text()?, reader.u8()?, true) {
            // A kernel may lack it.
            Err(sys::ENOENT) => Ok(()),
            other => other,
        },
        step::CGROUP_NAMESPACE => {
            // The spawner says when this process is in its cgroup, which is the root of what it sees from here on.
            match sys::receive(CONVERSATION, &mut [0; 4], &mut [])? {
                (0, _) => Err(sys::EPROTO),
                _ => sys::unshare(sys::CLONE_NEWCGROUP).map(|_| ()),
            }
        }
        step::LIMIT => sys::set_limit(reader.u32()?, reader.u64()?, reader.u64()?).map(|_| ()),
        step::LOOPBACK => confine::loopback_up(),
        step::HOSTNAME => {
            let name = reader.text()?;
            sys::sethostname(&name[..name.len() - 1]).map(|_| ())
        }
        step::IDENTITY => confine::become_user(reader.u32()?, reader.u32()?),
        step::LANDLOCK => confine::landlock(reader),
        step::CAPABILITIES => confine::drop_capabilities(),
        step::NO_NEW_PRIVS => sys::prctl(sys::PR_SET_NO_NEW_PRIVS, 1, 0).map(|_| ()),
        step::SECCOMP => {
            let (instructions, listen) = (reader.bytes()?, reader.u8()? != 0);
            let result = sys::seccomp_load(instructions, listen)?;
            if listen {
                view.keep_listener(result as Fd);
            }
            Ok(())
        }
        step::STAGE => view.make_stage(reader.text()?),
        step::BUNDLE => view.write_bundle(reader, work.outside),
        step::EXPOSE => view.expose(reader.text()?, reader.text()?, reader.u8()? != 0),
        step::OWNER => view.set_owner(reader.text()?, work.outside),
        step::OWN_PROCESSES => stage::show_own(),
        step::ENTER => view.enter_container(reader.u32()?),
        step::EXECUTE => {
            work.command = Some(stage::Command::read(reader)?);
            Ok(())
        }
        _ => Err(sys::EPROTO),
    }
}
