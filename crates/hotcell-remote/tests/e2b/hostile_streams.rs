//! Servers that mean harm, in the middle of a stream.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use hotcell_remote::e2b::{Cell, Command, Event};
use hotcell_remote::http::{CallError, Why};
use tokio::time::timeout;

use crate::hostile::{BOUND, LONG};
use crate::live::all;
use crate::player::{Play, Player, STREAM, answer, chunk, chunked, chunked_head, envelope, event, recorded, whole};

fn command() -> Command {
    Command::new("x", [""; 0])
}

/// What a whole command gives with this server.
async fn run(play: Play) -> Result<(Vec<u8>, Vec<u8>, i32), CallError> {
    let player = Player::new([play]).await;
    let envd = player.envd().await;
    let whole = async {
        let (out, err, end) = all(&mut envd.start(&command()).await?).await?;
        Ok((out, err, end.exit_code))
    };
    let result = timeout(LONG, whole).await.expect("it hangs");
    let flooded = player.flooded.load(Ordering::SeqCst);
    assert!(flooded < BOUND, "{flooded} bytes were taken");
    result
}

fn told(error: &CallError) -> bool {
    matches!(error.why, Why::Broken { .. } | Why::Garbled { .. } | Why::TooLarge { .. })
}

#[tokio::test]
async fn a_stream_that_is_cut_at_any_byte_is_no_success() {
    let unchunked = {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {STREAM}\r\nconnection: close\r\n\r\n");
        [head.into_bytes(), recorded().concat()].concat()
    };
    // Without chunks the end of the connection is the end of the stream, and only the last message tells.
    for (wire, after) in [(chunked(STREAM, &recorded()), "\r\n0\r\n\r\n".len()), (unchunked, 0)] {
        let complete = wire.len() - after;
        for cut in 0..=wire.len() {
            match run(Play::Cut(wire[..cut].to_vec())).await {
                Ok(result) => {
                    assert!(cut >= complete, "success after {cut} of {complete} bytes");
                    assert_eq!(result, (b"hi\n".to_vec(), b"no\n".to_vec(), 3));
                }
                Err(error) => assert!(cut < complete && told(&error), "{cut} of {complete}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_stream_in_pieces_of_any_size_is_the_same_stream() {
    let bytes = recorded().concat();
    for size in 1..bytes.len() {
        let pieces: Vec<Vec<u8>> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
        let result = run(Play::Say(chunked(STREAM, &pieces))).await.unwrap();
        assert_eq!(result, (b"hi\n".to_vec(), b"no\n".to_vec(), 3));
    }
}

#[tokio::test]
async fn events_that_make_no_sense_are_errors() {
    let start = || event(r#"{"start":{"pid":1}}"#);
    let end = || event(r#"{"end":{"exited":true,"status":"exit status 0"}}"#);
    let last = || envelope(2, "{}");
    run(Play::Say(chunked(STREAM, &[start(), end(), last()]))).await.unwrap();
    for (what, messages) in [
        ("nothing at all", vec![]),
        ("only the last message", vec![last()]),
        ("no start", vec![end(), last()]),
        ("output in place of the start", vec![event(r#"{"data":{"stdout":"aGk="}}"#), end(), last()]),
        ("output before the start", vec![event(r#"{"data":{"stdout":"aGk="}}"#), start(), end(), last()]),
        ("a sign of life before the start", vec![event(r#"{"keepalive":{}}"#), start(), end(), last()]),
        ("two starts", vec![start(), start(), end(), last()]),
        ("no end", vec![start(), last()]),
        ("no last message", vec![start(), end()]),
        ("two ends", vec![start(), end(), end(), last()]),
        ("output after the end", vec![start(), end(), event(r#"{"data":{"stdout":"aGk="}}"#), last()]),
        ("two last messages", vec![start(), end(), last(), last()]),
        ("more after the last message", vec![start(), end(), [last(), start()].concat()]),
        ("a compressed message", vec![start(), envelope(1, "x"), end(), last()]),
        ("a compressed last message", vec![start(), end(), envelope(3, "{}")]),
        ("unknown flags", vec![start(), envelope(0x80, "{}"), end(), last()]),
        ("no JSON", vec![start(), envelope(0, "nonsense"), end(), last()]),
        ("an empty message", vec![start(), envelope(0, ""), end(), last()]),
        ("no UTF-8", vec![start(), envelope(0, b"{\"event\":{\"data\":{\"stdout\":\"\xff\"}}}"), end(), last()]),
        ("no base64", vec![start(), event(r#"{"data":{"stdout":"a"}}"#), end(), last()]),
        ("other base64", vec![start(), event(r#"{"data":{"stdout":"_-8="}}"#), end(), last()]),
        ("a last message that is no JSON", vec![start(), end(), envelope(2, "")]),
        ("a last message that is no object", vec![start(), end(), envelope(2, "[]")]),
        ("an end that contradicts itself", vec![start(), event(r#"{"end":{"status":"signal: killed"}}"#), last()]),
        ("a process id that is none", vec![event(r#"{"start":{}}"#), end(), last()]),
        ("a process id that is too large", vec![event(r#"{"start":{"pid":4294967296}}"#), end(), last()]),
    ] {
        let error = run(Play::Say(chunked(STREAM, &messages))).await.expect_err(what);
        assert!(told(&error), "{what}: {error}");
    }
    let error =
        run(Play::Say(chunked(STREAM, &[start(), end(), envelope(2, r#"{"error":{"code":"internal"}}"#)]))).await;
    assert_eq!(error.unwrap_err().status(), Some(500));
}

#[tokio::test]
async fn a_stream_of_another_kind_is_an_error() {
    for head in [
        "content-type: text/html",
        "content-type: application/connect+proto",
        "x: y",
        "content-type: application/connect+json\r\nconnect-content-encoding: gzip",
    ] {
        let error = run(Play::Say(whole("200 OK", &format!("{head}\r\n"), recorded().concat()))).await.unwrap_err();
        assert!(matches!(error.why, Why::Garbled { .. }), "{head}: {error}");
    }
}

#[tokio::test]
async fn a_message_that_announces_gigabytes_is_not_waited_for() {
    for length in [(4 << 20) + 1, 2 << 30, u32::MAX] {
        for flags in [0, 2] {
            let head = [&[flags][..], &u32::to_be_bytes(length)].concat();
            let started = [chunked_head(STREAM), chunk(&event(r#"{"start":{"pid":1}}"#)), chunk(&head)].concat();
            let error = run(Play::Flood(started, chunk(&[b'x'; 1 << 16]))).await.unwrap_err();
            assert!(matches!(error.why, Why::TooLarge { limit: 4194304 }), "{error}");
        }
    }
}

#[tokio::test]
async fn a_message_that_comes_a_byte_at_a_time_is_given_up() {
    let started = [chunked_head(STREAM), chunk(&event(r#"{"start":{"pid":1}}"#))].concat();
    let half = [started, chunk(&[0, 0, 0, 100, 0])].concat();
    // The sandbox would say that the command still runs.
    let player =
        Player::new([Play::Drip(half, chunk(b" ")), answer("200 OK", "", r#"{"processes":[{"pid":1}]}"#)]).await;
    let mut running = player.envd().await.start(&command()).await.unwrap();
    let error = timeout(LONG, running.next()).await.expect("it hangs").unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
    assert_eq!(player.heard().len(), 1);
}

#[tokio::test]
async fn a_command_must_start_before_the_deadline() {
    let player = Player::new([Play::Say(chunked_head(STREAM))]).await;
    let deadline = Duration::from_millis(100);
    let error = player.envd().await.within(deadline).start(&command()).await.unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { waited } if waited == deadline), "{error}");
}

#[tokio::test]
async fn a_silent_command_is_followed_while_it_runs_and_lost_when_it_does_not() {
    let started = [chunked_head(STREAM), chunk(&event(r#"{"start":{"pid":7}}"#))].concat();
    let runs = |pid: u32| answer("200 OK", "", format!(r#"{{"processes":[{{"pid":{pid}}}]}}"#));
    let player = Player::new([Play::Say(started.clone()), runs(7), runs(7), runs(8)]).await;
    let mut running = player.envd().await.start(&command()).await.unwrap();
    let error = timeout(LONG, running.next()).await.expect("it hangs").unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
    let heard = player.heard();
    let asked: Vec<&str> = heard.iter().map(|heard| heard.line()).collect();
    assert_eq!(asked[1..], ["POST /process.Process/List"; 3]);
    // Nobody can be asked.
    let player = Player::new([Play::Say(started), answer("502 Bad Gateway", "", "")]).await;
    let mut running = player.envd().await.start(&command()).await.unwrap();
    let error = timeout(LONG, running.next()).await.expect("it hangs").unwrap_err();
    assert_eq!(error.status(), Some(502), "{error}");
}

#[tokio::test]
async fn signs_of_life_without_end_do_no_harm_and_no_good() {
    let started = [chunked_head(STREAM), chunk(&event(r#"{"start":{"pid":1}}"#))].concat();
    let alive = chunk(&event(r#"{"keepalive":{}}"#).repeat(500));
    let player = Player::new([Play::Flood(started, alive)]).await;
    let mut running = player.envd().await.start(&command()).await.unwrap();
    // Whoever waits can stop waiting, and ask again.
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(100), running.next()).await.is_err());
    }
    assert!(player.flooded.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn nothing_is_read_that_nobody_asks_for() {
    let started = [chunked_head(STREAM), chunk(&event(r#"{"start":{"pid":1}}"#))].concat();
    let output = format!(r#"{{"data":{{"stdout":"{}"}}}}"#, "YWFh".repeat(10_000));
    let player = Player::new([Play::Flood(started, chunk(&event(&output)))]).await;
    let mut running = player.envd().await.start(&command()).await.unwrap();
    assert!(matches!(running.next().await.unwrap(), Some(Event::Stdout(_))));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let flooded = player.flooded.load(Ordering::SeqCst);
    assert!(flooded < 32 << 20, "{flooded} bytes were taken");
    assert!(matches!(running.next().await.unwrap(), Some(Event::Stdout(_))));
}

fn cells() -> Vec<Vec<u8>> {
    [
        r#"{"type":"stdout","text":"hi\n"}"#,
        r#"{"type":"result","text":"2","is_main_result":true}"#,
        r#"{"type": "end_of_execution"}"#,
    ]
    .map(|line| format!("{line}\n").into_bytes())
    .to_vec()
}

async fn execute(play: Play) -> Result<usize, CallError> {
    let player = Player::new([play]).await;
    let interpreter = player.interpreter().await;
    let whole = async {
        let mut execution = interpreter.execute(&Cell::new("x")).await?;
        let mut outputs = 0;
        while execution.next().await?.is_some() {
            outputs += 1;
        }
        Ok(outputs)
    };
    let result = timeout(LONG, whole).await.expect("it hangs");
    assert!(player.flooded.load(Ordering::SeqCst) < BOUND);
    result
}

#[tokio::test]
async fn an_execution_that_is_cut_at_any_byte_is_no_success() {
    let unchunked = [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec(), cells().concat()].concat();
    for (wire, after) in [(chunked("application/json", &cells()), "\r\n0\r\n\r\n".len()), (unchunked, 0)] {
        let complete = wire.len() - after;
        for cut in 0..=wire.len() {
            match execute(Play::Cut(wire[..cut].to_vec())).await {
                Ok(outputs) => assert!(cut >= complete && outputs == 2, "success after {cut} of {complete} bytes"),
                Err(error) => assert!(cut < complete && told(&error), "{cut} of {complete}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn an_execution_that_ends_in_another_way_is_an_error() {
    for last in [
        "",
        "{\"type\":\"unexpected_end_of_execution\"}\n",
        "{\"type\":\"end_of_execution\"}",
        "nonsense\n",
        "\u{fffd}\n",
    ] {
        let mut pieces = cells();
        pieces.pop();
        pieces.push(last.as_bytes().to_vec());
        pieces.retain(|piece| !piece.is_empty());
        let error = execute(Play::Say(chunked("application/json", &pieces))).await.expect_err(last);
        assert!(told(&error), "{last}: {error}");
    }
    let flood = Play::Flood(chunked_head("application/json"), chunk(&[b'x'; 1 << 16]));
    let error = execute(flood).await.unwrap_err();
    assert!(matches!(error.why, Why::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_file_that_is_cut_at_any_byte_is_no_file() {
    let content = b"what is in the file";
    let known = whole("200 OK", "", content);
    let pieces: Vec<Vec<u8>> = content.chunks(5).map(<[u8]>::to_vec).collect();
    let unknown = chunked("text/plain", &pieces);
    for wire in [known, unknown] {
        // At once: a call that changes nothing is tried again after a while.
        let look = async |cut: usize| {
            let player = Player::new([Play::Cut(wire[..cut].to_vec())]).await;
            let envd = player.envd().await;
            let file = async { envd.download("/f").await?.bytes(1000).await };
            match timeout(LONG, file).await.expect("it hangs") {
                Ok(bytes) => {
                    assert!(cut == wire.len() && bytes == content[..], "success after {cut} of {}", wire.len())
                }
                Err(error) => assert!(cut < wire.len() && told(&error), "{cut}: {error}"),
            }
        };
        join_all((0..=wire.len()).map(&look)).await;
    }
    // The file is what was asked for, not what it is compressed to.
    let player = Player::new([Play::Say(whole("200 OK", "content-encoding: gzip\r\n", content))]).await;
    let error = player.envd().await.download("/f").await.unwrap_err();
    assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
}
