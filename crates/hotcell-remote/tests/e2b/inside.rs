//! What is inside a sandbox: what is asked, and what is made of the answers.

use std::time::Duration;

use bytes::Bytes;
use hotcell_remote::e2b::{Cell, Command, Event, Flavour, Input, Output, Selector, Signal, SignedUrl, TerminalSize};
use hotcell_remote::http::Why;
use serde_json::json;

use crate::live::all;
use crate::player::{Play, Player, STREAM, answer, chunked, envelope, event, recorded};

fn stream(messages: &[Vec<u8>]) -> Play {
    Play::Say(chunked(STREAM, messages))
}

#[tokio::test]
async fn a_command_is_started_with_everything_that_was_said() {
    let player = Player::new([stream(&recorded())]).await;
    let envd = player.envd().await;
    let mut command = Command::new("/bin/sh", ["-c", "echo hi"]);
    command.env.insert("A".to_owned(), "1".to_owned());
    (command.cwd, command.tag) = (Some("/tmp".to_owned()), Some("t".to_owned()));
    command.terminal = Some(TerminalSize { cols: 80, rows: 24 });
    command.user = Some("root".to_owned());
    envd.start(&command).await.unwrap();
    let heard = &player.heard()[0];
    assert_eq!(heard.line(), "POST /process.Process/Start");
    for (name, value) in [
        ("content-type", STREAM),
        ("connect-protocol-version", "1"),
        ("keepalive-ping-interval", "1"),
        ("x-access-token", "hunter3"),
        ("e2b-sandbox-id", "i1"),
        ("e2b-sandbox-port", "49983"),
        ("authorization", "Basic cm9vdDo="),
    ] {
        assert_eq!(heard.header(name), Some(value), "{name}");
    }
    // The key is the control plane's; a deadline would end the command.
    assert_eq!((heard.header("x-api-key"), heard.header("connect-timeout-ms")), (None, None));
    let (head, body) = heard.body.split_at(5);
    assert_eq!(head, [&[0][..], &(body.len() as u32).to_be_bytes()].concat());
    let expected = json!({
        "process": { "cmd": "/bin/sh", "args": ["-c", "echo hi"], "envs": { "A": "1" }, "cwd": "/tmp" },
        "pty": { "size": { "cols": 80, "rows": 24 } }, "tag": "t", "stdin": false,
    });
    assert_eq!(serde_json::from_slice::<serde_json::Value>(body).unwrap(), expected);
}

#[tokio::test]
async fn a_command_says_what_it_said_and_how_it_ended() {
    let player = Player::new([stream(&recorded())]).await;
    let mut running = player.envd().await.start(&Command::new("x", [""; 0])).await.unwrap();
    assert_eq!(running.pid(), 1234);
    assert_eq!(running.next().await.unwrap(), Some(Event::Stdout("hi\n".into())));
    assert_eq!(running.next().await.unwrap(), Some(Event::Stderr("no\n".into())));
    let Some(Event::End(end)) = running.next().await.unwrap() else { panic!() };
    assert_eq!((end.exit_code, end.signal, end.exited), (3, None, true));
    assert_eq!((running.next().await.unwrap(), running.next().await.unwrap()), (None, None));
}

#[tokio::test]
async fn commands_one_after_another_need_one_connection() {
    let player = Player::new([stream(&recorded())]).await;
    let envd = player.envd().await;
    for _ in 0..5 {
        let mut running = envd.start(&Command::new("x", [""; 0])).await.unwrap();
        assert_eq!(all(&mut running).await.unwrap().2.exit_code, 3);
    }
    assert_eq!((player.connections(), player.heard().len()), (1, 5));
}

#[tokio::test]
async fn the_user_is_named_where_the_sandbox_does_not_know_one() {
    for (flavour, version, user) in [
        (Flavour::E2b, "0.3.9", Some("Basic dXNlcjo=")),
        (Flavour::E2b, "0.4.0", None),
        (Flavour::Cube, "0.6.4", Some("Basic cm9vdDo=")),
    ] {
        let player = Player::new([answer("200 OK", "", "{}")]).await;
        let (client, sandbox) = player.sandbox(flavour, version).await;
        client.envd(&sandbox).unwrap().processes().await.unwrap();
        assert_eq!(player.heard()[0].header("authorization"), user, "{flavour:?} {version}");
    }
    let player = Player::new([answer("200 OK", "", "{}")]).await;
    let error = player.envd().await.as_user("a:b").processes().await.unwrap_err();
    assert!(matches!(error.why, Why::Impossible { .. }), "{error}");
}

#[tokio::test]
async fn what_an_older_envd_cannot_do_is_not_asked_of_it() {
    let player = Player::new([answer("200 OK", "", "{}")]).await;
    let unsupported =
        |why: Why| assert!(matches!(&why, Why::Unsupported { what } if what.contains("and newer can")), "{why}");
    let which = Selector::Pid(1);
    let (client, sandbox) = player.sandbox(Flavour::E2b, "0.5.1").await;
    unsupported(client.envd(&sandbox).unwrap().close_stdin(&which).await.unwrap_err().why);
    let (client, sandbox) = player.sandbox(Flavour::E2b, "0.2.9").await;
    let command = Command::new("x", [""; 0]);
    unsupported(client.envd(&sandbox).unwrap().start(&command).await.unwrap_err().why);
    let (client, sandbox) = player.sandbox(Flavour::E2b, "").await;
    let envd = client.envd(&sandbox).unwrap();
    unsupported(envd.resources().await.unwrap_err().why);
    unsupported(envd.watch("/", true).await.unwrap_err().why);
    assert_eq!(player.connections(), 0);
    let (client, sandbox) = player.sandbox(Flavour::E2b, "0.5.2").await;
    client.envd(&sandbox).unwrap().close_stdin(&which).await.unwrap();
}

#[tokio::test]
async fn a_command_is_told_what_its_calls_say() {
    let player = Player::new([answer("200 OK", "", "{}")]).await;
    let envd = player.envd().await;
    let which = Selector::Tag("t".to_owned());
    envd.send_input(&which, Input::Stdin, b"hi").await.unwrap();
    envd.send_input(&which, Input::Terminal, b"\x04").await.unwrap();
    envd.close_stdin(&which).await.unwrap();
    envd.signal(&Selector::Pid(7), Signal::Kill).await.unwrap();
    envd.signal(&which, Signal::Term).await.unwrap();
    envd.resize(&which, TerminalSize { cols: 1, rows: 2 }).await.unwrap();
    let heard = player.heard();
    let asked: Vec<_> =
        heard.iter().map(|heard| (heard.line().replace("POST /process.Process/", ""), heard.json())).collect();
    let tag = json!({ "tag": "t" });
    let expected = [
        ("SendInput", json!({ "process": tag, "input": { "stdin": "aGk=" } })),
        ("SendInput", json!({ "process": tag, "input": { "pty": "BA==" } })),
        ("CloseStdin", json!({ "process": tag })),
        ("SendSignal", json!({ "process": { "pid": 7 }, "signal": "SIGNAL_SIGKILL" })),
        ("SendSignal", json!({ "process": tag, "signal": "SIGNAL_SIGTERM" })),
        ("Update", json!({ "process": tag, "pty": { "size": { "cols": 1, "rows": 2 } } })),
    ];
    for (asked, (name, body)) in asked.iter().zip(&expected) {
        assert_eq!((asked.0.as_str(), &asked.1), (*name, body));
    }
}

#[tokio::test]
async fn long_input_goes_in_pieces_and_streamed_input_in_one_call() {
    let player = Player::new([answer("200 OK", "", "{}")]).await;
    player.envd().await.send_input(&Selector::Pid(7), Input::Stdin, &[b'x'; 600 << 10]).await.unwrap();
    assert_eq!(player.heard().len(), 3);
    let player = Player::new([stream(&[envelope(0, "{}"), envelope(2, "{}")])]).await;
    let pieces = futures_util::stream::iter([Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    player.envd().await.stream_input(&Selector::Pid(7), Input::Stdin, pieces).await.unwrap();
    let sent = [
        envelope(0, r#"{"start":{"process":{"pid":7}}}"#),
        envelope(0, r#"{"data":{"input":{"stdin":"YQ=="}}}"#),
        envelope(0, r#"{"data":{"input":{"stdin":"Yg=="}}}"#),
    ];
    assert_eq!(player.heard()[0].body, sent.concat());
    // Input that is refused, by the last word of the stream or by an answer.
    for refusal in [
        stream(&[envelope(2, r#"{"error":{"code":"not_found","message":"no process"}}"#)]),
        answer("404 Not Found", "", r#"{"code":"not_found","message":"no process"}"#),
    ] {
        let player = Player::new([refusal]).await;
        let pieces = futures_util::stream::iter([Bytes::from_static(b"a")]);
        let error = player.envd().await.stream_input(&Selector::Pid(7), Input::Stdin, pieces).await.unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains("no process (not_found)"), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_the_same_in_a_stream_and_in_an_answer() {
    let refusals = [
        stream(&[envelope(2, r#"{"error":{"code":"invalid_argument","message":"cwd '/x' does not exist"}}"#)]),
        answer("400 Bad Request", "", r#"{"code":"invalid_argument","message":"cwd '/x' does not exist"}"#),
    ];
    for refusal in refusals {
        let player = Player::new([refusal]).await;
        let error = player.envd().await.start(&Command::new("x", [""; 0])).await.unwrap_err();
        assert_eq!(error.status(), Some(400));
        assert!(error.to_string().contains("cwd '/x' does not exist"), "{error}");
    }
    // After it started.
    let messages = [event(r#"{"start":{"pid":1}}"#), envelope(2, r#"{"error":{"code":"unavailable"}}"#)];
    let player = Player::new([stream(&messages)]).await;
    let mut running = player.envd().await.start(&Command::new("x", [""; 0])).await.unwrap();
    let error = running.next().await.unwrap_err();
    assert_eq!(error.status(), Some(503));
    assert_eq!(running.next().await.unwrap_err(), error);
}

#[tokio::test]
async fn a_command_that_may_have_started_is_not_started_again() {
    for play in [answer("503 Busy", "retry-after: 0\r\n", ""), Play::Cut(Vec::new())] {
        let player = Player::new([play]).await;
        player.envd().await.start(&Command::new("x", [""; 0])).await.unwrap_err();
        assert_eq!(player.heard().len(), 1);
    }
}

#[tokio::test]
async fn a_file_goes_up_as_it_is_or_in_a_form() {
    let written = || answer("200 OK", "", r#"[{"name":"f","type":"file","path":"/d/f"}]"#);
    let player = Player::new([written()]).await;
    player.envd().await.as_user("me").write("/d/a b&c", "content").await.unwrap();
    let heard = &player.heard()[0];
    assert_eq!(heard.line(), "POST /files?path=%2Fd%2Fa+b%26c&username=me");
    assert_eq!((heard.header("content-type"), &heard.body[..]), (Some("application/octet-stream"), &b"content"[..]));
    assert_eq!(heard.header("content-length"), Some("7"));
    let player = Player::new([written()]).await;
    let (client, sandbox) = player.sandbox(Flavour::E2b, "0.5.6").await;
    client.envd(&sandbox).unwrap().write("/d/f", "content").await.unwrap();
    let heard = &player.heard()[0];
    let boundary = heard.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let body = String::from_utf8(heard.body.clone()).unwrap();
    let head = format!("--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\n");
    assert!(body.starts_with(&head) && body.ends_with(&format!("\r\n\r\ncontent\r\n--{boundary}--\r\n")), "{body}");
    // A server that does not say that it was written.
    for bad in ["[]", r#"[{"path":"a"},{"path":"b"}]"#, "{}", ""] {
        let player = Player::new([answer("200 OK", "", bad)]).await;
        let error = player.envd().await.write("/d/f", "content").await.unwrap_err();
        assert!(matches!(error.why, Why::Garbled { .. }), "{bad}: {error}");
    }
}

#[tokio::test]
async fn a_full_disk_is_said_so() {
    let player =
        Player::new([answer("507 Insufficient Storage", "", r#"{"code":507,"message":"not enough disk space"}"#)])
            .await;
    let error = player.envd().await.write("/f", "x").await.unwrap_err();
    assert_eq!(error.status(), Some(507));
}

#[tokio::test]
async fn addresses_are_signed_as_the_server_checks_them() {
    let player = Player::new([answer("200 OK", "", "")]).await;
    let envd = player.envd().await;
    let url = envd.signed_url(SignedUrl::Read, "/d/f", None).unwrap();
    assert!(
        url.expose().ends_with("/files?path=%2Fd%2Ff&signature=v1_6p%2B71EeqPefOmMvBdTOiBtgsFXqLITE7bhH8xGrbDzg"),
        "{}",
        url.expose()
    );
    let then = std::time::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let url = envd.as_user("me").signed_url(SignedUrl::Write, "/d/f", Some(then)).unwrap();
    let end = "/files?path=%2Fd%2Ff&username=me&signature=v1_JTXFUiYn0e4p4UTaokWZds98abuTL4XIGj429pOVw3Y&signature_expiration=1800000000";
    assert!(url.expose().ends_with(end), "{}", url.expose());
    assert_eq!(format!("{url:?}"), "[secret]");
}

#[tokio::test]
async fn whether_a_sandbox_runs_is_told_by_its_proxy() {
    for (play, runs) in [
        (answer("204 No Content", "", ""), Some(true)),
        (answer("502 Bad Gateway", "", r#"{"message":"The sandbox was not found"}"#), Some(false)),
        (answer("401 Unauthorized", "", ""), None),
    ] {
        let player = Player::new([play]).await;
        assert_eq!(player.envd().await.is_running().await.ok(), runs);
        assert_eq!(player.heard().len(), 1);
    }
    let player =
        Player::new([answer("502 Bad Gateway", "", ""), Play::Cut(Vec::new()), answer("204 No", "", "")]).await;
    player.envd().await.wait_until_running(Duration::from_secs(30)).await.unwrap();
    assert_eq!(player.heard().len(), 3);
    let player = Player::new([answer("502 Bad Gateway", "", "")]).await;
    let error = player.envd().await.wait_until_running(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
    let player = Player::new([answer("401 Unauthorized", "", "")]).await;
    let error = player.envd().await.wait_until_running(Duration::from_secs(30)).await.unwrap_err();
    assert_eq!((error.status(), player.heard().len()), (Some(401), 1));
}

#[tokio::test]
async fn code_says_what_it_said_and_results_in() {
    let lines = [
        r#"{"type":"number_of_executions","execution_count":1}"#,
        r#"{"type":"stdout","text":"hi\n","timestamp":"2026-01-01T00:00:00"}"#,
        r#"{"type":"result","text":"2","is_main_result":true}"#,
        r#"{"type":"error","name":"E","value":"v","traceback":"t"}"#,
        r#"{"type": "end_of_execution"}"#,
    ];
    let pieces: Vec<Vec<u8>> = lines.iter().map(|line| format!("{line}\n").into_bytes()).collect();
    let player = Player::new([Play::Say(chunked("application/json", &pieces))]).await;
    let interpreter = player.interpreter().await;
    for _ in 0..2 {
        let mut cell = Cell::new("1 + 1");
        cell.language = Some("python".to_owned());
        let mut execution = interpreter.execute(&cell).await.unwrap();
        assert_eq!(execution.next().await.unwrap(), Some(Output::Count(1)));
        assert_eq!(execution.next().await.unwrap(), Some(Output::Stdout("hi\n".to_owned())));
        let Some(Output::Result(rich)) = execution.next().await.unwrap() else { panic!() };
        assert_eq!((rich.is_main, &rich.forms["text/plain"]), (true, &json!("2")));
        assert!(matches!(execution.next().await.unwrap(), Some(Output::Error { name, .. }) if name == "E"));
        assert_eq!((execution.next().await.unwrap(), execution.next().await.unwrap()), (None, None));
    }
    assert_eq!(player.connections(), 1);
    let heard = &player.heard()[0];
    assert_eq!((heard.line(), heard.header("e2b-sandbox-port")), ("POST /execute", Some("49999")));
    assert_eq!(heard.header("x-access-token"), Some("hunter3"));
    let expected = json!({ "code": "1 + 1", "context_id": null, "language": "python", "env_vars": null });
    assert_eq!(heard.json(), expected);
}
