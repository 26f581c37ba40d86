//! What holds for every call, whatever the server does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hotcell_core::secret::Secret;
use hotcell_remote::http::{Address, Body, CallError, PlainHttp, Server, Why};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that plays given bytes, one connection after another, and keeps what it was asked.
struct Player {
    address: String,
    heard: Arc<tokio::sync::Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// What is done with a connection after a request has come.
#[derive(Clone)]
enum Play {
    Say(String),
    /// Says this, then one byte now and then, for ever.
    Drip(String),
    /// Says this, then zeros without an end.
    Flood(String),
    Hang,
    Close,
}

fn say(text: impl Into<String>) -> Play {
    Play::Say(text.into())
}

async fn play(plays: Vec<Play>) -> Player {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (heard, connections) = (Arc::<tokio::sync::Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
    let (heard_here, connections_here) = (Arc::clone(&heard), Arc::clone(&connections));
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            connections_here.fetch_add(1, Ordering::SeqCst);
            let play = plays.get(number).or(plays.last()).cloned();
            let heard = Arc::clone(&heard_here);
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer).await {
                        Ok(length @ 1..) => request.extend_from_slice(&buffer[..length]),
                        _ => return,
                    }
                }
                heard.lock().await.push(String::from_utf8_lossy(&request).into_owned());
                match play {
                    Some(Play::Say(text)) => drop(stream.write_all(text.as_bytes()).await),
                    Some(Play::Drip(text)) => {
                        let _ = stream.write_all(text.as_bytes()).await;
                        while stream.write_all(b"x").await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                    Some(Play::Flood(text)) => {
                        let _ = stream.write_all(text.as_bytes()).await;
                        while stream.write_all(&[b'0'; 1 << 16]).await.is_ok() {}
                    }
                    Some(Play::Hang) => std::future::pending().await,
                    Some(Play::Close) | None => {}
                }
            });
        }
    });
    Player { address, heard, connections }
}

impl Player {
    fn server(&self) -> Server {
        let address = Address::parse(&self.address, PlainHttp::LoopbackOnly).unwrap();
        Server::new("Test", address).unwrap().secret_header("x-api-key", &Secret::new("hunter2".to_owned())).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Play {
    say(format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
}

async fn get(player: &Player) -> Result<serde_json::Value, CallError> {
    player.server().get("look", &["v1", "things"]).deadline(Duration::from_secs(10)).send().await?.json().await
}

#[tokio::test]
async fn a_call_says_its_key_and_gets_its_answer() {
    let player = play(vec![answer("200 OK", "", r#"{"a":1}"#)]).await;
    assert_eq!(get(&player).await.unwrap()["a"], 1);
    let heard = player.heard.lock().await[0].clone();
    assert!(heard.starts_with("GET /v1/things HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("x-api-key: hunter2"), "{heard}");
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let other = play(vec![answer("200 OK", "", "{}")]).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let location = format!("location: {}/v1?signature=hunter3\r\n", other.address);
        let player = play(vec![answer(status, &location, "")]).await;
        let error = get(&player).await.unwrap_err();
        assert!(matches!(&error.why, Why::Redirected { to } if *to == format!("{}/v1", other.address)), "{error}");
        assert!(!error.to_string().contains("hunter"), "{error}");
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn what_the_server_says_is_repeated_shortened_and_made_printable() {
    let long = "x".repeat(5000);
    for (body, part) in [
        (r#"{"code":"DOCKER::X","message":"no image"}"#.to_owned(), "no image (DOCKER::X)"),
        (r#"{"detail":{"code":"A","message":"b"}}"#.to_owned(), "b (A)"),
        (r#"{"code":401,"message":"no key"}"#.to_owned(), "no key"),
        ("plain \u{1b}[31mred".to_owned(), "plain \\u{1b}"),
        (long, "xxx…"),
    ] {
        let player = play(vec![answer("400 Bad", "", &body)]).await;
        let error = get(&player).await.unwrap_err();
        assert_eq!(error.status(), Some(400));
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().len() < 1000 && !error.to_string().contains('\u{1b}'), "{error}");
    }
}

#[tokio::test]
async fn calls_that_change_nothing_are_made_again_when_the_server_is_busy() {
    let busy = answer("503 Busy", "retry-after: 0\r\n", "");
    let player = play(vec![busy.clone(), Play::Close, answer("200 OK", "", r#"{"a":1}"#)]).await;
    assert_eq!(get(&player).await.unwrap()["a"], 1);
    assert_eq!(player.connections(), 3);
    // Not for ever.
    let player = play(vec![busy.clone()]).await;
    assert_eq!(get(&player).await.unwrap_err().status(), Some(503));
    assert_eq!(player.connections(), 4);
    // Not after the deadline.
    let player = play(vec![answer("429 Slow", "retry-after: 30\r\n", "")]).await;
    let error = get(&player).await.unwrap_err();
    assert!(matches!(&error.why, Why::Answered { status: 429, retry_after: Some(wait), .. } if wait.as_secs() == 30));
    assert_eq!(player.connections(), 1);
    // Not where it does not help.
    for status in ["401 No", "404 No", "409 No", "500 No"] {
        let player = play(vec![answer(status, "", "")]).await;
        get(&player).await.unwrap_err();
        assert_eq!(player.connections(), 1, "{status}");
    }
}

#[tokio::test]
async fn calls_that_change_something_are_made_once() {
    for play_this in [answer("503 Busy", "retry-after: 0\r\n", ""), Play::Close] {
        let player = play(vec![play_this.clone()]).await;
        player.server().post("make", &["things"]).json(&serde_json::json!({})).send().await.unwrap_err();
        assert_eq!(player.connections(), 1);
        // The control: one that is the same when done twice is made again.
        let player = play(vec![play_this]).await;
        player.server().post("make", &["things"]).repeatable(true).send().await.unwrap_err();
        assert!(player.connections() > 1);
    }
}

#[tokio::test]
async fn a_body_that_can_be_read_once_is_sent_once() {
    let player = play(vec![answer("503 Busy", "retry-after: 0\r\n", "")]).await;
    let parts = futures_util::stream::iter([Ok::<_, std::io::Error>("a".into()), Ok("b".into())]);
    let call = player.server().post("send", &[]).repeatable(true).body("text/plain", Body::stream(parts, Some(2)));
    call.send().await.unwrap_err();
    assert_eq!(player.connections(), 1);
}

#[tokio::test]
async fn answers_that_are_too_slow_too_large_or_broken_are_errors() {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
    let short = |player: &Player| player.server().get("look", &[]).deadline(Duration::from_millis(300));
    for slow in
        [Play::Hang, Play::Drip(head.to_owned()), Play::Drip(format!("{head}\r\n[")), Play::Drip("HTTP/1".to_owned())]
    {
        let player = play(vec![slow]).await;
        let error = match short(&player).send().await {
            Ok(answer) => answer.bytes().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error.why, Why::TooSlow { .. } | Why::Broken { .. } | Why::Garbled { .. }), "{error:?}");
    }
    let announced = format!("{head}content-length: 4294967296\r\n\r\n");
    for large in [Play::Flood(format!("{head}\r\n")), Play::Flood(announced)] {
        let player = play(vec![large]).await;
        let error = get(&player).await.unwrap_err();
        assert!(matches!(error.why, Why::TooLarge { limit: 8_388_608 }), "{error:?}");
    }
    let player = play(vec![Play::Flood("HTTP/1.1 500 X\r\nconnection: close\r\n\r\n".to_owned())]).await;
    assert_eq!(get(&player).await.unwrap_err().status(), Some(500));
    for broken in
        ["", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}", "HTTP/1.1 999999 X\r\n\r\n"]
    {
        let player = play(vec![say(broken)]).await;
        let error = get(&player).await.unwrap_err();
        assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{broken:?}: {error:?}");
    }
    for garbled in ["", "{", "\u{0}", "[1]x"] {
        let player = play(vec![answer("200 OK", "", garbled)]).await;
        let error = get(&player).await.unwrap_err();
        assert!(matches!(error.why, Why::Garbled { .. }), "{garbled:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_with_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let server = Server::new("Test", Address::parse(&address, PlainHttp::LoopbackOnly).unwrap()).unwrap();
    let error = server.get("look", &[]).send().await.unwrap_err();
    assert!(matches!(error.why, Why::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&address), "{error}");
    assert!(error.hint().contains("start the server"));
}

#[tokio::test]
async fn keys_are_not_shown_and_do_not_go_elsewhere() {
    let player = play(vec![answer("200 OK", "", "{}")]).await;
    let server = player.server();
    assert!(!format!("{server} {server:?}").contains("hunter2"));
    let other = play(vec![answer("200 OK", "", "{}")]).await;
    let elsewhere = server.elsewhere(Address::parse(&other.address, PlainHttp::LoopbackOnly).unwrap()).unwrap();
    elsewhere.get("look", &[]).send().await.unwrap();
    assert!(!other.heard.lock().await[0].contains("hunter2"));
    let broken = server.clone().secret_header("x-api-key", &Secret::new("hunter2\r\nx: y".to_owned())).unwrap_err();
    assert!(matches!(broken.why, Why::Impossible { .. }) && !broken.to_string().contains("hunter2"), "{broken}");
}

#[tokio::test]
async fn a_server_that_repeats_a_key_is_not_quoted_with_it() {
    let halved = format!("{}hunter2", "x".repeat(497));
    for (status, head, body) in [
        ("401 No", "", r#"{"message":"the key hunter2 is unknown"}"#),
        ("401 No", "", &halved),
        ("302 Found", "location: http://127.0.0.1/hunter2/x\r\n", ""),
        ("200 OK", "", r#""hunter2""#),
    ] {
        let player = play(vec![answer(status, head, body)]).await;
        let error = match player.server().get("look", &[]).send().await {
            Ok(answer) => answer.json::<u32>().await.unwrap_err(),
            Err(error) => error,
        };
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(shown.contains('…') && !shown.contains("hun"), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_server_has_as_much_time_as_is_said() {
    let player = play(vec![Play::Hang]).await;
    let error = player.server().within(Duration::from_millis(50)).get("look", &[]).send().await.unwrap_err();
    assert_eq!(error.why, Why::TooSlow { waited: Duration::from_millis(50) });
}

/// Set by the test below for a copy of this program.
const TO: &str = "HOTCELL_TEST_PROXIED_TO";

#[tokio::test]
async fn a_proxy_does_not_get_to_read_plain_calls() {
    if let Ok(address) = std::env::var(TO) {
        let server = Server::new("Test", Address::parse(&address, PlainHttp::Allowed).unwrap()).unwrap();
        server.get("look", &[]).send().await.unwrap();
        return;
    }
    let proxy = play(vec![answer("200 OK", "", "{}")]).await;
    let player = play(vec![answer("200 OK", "", "{}")]).await;
    let name = "a_proxy_does_not_get_to_read_plain_calls";
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name]).env(TO, &player.address);
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(variable, &proxy.address);
    }
    assert!(child.output().await.unwrap().status.success());
    assert_eq!((player.connections(), proxy.connections()), (1, 0));
}
