//! Anything that an OpenSandbox's execd could send as the events of a command.
//!
//! The input is four lengths of pieces, and the stream. Holds: what comes of it does not depend on where it is cut; output is
//! what the stream says, in its order; a command has ended only if the stream says so, and well only if it says that; and an
//! error can be shown on a terminal.
#![no_main]

use hotcell_fuzz::server::{ADDRESS, block_on, will_answer};
use hotcell_fuzz::{assert_printable, pieces};
use hotcell_remote::http::{Address, PlainHttp};
use hotcell_remote::opensandbox::{Command, Endpoint, Event, Execd, Exit};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

thread_local! {
    static EXECD: Execd = execd();
}

fuzz_target!(|data: &[u8]| {
    let Some((lengths, stream)) = data.split_first_chunk::<4>() else { return };
    let whole = played(&[stream]);
    assert_eq!(played(&pieces(stream, lengths)), whole, "cut into pieces, the events are others");

    let said = Said::of(stream);
    let lines: Vec<(bool, &[u8])> = whole.events.iter().filter_map(line).collect();
    assert!(lines.len() <= said.lines.len(), "there is output that nobody sent");
    for ((is_error, found), (was_error, sent)) in lines.iter().zip(&said.lines) {
        let same = *found == sent.as_bytes() || found.strip_suffix(b"\n") == Some(sent.as_bytes());
        assert!(same && is_error == was_error, "{found:?} was sent as {sent:?}");
    }
    match &whole.failed {
        Some(error) => assert_printable(error),
        None => assert_eq!(lines.len(), said.lines.len(), "output is missing"),
    }
    assert_eq!(whole.failed.is_some(), whole.exit.is_none(), "a command ends, or its events fail");
    assert!(whole.exit.is_none() || said.end.is_some(), "a command ended that nobody said had");
    assert!(whole.exit != Some(Exit::Code(0)) || said.end == Some(true), "a failure passes for a success");
});

fn execd() -> Execd {
    let address = Address::parse(ADDRESS, PlainHttp::LoopbackOnly).expect("it is an address");
    Execd::new(&Endpoint::new(address), None).expect("a client can be made")
}

#[derive(Debug, PartialEq)]
struct Played {
    events: Vec<Event>,
    exit: Option<Exit>,
    failed: Option<String>,
}

/// What a client makes of a stream.
fn played(pieces: &[&[u8]]) -> Played {
    will_answer("text/event-stream", pieces);
    let execd = EXECD.with(Execd::clone);
    block_on(async {
        let mut running = execd.run(&Command::line("true")).await.expect("it was answered");
        let mut events = Vec::new();
        let failed = loop {
            match running.next().await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        Played { events, exit: running.exit(), failed }
    })
}

fn line(event: &Event) -> Option<(bool, &[u8])> {
    match event {
        Event::Stdout(bytes) => Some((false, bytes)),
        Event::Stderr(bytes) => Some((true, bytes)),
        _ => None,
    }
}

/// What a stream says, read as a whole and once more in other words.
#[derive(Default)]
struct Said {
    /// Output up to the end, and whether it is of the standard error.
    lines: Vec<(bool, String)>,
    /// Whether the command ended well, if it ended.
    end: Option<bool>,
}

#[derive(Deserialize)]
struct Object {
    #[serde(rename = "type", default)]
    kind: String,
    text: Option<String>,
}

impl Said {
    fn of(stream: &[u8]) -> Self {
        let mut said = Self::default();
        for data in data(stream) {
            // Where it makes no sense, nothing more is believed.
            let Ok(object) = serde_json::from_slice::<Object>(&data) else { break };
            match (object.kind.as_str(), object.text) {
                ("stdout", Some(text)) => said.lines.push((false, text)),
                ("stderr", Some(text)) => said.lines.push((true, text)),
                ("execution_complete", _) => said.end = Some(true),
                ("error", _) => said.end = Some(false),
                _ => {}
            }
            if said.end.is_some() {
                break;
            }
        }
        said
    }
}

/// The data of each event: a line that is an object, or lines of `data` up to an empty one.
fn data(stream: &[u8]) -> Vec<Vec<u8>> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    let mut bytes = stream.iter().peekable();
    while let Some(byte) = bytes.next() {
        if *byte == b'\r' {
            bytes.next_if_eq(&&b'\n');
        }
        match (byte, lines.last_mut()) {
            (b'\r' | b'\n', _) | (_, None) => lines.push(Vec::new()),
            (_, Some(line)) => line.push(*byte),
        }
    }
    // The last one has no end.
    lines.pop();
    let (mut found, mut open): (Vec<Vec<u8>>, Vec<Vec<u8>>) = Default::default();
    for line in lines {
        if line.first() == Some(&b'{') {
            found.push(line);
        } else if line.is_empty() && !open.is_empty() {
            found.push(std::mem::take(&mut open).join(&b'\n'));
        } else if line == b"data" {
            open.push(Vec::new());
        } else if let Some(value) = line.strip_prefix(b"data:") {
            open.push(value.strip_prefix(b" ").unwrap_or(value).to_vec());
        }
    }
    found
}
