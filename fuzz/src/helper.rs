//! One run of the real helper: it is started, told what a script says, and let go of.
//!
//! Runs inside an [enclosure](crate::enclosure), as its first process: whatever the helper leaves behind becomes a child
//! of this process, and is found.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use hotcell_linux::wire::{IN_MEMORY_FILE, Malformed, Reader, event, notice, order, request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv,
    sendmsg, socketpair,
};

use crate::script::{Message, To};

/// Where scripts may put placeholders.
pub const PLACE: &str = "/tmp/w";
/// How long an answer may take. Longer is no mistake by itself: the machine may be busy.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long the helper may take to end every box and itself.
const END_TIME: Duration = Duration::from_secs(10);
/// The helper's panic handler exits with this.
const PANICKED: i32 = 101;
/// Signals that a process gets for a mistake of its own: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const MISTAKES: [i32; 6] = [4, 5, 6, 7, 8, 11];
/// The longest record that the library takes.
const LONGEST: usize = 512;

/// What was answered, as numbers that stand for kinds of answers; or what must not have happened.
pub type Seen = Result<Vec<u64>, String>;

/// Starts a helper, sends it the messages one after the other, and ends it.
pub fn run(messages: &[Message]) -> Seen {
    let mut talk = Talk::begin().map_err(|error| format!("the helper could not be started: {error}"))?;
    for message in messages {
        // A helper that has ended takes no more; why it has is looked at below.
        if talk.send(message).is_err() || !talk.listen(message)? {
            break;
        }
    }
    talk.end()
}

/// The conversation with one helper.
struct Talk {
    helper: Child,
    engine: OwnedFd,
    boxes: Vec<OwnedFd>,
    seen: Vec<u64>,
}

impl Talk {
    fn begin() -> io::Result<Self> {
        static IMAGE: OnceLock<OwnedFd> = OnceLock::new();
        let image = match IMAGE.get() {
            Some(image) => image,
            None => {
                let image = memory_file(hotcell_linux::fuzzing::helper_image())?;
                IMAGE.get_or_init(|| image)
            }
        };
        let (engine, theirs) = pair()?;
        let helper = Command::new(format!("/proc/self/fd/{}", image.as_raw_fd()))
            .env_clear()
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { helper, engine, boxes: Vec::new(), seen: Vec::new() })
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut descriptors = Vec::new();
        let socket = match message.to {
            To::Init => self.boxes.last(),
            To::Spawner | To::SpawnerInFile => Some(&self.engine),
            // What the helper says is not for the helper.
            To::Greeter | To::Library => None,
        };
        // An order to no box goes nowhere.
        let Some(socket) = socket.map(|socket| socket.try_clone()).transpose()? else { return Ok(()) };
        if matches!(message.to, To::Spawner | To::SpawnerInFile) && message.descriptors > 0 {
            let (ours, theirs) = pair()?;
            self.boxes.push(ours);
            descriptors.push(theirs);
        }
        while descriptors.len() < message.descriptors {
            descriptors.push(File::options().read(true).write(true).open("/dev/null")?.into());
        }
        if message.to == To::SpawnerInFile {
            descriptors.push(memory_file(&message.record)?);
            return transmit(&socket, &[IN_MEMORY_FILE], &descriptors);
        }
        transmit(&socket, &message.record, &descriptors)
    }

    /// Hears what is said because of a message. `Ok(false)`: the helper is gone.
    fn listen(&mut self, message: &Message) -> Result<bool, String> {
        let tag = message.record.first().copied().unwrap_or_default();
        let to_spawner = matches!(message.to, To::Spawner | To::SpawnerInFile);
        let creates = to_spawner && tag == request::CREATE && message.descriptors > 0;
        let greets = to_spawner && tag == request::HELLO;
        let asks = matches!(tag, order::SPAWN | order::OPEN | order::MAKE_DIRECTORY | order::REMOVE | order::RENAME)
            || tag == order::SAMPLE;
        let mut wanted = match message.to {
            To::Init => usize::from(asks && !self.boxes.is_empty()),
            _ => usize::from(greets) + 2 * usize::from(creates),
        };
        let deadline = Instant::now() + ANSWER_TIME;
        loop {
            let patience =
                if wanted == 0 { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
            match self.hear(patience)? {
                Heard::Nothing => return Ok(true),
                Heard::End => return Ok(false),
                Heard::Answer => wanted = wanted.saturating_sub(1),
                Heard::Last => wanted = 0,
                Heard::News => {}
            }
        }
    }

    /// Waits for one record on any of the sockets.
    fn hear(&mut self, patience: Duration) -> Result<Heard, String> {
        let sockets = [&self.engine].into_iter().chain(&self.boxes);
        let mut set: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let time = Timespec::try_from(patience).map_err(|error| error.to_string())?;
        if poll(&mut set, Some(&time)).map_err(|error| format!("poll: {error}"))? == 0 {
            return Ok(Heard::Nothing);
        }
        let ready = set.iter().position(|entry| !entry.revents().is_empty());
        let Some(index) = ready else { return Ok(Heard::Nothing) };
        let mut buffer = [0; 4096];
        let socket = if index == 0 { &self.engine } else { &self.boxes[index - 1] };
        let length = match recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => length,
            Err(_) => 0,
        };
        if length == 0 {
            if index == 0 {
                return Ok(Heard::End);
            }
            // The conversation is over; what is said about the next box goes to another.
            self.boxes.remove(index - 1);
            return Ok(Heard::Last);
        }
        if length > LONGEST {
            return Err(format!("the helper sent a record of {length} bytes, which the library does not take"));
        }
        let record = &buffer[..length];
        let understood = if index == 0 { read_greeting(record) } else { read_answer(record) };
        let (kind, heard) = understood.map_err(|Malformed| format!("the helper said {record:?}"))??;
        let gone = index > 0 && record.first() == Some(&event::GONE);
        self.seen.push(kind);
        if gone {
            // The spawner holds the other end too, so orders could still be sent; nobody would answer them.
            self.boxes.remove(index - 1);
        }
        Ok(heard)
    }

    /// Lets go of the helper, which must then end, and everything with it.
    fn end(mut self) -> Seen {
        drop(self.engine);
        let started = Instant::now();
        let status = loop {
            match self.helper.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if started.elapsed() > END_TIME => {
                    let doing = fs::read_to_string(format!("/proc/{}/stack", self.helper.id())).unwrap_or_default();
                    let _ = self.helper.kill();
                    let _ = self.helper.wait();
                    return Err(format!("the helper did not end; it was in: {doing}"));
                }
                Ok(None) => thread::sleep(Duration::from_micros(200)),
                Err(error) => return Err(format!("cannot wait for the helper: {error}")),
            }
        };
        judge("the spawner", status)?;
        if !status.success() {
            return Err(format!("the spawner ended with {status}, and 0 is how it ends"));
        }
        drop(self.boxes);
        nothing_is_left()?;
        Ok(self.seen)
    }
}

enum Heard {
    Nothing,
    Answer,
    /// Something that nobody asked for.
    News,
    /// No more will come about this box.
    Last,
    /// The spawner is gone.
    End,
}

/// A kind of answer as a number, and what it means for whoever waits; or a mistake of the helper's.
type Understood = Result<Result<(u64, Heard), String>, Malformed>;

fn read_greeting(record: &[u8]) -> Understood {
    let mut reader = Reader::new(record);
    let (errno, stage) = (reader.i32()?, reader.u8()?);
    Ok(Ok((number(0, [errno as u32, stage.into()]), Heard::Answer)))
}

fn read_answer(record: &[u8]) -> Understood {
    let mut reader = Reader::new(record);
    let kind = reader.u8()?;
    let (details, heard) = match kind {
        event::CREATED => {
            let (errno, stage, index) = (reader.i32()?, reader.u8()?, reader.u32()?);
            reader.bytes()?;
            let heard = if errno == 0 { Heard::Answer } else { Heard::Last };
            ([errno as u32 * 32 + u32::from(stage), index.min(4)], heard)
        }
        event::GONE => {
            let status = ExitStatus::from_raw(reader.i32()?);
            if let Err(mistake) = judge("the init", status) {
                return Ok(Err(mistake));
            }
            ([status.into_raw() as u32, 0], Heard::Last)
        }
        notice::READY => ([reader.u8()?.into(), reader.u8()?.into()], Heard::Answer),
        notice::FAILED => ([reader.u32()?.min(64), reader.i32()? as u32], Heard::Last),
        notice::STARTED | notice::SAMPLED => {
            reader.u32()?;
            reader.u64()?;
            ([0, 0], Heard::Answer)
        }
        notice::SPAWN_FAILED => {
            reader.u32()?;
            ([reader.u8()?.into(), reader.i32()? as u32], Heard::Answer)
        }
        notice::EXITED => {
            reader.u32()?;
            // Somebody ended; whoever waits for an answer still does.
            return Ok(Ok((number(kind, [reader.i32()? as u32, 0]), Heard::News)));
        }
        notice::DONE => {
            reader.u32()?;
            ([reader.i32()? as u32, 0], Heard::Answer)
        }
        _ => return Err(Malformed),
    };
    Ok(Ok((number(kind, details), heard)))
}

fn number(kind: u8, [first, second]: [u32; 2]) -> u64 {
    u64::from(kind) << 56 | u64::from(first & 0xff_ffff) << 32 | u64::from(second)
}

/// A process of the helper's that ended by a mistake of its own.
fn judge(who: &str, status: ExitStatus) -> Result<(), String> {
    if status.code() == Some(PANICKED) {
        return Err(format!("{who} panicked"));
    }
    match status.signal() {
        Some(signal) if MISTAKES.contains(&signal) => Err(format!("{who} was ended by signal {signal}")),
        _ => Ok(()),
    }
}

/// Nothing of a box is there when its spawner has ended: no process, no placeholder.
fn nothing_is_left() -> Result<(), String> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").map_err(|error| format!("cannot list /proc: {error}"))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid != own {
            let what = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            return Err(format!("the spawner left a process behind: {what}"));
        }
    }
    for entry in fs::read_dir(PLACE).into_iter().flatten().flatten() {
        let mode = entry.metadata().map(|found| found.permissions().mode() & 0o7777).unwrap_or_default();
        if matches!(mode, 0o1600 | 0o1700) {
            return Err(format!("the spawner left a placeholder behind: {}", entry.path().display()));
        }
    }
    Ok(())
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn memory_file(contents: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("hotcell-fuzz", MemfdFlags::CLOEXEC)?);
    file.write_all(contents)?;
    Ok(file.into())
}

fn transmit(socket: &OwnedFd, record: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    sendmsg(socket, &[io::IoSlice::new(record)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}
