//! The init as the first process of a container that somebody else made: confines itself as it is told, and serves.

use crate::confine;
use crate::init::{Init, NO_LIFELINE, leave};
use crate::record::Inbox;
use crate::sys::{self, Fd};
use crate::text::Text;
use crate::transport::{Stream, Transport};
use crate::wire::{Reader, notice, order, step};

/// Where runtimes put the first of the descriptors that they pass on.
pub const FIRST_PASSED: Fd = 3;
/// Where the conversation is moved to. Programs get everything below, and only that.
const INPUT: Fd = 3;
const OUTPUT: Fd = 4;

/// How the library is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A record socket.
    Records {
        /// Which descriptor it is.
        at: Fd,
    },
    /// Standard input and output.
    Stream,
}

pub fn run(by: By) -> ! {
    match prepare(by) {
        Ok((transport, inbox)) => serve(transport, inbox),
        Err(_) => sys::exit(1),
    }
}

/// Puts the conversation, and this process, out of the reach of what it will start.
fn prepare(by: By) -> sys::Result<(Transport, Inbox)> {
    // First of all: who has the same user could else open the conversation through /proc, or attach to this process.
    sys::prctl(sys::PR_SET_DUMPABLE, 0, 0)?;
    sys::prctl(sys::PR_SET_NAME, sys::c(b"hotcell-init\0"), 0)?;
    let from = if let By::Records { at } = by { at } else { 0 };
    if from == INPUT {
        sys::close_on_exec(INPUT)?;
    } else {
        sys::dup3(from, INPUT, sys::O_CLOEXEC)?;
    }
    if by == By::Stream {
        sys::dup3(1, OUTPUT, sys::O_CLOEXEC)?;
    }
    let last = if by == By::Stream { OUTPUT } else { INPUT };
    sys::close_range(last as u32 + 1, u32::MAX)?;
    let nothing = open_nothing()?;
    for number in 0..3 {
        sys::dup3(nothing, number, 0)?;
    }
    sys::close(nothing);
    sys::default_signals()?;
    sys::block_signals(u64::MAX)?;
    sys::umask(0);
    sys::raise_descriptor_limit()?;
    // Where this is not pid 1: daemons come here all the same.
    sys::prctl(sys::PR_SET_CHILD_SUBREAPER, 1, 0)?;
    let transport = match by {
        By::Records { .. } => Transport::Records(INPUT),
        By::Stream => Transport::Stream(Stream::new(INPUT, OUTPUT)?),
    };
    Ok((transport, Inbox::new()?))
}

/// Something from which nothing comes. A container may have no devices.
fn open_nothing() -> sys::Result<Fd> {
    if let Ok(null) = sys::openat(sys::AT_FDCWD, b"/dev/null\0", sys::O_RDWR, 0) {
        return Ok(null);
    }
    let [read, write] = sys::pipe()?;
    sys::close(write);
    Ok(read)
}

fn serve(transport: Transport, mut inbox: Inbox) -> ! {
    match transport.receive(&mut inbox) {
        Ok(true) => {}
        Ok(false) => leave(0),
        Err(_) => leave(1),
    }
    let mut done = 0;
    let listener = match set_up(&inbox, &transport, &mut done) {
        Ok(listener) => listener,
        Err(errno) => {
            let record = Text::<16>::new().push(&[notice::FAILED]).push(&u32::to_le_bytes(done));
            let _ = transport.say(record.push(&errno.0.to_le_bytes()).as_bytes(), &[]);
            leave(1)
        }
    };
    inbox.clear();
    let listens = u8::from(listener.is_some());
    let descriptors = listener.as_ref().map_or(&[][..], core::slice::from_ref);
    if transport.say(&[notice::READY, 0, listens], descriptors).is_err() {
        leave(1)
    }
    // What was opened on the way is closed.
    if sys::close_range(OUTPUT as u32 + 1, u32::MAX).is_err() {
        leave(1)
    }
    match Init::new(transport, NO_LIFELINE, inbox) {
        Ok(init) => init.serve(),
        Err(_) => leave(1),
    }
}

/// Runs the steps of the first order. Gives the listener for refused calls, where one was asked for.
fn set_up(inbox: &Inbox, transport: &Transport, done: &mut u32) -> sys::Result<Option<Fd>> {
    let mut reader = Reader::new(inbox.record());
    if reader.u8()? != order::SETUP {
        return Err(sys::EPROTO);
    }
    reader.u32()?;
    let mut listener = None;
    while !reader.is_empty() {
        match reader.u8()? {
            step::LIMIT => drop(sys::set_limit(reader.u32()?, reader.u64()?, reader.u64()?)?),
            step::LANDLOCK => confine::landlock(&mut reader)?,
            step::CAPABILITIES => confine::keep_no_capability()?,
            step::NO_NEW_PRIVS => drop(sys::prctl(sys::PR_SET_NO_NEW_PRIVS, 1, 0)?),
            step::SECCOMP => {
                let (instructions, listen) = (reader.bytes()?, reader.u8()? != 0);
                // A listener is a descriptor, and those do not get through a stream.
                if listen && matches!(transport, Transport::Stream(_)) {
                    return Err(sys::EOPNOTSUPP);
                }
                let result = sys::seccomp_load(instructions, listen)?;
                listener = if listen { Some(result as Fd) } else { listener };
            }
            // The view is not ours to make: somebody else has made it.
            _ => return Err(sys::EPROTO),
        }
        *done += 1;
    }
    Ok(listener)
}
