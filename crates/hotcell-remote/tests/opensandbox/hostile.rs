//! Servers that mean harm, or have broken: every answer gives a typed error, nothing hangs, and nothing grows.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hotcell_core::secret::Secret;
use hotcell_remote::http::{CallError, Why};
use hotcell_remote::opensandbox::{
    Attach, Client, Command, Endpoint, Event, Execd, Exit, Filter, NewPty, NewSandbox, Permissions, Running,
    SessionCommand, Upload, Via,
};

use crate::player::{Play, Player, head, stream_head};

/// What execd says of `echo out; echo err >&2; exit 3`, and its pings.
const RECORDED: &[u8] = b"{\"type\":\"init\",\"text\":\"5f1d\",\"timestamp\":1}\n\n\
    {\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":2}\n\n\
    {\"type\":\"stdout\",\"text\":\"out \xc3\xa9\",\"timestamp\":3}\n\n\
    data: {\"type\":\"stderr\",\"text\":\"err\",\"timestamp\":4}\n\n\
    {\"type\":\"invented\",\"text\":\"later\",\"timestamp\":4}\n\n\
    {\"type\":\"error\",\"timestamp\":5,\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"3\",\"traceback\":[\"exit status 3\"]}}\n\n";

fn execd(player: &Player) -> Execd {
    Execd::new(&Endpoint::new(player.address()), Some(&Secret::new("t0ken".to_owned()))).unwrap()
}

async fn all_of(mut running: Running) -> (Vec<Event>, Result<Exit, CallError>) {
    let mut events = Vec::new();
    loop {
        match running.next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(running.exit().unwrap())),
            Err(error) => return (events, Err(error)),
        }
    }
}

async fn run(player: &Player) -> (Vec<Event>, Result<Exit, CallError>) {
    match execd(player).run(&Command::line("x")).await {
        Ok(running) => all_of(running).await,
        Err(error) => (Vec::new(), Err(error)),
    }
}

/// The same bytes, in the form of chunks of `size`.
fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut all = head(200, "transfer-encoding: chunked\r\n", b"");
    for chunk in body.chunks(size) {
        all.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        all.extend_from_slice(chunk);
        all.extend_from_slice(b"\r\n");
    }
    all.extend_from_slice(b"0\r\n\r\n");
    all
}

fn expected() -> Vec<Event> {
    vec![
        Event::Started { id: "5f1d".to_owned() },
        Event::Stdout(Bytes::from_static("out é\n".as_bytes())),
        Event::Stderr(Bytes::from_static(b"err\n")),
    ]
}

#[tokio::test]
async fn a_whole_stream_is_understood_however_it_is_cut() {
    let mut plays = vec![stream_head(RECORDED), chunked(RECORDED, 1), chunked(RECORDED, 50)];
    plays.push(head(200, &format!("content-length: {}\r\n", RECORDED.len()), RECORDED));
    for play in plays {
        let (events, end) = run(&Player::one(Play::Bytes(play))).await;
        assert_eq!(events[..3], expected());
        assert!(matches!(&events[3..], [Event::Failed(failure)] if failure.value == "3"), "{events:?}");
        assert_eq!(end.unwrap(), Exit::Code(3));
    }
}

#[tokio::test]
async fn the_last_event_is_the_end_even_if_the_server_does_not_hang_up() {
    let (_, end) = run(&Player::one(Play::Hold(stream_head(RECORDED)))).await;
    assert_eq!(end.unwrap(), Exit::Code(3));
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_an_error_and_never_success() {
    let length = format!("content-length: {}\r\n", RECORDED.len());
    for (whole, body_ends) in [
        (stream_head(RECORDED), stream_head(RECORDED).len() - 1),
        (head(200, &length, RECORDED), head(200, &length, RECORDED).len() - 1),
        (chunked(RECORDED, 40), chunked(RECORDED, 40).len() - b"\n\r\n0\r\n\r\n".len()),
    ] {
        for cut in 0..whole.len() {
            let (events, end) = run(&Player::one(Play::Bytes(whole[..cut].to_vec()))).await;
            match end {
                Ok(exit) => {
                    assert!(exit == Exit::Code(3) && cut >= body_ends, "success after {cut} of {}", whole.len())
                }
                Err(error) => {
                    assert!(cut < body_ends, "{error} after {cut} of {}", whole.len());
                    assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{error}");
                }
            }
            let heard = events.len().min(3);
            assert_eq!(events[..heard], expected()[..heard]);
        }
    }
}

#[tokio::test]
async fn what_is_no_event_is_an_error() {
    for garbage in [
        &b"{\"type\":\"stdout\",\"text\":\"\xff\"}\n\n"[..],
        b"{\"type\":\"stdout\",\"text\":\n\n",
        b"{\"type\":\"stdout\",\"text\":5}\n\n",
        b"{\"type\":5}\n\n",
        b"{\"type\":\"error\"}\n\n",
        b"{\"type\":\"error\",\"error\":\"x\"}\n\n",
        b"{\"type\":\"execution_complete\",\"execution_time\":-1}\n\n",
        b"data: no json\n\n",
        b"data: []\n\n",
        b"{\"type\":\"stdout\",\"text\":\"\\ud800\"}\n\n",
    ] {
        let (_, end) = run(&Player::one(Play::stream(garbage))).await;
        let error = end.unwrap_err();
        assert!(matches!(error.why, Why::Garbled { .. }), "{error} of {}", String::from_utf8_lossy(garbage));
    }
    // Nothing in these says that the command ended.
    for nothing in [&b""[..], b"\n\n\n\n", b"<html>\n\n", b": comment\n\n", b"{}\n\n", b"{\"type\":\"completed\"}\n\n"]
    {
        let error = run(&Player::one(Play::stream(nothing))).await.1.unwrap_err();
        assert!(matches!(error.why, Why::Broken { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_the_server_says_in_a_broken_stream_is_passed_on_and_cannot_drive_a_terminal() {
    let said = b"{\"type\":\"init\",\"text\":\"a\"}\n\n{\"code\":\"RUNTIME_ERROR\",\"message\":\"timeout after 1s \\u001b[31m\"}";
    let error = run(&Player::one(Play::stream(said))).await.1.unwrap_err().to_string();
    assert!(error.contains("timeout after 1s") && !error.contains('\u{1b}'), "{error:?}");
}

#[tokio::test]
async fn a_line_without_an_end_is_not_kept() {
    const MIB: u64 = 1 << 20;
    // Of two GiB that are announced, and of what has no length.
    for begin in [head(200, "transfer-encoding: chunked\r\n", b"80000000\r\n"), stream_head(b"{")] {
        let player = Player::one(Play::Endless(begin, vec![b'x'; 1 << 16]));
        let error = run(&player).await.1.unwrap_err();
        assert!(matches!(error.why, Why::TooLarge { limit } if limit == 8 * MIB), "{error}");
        // What the system's buffers hold comes on top of it.
        assert!(player.written() < 32 * MIB, "{}", player.written());
    }
    // Many lines of one event.
    let player = Player::one(Play::Endless(stream_head(b""), b"data: 0123456789\n".repeat(1000)));
    let error = run(&player).await.1.unwrap_err();
    assert!(matches!(error.why, Why::TooLarge { .. }), "{error}");
    assert!(player.written() < 64 * MIB, "{}", player.written());
}

#[tokio::test]
async fn whoever_waits_can_stop_waiting_whatever_comes() {
    let ping = b"{\"type\":\"ping\",\"timestamp\":2}\n\n".repeat(1000);
    let player = Player::one(Play::Endless(stream_head(b""), ping));
    let mut running = execd(&player).run(&Command::line("x")).await.unwrap();
    tokio::time::timeout(Duration::from_millis(100), running.next()).await.unwrap_err();
    let before = player.written();
    // And go on waiting.
    tokio::time::timeout(Duration::from_millis(100), running.next()).await.unwrap_err();
    assert!(player.written() >= before);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_gone() {
    let player = Player::one(Play::Hold(stream_head(b"{\"type\":\"init\",\"text\":\"a\"}\n\n{\"type\":\"ping\"}\n\n")));
    let mut running = execd(&player).run(&Command::line("x")).await.unwrap();
    assert!(matches!(running.next().await.unwrap(), Some(Event::Started { .. })));
    player.asked().await;
    tokio::time::pause();
    let error = running.next().await.unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
}

#[tokio::test]
async fn a_file_that_stops_on_its_way_is_not_waited_for() {
    let player = Player::one(Play::Hold(head(200, "content-length: 100\r\n", b"begin")));
    let mut download = execd(&player).download("/a").await.unwrap();
    assert_eq!(download.next().await.unwrap().unwrap(), "begin");
    tokio::time::pause();
    // Twice: silence is no end.
    for _ in 0..2 {
        let error = download.next().await.unwrap_err();
        assert!(matches!(error.why, Why::TooSlow { waited } if waited.as_secs() <= 60), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_never_stops_coming_is_not_taken_for_ever() {
    let player = Player::one(Play::Endless(head(200, "", b""), vec![b' '; 1 << 16]));
    let mut download = execd(&player).download("/a").await.unwrap();
    assert!(download.next().await.unwrap().is_some());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60 * 60)).await;
    let error = download.next().await.unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
}

/// What came of a call, by the call's name.
type Came = (&'static str, Result<(), CallError>);

/// Makes every call there is, all at once: those that may be repeated take their time about it.
async fn every_call(player: &Player) -> Vec<Came> {
    let (e, c, permissions) = (execd(player), client(player), Permissions::default());
    let now = std::time::SystemTime::now();
    let (e, c, permissions) = (&e, &c, &permissions);
    macro_rules! call {
        ($name:literal, $call:expr) => {
            Box::pin(async move { ($name, $call.await.map(drop)) }) as Pin<Box<dyn Future<Output = Came> + '_>>
        };
    }
    join_all([
        call!("ping", e.ping()),
        call!("status", e.status("a")),
        call!("logs", e.logs("a", 0)),
        call!("session", e.create_session(None)),
        call!("info", e.info("/a")),
        call!("list", e.list("/a", 1)),
        call!("search", e.search("/a", "*")),
        call!("replace", e.replace("/a", "b", "c")),
        call!("rename", e.rename("/a", "/b")),
        call!("make_directory", e.make_directory("/a", permissions)),
        call!("write", e.write(&Upload::new("/a"), "content")),
        call!("metrics", e.metrics()),
        call!("pty", e.create_pty(&NewPty::default())),
        call!("pty_status", e.pty_status("a")),
        call!("health", c.health()),
        call!("version", c.version()),
        call!("create", c.create(&NewSandbox::image("x"))),
        call!("get", c.get("a")),
        call!("list", c.list(&Filter::default())),
        call!("renew", c.renew("a", now)),
        call!("snapshot", c.snapshot("a", None)),
        call!("endpoint", c.endpoint("a", 1, Via::Direct)),
        call!("network_policy", c.network_policy("a")),
        call!("delete", c.delete("a")),
        call!("run", e.run(&Command::line("x"))),
        call!("run_in_session", e.run_in_session("a", &SessionCommand::line("x"))),
        call!("background", e.start_background(&Command::line("x"))),
        call!("download", e.read("/a", 100)),
        call!("watch", e.watch_metrics()),
        call!("attach", e.attach("a", &Attach::default())),
    ])
    .await
}

fn client(player: &Player) -> Client {
    Client::new(player.address(), Some(&Secret::new("k3y".to_owned()))).unwrap()
}

#[tokio::test]
async fn no_call_follows_a_redirect() {
    let other = Player::one(Play::answer(200, "{}"));
    let player = Player::one(Play::redirect(&other));
    for (what, result) in every_call(&player).await {
        let error = result.unwrap_err();
        assert!(matches!(error.why, Why::Redirected { .. }), "{what}: {error}");
        assert!(!error.to_string().contains("secret"), "{what}: {error}");
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn every_refusal_is_passed_on_with_what_the_server_says() {
    for status in [400, 401, 403, 404, 409, 429, 500] {
        let player = Player::one(Play::answer(status, r#"{"code":"X::Y","message":"it is so"}"#));
        for (what, result) in every_call(&player).await {
            let forgiven = what == "delete" && status == 404;
            match result {
                Err(error) => {
                    assert_eq!(error.status(), Some(status), "{what}: {error}");
                    assert!(error.to_string().contains("it is so"), "{what}: {error}");
                }
                Ok(()) => assert!(forgiven, "{what} succeeded with {status}"),
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_ends_too_soon_or_is_nonsense_is_an_error() {
    let short = head(200, "content-length: 100\r\n", b"{\"id\":");
    for bytes in [b"".to_vec(), b"HTTP/1.1 200".to_vec(), b"SSH-2.0-x\r\n".to_vec(), short] {
        let player = Player::one(Play::Bytes(bytes));
        for (what, result) in every_call(&player).await {
            // These are judged by what follows the head, which is another test's.
            let streams = ["run", "run_in_session", "watch", "delete"].contains(&what);
            match result {
                Err(error) => assert!(
                    matches!(
                        error.why,
                        Why::Broken { .. } | Why::Garbled { .. } | Why::Unreachable { .. } | Why::Answered { .. }
                    ),
                    "{what}: {error}"
                ),
                Ok(()) => assert!(streams, "{what} succeeded"),
            }
        }
    }
}

#[tokio::test]
async fn an_answer_of_the_wrong_kind_is_an_error() {
    for body in ["", "null", "[]", "\"x\"", "{", "<html>", "{\"id\":5}", "\u{0}", "{\"items\":{}}"] {
        let player = Player::one(Play::answer(200, body));
        for (what, result) in every_call(&player).await {
            // These want nothing of the answer, or the first of a stream.
            let content = [
                "ping",
                "rename",
                "make_directory",
                "write",
                "health",
                "delete",
                "run",
                "run_in_session",
                "watch",
                "download",
            ];
            let empty_is_one = ["list", "search"].contains(&what) && body == "[]";
            let unsaid = what == "replace" && body.is_empty() || what == "network_policy" && body.starts_with('{');
            match result {
                Err(error) => assert!(
                    matches!(error.why, Why::Garbled { .. } | Why::Broken { .. } | Why::Answered { .. }),
                    "{what} of {body}: {error}"
                ),
                Ok(()) => assert!(content.contains(&what) || empty_is_one || unsaid, "{what} of {body} succeeded"),
            }
        }
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_kept() {
    const MIB: u64 = 1 << 20;
    let endless = |begin: Vec<u8>| Player::one(Play::Endless(begin, vec![b' '; 1 << 16]));
    for begin in [
        head(200, "", b""),
        head(200, "content-length: 2147483648\r\n", b""),
        head(200, "transfer-encoding: chunked\r\n", b"80000000\r\n"),
    ] {
        let player = endless(begin.clone());
        let error = client(&player).get("a").await.unwrap_err();
        assert!(matches!(error.why, Why::TooLarge { .. }), "{error}");
        assert!(player.written() < 32 * MIB, "{}", player.written());
        let player = endless(begin.clone());
        let error = execd(&player).read("/a", MIB).await.unwrap_err();
        assert!(matches!(error.why, Why::TooLarge { .. }), "{error}");
        assert!(player.written() < 32 * MIB, "{}", player.written());
        let player = endless(begin);
        let mut watch = execd(&player).watch_metrics().await.unwrap();
        let error = watch.next().await.unwrap_err();
        assert!(matches!(error.why, Why::TooLarge { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_drip_does_not_hold_a_call_up() {
    for begin in [b"".to_vec(), b"HTTP/1.1 200 X\r\n".to_vec(), head(200, "content-length: 100\r\n", b"{")] {
        let player = Player::one(Play::Hold(begin));
        let (execd, client) = (execd(&player), client(&player));
        let calls = [
            tokio::spawn(async move { client.get("a").await.map(drop) }),
            tokio::spawn(async move { execd.metrics().await.map(drop) }),
        ];
        for _ in &calls {
            player.asked().await;
        }
        tokio::time::pause();
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
        }
        tokio::time::resume();
    }
}

#[tokio::test]
async fn parts_of_files_are_the_parts_that_were_asked_for() {
    let part = |status: u16, range: &str, body: &[u8]| {
        Play::Bytes(head(status, &format!("content-range: {range}\r\ncontent-length: {}\r\n", body.len()), body))
    };
    for (play, good) in [
        (part(206, "bytes 5-7/10", b"567"), true),
        (part(206, "bytes 5-6/7", b"56"), true),
        (part(416, "", b""), true),
        (part(200, "bytes 5-7/10", b"567"), false),
        (part(206, "bytes 0-2/10", b"012"), false),
        (part(206, "", b"567"), false),
        (part(206, "bytes 5-9/10", b"56789"), false),
        (Play::Bytes(head(206, "content-range: bytes 5-7/10\r\ncontent-length: 3\r\n", b"5")), false),
    ] {
        let player = Player::one(play.clone());
        let read = async {
            let mut download = execd(&player).download_part("/a", 5, Some(3)).await?;
            while download.next().await?.is_some() {}
            Ok::<_, CallError>(())
        };
        assert_eq!(read.await.is_ok(), good, "{play:?}");
        assert!(player.requests()[0].contains("range: bytes=5-7\r\n"));
    }
}

#[tokio::test]
async fn logs_are_as_long_as_they_say() {
    for (cursor, good) in
        [("13", true), ("12", false), ("3", false), ("-1", false), ("x", false), ("18446744073709551615", false)]
    {
        let play = head(200, &format!("execd-commands-tail-cursor: {cursor}\r\ncontent-length: 3\r\n"), b"abc");
        let player = Player::one(Play::Bytes(play));
        assert_eq!(execd(&player).logs("a", 10).await.is_ok(), good, "{cursor}");
    }
}

#[tokio::test]
async fn a_background_command_is_known_when_its_id_is_told() {
    let started = b"{\"type\":\"init\",\"text\":\"a1\"}\n\n{\"type\":\"execution_complete\"}\n\n";
    let unknown = || Play::answer(404, r#"{"message":"command not found"}"#);
    let plays = vec![Play::stream(started), unknown(), unknown(), Play::answer(200, r#"{"running":true}"#)];
    let player = Player::of(plays);
    assert_eq!(execd(&player).start_background(&Command::line("x")).await.unwrap(), "a1");
    assert_eq!(player.connections(), 4);
}

#[tokio::test]
async fn a_command_that_cannot_have_its_input_is_ended() {
    let started = stream_head(b"{\"type\":\"init\",\"text\":\"a1\"}\n\n");
    let refused = Play::answer(500, r#"{"message":"no more sessions"}"#);
    let player = Player::of(vec![Play::Hold(started), refused, Play::answer(200, "")]);
    let error = execd(&player).run_exact(&Command::line("cat"), true).await.unwrap_err();
    assert!(error.to_string().contains("no more sessions"), "{error}");
    let requests = player.requests();
    let asked: Vec<&str> = requests.iter().map(|request| request.lines().next().unwrap()).collect();
    assert_eq!(asked[..3], ["POST /command HTTP/1.1", "POST /pty HTTP/1.1", "DELETE /command?id=a1 HTTP/1.1"]);
    assert!(asked[3].starts_with("DELETE /directories?path=%2Ftmp%2F.hotcell-"), "{asked:?}");
}

#[tokio::test]
async fn what_would_lead_elsewhere_is_refused_before_anything_is_sent() {
    let player = Player::one(Play::answer(200, "{}"));
    let execd = execd(&player);
    for path in ["", "a", "~/a", "/a/$HOME", "/a/${X}", "/a\0b", "./a"] {
        assert!(matches!(execd.info(path).await.unwrap_err().why, Why::Impossible { .. }), "{path}");
        execd.remove_directory(path).await.unwrap_err();
        execd.rename("/a", path).await.unwrap_err();
        execd.write(&Upload::new(path), "").await.unwrap_err();
        execd.download(path).await.unwrap_err();
        let mut command = Command::line("x");
        command.cwd = Some(path.to_owned());
        execd.run(&command).await.unwrap_err();
    }
    for mode in [0, 0o1000, 0o4755, u32::MAX] {
        execd.set_permissions("/a", &Permissions::mode(mode)).await.unwrap_err();
    }
    execd.run(&Command::line(" ")).await.unwrap_err();
    execd.run(&Command::argv(["a\0b"])).await.unwrap_err();
    let mut command = Command::line("x");
    command.gid = Some(1);
    execd.run(&command).await.unwrap_err();
    assert_eq!(player.connections(), 0);
}

#[tokio::test]
async fn an_upload_is_a_form_that_execd_reads() {
    let player = Player::one(Play::answer(200, ""));
    let mut upload = Upload::new("/a/\"b\"");
    upload.permissions.mode = Some(0o755);
    execd(&player).write(&upload, "content").await.unwrap();
    let request = &player.requests()[0];
    let boundary = request.split("boundary=").nth(1).unwrap().lines().next().unwrap();
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let expected = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\
         content-type: application/json\r\n\r\n{{\"path\":\"/a/\\\"b\\\"\",\"mode\":755,\"owner\":\"\",\"group\":\"\"}}\r\n\
         --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
         content-type: application/octet-stream\r\n\r\ncontent\r\n--{boundary}--\r\n"
    );
    assert_eq!(body, expected);
}
