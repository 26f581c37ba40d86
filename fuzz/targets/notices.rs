//! Anything that a helper could tell the library: an init that the code in the box has taken over, above all.
//!
//! The input is a script as [`hotcell_fuzz::script`] reads it, of lines `S` and `C`. The target plays the helper: it
//! answers each request for a box with all `C` lines at once, and then says no more. Holds: the library never panics or
//! waits for ever; it takes for an answer only what was said; it keeps no descriptor; and it asks the spawner to kill and
//! forget every box that it ever asked for.
#![no_main]

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hotcell_fuzz::script::{Message, To, messages};
use hotcell_linux::fuzzing::spawner_on;
use hotcell_linux::wire::{Reader, event, notice, request};
use hotcell_linux::{CellSpec, Launch, Namespaces, Owner, Spawner, SpawnerOptions, Standard};
use libfuzzer_sys::fuzz_target;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};

const NAMESPACES: Namespaces = Namespaces { user: true, network: true, stage: false, same_user: false };
const USER: Owner = Owner { uid: 1000, gid: 1000 };
/// The library numbers its orders from one.
const LAUNCH: u32 = 1;
const OPEN: u32 = 2;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let messages = messages(text);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let before = open_descriptors();
        play(&messages).await.expect("the target's own sockets work");
        // The task that read the notices lets go of its end when it is next run.
        for _ in 0..100 {
            if open_descriptors() <= before {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{} descriptors before, {} after", before, open_descriptors());
    });
});

async fn play(messages: &[Message]) -> io::Result<()> {
    let (library, ours) = pair()?;
    let spawner = spawner_on(library);
    let helper = Helper { socket: ours, messages };
    greet(&spawner, &helper).await?;

    let mut asked = Asked::default();
    {
        let spec = spec();
        // The helper's ends: the library can talk to a box until it has let go of it.
        let mut conversations = Vec::new();
        let creating = spawner.create(&spec);
        tokio::pin!(creating);
        let cell = loop {
            tokio::select! {
                biased;
                result = &mut creating => break result,
                () = tokio::task::yield_now() => conversations.extend(helper.answer(&mut asked)?),
            }
        };
        match cell {
            // Words for people, which must not be made of what the helper sent without looking at it.
            Err(error) => drop(error.to_string()),
            Ok(cell) => talk(&cell, messages).await,
        }
    }
    drop(spawner);
    while let Received::Request(..) = helper.hear(&mut asked)? {}
    assert_eq!(asked.created, asked.killed, "a box that was asked for was not killed");
    assert_eq!(asked.created, asked.released, "a box that was asked for was not released");
    Ok(())
}

async fn greet(spawner: &Spawner, helper: &Helper<'_>) -> io::Result<()> {
    let options = SpawnerOptions { privileged: false, warm: 0, namespaces: NAMESPACES, user: USER };
    spawner.greet(options, &spec()).map_err(io::Error::other)?;
    let Some(answer) = helper.messages.iter().find(|message| message.to == To::Greeter) else { return Ok(()) };
    send(&helper.socket, answer)?;
    if let Err(error) = spawner.greeted().await {
        drop(error.to_string());
    }
    Ok(())
}

/// Everything that can be asked of a box, at the same time.
async fn talk(cell: &hotcell_linux::Cell, messages: &[Message]) {
    let launch = Launch {
        program: "program".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
        directory: "/".into(),
        search: "/bin".into(),
        limits: Vec::new(),
        standard: Standard::Terminal { rows: 24, columns: 80 },
    };
    let (running, file, _, _) = tokio::join!(
        cell.launch(launch),
        cell.open_file(Path::new("/file"), 0, 0),
        cell.sample(),
        cell.make_directory(Path::new("/directory"), 0o755),
    );
    let said = |kind: u8, token: u32| {
        messages.iter().any(|message| {
            let mut reader = Reader::new(&message.record);
            message.to == To::Library && reader.u8() == Ok(kind) && reader.u32() == Ok(token)
        })
    };
    if let Ok(mut running) = running {
        assert!(said(notice::STARTED, LAUNCH), "a program runs that nobody said was started");
        if let Ok(ended) = running.wait().await {
            assert!(said(notice::EXITED, LAUNCH), "a program ended that nobody said had: {ended:?}");
            assert!(ended.code.is_some() != ended.signal.is_some(), "{ended:?}");
        }
    }
    if file.is_ok() {
        assert!(said(notice::DONE, OPEN), "a file was opened that nobody said was");
    }
    let _ = cell.storage();
    cell.gone().await;
    if !messages.iter().any(|message| message.record.first() == Some(&event::GONE)) {
        // The box's socket ended, and with it what can be asked.
        assert!(cell.sample().await.is_err());
    }
}

fn spec() -> CellSpec {
    let mut spec = CellSpec::new(NAMESPACES, USER);
    spec.root(16 << 20, 1000);
    spec.covers();
    spec.end_base();
    spec.directory(Path::new("proc"), 0o755);
    spec.proc(Path::new("proc"));
    spec.pivot();
    spec
}

/// What the library asked the spawner for.
#[derive(Debug, Default)]
struct Asked {
    created: BTreeSet<u32>,
    killed: BTreeSet<u32>,
    released: BTreeSet<u32>,
}

/// The spawner and the init, as the script has them.
struct Helper<'a> {
    socket: OwnedFd,
    messages: &'a [Message],
}

impl Helper<'_> {
    /// Looks for a request, and says everything there is to say about the box that it is for.
    fn answer(&self, asked: &mut Asked) -> io::Result<Option<OwnedFd>> {
        let Received::Request(Some(conversation)) = self.hear(asked)? else { return Ok(None) };
        for message in self.messages.iter().filter(|message| message.to == To::Library) {
            // The library may have heard enough.
            if send(&conversation, message).is_err() {
                break;
            }
        }
        // The library can still say something, and hears that nothing more comes.
        let _ = shutdown(&conversation, Shutdown::Write);
        Ok(Some(conversation))
    }

    /// The next request, if there is one now.
    fn hear(&self, asked: &mut Asked) -> io::Result<Received> {
        let mut record = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [io::IoSliceMut::new(&mut record)];
        let length = match recvmsg(&self.socket, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) if received.bytes == 0 => return Ok(Received::Nothing),
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::AGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error.into()),
        };
        let conversation = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let mut reader = Reader::new(&record[..length]);
        if let (Ok(kind), Ok(id)) = (reader.u8(), reader.u32()) {
            match kind {
                request::CREATE => drop(asked.created.insert(id)),
                request::KILL => drop(asked.killed.insert(id)),
                request::RELEASE => drop(asked.released.insert(id)),
                _ => {}
            }
        }
        Ok(Received::Request(conversation))
    }
}

enum Received {
    /// With the conversation that came with it.
    Request(Option<OwnedFd>),
    Nothing,
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn send(socket: &OwnedFd, message: &Message) -> io::Result<()> {
    let null = File::open("/dev/null")?;
    let descriptors = vec![null.as_fd(); message.descriptors];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[io::IoSlice::new(&message.record)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count())
}
