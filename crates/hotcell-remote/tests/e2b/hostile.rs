//! Servers that mean harm, on every way to ask for something: a typed error each time, no hang, no panic, bounded memory.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hotcell_remote::e2b::{
    Cell, Command, Filter, Flavour, Input, NetworkRules, NewSandbox, SandboxId, Selector, Signal, TerminalSize,
};
use hotcell_remote::http::{CallError, Why};

use crate::live::all;
use crate::player::{Play, Player, STREAM, answer, chunk, chunked_head, whole};

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The most that may be taken of a server that never stops: what an answer may have, and what is under way.
pub(crate) const BOUND: u64 = 100 << 20;

/// What is made of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// It must say something.
    Read,
    /// Success is all that counts.
    Success,
    /// It is a file, and may be anything.
    Content,
    /// It is a stream of messages.
    Stream,
    /// It is a stream of lines, as long as the caller waits.
    Lines,
    /// As long as the command takes to take its input.
    Patient,
}

/// Every way to ask a server for something.
const WAYS: [(&str, Made); 36] = [
    ("create", Made::Read),
    ("connect", Made::Read),
    ("get", Made::Read),
    ("list", Made::Read),
    ("delete", Made::Success),
    ("set_timeout", Made::Success),
    ("refresh", Made::Success),
    ("pause", Made::Success),
    ("resume", Made::Success),
    ("snapshot", Made::Read),
    ("snapshots", Made::Read),
    ("delete_snapshot", Made::Success),
    ("set_network", Made::Success),
    ("metrics", Made::Read),
    ("logs", Made::Read),
    ("health", Made::Success),
    ("start", Made::Stream),
    ("follow", Made::Stream),
    ("processes", Made::Read),
    ("send_input", Made::Patient),
    ("stream_input", Made::Patient),
    ("close_stdin", Made::Read),
    ("signal", Made::Read),
    ("resize", Made::Read),
    ("stat", Made::Read),
    ("list_dir", Made::Read),
    ("make_dir", Made::Read),
    ("rename", Made::Read),
    ("remove", Made::Read),
    ("watch", Made::Read),
    ("download", Made::Content),
    ("upload", Made::Read),
    ("is_running", Made::Success),
    ("resources", Made::Read),
    ("execute", Made::Lines),
    ("contexts", Made::Read),
];

async fn ask(way: &str, player: &Player, deadline: Duration) -> Result<(), CallError> {
    let id: SandboxId = "i1".parse().unwrap();
    let (client, sandbox) = player.sandbox(Flavour::E2b, "0.6.4").await;
    let client = client.within(deadline);
    let envd = client.envd(&sandbox).unwrap().within(deadline).transfers_within(deadline);
    let interpreter = client.interpreter(&sandbox).unwrap().within(deadline);
    let which = Selector::Pid(1);
    let second = Duration::from_secs(1);
    match way {
        "create" => client.create(&NewSandbox::new("base", second)).await.map(drop),
        "connect" => client.connect(&id, second).await.map(drop),
        "get" => client.get(&id).await.map(drop),
        "list" => client.list(&Filter::new(10)).await.map(drop),
        "delete" => client.delete(&id).await,
        "set_timeout" => client.set_timeout(&id, second).await,
        "refresh" => client.refresh(&id, second).await,
        "pause" => client.pause(&id).await,
        "resume" => client.resume(&id, second).await,
        "snapshot" => client.snapshot(&id, None).await.map(drop),
        "snapshots" => client.snapshots(None).await.map(drop),
        "delete_snapshot" => client.delete_snapshot("s").await,
        "set_network" => client.set_network(&id, &NetworkRules::default()).await,
        "metrics" => client.metrics(&id).await.map(drop),
        "logs" => client.logs(&id, 10).await.map(drop),
        "health" => client.health().await,
        "start" => all(&mut envd.start(&Command::new("x", [""; 0])).await?).await.map(drop),
        "follow" => all(&mut envd.connect(&which).await?).await.map(drop),
        "processes" => envd.processes().await.map(drop),
        "send_input" => envd.send_input(&which, Input::Stdin, b"x").await,
        "stream_input" => {
            let pieces = futures_util::stream::iter([Bytes::from_static(b"x")]);
            envd.stream_input(&which, Input::Stdin, pieces).await
        }
        "close_stdin" => envd.close_stdin(&which).await,
        "signal" => envd.signal(&which, Signal::Kill).await,
        "resize" => envd.resize(&which, TerminalSize { cols: 1, rows: 1 }).await,
        "stat" => envd.stat("/x").await.map(drop),
        "list_dir" => envd.list_dir("/x", 1).await.map(drop),
        "make_dir" => envd.make_dir("/x").await.map(drop),
        "rename" => envd.rename("/x", "/y").await,
        "remove" => envd.remove("/x").await,
        "watch" => envd.watch("/x", true).await.map(drop),
        "download" => envd.download("/x").await?.bytes(1 << 20).await.map(drop),
        "upload" => envd.write("/x", "x").await,
        "is_running" => envd.is_running().await.map(drop),
        "resources" => envd.resources().await.map(drop),
        "execute" => {
            let mut execution = interpreter.execute(&Cell::new("x")).await?;
            while execution.next().await?.is_some() {}
            Ok(())
        }
        "contexts" => interpreter.contexts().await.map(drop),
        other => panic!("{other}"),
    }
}

/// Looks at every way at once: some wait before they try again.
async fn each(look: impl AsyncFn(&'static str, Made)) {
    join_all(WAYS.iter().map(|(way, made)| look(way, *made))).await;
}

/// The failure of a way that is answered so.
async fn failure(way: &str, play: Play, deadline: Duration) -> CallError {
    let player = Player::new([play]).await;
    let result = tokio::time::timeout(LONG, ask(way, &player, deadline)).await;
    let error = result.unwrap_or_else(|_| panic!("{way} hangs")).expect_err(way);
    let flooded = player.flooded.load(Ordering::SeqCst);
    assert!(flooded < BOUND, "{way} took {flooded} bytes");
    assert!(error.to_string().len() < 2000, "{way}: {error}");
    error
}

#[tokio::test]
async fn answers_that_are_no_http_are_errors() {
    each(async |way, _| {
        for play in [
            Play::Cut(Vec::new()),
            Play::Cut(b"\x16\x03\x01nonsense\r\n\r\n".to_vec()),
            Play::Cut(b"HTTP/1.1 200 OK\r\ncontent-length: abc\r\n\r\n{}".to_vec()),
            Play::Cut(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".to_vec()),
            Play::Cut(b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n".to_vec()),
        ] {
            let error = failure(way, play, LONG).await;
            assert!(!matches!(error.why, Why::Answered { .. }), "{way}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn answers_that_end_too_early_are_errors() {
    each(async |way, _| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {STREAM}\r\n");
        for play in [
            format!("{head}content-length: 100\r\n\r\n[]"),
            format!("{head}content-length: 18446744073709551615\r\n\r\n[]"),
            format!("{head}transfer-encoding: chunked\r\n\r\n2\r\n[]\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n[]"),
            format!("{head}transfer-encoding: chunked\r\n\r\n2\r\n[]xx0\r\n\r\n"),
        ] {
            let error = failure(way, Play::Cut(play.clone().into_bytes()), LONG).await;
            let told = matches!(error.why, Why::Broken { .. } | Why::Garbled { .. } | Why::TooLarge { .. });
            assert!(told, "{way}: {play}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn answers_that_say_something_else_are_errors() {
    let deep = "[".repeat(100_000);
    each(async |way, made| {
        if matches!(made, Made::Success | Made::Content) {
            return;
        }
        for body in [&b""[..], b"\xff\xfe\xfd\xfc\xfb\xfa", b"{\"a\":", b"nonsense", b"\"x\"", b"17", deep.as_bytes()] {
            for content in [STREAM, "application/json", "text/html"] {
                let play = answer("200 OK", &format!("content-type: {content}\r\n"), body);
                let error = failure(way, play, LONG).await;
                let told = matches!(error.why, Why::Broken { .. } | Why::Garbled { .. } | Why::TooLarge { .. });
                assert!(told, "{way}: {body:?}: {error}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_follows_a_redirect() {
    let other = Player::new([answer("200 OK", "", "{}")]).await;
    each(async |way, _| {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
            let play = answer(status, &format!("location: {}/x?signature=hunter4\r\n", other.url), "");
            let error = failure(way, play, LONG).await;
            assert!(matches!(error.why, Why::Redirected { .. }), "{way}: {error}");
            assert!(!error.to_string().contains("hunter"), "{error}");
        }
    })
    .await;
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn failures_are_told_whatever_they_say() {
    each(async |way, _| {
        for body in [&b""[..], b"\xff\xfe\x1b[31m", b"{\"message\":{}}", &[b'x'; 200_000]] {
            let error = failure(way, Play::Cut(whole("500 Error", "", body)), LONG).await;
            assert_eq!(error.status(), Some(500), "{way}: {error}");
            assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn answers_without_end_are_given_up() {
    each(async |way, _| {
        for content in [STREAM, "application/json"] {
            let flood = Play::Flood(chunked_head(content), chunk(&[b'x'; 1 << 16]));
            let error = failure(way, flood, LONG).await;
            let told = matches!(error.why, Why::TooLarge { .. } | Why::Garbled { .. });
            assert!(told, "{way}: {error}");
        }
        let flood = Play::Flood(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: and more\r\n".repeat(1000));
        failure(way, flood, LONG).await;
    })
    .await;
}

#[tokio::test]
async fn answers_that_drip_are_given_up() {
    each(async |way, made| {
        if made == Made::Patient {
            return;
        }
        let head = Play::Drip(b"HTTP/1.1 200 OK\r\nx-slow: ".to_vec(), b"x".to_vec());
        let error = failure(way, head, Duration::from_millis(100)).await;
        assert!(matches!(error.why, Why::TooSlow { .. }), "{way}: {error}");
        // Lines have no deadline of their own.
        if made != Made::Lines {
            let body = Play::Drip(chunked_head(STREAM), chunk(b" "));
            let error = failure(way, body, Duration::from_millis(100)).await;
            // A stream begins with flags, and these are none.
            let told = matches!(error.why, Why::TooSlow { .. }) || made == Made::Stream;
            assert!(told, "{way}: {error}");
        }
    })
    .await;
}
