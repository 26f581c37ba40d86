//! An agent that the code in its box has taken over, and a bridge that believes it nothing.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotcell_linux::wire::{INPUT_WINDOW, OUTPUT_WINDOW, REST_MAX, STREAM_CHUNK, Writer, event, notice, order};
use hotcell_linux::{Cell, Running, bridge};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::common::{Counter, in_time, joined, record_pair, sh, with_input};

/// The program that the library starts first.
const TOKEN: u32 = 1;

/// Our side of the stream, as an agent.
struct Agent {
    stream: DuplexStream,
}

impl Agent {
    async fn hear(&mut self) -> Vec<u8> {
        let length = self.stream.read_u32_le().await.unwrap();
        let mut record = vec![0; length as usize];
        self.stream.read_exact(&mut record).await.unwrap();
        record
    }

    /// Reads orders until one of this kind.
    async fn hear_kind(&mut self, kind: u8) -> Vec<u8> {
        loop {
            let record = self.hear().await;
            if record[0] == kind {
                return record;
            }
        }
    }

    async fn say(&mut self, record: Writer) {
        let record = record.finish();
        let frame = [&(record.len() as u32).to_le_bytes()[..], &record].concat();
        // The bridge may have had enough.
        let _ = self.stream.write_all(&frame).await;
    }
}

struct Scene {
    cell: Cell,
    agent: Agent,
    keeper: Arc<Counter>,
}

async fn scene() -> Scene {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let keeper = Arc::<Counter>::default();
    let conversation = bridge::start(reader, writer).unwrap();
    let joining = Cell::join(conversation, joined(&keeper, Vec::new(), true));
    let mut agent = Agent { stream: ours };
    let answer = async {
        assert_eq!(agent.hear().await[0], order::SETUP);
        agent.say(Writer::new(notice::READY).u8(0).u8(0)).await;
    };
    let (cell, ()) = tokio::join!(joining, answer);
    Scene { cell: cell.unwrap(), agent, keeper }
}

fn started(token: u32) -> Writer {
    Writer::new(notice::STARTED).u32(token).u64(1)
}

fn exited(token: u32) -> Writer {
    Writer::new(notice::EXITED).u32(token).i32(0).u64(0).u64(0).u64(0)
}

fn output(token: u32, stream: u8, bytes: &[u8]) -> Writer {
    Writer::new(notice::OUTPUT).u32(token).u8(stream).bytes(bytes)
}

fn output_end(token: u32, stream: u8) -> Writer {
    Writer::new(notice::OUTPUT_END).u32(token).u8(stream)
}

impl Scene {
    /// With a program that runs, as far as the library knows.
    async fn with_program() -> (Self, Running) {
        let mut scene = scene().await;
        let answer = async {
            scene.agent.hear_kind(order::SPAWN).await;
            scene.agent.say(started(TOKEN)).await;
        };
        let (running, ()) = tokio::join!(scene.cell.launch(with_input(sh("true"))), answer);
        (scene, running.unwrap())
    }

    /// The conversation ends, because of something that contains these words, and the box is killed.
    async fn ends(self, because: &str) {
        in_time("the end of the conversation", self.cell.gone()).await;
        let reason = self.cell.broken().unwrap_or_default();
        assert!(reason.contains(because), "{reason:?} does not say {because:?}");
        assert!(self.keeper.kills.load(Ordering::Relaxed) > 0);
        assert!(self.cell.sample().await.is_err());
    }
}

#[tokio::test]
async fn an_honest_agent_is_believed() {
    let (mut scene, mut running) = Scene::with_program().await;
    let pipe = running.take_output();
    for record in [output(TOKEN, 0, b"hello"), output_end(TOKEN, 0), output_end(TOKEN, 1), exited(TOKEN)] {
        scene.agent.say(record).await;
    }
    assert_eq!(in_time("the end", running.wait()).await.unwrap().code, Some(0));
    assert_eq!(in_time("the output", crate::common::read(pipe)).await, b"hello");
    assert_eq!(scene.cell.broken(), None);
}

#[tokio::test]
async fn lengths_that_no_frame_has() {
    for length in [0, u32::MAX, STREAM_CHUNK as u32 + 65] {
        let mut scene = scene().await;
        scene.agent.stream.write_u32_le(length).await.unwrap();
        scene.ends("frame of").await;
    }
}

#[tokio::test]
async fn a_frame_that_never_ends_keeps_nobody_from_ending() {
    let mut scene = scene().await;
    scene.agent.stream.write_all(&[200, 0, 0, 0, 1]).await.unwrap();
    let Scene { cell, mut agent, .. } = scene;
    drop(cell);
    // The bridge lets go of the stream.
    let mut rest = Vec::new();
    in_time("the end of the stream", agent.stream.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn records_that_make_no_sense() {
    let all = [
        Writer::new(99),
        Writer::new(notice::STARTED),
        Writer::new(notice::READY).u8(1).u8(0),
        Writer::new(notice::DONE).u32(1).i32(0).u8(0),
        output(TOKEN, 0, b""),
        // The events of a spawner and of the bridge itself.
        Writer::new(102).u32(0),
        Writer::new(103).bytes(b"forged"),
    ];
    for record in all {
        let mut scene = scene().await;
        scene.agent.say(record).await;
        scene.ends("no sense").await;
    }
}

#[tokio::test]
async fn answers_that_nobody_asked_for() {
    let all = [
        Writer::new(notice::READY).u8(0).u8(0),
        Writer::new(notice::FAILED).u32(0).i32(1),
        started(7),
        Writer::new(notice::SPAWN_FAILED).u32(7).u8(1).i32(1),
        exited(7),
        Writer::new(notice::DONE).u32(7).i32(0),
        Writer::new(notice::SAMPLED).u32(7).u64(0).u64(0).u64(0),
        output(7, 0, b"bytes"),
        output_end(7, 0),
        Writer::new(notice::INPUT_CREDIT).u32(7).u32(1),
        Writer::new(notice::INPUT_CLOSED).u32(7),
    ];
    for record in all {
        let mut scene = scene().await;
        scene.agent.say(record).await;
        scene.ends("agent sent").await;
    }
}

#[tokio::test]
async fn answers_of_another_kind_than_was_asked_for() {
    for record in [Writer::new(notice::DONE).u32(1).i32(0), started(1)] {
        let mut scene = scene().await;
        let answer = async {
            scene.agent.hear_kind(order::SAMPLE).await;
            scene.agent.say(record).await;
        };
        let (sample, ()) = tokio::join!(scene.cell.sample(), answer);
        assert!(sample.is_err());
        scene.ends("agent sent").await;
    }
}

#[tokio::test]
async fn output_of_a_program_that_has_not_started() {
    let mut scene = scene().await;
    let answer = async {
        scene.agent.hear_kind(order::SPAWN).await;
        scene.agent.say(output(TOKEN, 0, b"early")).await;
    };
    let (running, ()) = tokio::join!(scene.cell.launch(sh("true")), answer);
    assert!(running.is_err());
    scene.ends("does not run").await;
}

#[tokio::test]
async fn more_output_than_was_allowed() {
    let (mut scene, mut running) = Scene::with_program().await;
    let unread = running.take_output();
    let most = OUTPUT_WINDOW + REST_MAX + 128 * 1024;
    let piece = vec![0; STREAM_CHUNK];
    for _ in 0..=most / STREAM_CHUNK + 2 {
        scene.agent.say(output(TOKEN, 0, &piece)).await;
    }
    scene.ends("more output than").await;
    drop(unread);
}

#[tokio::test]
async fn things_that_happen_once_happen_twice() {
    let ended = [output_end(TOKEN, 0), output_end(TOKEN, 1), exited(TOKEN)];
    let all = [
        vec![started(TOKEN)],
        vec![output_end(TOKEN, 0), output_end(TOKEN, 0)],
        vec![output_end(TOKEN, 0), output(TOKEN, 0, b"more")],
        [&ended[..], &[exited(TOKEN)]].concat(),
        [&ended[..], &[output(TOKEN, 0, b"more")]].concat(),
        vec![Writer::new(notice::INPUT_CLOSED).u32(TOKEN), Writer::new(notice::INPUT_CLOSED).u32(TOKEN)],
        vec![Writer::new(notice::INPUT_CLOSED).u32(TOKEN), Writer::new(notice::INPUT_CREDIT).u32(TOKEN).u32(1)],
        // The end of a program before that of its output, and an output that there is not.
        vec![exited(TOKEN)],
        vec![output_end(TOKEN, 2)],
        vec![output(TOKEN, 255, b"bytes")],
    ];
    for records in all {
        let (mut scene, _running) = Scene::with_program().await;
        for record in records {
            scene.agent.say(record).await;
        }
        scene.ends("agent sent").await;
    }
}

#[tokio::test]
async fn receipts_for_input_that_was_not_sent() {
    for bytes in [1, u32::MAX] {
        let (mut scene, _running) = Scene::with_program().await;
        scene.agent.say(Writer::new(notice::INPUT_CREDIT).u32(TOKEN).u32(bytes)).await;
        scene.ends("more input than was sent").await;
    }
}

#[tokio::test]
async fn an_agent_that_gives_no_receipts_gets_no_more_input_than_the_window() {
    let (mut scene, mut running) = Scene::with_program().await;
    let input = running.take_input().unwrap();
    let mut input = tokio::net::unix::pipe::Sender::from_owned_fd(input).unwrap();
    let writing = tokio::spawn(async move { input.write_all(&vec![0; 1 << 20]).await });
    let mut total = 0;
    while let Ok(record) = tokio::time::timeout(Duration::from_millis(300), scene.agent.hear()).await {
        if record[0] == order::INPUT {
            total += record.len() - 9;
        }
    }
    assert_eq!(total, INPUT_WINDOW);
    writing.abort();
}

#[tokio::test]
async fn an_agent_that_hangs_up_is_an_end_like_any_other() {
    let (scene, mut running) = Scene::with_program().await;
    let pipe = running.take_output();
    let Scene { cell, agent, keeper } = scene;
    drop(agent);
    in_time("the end", cell.gone()).await;
    assert!(running.wait().await.is_err());
    assert_eq!(in_time("the end of output", crate::common::read(pipe)).await, b"");
    assert!(keeper.kills.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn an_agent_that_never_answers_is_waited_for_no_longer_than_the_caller_likes() {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(theirs);
    let keeper = Arc::<Counter>::default();
    let conversation = bridge::start(reader, writer).unwrap();
    let joining = Cell::join(conversation, joined(&keeper, Vec::new(), true));
    assert!(tokio::time::timeout(Duration::from_millis(100), joining).await.is_err());
    assert_eq!(keeper.kills.load(Ordering::Relaxed), 1);
    assert_eq!(keeper.releases.load(Ordering::Relaxed), 1);
    drop(ours);
}

/// An init on a socket that the code in its box has taken over: nobody else speaks there, whatever it says.
#[tokio::test]
async fn an_init_that_says_it_is_gone_is_killed_all_the_same() {
    let (ours, theirs) = record_pair();
    let keeper = Arc::<Counter>::default();
    // Its answer to the set-up, and what only a spawner says.
    for record in [&[notice::READY, 0, 0][..], &[event::GONE, 0, 0, 0, 0]] {
        // SAFETY: a live slice of that length, on a socket that this test owns.
        let sent = unsafe { libc::send(theirs.as_raw_fd(), record.as_ptr().cast(), record.len(), 0) };
        assert_eq!(sent, record.len() as isize);
    }
    let cell = Cell::join(ours, joined(&keeper, Vec::new(), false)).await.unwrap();
    in_time("the end", cell.gone()).await;
    assert!(keeper.kills.load(Ordering::Relaxed) > 0);
}
