//! What the library and the helper say to each other.
//!
//! All over `SOCK_SEQPACKET` socket pairs, so one message is one record:
//!
//! ```text
//! library ──[request]──▶ spawner      one socket per engine: hello, create, kill, release
//! library ──[order]────▶ init         one socket per box: spawn, signal, open, …
//! library ◀──[notice]─── init         on the same: ready, failed, started, exited, …
//! library ◀──[event]──── spawner      on the same: created, gone
//! ```
//!
//! Numbers are little-endian; a byte string is its length (u32) and its bytes; a path or argument is a byte string
//! that ends in NUL and has no other, so that the helper can hand it to the kernel as it lies there. A record that is
//! too large for a socket travels in a memory file: the record then holds [`IN_MEMORY_FILE`] alone and the file is the
//! last descriptor that comes with it.
//!
//! In a container that somebody else made, the helper is the first process and talks as the init alone: either on such a
//! socket, or, where only bytes get through, in *frames*: the length of a record (u32) and the record. No descriptors come
//! through a stream, so what programs read and write travels in records of its own ([`order::INPUT`],
//! [`notice::OUTPUT`]), each no faster than the other side has allowed.
//!
//! The helper has no allocator, so decoding borrows. This file is compiled into both sides.

#[cfg(not(hotcell_helper))]
mod encode;
#[cfg(not(hotcell_helper))]
pub use encode::Writer;

/// The largest record that is sent inline; larger ones go through a memory file.
pub const INLINE_MAX: usize = 48 * 1024;
/// The largest record at all: two argument lists of the kernel's maximum.
pub const RECORD_MAX: usize = 8 * 1024 * 1024;
/// The one byte that stands for "the record is in the memory file that comes with this".
pub const IN_MEMORY_FILE: u8 = 0xff;
/// How many descriptors can come with one record.
pub const DESCRIPTORS_MAX: usize = 200;

/// The most bytes of a program's input or output in one record of a stream.
pub const STREAM_CHUNK: usize = 32 * 1024;
/// How much of one stream of output may be under way without having been asked for again.
pub const OUTPUT_WINDOW: usize = 256 * 1024;
/// How much of what a program left in its pipes at its end is sent whatever is under way: what a pipe can hold.
pub const REST_MAX: usize = 1024 * 1024;
/// How much input of one program may be under way without having been taken.
pub const INPUT_WINDOW: usize = 64 * 1024;

/// What a file says that must not be empty and must lead nowhere else: a dot, the directory that it is in.
pub const HERE: &[u8] = b".\n";

/// Requests to the spawner.
pub mod request {
    /// First: who the caller is, where cgroups go, how many boxes to prepare ahead. The only request that is answered
    /// on the same socket: errno (zero for success) and stage of the first box that was half made, as a trial.
    pub const HELLO: u8 = 1;
    /// Make a box.
    pub const CREATE: u8 = 2;
    /// Kill a box: its init, and with it everything in it.
    pub const KILL: u8 = 3;
    /// Forget a box, now or as soon as it is gone: remove its cgroups.
    pub const RELEASE: u8 = 4;
}

/// Events from the spawner, told apart from notices by their numbers.
pub mod event {
    /// A box's init has its orders, or the spawner failed (errno not zero).
    pub const CREATED: u8 = 101;
    /// A box's init has been reaped: nothing of the box runs any more.
    pub const GONE: u8 = 102;
    /// From a bridge: the conversation with the agent ended badly; why, in words.
    pub const BROKEN: u8 = 103;
}

/// Where the spawner itself can fail in a create request; the library turns these into words.
pub mod stage {
    /// The record made no sense.
    pub const RECORD: u8 = 1;
    /// No slot is left.
    pub const SLOT: u8 = 2;
    /// A cgroup could not be made.
    pub const CGROUP: u8 = 3;
    /// `clone3` failed.
    pub const CLONE: u8 = 4;
    /// The user and group maps could not be written.
    pub const ID_MAP: u8 = 5;
    /// The new process could not be put in its cgroup.
    pub const ATTACH: u8 = 6;
    /// A limit could not be written (the index says which).
    pub const LIMIT: u8 = 7;
    /// A placeholder could not be made (the index says which).
    pub const PLACEHOLDER: u8 = 8;
    /// A source tree could not be opened (the index says which step).
    pub const TREE: u8 = 9;
    /// The orders could not be handed to the init.
    pub const HANDOVER: u8 = 10;
    /// The user namespace for id-mapped mounts could not be made.
    pub const MAP_NAMESPACE: u8 = 11;
    /// Namespaces can be made, but nothing can be mounted in them.
    pub const TRIAL: u8 = 12;
}

/// Orders to the init of a box.
pub mod order {
    /// Start a program.
    pub const SPAWN: u8 = 1;
    /// Signal the process group of a program that was started.
    pub const SIGNAL: u8 = 2;
    /// Kill a program that was started, and everything it started since that moment.
    pub const KILL_TREE: u8 = 3;
    /// Signal everything in the box.
    pub const SIGNAL_ALL: u8 = 4;
    /// Open a file inside the view and send the descriptor.
    pub const OPEN: u8 = 5;
    /// Make a directory inside the view.
    pub const MAKE_DIRECTORY: u8 = 6;
    /// Remove a file or an empty directory inside the view.
    pub const REMOVE: u8 = 7;
    /// Rename inside the view.
    pub const RENAME: u8 = 8;
    /// Count tasks, CPU time and memory of everything in the box.
    pub const SAMPLE: u8 = 9;
    /// End, and with the init everything in the box.
    pub const END: u8 = 10;
    /// The first order in a container: confine yourself by these steps.
    pub const SETUP: u8 = 11;
    /// Stream only. Bytes for a program's standard input.
    pub const INPUT: u8 = 12;
    /// Stream only. There is no more input.
    pub const INPUT_END: u8 = 13;
    /// Stream only. So many bytes of output have been taken, so many more may come.
    pub const CREDIT: u8 = 14;
    /// Stream only. Give a program's terminal another size.
    pub const RESIZE: u8 = 15;
    /// Stream only. Nobody reads this output any more.
    pub const OUTPUT_CLOSE: u8 = 16;
}

/// Notices from the init of a box.
pub mod notice {
    /// The box is set up and confined; descriptors that the library asked for come along.
    pub const READY: u8 = 1;
    /// A set-up step failed; the init ends.
    pub const FAILED: u8 = 2;
    /// A program runs; with the moment it was started, in ticks since boot.
    pub const STARTED: u8 = 3;
    /// A program could not be started.
    pub const SPAWN_FAILED: u8 = 4;
    /// A program ended.
    pub const EXITED: u8 = 5;
    /// The answer to an order about files: errno, and a descriptor where one was asked for.
    pub const DONE: u8 = 6;
    /// The answer to [`super::order::SAMPLE`].
    pub const SAMPLED: u8 = 7;
    /// A stage is set up and executes the runtime; descriptors come along.
    pub const STAGED: u8 = 20;
    /// Stream only. Bytes that a program wrote.
    pub const OUTPUT: u8 = 8;
    /// Stream only. Said once of each output of a program that was started, before its end.
    pub const OUTPUT_END: u8 = 9;
    /// Stream only. So many bytes of input have been taken, so many more may come.
    pub const INPUT_CREDIT: u8 = 10;
    /// Stream only. The program reads no more input.
    pub const INPUT_CLOSED: u8 = 11;
}

/// What [`request::HELLO`] and [`request::CREATE`] say beside the flags of namespaces: the process becomes a stage, which
/// executes a runtime with the rights that the spawner has.
pub const STAGE: u64 = 1 << 62;

/// With [`STAGE`]: the box's user is the host's user of the same number. For working on a container that somebody else made,
/// and whose users are the host's.
pub const SAME_USER: u64 = 1 << 61;

/// The root of the user namespace of a container on a stage, as the host sees it: nobody, and of no box.
pub const STAGE_ROOT: u32 = 0x77ff_ffff;

/// Steps of a box's set-up, run in the order given by its init.
pub mod step {
    /// Make the root tmpfs.
    pub const ROOT: u8 = 2;
    /// Make a directory and its parents in the root.
    pub const DIRECTORY: u8 = 3;
    /// Make a file with contents in the root.
    pub const FILE: u8 = 4;
    /// Make a symbolic link in the root.
    pub const SYMLINK: u8 = 5;
    /// Attach a source tree.
    pub const ATTACH: u8 = 6;
    /// Bind one place of the view onto another.
    pub const BIND: u8 = 7;
    /// Mount a fresh procfs.
    pub const PROC: u8 = 8;
    /// Mount a fresh devpts.
    pub const DEVPTS: u8 = 9;
    /// Mount an overlay over a source tree.
    pub const OVERLAY: u8 = 10;
    /// Change the mode of a directory of the root.
    pub const MODE: u8 = 11;
    /// Make the root read-only.
    pub const SEAL: u8 = 12;
    /// Enter the root and let go of the host's.
    pub const PIVOT: u8 = 13;
    /// Bring the loopback interface up.
    pub const LOOPBACK: u8 = 14;
    /// Set the host name.
    pub const HOSTNAME: u8 = 15;
    /// Become the box's user.
    pub const IDENTITY: u8 = 16;
    /// Restrict by Landlock.
    pub const LANDLOCK: u8 = 17;
    /// Drop every capability.
    pub const CAPABILITIES: u8 = 18;
    /// Promise never to gain privileges.
    pub const NO_NEW_PRIVS: u8 = 19;
    /// Load the system call filter.
    pub const SECCOMP: u8 = 20;
    /// Bind a directory of the view onto itself, so that it can be neither renamed nor removed.
    pub const PIN: u8 = 21;
    /// Cover a place with nothing: an empty file or directory that cannot be read or written.
    pub const MASK: u8 = 22;
    /// Cover a file of the box's own procfs with nothing, if it is there.
    pub const MASK_IN_PROC: u8 = 23;
    /// Limit a resource of the init itself.
    pub const LIMIT: u8 = 26;
    /// Make the box's cgroup the root that it sees.
    pub const CGROUP_NAMESPACE: u8 = 24;
    /// Mount a directory of the root onto itself, so that it stays writable when the root no longer is.
    pub const PRIVATE: u8 = 25;
    /// Stage only, and first. Mount a place to work at: the bundle, and below it the root.
    pub const STAGE: u8 = 27;
    /// Stage only. Write a file of the bundle, from pieces with the host's user of the box between them.
    pub const BUNDLE: u8 = 28;
    /// Stage only. Give a directory of the root to the host's user of the box.
    pub const OWNER: u8 = 29;
    /// Stage only. Show the runtime its own processes, and no cgroups to change.
    pub const OWN_PROCESSES: u8 = 30;
    /// Stage only, and last. Execute the runtime.
    pub const EXECUTE: u8 = 31;
    /// Stage only, and first. Work on the mounts of a container that somebody else made, by a tree that is its mount
    /// namespace.
    pub const ENTER: u8 = 32;
    /// Stage only. Show a place of the view in the bundle too, under a name that nobody else can change.
    pub const EXPOSE: u8 = 33;
}

/// Flags of source trees and of [`step::BIND`].
pub mod tree_flag {
    /// No writing.
    pub const READ_ONLY: u32 = 1;
    /// No device nodes.
    pub const NO_DEVICES: u32 = 2;
    /// No execution.
    pub const NO_EXEC: u32 = 4;
    /// Submounts too.
    pub const RECURSIVE: u32 = 8;
    /// Show the owner of the tree as the box's user.
    pub const ID_MAPPED: u32 = 16;
    /// The place was made in the root by our own steps.
    pub const OWN_PLACE: u32 = 32;
    /// With [`ID_MAPPED`]: show the group of the tree as nobody's. The kernel then refuses everything that it would have to
    /// write, and counts connecting to a socket among it, which a read-only mount does not.
    pub const NO_GROUP: u32 = 64;
    /// Not a tree at all, but a mount namespace by its name in `/proc`.
    pub const NAMESPACE: u32 = 128;
}

/// What [`step::MASK`] covers with.
pub mod cover {
    /// An empty directory.
    pub const EMPTY_DIRECTORY: u8 = 0;
    /// An empty file.
    pub const EMPTY_FILE: u8 = 1;
    /// A directory that cannot even be listed.
    pub const DENIED_DIRECTORY: u8 = 2;
    /// A file that cannot even be read.
    pub const DENIED_FILE: u8 = 3;
    /// A file that says "here": [`super::HERE`].
    pub const HERE: u8 = 4;
}

/// Kinds of placeholders.
pub mod placeholder {
    /// An empty file.
    pub const FILE: u8 = 0;
    /// An empty directory.
    pub const DIRECTORY: u8 = 1;
    /// A file that says [`super::HERE`].
    pub const HERE: u8 = 2;
}

/// Flags of [`order::SPAWN`].
pub mod spawn_flag {
    /// On a terminal of its own, made inside the box; the descriptor of its other end comes with the notice.
    pub const TERMINAL: u32 = 1;
    /// Without a standard input: there is nothing to read.
    pub const NO_INPUT: u32 = 2;
}

/// The outputs of a program.
pub mod stream {
    /// Standard output, or the terminal.
    pub const OUTPUT: u8 = 0;
    /// Standard error.
    pub const ERROR: u8 = 1;
}

/// Where a spawn can fail; the library turns these into words.
pub mod spawn_stage {
    /// The record made no sense.
    pub const RECORD: u8 = 1;
    /// Too many programs at once in this box.
    pub const TABLE: u8 = 2;
    /// The terminal could not be made.
    pub const TERMINAL: u8 = 3;
    /// No memory, or the process limit.
    pub const CLONE: u8 = 4;
    /// The working directory.
    pub const DIRECTORY: u8 = 5;
    /// Resource limits.
    pub const LIMITS: u8 = 6;
    /// Descriptors and session.
    pub const SESSION: u8 = 7;
    /// `execve`.
    pub const EXEC: u8 = 8;
    /// The command's own system call filter.
    pub const FILTER: u8 = 9;
    /// The pipes, where the init makes them.
    pub const PIPES: u8 = 10;
}

/// How the tool for files ends: with zero, with the number of an error, or with one of these.
///
/// `read` writes the content of a file; `write` takes that from its standard input; `list` writes, for each entry, its mode
/// (u32), its size (u64) and its name (a byte string); `stat` writes mode and size.
pub mod tool {
    /// There is more than was asked for.
    pub const TOO_LARGE: i32 = 200;
    /// It is no regular file.
    pub const NOT_REGULAR: i32 = 201;
}

/// A record that cannot be decoded: it ended early, or a string has no NUL at its end or one in its middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Decodes a record from its start to its end, borrowing from it.
///
/// ```
/// use hotcell_linux::wire::{Reader, Writer};
/// let record = Writer::new(7).u32(42).text("name").finish();
/// let mut reader = Reader::new(&record);
/// assert_eq!(reader.u8(), Ok(7));
/// assert_eq!(reader.u32(), Ok(42));
/// assert_eq!(reader.text(), Ok(&b"name\0"[..]));
/// assert!(reader.is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `record`.
    pub fn new(record: &'a [u8]) -> Self {
        Self { rest: record }
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Four bytes with a sign.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// A NUL-terminated string; the NUL is part of what is returned.
    pub fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.bytes()?;
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) if end + 1 == bytes.len() => Ok(bytes),
            _ => Err(Malformed),
        }
    }
}
