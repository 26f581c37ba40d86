//! Anything that an agent in a container could tell the bridge: one that the code in its box has taken over, above all.
//!
//! The input is a script as [`hotcell_fuzz::script`] reads it, of lines `C`: `C0` is a frame, `C1` are bytes without a length
//! before them. The target plays an agent that is set up, has started a program with pipes (1) and one with a terminal (2), and
//! then says everything in the script. Holds: the library never panics or waits for ever; a program ends only if the agent said
//! so; what is read is what the agent sent, in its order; no more of it is allowed again than was sent; nothing is left open.
#![no_main]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hotcell_fuzz::script::{Message, To, messages};
use hotcell_linux::wire::{Reader, Writer, notice, order};
use hotcell_linux::{Cell, Joined, Keeper, Launch, Running, Standard, Terminal, bridge};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::unix::pipe;

const PIPES: u32 = 1;
const TERMINAL: u32 = 2;

#[derive(Debug)]
struct Nobody;

impl Keeper for Nobody {
    fn kill(&self) {}
    fn release(&self) {}
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let messages: Vec<Message> = messages(text).into_iter().filter(|message| message.to == To::Library).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let before = open_descriptors();
        play(&messages).await.expect("the target's own streams work");
        // Tasks let go of what they hold when they are next run.
        for _ in 0..1000 {
            if open_descriptors() <= before {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{} descriptors before, {} after", before, open_descriptors());
    });
});

async fn play(messages: &[Message]) -> io::Result<()> {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let conversation = bridge::start(reader, writer)?;
    let joined = Joined {
        keeper: Arc::new(Nobody),
        cgroup: None,
        root: None,
        uppers: Vec::new(),
        setup: Vec::new(),
        descriptions: Vec::new(),
        bridged: true,
    };
    let mut agent = Agent { stream: ours };
    let (cell, _) = tokio::join!(Cell::join(conversation, joined), agent.answer(order::SETUP, ready()));
    let cell = cell.map_err(io::Error::other)?;
    let standard = Standard::Pipes { input: true };
    let (pipes, _) = tokio::join!(cell.launch(launch(standard)), agent.answer(order::SPAWN, started(PIPES)));
    let standard = Standard::Terminal { rows: 24, columns: 80 };
    let (terminal, _) = tokio::join!(cell.launch(launch(standard)), agent.answer(order::SPAWN, started(TERMINAL)));
    let (pipes, terminal) = (pipes.map_err(io::Error::other)?, terminal.map_err(io::Error::other)?);

    let mut stream = Vec::new();
    for message in messages {
        if message.descriptors == 0 {
            stream.extend_from_slice(&(message.record.len() as u32).to_le_bytes());
        }
        stream.extend_from_slice(&message.record);
    }
    let (credited, (output, error, ended), (shown, terminal_ended)) =
        tokio::join!(agent.say_everything(&stream), use_pipes(pipes), use_terminal(terminal));

    let sent = Sent::of(messages);
    sent.check(PIPES, 0, &output, credited[0]);
    sent.check(PIPES, 1, &error, credited[1]);
    sent.check(TERMINAL, 0, &shown, credited[2]);
    assert!(!ended || sent.exited.contains(&PIPES), "a program ended that nobody said had");
    assert!(!terminal_ended || sent.exited.contains(&TERMINAL), "a program ended that nobody said had");
    cell.gone().await;
    // Words for people, which must not be made of what the agent sent.
    hotcell_fuzz::assert_printable(&cell.broken().unwrap_or_default());
    Ok(())
}

/// The agent's side of the stream.
struct Agent {
    stream: DuplexStream,
}

impl Agent {
    /// Waits for an order of this kind, and answers it.
    async fn answer(&mut self, kind: u8, answer: Writer) -> io::Result<()> {
        while self.hear().await?.first() != Some(&kind) {}
        let answer = answer.finish();
        self.stream.write_u32_le(answer.len() as u32).await?;
        self.stream.write_all(&answer).await
    }

    async fn hear(&mut self) -> io::Result<Vec<u8>> {
        let length = self.stream.read_u32_le().await?;
        let mut record = vec![0; length as usize];
        self.stream.read_exact(&mut record).await?;
        Ok(record)
    }

    /// Says all of it and then nothing more; counts what the library allows again: of both pipes, and of the terminal.
    async fn say_everything(mut self, bytes: &[u8]) -> [u64; 3] {
        // The bridge may have had enough, and then takes no more.
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.shutdown().await;
        let mut credited = [0; 3];
        while let Ok(record) = self.hear().await {
            let mut reader = Reader::new(&record);
            let (Ok(order::CREDIT), Ok(token), Ok(stream), Ok(bytes)) =
                (reader.u8(), reader.u32(), reader.u8(), reader.u32())
            else {
                continue;
            };
            let index = if token == TERMINAL { 2 } else { usize::from(stream) };
            credited[index] += u64::from(bytes);
        }
        credited
    }
}

/// What the agent sent that could have been believed.
struct Sent<'a> {
    outputs: Vec<(u32, u8, &'a [u8])>,
    exited: Vec<u32>,
}

impl<'a> Sent<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let mut sent = Self { outputs: Vec::new(), exited: Vec::new() };
        // After bytes without a length, frames may begin anywhere: then only the first are known, and nothing is compared.
        for message in messages.iter().take_while(|message| message.descriptors == 0) {
            let mut reader = Reader::new(&message.record);
            match (reader.u8(), reader.u32()) {
                (Ok(notice::OUTPUT), Ok(token)) => {
                    if let (Ok(stream), Ok(bytes)) = (reader.u8(), reader.bytes()) {
                        sent.outputs.push((token, stream, bytes));
                    }
                }
                (Ok(notice::EXITED), Ok(token)) => sent.exited.push(token),
                _ => {}
            }
        }
        if messages.iter().any(|message| message.descriptors != 0) {
            sent.exited.extend([PIPES, TERMINAL]);
            sent.outputs.clear();
        }
        sent
    }

    fn check(&self, token: u32, stream: u8, read: &[u8], credited: u64) {
        if self.outputs.is_empty() && !self.exited.is_empty() {
            return;
        }
        let of = self.outputs.iter().filter(|(of, from, _)| (*of, *from) == (token, stream));
        let all: Vec<u8> = of.flat_map(|(_, _, bytes)| bytes.iter().copied()).collect();
        assert!(all.starts_with(read), "{read:?} was read and {all:?} was sent");
        assert!(credited <= all.len() as u64, "{credited} bytes allowed again, and {} were sent", all.len());
    }
}

async fn use_pipes(mut running: Running) -> (Vec<u8>, Vec<u8>, bool) {
    let (output, error) = (running.take_output(), running.take_error());
    let (output, error, ended) = tokio::join!(read_pipe(output), read_pipe(error), running.wait());
    (output, error, ended.is_ok())
}

async fn read_pipe(pipe: Option<OwnedFd>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut pipe = pipe::Receiver::from_owned_fd(pipe.expect("a pipe")).expect("a pipe");
    pipe.read_to_end(&mut bytes).await.expect("a pipe can be read");
    bytes
}

async fn use_terminal(mut running: Running) -> (Vec<u8>, bool) {
    let terminal = Terminal::new(running.take_terminal().expect("a terminal")).expect("a terminal");
    let read = async {
        let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = terminal.read(&mut buffer).await {
            shown.extend_from_slice(&buffer[..length]);
        }
        shown
    };
    let (shown, ended) = tokio::join!(read, running.wait());
    (shown, ended.is_ok())
}

fn ready() -> Writer {
    Writer::new(notice::READY).u8(0).u8(0)
}

fn started(token: u32) -> Writer {
    Writer::new(notice::STARTED).u32(token).u64(1)
}

fn launch(standard: Standard) -> Launch {
    Launch {
        program: "program".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
        directory: "/".into(),
        search: "/bin".into(),
        limits: Vec::new(),
        standard,
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count())
}
