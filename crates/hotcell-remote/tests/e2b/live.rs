//! The same against a real server: the one that `HOTCELL_TEST_E2B_URL` names, with the key `HOTCELL_TEST_E2B_KEY`.
//! `HOTCELL_TEST_E2B_SANDBOX_URL` is where its sandboxes are reached, if that is elsewhere; `HOTCELL_TEST_E2B_TEMPLATE` what
//! they are made of, if not `base`.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use hotcell_core::secret::Secret;
use hotcell_remote::e2b::{
    Cell, Client, Command, Data, End, Envd, Event, Filter, Input, NewSandbox, Options, Output, Running, Sandbox,
    Selector, Signal, State, TerminalSize,
};
use hotcell_remote::http::{Address, CallError, PlainHttp, Why};

/// A real sandbox, removed at the end of the test.
pub(crate) struct Real {
    pub(crate) client: Client,
    pub(crate) sandbox: Sandbox,
}

pub(crate) fn client(test: &str) -> Option<Client> {
    let Ok(url) = std::env::var("HOTCELL_TEST_E2B_URL") else {
        skip(test, "HOTCELL_TEST_E2B_URL names no server");
        return None;
    };
    let address = |url: &str| Address::parse(url, PlainHttp::LoopbackOnly).unwrap();
    let inside = std::env::var("HOTCELL_TEST_E2B_SANDBOX_URL").unwrap_or_else(|_| url.clone());
    let mut options = Options::new(address(&url), Data::Url(address(&inside)));
    options.api_key = std::env::var("HOTCELL_TEST_E2B_KEY").ok().map(Secret::new);
    // The least, so that signs of life are seen.
    options.keepalive = Duration::from_secs(1);
    Some(Client::new(options).unwrap())
}

pub(crate) fn skip(test: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        // One write, so that tests that run at the same time do not mix their lines.
        log.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
    }
}

fn template() -> String {
    std::env::var("HOTCELL_TEST_E2B_TEMPLATE").unwrap_or_else(|_| "base".to_owned())
}

impl Real {
    pub(crate) async fn new(test: &str) -> Option<Self> {
        let client = client(test)?;
        let mut new = NewSandbox::new(template(), Duration::from_secs(120));
        new.metadata.insert("hotcell.test".to_owned(), test.to_owned());
        let sandbox = client.create(&new).await.unwrap();
        client.envd(&sandbox).unwrap().wait_until_running(Duration::from_secs(60)).await.unwrap();
        Some(Self { client, sandbox })
    }

    pub(crate) fn envd(&self) -> Envd {
        self.client.envd(&self.sandbox).unwrap()
    }

    pub(crate) async fn end(self) {
        self.client.delete(self.sandbox.id()).await.unwrap();
    }
}

pub(crate) fn sh(script: &str) -> Command {
    Command::new("/bin/sh", ["-c", script])
}

/// Everything that a command says, each stream by itself, and how it ended.
pub(crate) async fn all(running: &mut Running) -> Result<(Vec<u8>, Vec<u8>, End), CallError> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match running.next().await? {
            Some(Event::Stdout(bytes) | Event::Terminal(bytes)) => out.extend_from_slice(&bytes),
            Some(Event::Stderr(bytes)) => err.extend_from_slice(&bytes),
            Some(Event::End(end)) => {
                assert_eq!(running.next().await?, None);
                return Ok((out, err, end));
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn run(envd: &Envd, command: &Command) -> (String, String, End) {
    let (out, err, end) = all(&mut envd.start(command).await.unwrap()).await.unwrap();
    (String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned(), end)
}

#[tokio::test]
async fn streams_and_exit_codes() {
    let Some(real) = Real::new("e2b::streams_and_exit_codes").await else { return };
    let envd = real.envd();
    let (out, err, end) = run(&envd, &sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!((out.as_str(), err.as_str(), end.exit_code, end.signal), ("out\n", "err\n", 3, None));
    let (out, err, end) = run(&envd, &sh("true")).await;
    assert_eq!((out.as_str(), err.as_str(), end.exit_code, end.exited), ("", "", 0, true));
    real.end().await;
}

#[tokio::test]
async fn an_argument_is_an_argument_and_the_environment_arrives() {
    let Some(real) = Real::new("e2b::an_argument_is_an_argument_and_the_environment_arrives").await else { return };
    let envd = real.envd();
    let odd = "a b'\"$(id)`id`;|&\n*ä\t";
    let mut command = Command::new("/bin/sh", ["-c", "printf %s \"$1|$ODD|$PWD\"", "sh", odd]);
    command.env = BTreeMap::from([("ODD".to_owned(), odd.to_owned())]);
    command.cwd = Some("/tmp".to_owned());
    assert_eq!(run(&envd, &command).await.0, format!("{odd}|{odd}|/tmp"));
    command.cwd = Some("/does/not/exist".to_owned());
    assert_eq!(envd.start(&command).await.unwrap_err().status(), Some(400));
    real.end().await;
}

#[tokio::test]
async fn a_signal_is_told_from_an_exit_code() {
    let Some(real) = Real::new("e2b::a_signal_is_told_from_an_exit_code").await else { return };
    let envd = real.envd();
    // None that whoever started the server may have told it to ignore: those stay ignored in all that it starts.
    for signal in [6, 9, 11, 13, 14, 15, 31] {
        let (_, _, end) = run(&envd, &sh(&format!("kill -{signal} $$; sleep 60"))).await;
        assert_eq!((end.signal, end.exited), (Some(signal), false), "{end:?}");
        assert_ne!(end.exit_code, 0);
    }
    let (_, _, end) = run(&envd, &sh("exit 137")).await;
    assert_eq!((end.signal, end.exit_code, end.exited), (None, 137, true));
    real.end().await;
}

#[tokio::test]
async fn every_byte_arrives_and_in_order() {
    let Some(real) = Real::new("e2b::every_byte_arrives_and_in_order").await else { return };
    let envd = real.envd();
    let count = 300_000;
    let (out, err, end) = run(&envd, &sh(&format!("seq {count}"))).await;
    assert_eq!((err.as_str(), end.exit_code), ("", 0));
    assert!(out.lines().eq((1..=count).map(|number| number.to_string())));
    let script = r"i=0; while [ $i -lt 256 ]; do printf \\$(printf %03o $i); i=$((i+1)); done";
    let (out, _, _) = all(&mut envd.start(&sh(script)).await.unwrap()).await.unwrap();
    assert_eq!(out, (0..=255).collect::<Vec<u8>>());
    real.end().await;
}

#[tokio::test]
async fn standard_input_is_written_and_closed() {
    let Some(real) = Real::new("e2b::standard_input_is_written_and_closed").await else { return };
    let envd = real.envd();
    // None unless it was asked for.
    assert_eq!(run(&envd, &sh("cat; echo $?")).await.0, "0\n");
    let mut command = sh("cat");
    command.stdin = true;
    let mut running = envd.start(&command).await.unwrap();
    let which = Selector::Pid(running.pid());
    let long: Vec<u8> = (0..700_000_u32).map(|number| number as u8).collect();
    let write = async {
        envd.send_input(&which, Input::Stdin, b"first\n").await.unwrap();
        envd.send_input(&which, Input::Stdin, &long).await.unwrap();
        let pieces = [Bytes::from_static(b"streamed "), Bytes::new(), Bytes::from_static(b"input")];
        envd.stream_input(&which, Input::Stdin, futures_util::stream::iter(pieces)).await.unwrap();
        envd.close_stdin(&which).await.unwrap();
    };
    let ((), read) = tokio::join!(write, all(&mut running));
    let (out, _, end) = read.unwrap();
    assert_eq!(end.exit_code, 0);
    assert!(out == [b"first\n", &long[..], b"streamed input"].concat(), "{} bytes", out.len());
    real.end().await;
}

#[tokio::test]
async fn a_terminal_has_a_size_and_takes_input() {
    let Some(real) = Real::new("e2b::a_terminal_has_a_size_and_takes_input").await else { return };
    let envd = real.envd();
    let mut command = sh("stty size; read line; stty size; echo \"[$line]\"; test -t 0 && exit 7");
    command.terminal = Some(TerminalSize { cols: 91, rows: 17 });
    let mut running = envd.start(&command).await.unwrap();
    let which = Selector::Pid(running.pid());
    let mut out = Vec::new();
    while !String::from_utf8_lossy(&out).contains("17 91") {
        match running.next().await.unwrap() {
            Some(Event::Terminal(bytes)) => out.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    envd.resize(&which, TerminalSize { cols: 40, rows: 5 }).await.unwrap();
    envd.send_input(&which, Input::Terminal, b"typed\n").await.unwrap();
    let (rest, _, end) = all(&mut running).await.unwrap();
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(rest.contains("5 40") && rest.contains("[typed]"), "{rest}");
    assert_eq!(end.exit_code, 7);
    real.end().await;
}

#[tokio::test]
async fn commands_are_found_followed_and_ended() {
    let Some(real) = Real::new("e2b::commands_are_found_followed_and_ended").await else { return };
    let envd = real.envd();
    let mut command = sh("echo ready; exec sleep 600");
    command.tag = Some("sleeper".to_owned());
    let mut running = envd.start(&command).await.unwrap();
    assert_eq!(running.next().await.unwrap(), Some(Event::Stdout("ready\n".into())));
    let found = envd.processes().await.unwrap();
    assert!(found.iter().any(|process| process.pid == running.pid() && process.tag.as_deref() == Some("sleeper")));
    let mut also = envd.connect(&Selector::Tag("sleeper".to_owned())).await.unwrap();
    assert_eq!(also.pid(), running.pid());
    envd.signal(&Selector::Pid(running.pid()), Signal::Term).await.unwrap();
    for running in [&mut running, &mut also] {
        let (_, _, end) = all(running).await.unwrap();
        assert_eq!(end.signal, Some(15), "{end:?}");
    }
    let nobody = Selector::Tag("nobody".to_owned());
    assert!(envd.signal(&nobody, Signal::Kill).await.unwrap_err().is_not_found());
    assert!(envd.connect(&nobody).await.unwrap_err().is_not_found());
    real.end().await;
}

#[tokio::test]
async fn a_command_goes_on_when_nobody_follows_it() {
    let Some(real) = Real::new("e2b::a_command_goes_on_when_nobody_follows_it").await else { return };
    let envd = real.envd();
    let mut command = sh("read line; echo \"[$line]\"; exit 4");
    command.stdin = true;
    let running = envd.start(&command).await.unwrap();
    let which = Selector::Pid(running.pid());
    drop(running);
    let mut again = envd.connect(&which).await.unwrap();
    envd.send_input(&which, Input::Stdin, b"still here\n").await.unwrap();
    let (out, _, end) = all(&mut again).await.unwrap();
    assert_eq!((&out[..], end.exit_code), (&b"[still here]\n"[..], 4));
    real.end().await;
}

#[tokio::test]
async fn silence_is_not_death() {
    let Some(real) = Real::new("e2b::silence_is_not_death").await else { return };
    let envd = real.envd();
    // With signs of life; and without, because nothing can be said any more.
    let (open, closed) = (sh("sleep 5; exit 3"), sh("exec >&- 2>&-; sleep 5; exit 3"));
    let (open, closed) = tokio::join!(run(&envd, &open), run(&envd, &closed));
    assert_eq!((open.2.exit_code, closed.2.exit_code), (3, 3));
    real.end().await;
}

#[tokio::test]
async fn a_command_that_is_not_there_fails() {
    let Some(real) = Real::new("e2b::a_command_that_is_not_there_fails").await else { return };
    match real.envd().start(&Command::new("/does/not/exist", [""; 0])).await {
        Err(error) => assert_eq!(error.status(), Some(400), "{error}"),
        Ok(mut running) => assert!([126, 127].contains(&all(&mut running).await.unwrap().2.exit_code)),
    }
    real.end().await;
}

#[tokio::test]
async fn sandboxes_are_found_prolonged_and_removed() {
    let test = "e2b::sandboxes_are_found_prolonged_and_removed";
    let Some(real) = Real::new(test).await else { return };
    let (client, id) = (real.client.clone(), real.sandbox.id().clone());
    client.health().await.unwrap();
    let details = client.get(&id).await.unwrap();
    assert_eq!((&details.id, &details.state), (&id, &State::Running));
    assert_eq!(details.metadata.get("hotcell.test").map(String::as_str), Some(test));
    let mut filter = Filter::new(1000);
    filter.metadata.insert("hotcell.test".to_owned(), test.to_owned());
    assert!(client.list(&filter).await.unwrap().iter().any(|listed| listed.id == id));
    filter.metadata.insert("hotcell.test".to_owned(), "somebody else's & = ä".to_owned());
    assert_eq!(client.list(&filter).await.unwrap(), []);
    client.set_timeout(&id, Duration::from_secs(200)).await.unwrap();
    let again = client.connect(&id, Duration::from_secs(300)).await.unwrap();
    assert_eq!(run(&client.envd(&again).unwrap(), &sh("echo again")).await.0, "again\n");
    client.delete(&id).await.unwrap();
    client.delete(&id).await.unwrap();
    assert!(client.get(&id).await.unwrap_err().is_not_found());
    assert!(client.connect(&id, Duration::from_secs(60)).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_wrong_key_is_said_so() {
    let test = "e2b::a_wrong_key_is_said_so";
    let Some(right) = client(test) else { return };
    let mut options = Options::new(right.address().clone(), Data::Url(right.address().clone()));
    options.api_key = Some(Secret::new("wrong".to_owned()));
    let error = Client::new(options).unwrap().list(&Filter::new(1)).await.unwrap_err();
    assert!(matches!(error.why, Why::Answered { status: 401 | 403, .. }), "{error}");
    assert!(error.hint().contains("sandbox_api_key"));
}

#[tokio::test]
async fn code_is_run_and_remembered() {
    let test = "e2b::code_is_run_and_remembered";
    let Some(real) = Real::new(test).await else { return };
    let interpreter = real.client.interpreter(&real.sandbox).unwrap();
    if interpreter.health().await.is_err() {
        skip(test, "the template has no code interpreter");
        return real.end().await;
    }
    let context = interpreter.create_context(Some("python"), Some("/tmp")).await.unwrap();
    let cell = |code: &str| {
        let mut cell = Cell::new(code);
        cell.context = Some(context.id.clone());
        cell
    };
    let outputs = async |cell: &Cell| {
        let mut execution = interpreter.execute(cell).await.unwrap();
        let mut outputs = Vec::new();
        while let Some(output) = execution.next().await.unwrap() {
            outputs.push(output);
        }
        outputs
    };
    outputs(&cell("x = 20")).await;
    let said = outputs(&cell("print('hi')\nx + 1")).await;
    assert!(said.iter().any(|output| matches!(output, Output::Stdout(text) if text.trim() == "hi")), "{said:?}");
    let main =
        |output: &Output| matches!(output, Output::Result(rich) if rich.is_main && rich.forms["text/plain"] == "21");
    assert!(said.iter().any(main), "{said:?}");
    let said = outputs(&cell("1/0")).await;
    assert!(said.iter().any(|output| matches!(output, Output::Error { name, .. } if name == "ZeroDivisionError")));
    assert!(interpreter.contexts().await.unwrap().iter().any(|listed| listed.id == context.id));
    interpreter.restart_context(&context.id).await.unwrap();
    let said = outputs(&cell("x")).await;
    assert!(said.iter().any(|output| matches!(output, Output::Error { name, .. } if name == "NameError")), "{said:?}");
    interpreter.delete_context(&context.id).await.unwrap();
    interpreter.delete_context(&context.id).await.unwrap();
    real.end().await;
}
