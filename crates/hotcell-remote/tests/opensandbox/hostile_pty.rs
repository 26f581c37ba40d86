//! WebSockets of servers that mean harm, or have broken.

use hotcell_core::secret::Secret;
use hotcell_remote::http::{CallError, Why};
use hotcell_remote::opensandbox::{Attach, Endpoint, Execd, PtyEvent};

use crate::player::{Play, Player};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;
const CLOSE: u8 = 8;

/// A frame as servers send it.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    match payload.len() {
        short @ 0..126 => frame.push(short as u8),
        long => {
            frame.push(126);
            frame.extend_from_slice(&u16::try_from(long).unwrap().to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

fn connected() -> Vec<u8> {
    frame(TEXT, br#"{"type":"connected","session_id":"a","mode":"pipe"}"#)
}

/// What was written before, that the session is attached, a little of everything, and the end.
fn recorded() -> Vec<u8> {
    let parts = [
        frame(BINARY, b"\x03\0\0\0\0\0\0\0\x07old"),
        connected(),
        frame(BINARY, b"\x01out\xff"),
        frame(PING, b""),
        frame(TEXT, br#"{"type":"pong"}"#),
        frame(BINARY, b"\x02err"),
        frame(TEXT, br#"{"type":"exit","exit_code":3}"#),
        frame(CLOSE, b"\x03\xe8process exited"),
    ];
    parts.concat()
}

fn execd(player: &Player) -> Execd {
    Execd::new(&Endpoint::new(player.address()), Some(&Secret::new("t0ken".to_owned()))).unwrap()
}

async fn heard(player: &Player) -> (Vec<PtyEvent>, Result<(), CallError>) {
    let mut events = Vec::new();
    let (_input, mut output) = match execd(player).attach("a b", &Attach::default()).await {
        Ok(attached) => attached,
        Err(error) => return (events, Err(error)),
    };
    loop {
        match output.next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(())),
            Err(error) => return (events, Err(error)),
        }
    }
}

fn socket(bytes: Vec<u8>) -> Player {
    Player::one(Play::WebSocket(Box::new(Play::Bytes(bytes))))
}

#[tokio::test]
async fn a_whole_stream_is_understood() {
    let player = socket(recorded());
    let (events, end) = heard(&player).await;
    end.unwrap();
    let expected = [
        PtyEvent::Replay { offset: 7, bytes: "old".into() },
        PtyEvent::Stdout(b"out\xff"[..].into()),
        PtyEvent::Stderr("err".into()),
        PtyEvent::Exit { code: Some(3) },
    ];
    assert_eq!(events, expected);
    let request = &player.requests()[0];
    assert!(request.starts_with("GET /pty/a%20b/ws?pty=1&since=0 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("x-execd-access-token: t0ken\r\n"), "{request}");
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_an_error_and_never_an_end() {
    let whole = recorded();
    let exit_ends = whole.len() - frame(CLOSE, b"\x03\xe8process exited").len();
    for cut in 0..whole.len() {
        let (events, end) = heard(&socket(whole[..cut].to_vec())).await;
        assert_eq!(end.is_ok(), cut >= exit_ends, "{end:?} after {cut} of {}", whole.len());
        assert_eq!(matches!(events.last(), Some(PtyEvent::Exit { .. })), cut >= exit_ends);
        if let Err(error) = end {
            assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn what_the_protocol_does_not_know_is_an_error() {
    let with = |rest: Vec<u8>| [connected(), rest].concat();
    let mut masked = connected();
    masked[1] |= 0x80;
    masked.splice(2..2, [0, 0, 0, 0]);
    for bytes in [
        frame(TEXT, b"hello"),
        frame(CLOSE, b"\x03\xe8"),
        frame(TEXT, br#"{"type":"error","code":"START_FAILED","error":"no bash"}"#),
        [frame(BINARY, b"\x01a"), frame(BINARY, b"\x01b")].concat(),
        masked,
        with(frame(TEXT, b"\xff\xfe")),
        with(frame(TEXT, b"[]")),
        with(frame(TEXT, br#"{"type":"exit"}"#)),
        with(frame(TEXT, br#"{"type":"exit","exit_code":"3"}"#)),
        with(frame(TEXT, br#"{"type":"exit","exit_code":99999999999}"#)),
        with(frame(BINARY, b"")),
        with(frame(BINARY, b"\x00x")),
        with(frame(BINARY, b"\x09x")),
        with(frame(BINARY, b"\x03\0\0\0\0\0\0\0")),
        with(frame(CLOSE, b"\x03\xe8")),
        with(frame(CLOSE, b"\x03")),
        with(vec![0xf1, 0]),
        with(frame(3, b"")),
    ] {
        let (_, end) = heard(&socket(bytes.clone())).await;
        let error = end.unwrap_err();
        assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{error} of {bytes:?}");
    }
}

#[tokio::test]
async fn what_the_server_says_is_passed_on() {
    let said = frame(TEXT, br#"{"type":"error","code":"START_FAILED","error":"no bash \u001b[31m"}"#);
    let error = heard(&socket(said)).await.1.unwrap_err().to_string();
    assert!(error.contains("START_FAILED no bash") && !error.contains('\u{1b}'), "{error:?}");
    let over = [connected(), frame(CLOSE, b"\x0f\xa1TAKEN_OVER")].concat();
    assert_eq!(heard(&socket(over)).await.0, [PtyEvent::TakenOver]);
}

#[tokio::test]
async fn a_frame_of_two_gib_is_not_waited_for() {
    for size in [1_u64 << 31, u64::MAX, (1 << 20) + 65] {
        let mut begin = connected();
        begin.extend_from_slice(&[0x82, 127]);
        begin.extend_from_slice(&size.to_be_bytes());
        let player = Player::one(Play::WebSocket(Box::new(Play::Endless(begin, vec![1; 1 << 16]))));
        let (events, end) = heard(&player).await;
        let error = end.unwrap_err();
        assert!(matches!(error.why, Why::TooLarge { .. } | Why::Garbled { .. }), "{error}");
        assert!(events.is_empty() && player.written() < 16 << 20, "{}", player.written());
    }
    // The same in pieces, none of which is large.
    let mut piece = frame(0, &[1; 60_000]);
    piece[0] &= 0x7f;
    let mut begin = connected();
    begin.extend_from_slice(&[0x02, 0]);
    let player = Player::one(Play::WebSocket(Box::new(Play::Endless(begin, piece))));
    let error = heard(&player).await.1.unwrap_err();
    assert!(matches!(error.why, Why::TooLarge { .. }), "{error}");
    assert!(player.written() < 16 << 20, "{}", player.written());
}

#[tokio::test]
async fn attaching_has_an_end() {
    // Before the WebSocket is open, after that, and while something comes all the time.
    let pings = Play::Endless(Vec::new(), frame(PING, b"x").repeat(100));
    for play in [
        Play::Hold(Vec::new()),
        Play::Hold(b"HTTP/1.1 101 X\r\nupgrade".to_vec()),
        Play::WebSocket(Box::new(Play::Hold(Vec::new()))),
        Play::WebSocket(Box::new(pings)),
    ] {
        let player = Player::one(play);
        let execd = execd(&player);
        let attaching = tokio::spawn(async move { execd.attach("a", &Attach::default()).await.map(drop) });
        player.asked().await;
        tokio::time::pause();
        // A clock that stands still goes on by itself only when nothing happens.
        while !attaching.is_finished() {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        let error = attaching.await.unwrap().unwrap_err();
        assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_handshake_that_is_none_is_an_error() {
    for bytes in [
        &b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: wrong\r\n\r\n"[..],
        b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"",
    ] {
        let error = heard(&Player::one(Play::Bytes(bytes.to_vec()))).await.1.unwrap_err();
        assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. } | Why::Answered { .. }), "{error}");
    }
    let endless = Player::one(Play::Endless(b"HTTP/1.1 101 X\r\n".to_vec(), b"x: y\r\n".repeat(1000)));
    heard(&endless).await.1.unwrap_err();
    assert!(endless.written() < 16 << 20, "{}", endless.written());
}
