//! Anything that an E2B's envd could send as the stream of a command.
//!
//! The input is four lengths of pieces, and the stream: after `raw` and a new line byte by byte, else as lines, each an
//! envelope or a piece of one:
//!
//! ```text
//! m TEXT      a message
//! e TEXT      the last message
//! x HEX       bytes as they are
//! ```
//!
//! Holds: what comes of it does not depend on where it is cut; output is what was sent; a command has ended only if its end was
//! said, the last message named no error and nothing came after; and an error can be shown on a terminal.
#![no_main]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hotcell_fuzz::server::{ADDRESS, block_on, will_answer};
use hotcell_fuzz::{assert_printable, pieces};
use hotcell_remote::e2b::{Client, Command, Data, Envd, Event, NewSandbox, Options};
use hotcell_remote::http::{Address, PlainHttp};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde::de::IgnoredAny;

const SANDBOX: &str = r#"{"templateID":"t","sandboxID":"s","clientID":"c","envdVersion":"0.6.4"}"#;

thread_local! {
    static ENVD: Envd = envd();
}

fuzz_target!(|data: &[u8]| {
    let Some((lengths, script)) = data.split_first_chunk::<4>() else { return };
    let stream = match script.strip_prefix(b"raw\n") {
        Some(stream) => stream.to_vec(),
        None => stream(script),
    };
    let whole = played(&[&stream]);
    assert_eq!(played(&pieces(&stream, lengths)), whole, "cut into pieces, the events are others");

    let text = String::from_utf8_lossy(&stream);
    for event in &whole.events {
        if let Event::Stdout(bytes) | Event::Stderr(bytes) | Event::Terminal(bytes) = event {
            // An escape could say the same in other words.
            assert!(text.contains(&STANDARD.encode(bytes)) || text.contains('\\'), "{bytes:?} was never sent");
        }
    }
    let ends = whole.events.iter().filter(|event| matches!(event, Event::End(_))).count();
    match &whole.failed {
        Some(error) => {
            assert_printable(error);
            assert_eq!(ends, 0, "a command ended, and its stream failed");
        }
        None => {
            assert_eq!(ends, 1, "a stream was over without an end");
            assert!(says_the_end(&stream), "a command ended that nobody said had");
        }
    }
});

/// The envelopes of a script.
fn stream(script: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for line in script.split(|byte| *byte == b'\n') {
        match line {
            [b'm', b' ', message @ ..] => enclose(&mut stream, 0, message),
            [b'e', b' ', message @ ..] => enclose(&mut stream, 2, message),
            [b'x', b' ', digits @ ..] => stream.extend(digits.chunks_exact(2).filter_map(|pair| {
                let pair = std::str::from_utf8(pair).ok()?;
                u8::from_str_radix(pair, 16).ok()
            })),
            _ => {}
        }
    }
    stream
}

fn enclose(stream: &mut Vec<u8>, flags: u8, message: &[u8]) {
    stream.push(flags);
    stream.extend_from_slice(&(message.len() as u32).to_be_bytes());
    stream.extend_from_slice(message);
}

fn envd() -> Envd {
    let address = Address::parse(ADDRESS, PlainHttp::LoopbackOnly).expect("it is an address");
    let client = Client::new(Options::new(address.clone(), Data::Url(address))).expect("a client can be made");
    will_answer("application/json", &[SANDBOX.as_bytes()]);
    let new = NewSandbox::new("t", std::time::Duration::from_secs(60));
    let sandbox = block_on(client.create(&new)).expect("it was answered");
    client.envd(&sandbox).expect("a client can be made")
}

#[derive(Debug, Default, PartialEq)]
struct Played {
    events: Vec<Event>,
    failed: Option<String>,
}

/// What a client makes of a stream.
fn played(pieces: &[&[u8]]) -> Played {
    let envd = ENVD.with(Envd::clone);
    will_answer("application/connect+json", pieces);
    block_on(async {
        let mut played = Played::default();
        let mut running = match envd.start(&Command::new("true", [""; 0])).await {
            Ok(running) => running,
            Err(error) => return Played { failed: Some(error.to_string()), ..played },
        };
        loop {
            match running.next().await {
                Ok(Some(event)) => played.events.push(event),
                Ok(None) => return played,
                Err(error) => {
                    let again = running.next().await.expect_err("what failed stays so");
                    assert_eq!(again.to_string(), error.to_string());
                    return Played { failed: Some(error.to_string()), ..played };
                }
            }
        }
    })
}

#[derive(Deserialize)]
struct Message {
    event: Option<Happened>,
}

#[derive(Deserialize)]
struct Happened {
    end: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Last {
    error: Option<IgnoredAny>,
}

/// Whether a stream is made of whole envelopes, says that the command ended, and ends well itself: read as a whole, and once more
/// in other words.
fn says_the_end(mut stream: &[u8]) -> bool {
    let mut ended = false;
    loop {
        let Some((&[flags, ref length @ ..], rest)) = stream.split_first_chunk::<5>() else { return false };
        let length = u32::from_be_bytes(*length) as usize;
        let Some((message, rest)) = rest.split_at_checked(length) else { return false };
        stream = rest;
        match flags {
            0 => {
                let message = serde_json::from_slice::<Message>(message).ok().and_then(|message| message.event);
                ended |= message.is_some_and(|event| event.end.is_some());
            }
            2 => {
                let well = serde_json::from_slice::<Last>(message).is_ok_and(|last| last.error.is_none());
                return ended && well && stream.is_empty();
            }
            _ => return false,
        }
    }
}
