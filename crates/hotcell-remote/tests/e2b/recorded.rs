//! What servers said to the official SDKs, played back: the client asks what the SDK asked, in the same words, and
//! understands the same answers, however they are cut.

use std::time::Duration;

use hotcell_core::secret::Secret;
use hotcell_remote::e2b::{
    Cell, Client, Command, End, EntryKind, Envd, Event, Execution, Filter, Flavour, Input, NewSandbox, Output, Sandbox,
    SandboxId, Selector, Signal, State, TerminalSize,
};
use hotcell_remote::http::{CallError, Why};
use serde_json::json;

use crate::live::all;
use crate::player::{Play, Player, STREAM, chunked};
use crate::recording::Recording;

/// The `envd` that was recorded.
async fn envd(player: &Player) -> Envd {
    let (client, sandbox) = player.sandbox(Flavour::E2b, "0.6.13").await;
    client.envd(&sandbox).unwrap()
}

/// Plays a recording, makes a call of envd's, and checks that it is the SDK's.
macro_rules! envd_call {
    ($name:literal, |$envd:ident| $call:expr) => {{
        let recording = Recording::read(concat!("e2b-envd/", $name));
        let player = recording.play().await;
        let $envd = envd(&player).await;
        let answer = $call.await;
        recording.asked(&player.heard()[0]);
        answer
    }};
}

/// A line for the shell, as the SDK has it run.
fn line(line: &str) -> Command {
    Command::new("/bin/bash", ["-l", "-c", line])
}

fn terminal() -> Command {
    let mut terminal = Command::new("/bin/bash", ["-i", "-l"]);
    terminal.env = [("TERM", "xterm-256color"), ("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    terminal.terminal = Some(TerminalSize { cols: 100, rows: 30 });
    terminal
}

/// How a recorded command ended.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Exit {
    Code(i32),
    Signal(i32),
}

fn exit(end: &End) -> Exit {
    match end.signal {
        None if end.exited => Exit::Code(end.exit_code),
        Some(signal) if !end.exited && end.exit_code == -1 => Exit::Signal(signal),
        _ => panic!("{end:?}"),
    }
}

/// A recording, the command in it, its process id, what it says on both streams, and its end.
type Ran = (&'static str, Command, u32, &'static [u8], &'static [u8], Exit);

fn commands() -> Vec<Ran> {
    let mut placed = line("echo $A; pwd");
    placed.cwd = Some("/usr".to_owned());
    placed.env.insert("A".to_owned(), "1".to_owned());
    let mut reading = line("cat; echo end");
    reading.stdin = true;
    let on_terminal =
        b"stty size; exit 4\r\n\x1b[?2004huser@vm:~$ stty size; exit 4\r\n\x1b[?2004l\r11 22\r\nlogout\r\n";
    vec![
        (
            "e2b-envd/002-post-process.Process-Start",
            line("echo out; echo err >&2"),
            9,
            b"out\n",
            b"err\n",
            Exit::Code(0),
        ),
        ("e2b-envd/003-post-process.Process-Start", line("echo before; exit 3"), 11, b"before\n", b"", Exit::Code(3)),
        (
            "e2b-envd/004-post-process.Process-Start",
            line(r"printf '\377\376\000 bytes'"),
            14,
            b"\xff\xfe\0 bytes",
            b"",
            Exit::Code(0),
        ),
        ("e2b-envd/005-post-process.Process-Start", placed, 16, b"1\n/usr\n", b"", Exit::Code(0)),
        ("e2b-envd/008-post-process.Process-Start", reading, 20, b"some inputend\n", b"", Exit::Code(0)),
        ("e2b-envd/011-post-process.Process-Start", line("sleep 600"), 23, b"", b"", Exit::Signal(9)),
        ("e2b-envd/018-post-process.Process-Start", terminal(), 25, on_terminal, b"", Exit::Code(4)),
        (
            "e2b-envd/029-post-process.Process-Start",
            line("ln -s a.txt /home/user/dir/link"),
            28,
            b"",
            b"",
            Exit::Code(0),
        ),
    ]
}

#[tokio::test]
async fn commands_are_run_as_the_sdk_runs_them() {
    for (name, command, pid, out, err, end) in commands() {
        let recording = Recording::read(name);
        let player = recording.play().await;
        let mut running = envd(&player).await.start(&command).await.unwrap();
        assert_eq!(running.pid(), pid, "{name}");
        let heard = all(&mut running).await.unwrap();
        recording.asked(&player.heard()[0]);
        assert_eq!((&heard.0[..], &heard.1[..], exit(&heard.2)), (out, err, end), "{name}");
    }
}

#[tokio::test]
async fn what_is_said_on_a_terminal_is_no_standard_output() {
    let terminal = terminal();
    let mut running = envd_call!("018-post-process.Process-Start", |envd| envd.start(&terminal)).unwrap();
    let first = running.next().await.unwrap();
    assert_eq!(first, Some(Event::Terminal("stty size; exit 4\r\n".into())));
}

/// What happens when a recorded stream is cut at every byte: where the connection breaks off, and where somebody in between
/// ends the answer in good order. With each goes whether nothing of the stream is missing.
fn cuts(recording: &Recording, content: &str) -> Vec<(Play, bool)> {
    let (whole, body) = (&recording.answer, recording.body());
    // The message that ends the stream is whole before the chunk that it is in, and the one that ends all.
    let ended = whole.len() - b"\r\n0\r\n\r\n".len();
    let broken = (0..=whole.len()).map(|cut| (Play::Cut(whole[..cut].to_vec()), cut >= ended));
    let in_order =
        (1..=body.len()).map(|cut| (Play::Say(chunked(content, &[body[..cut].to_vec()])), cut == body.len()));
    in_order.chain(broken).collect()
}

#[tokio::test]
async fn a_recorded_stream_cut_at_any_byte_is_an_error_until_it_has_ended() {
    for (name, command, _, out, err, end) in commands() {
        let cuts = cuts(&Recording::read(name), STREAM);
        let player = Player::new(cuts.iter().map(|(play, _)| play.clone())).await;
        let envd = envd(&player).await;
        for (at, (_, whole)) in cuts.iter().enumerate() {
            let heard = match envd.start(&command).await {
                Ok(mut running) => all(&mut running).await,
                Err(error) => Err(error),
            };
            assert_eq!(heard.is_ok(), *whole, "{name}: cut {at} of {}: {heard:?}", cuts.len());
            match heard {
                Ok(heard) => assert_eq!((&heard.0[..], &heard.1[..], exit(&heard.2)), (out, err, end), "{name}: {at}"),
                Err(error) => {
                    assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{name}: {at}: {error}");
                }
            }
        }
        assert_eq!(player.heard().len(), cuts.len(), "{name}");
    }
}

#[tokio::test]
async fn commands_that_fail_to_run_are_told() {
    let mut nowhere = line("true");
    nowhere.cwd = Some("/no-such-directory".to_owned());
    let error = envd_call!("006-post-process.Process-Start", |envd| envd.start(&nowhere)).unwrap_err();
    assert!(error.to_string().contains("cwd '/no-such-directory' does not exist"), "{error}");

    let command = line("sleep 600");
    let mut running = envd_call!("007-post-process.Process-Start", |envd| envd.start(&command)).unwrap();
    let error = running.next().await.unwrap_err();
    assert!(error.to_string().contains("context deadline exceeded"), "{error}");
    assert_eq!(running.next().await.unwrap_err().to_string(), error.to_string());

    let mut strange = line("true");
    strange.user = Some("nobodyknows".to_owned());
    let error = envd_call!("037-post-process.Process-Start", |envd| envd.start(&strange)).unwrap_err();
    assert!(error.to_string().contains("invalid username: 'nobodyknows'"), "{error}");
}

#[tokio::test]
async fn a_running_command_is_told_what_the_sdk_tells_it() {
    assert!(envd_call!("001-get-health", |envd| envd.is_running()).unwrap());
    let reading = Selector::Pid(20);
    envd_call!("009-post-process.Process-SendInput", |envd| envd.send_input(&reading, Input::Stdin, b"some input"))
        .unwrap();
    envd_call!("010-post-process.Process-CloseStdin", |envd| envd.close_stdin(&reading)).unwrap();

    let processes = envd_call!("012-post-process.Process-List", |envd| envd.processes()).unwrap();
    let [sleeping] = &processes[..] else { panic!("{processes:?}") };
    assert_eq!((sleeping.pid, sleeping.tag.as_deref(), sleeping.cmd.as_str()), (23, None, "/bin/bash"));
    assert_eq!(sleeping.args, ["-l", "-c", "sleep 600"]);
    let sleeping = Selector::Pid(23);
    let error = envd_call!("013-post-process.Process-SendInput", |envd| envd.send_input(&sleeping, Input::Stdin, b"x"))
        .unwrap_err();
    assert!(error.status() == Some(500) && error.to_string().contains("stdin not enabled or closed"), "{error}");
    let mut running = envd_call!("014-post-process.Process-Connect", |envd| envd.connect(&sleeping)).unwrap();
    assert_eq!(running.pid(), 23);
    let Some(Event::End(end)) = running.next().await.unwrap() else { panic!() };
    assert_eq!((exit(&end), end.status.as_str()), (Exit::Signal(9), "signal: killed"));
    envd_call!("015-post-process.Process-SendSignal", |envd| envd.signal(&sleeping, Signal::Kill)).unwrap();

    let unknown = Selector::Pid(999_999);
    let error =
        envd_call!("016-post-process.Process-SendSignal", |envd| envd.signal(&unknown, Signal::Kill)).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let error = envd_call!("017-post-process.Process-Connect", |envd| envd.connect(&unknown)).unwrap_err();
    assert!(error.is_not_found(), "{error}");

    let (terminal, size) = (Selector::Pid(25), TerminalSize { cols: 22, rows: 11 });
    envd_call!("019-post-process.Process-Update", |envd| envd.resize(&terminal, size)).unwrap();
    let typed = b"stty size; exit 4\n";
    envd_call!("020-post-process.Process-SendInput", |envd| envd.send_input(&terminal, Input::Terminal, typed))
        .unwrap();
}

#[tokio::test]
async fn files_are_written_where_the_sdk_writes_them() {
    let blob: Vec<u8> = (0..=255).collect();
    for (name, path, content) in [
        ("e2b-envd/021-post-files", "/home/user/dir/a.txt", b"hello".to_vec()),
        ("e2b-envd/023-post-files", "/home/user/dir/blob", blob),
    ] {
        let recording = Recording::read(name);
        let player = recording.play().await;
        envd(&player).await.write(path, content.clone()).await.unwrap();
        recording.asked_for(&player.heard()[0]);
        assert_eq!(player.heard()[0].body, content, "{name}");
    }
    // The answer to two files at once is none to one.
    let player = Recording::read("e2b-envd/025-post-files").play().await;
    let error = envd(&player).await.write("/home/user/dir/one", "1").await.unwrap_err();
    assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
}

#[tokio::test]
async fn files_are_read_where_the_sdk_reads_them_and_never_compressed() {
    for (name, path) in
        [("e2b-envd/022-get-files", "/home/user/dir/a.txt"), ("e2b-envd/024-get-files", "/home/user/dir/blob")]
    {
        let recording = Recording::read(name);
        let player = recording.play().await;
        // The SDK takes compressed files and got them.
        let error = envd(&player).await.download(path).await.unwrap_err();
        recording.asked_for(&player.heard()[0]);
        assert_eq!(player.heard()[0].header("accept-encoding"), Some("identity"));
        assert!(error.to_string().contains("compressed"), "{error}");
    }
    let missing = envd_call!("026-get-files", |envd| envd.download("/home/user/missing"));
    assert!(missing.unwrap_err().is_not_found());
}

#[tokio::test]
async fn directories_and_entries_are_handled_as_the_sdk_handles_them() {
    let (directory, file) = ("/home/user/dir", "/home/user/dir/a.txt");
    let deep = "/home/user/dir/deep";
    assert!(envd_call!("027-post-filesystem.Filesystem-MakeDir", |envd| envd.make_dir(deep)).unwrap());
    assert!(!envd_call!("028-post-filesystem.Filesystem-MakeDir", |envd| envd.make_dir(deep)).unwrap());

    let entries = envd_call!("030-post-filesystem.Filesystem-ListDir", |envd| envd.list_dir(directory, 2)).unwrap();
    let seen: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.size, entry.mode)).collect();
    let expected = [
        ("a.txt", EntryKind::File, 5, 0o644),
        ("blob", EntryKind::File, 256, 0o644),
        ("deep", EntryKind::Directory, 4096, 0o755),
        ("link", EntryKind::File, 5, 0o644),
        ("one", EntryKind::File, 1, 0o644),
        ("two", EntryKind::File, 1, 0o644),
    ];
    assert_eq!(seen, expected);
    assert!(entries.iter().all(|entry| entry.path == format!("{directory}/{}", entry.name)));

    let entry = envd_call!("031-post-filesystem.Filesystem-Stat", |envd| envd.stat(file)).unwrap();
    assert_eq!((entry.kind, entry.size, entry.mode, entry.target), (EntryKind::File, 5, 0o644, None));
    assert_eq!((entry.owner.as_str(), entry.group.as_str()), ("user", "user"));
    assert_eq!(entry.modified, "2026-11-16T07:19:45.225192836Z");
    let missing = envd_call!("032-post-filesystem.Filesystem-Stat", |envd| envd.stat("/home/user/missing"));
    assert!(missing.unwrap_err().is_not_found());
    let link = envd_call!("033-post-filesystem.Filesystem-Stat", |envd| envd.stat("/home/user/dir/link")).unwrap();
    assert_eq!(link.target.as_deref(), Some(file));

    let to = "/home/user/dir/b.txt";
    envd_call!("034-post-filesystem.Filesystem-Move", |envd| envd.rename(file, to)).unwrap();
    envd_call!("035-post-filesystem.Filesystem-Remove", |envd| envd.remove(directory)).unwrap();
    let missing = envd_call!("036-post-filesystem.Filesystem-ListDir", |envd| envd.list_dir(directory, 1));
    assert!(missing.unwrap_err().is_not_found());
}

/// Plays a recording, makes a call of the control plane's, and checks that it is the SDK's.
macro_rules! control_call {
    ($name:literal, |$client:ident| $call:expr) => {{
        let recording = Recording::read(concat!("e2b-control/", $name));
        let player = recording.play().await;
        let $client = player.client();
        let answer = $call.await;
        recording.asked(&player.heard()[0]);
        assert_eq!(player.heard().len(), 1);
        assert_eq!(player.heard()[0].header("x-api-key"), Some("hunter2"));
        answer
    }};
}

fn new_sandbox() -> NewSandbox {
    let mut new = NewSandbox::new("base", Duration::from_secs(300));
    new.metadata.insert("mark".to_owned(), "recording".to_owned());
    new
}

fn is_recorded(sandbox: &Sandbox, id: &SandboxId) -> bool {
    sandbox.id() == id && sandbox.template() == "base" && sandbox.envd_version().to_string() == "0.5.7"
}

#[tokio::test]
async fn the_control_plane_is_asked_as_the_sdk_asks_it() {
    let (id, other): (SandboxId, SandboxId) =
        ("ie96a84bf7a8f9adafc4".parse().unwrap(), "i3ce53d478956bd9ac37".parse().unwrap());
    let mut new = new_sandbox();
    new.env.insert("A".to_owned(), "1".to_owned());
    let made = control_call!("001-post-v2-sandboxes", |client| client.create(&new)).unwrap();
    assert!(is_recorded(&made, &id), "{made:?}");
    let mut filter = Filter::new(2);
    filter.metadata = new.metadata.clone();
    let found = control_call!("002-get-v2-sandboxes", |client| client.list(&filter)).unwrap();
    assert_eq!(found.iter().map(|details| &details.id).collect::<Vec<_>>(), [&id]);
    let made = control_call!("003-post-v2-sandboxes", |client| client.create(&new_sandbox())).unwrap();
    assert!(is_recorded(&made, &other), "{made:?}");

    let got = control_call!("006-get-sandboxes-id", |client| client.get(&id)).unwrap();
    assert_eq!((&got.id, &got.state, got.template.as_str()), (&id, &State::Running, "base"));
    assert_eq!((got.cpus, got.memory_mib, got.disk_mib), (Some(2), Some(512), Some(1024)));
    assert_eq!((&got.metadata, got.end_at.as_str()), (&new.metadata, "2026-11-16T07:24:47.138822734Z"));
    let longer = Duration::from_secs(600);
    control_call!("007-post-sandboxes-id-timeout", |client| client.set_timeout(&id, longer)).unwrap();
    let metrics = control_call!("008-get-sandboxes-id-metrics", |client| client.metrics(&id)).unwrap();
    assert_eq!((metrics.len(), metrics[0].mem_total, metrics[0].time), (1, 512 << 20, 1_794_813_587));
    control_call!("009-post-sandboxes-id-pause", |client| client.pause(&id)).unwrap();
    assert_eq!(control_call!("010-get-sandboxes-id", |client| client.get(&id)).unwrap().state, State::Paused);
    let minute = Duration::from_secs(60);
    let woken = control_call!("012-post-v2-sandboxes-id-connect", |client| client.connect(&id, minute)).unwrap();
    assert!(is_recorded(&woken, &id), "{woken:?}");
    control_call!("013-post-v2-sandboxes-id-connect", |client| client.connect(&id, minute)).unwrap();

    control_call!("014-delete-sandboxes-id", |client| client.delete(&id)).unwrap();
    // What is gone is removed.
    control_call!("015-delete-sandboxes-id", |client| client.delete(&id)).unwrap();
    control_call!("016-delete-sandboxes-id", |client| client.delete(&other)).unwrap();
    assert!(control_call!("017-get-sandboxes-id", |client| client.get(&id)).unwrap_err().is_not_found());
}

#[tokio::test]
async fn pages_are_asked_for_as_the_sdk_asks_for_them() {
    let pages = ["e2b-control/004-get-v2-sandboxes", "e2b-control/005-get-v2-sandboxes"].map(Recording::read);
    let player = Player::new(pages.iter().map(|page| Play::Say(page.answer.clone()))).await;
    let mut filter = Filter::new(10);
    filter.metadata = new_sandbox().metadata;
    let found = player.client().list(&filter).await.unwrap();
    let found: Vec<_> = found.iter().map(|details| details.id.as_str()).collect();
    assert_eq!(found, ["i3ce53d478956bd9ac37", "ie96a84bf7a8f9adafc4"]);
    assert_eq!(player.heard().len(), pages.len());
    for (page, heard) in pages.iter().zip(player.heard()) {
        page.asked(&heard);
    }
}

#[tokio::test]
async fn a_sandbox_that_does_not_run_and_a_wrong_key_are_told() {
    for name in ["e2b-control/011-get-health", "e2b-control/018-get-health"] {
        let recording = Recording::read(name);
        let player = recording.play().await;
        assert!(!envd(&player).await.is_running().await.unwrap(), "{name}");
        recording.asked(&player.heard()[0]);
    }
    let recording = Recording::read("e2b-control/019-post-v2-sandboxes");
    let player = recording.play().await;
    let mut options = player.options();
    options.api_key = Some(Secret::new("wrong".to_owned()));
    let error = Client::new(options).unwrap().create(&new_sandbox()).await.unwrap_err();
    // The SDK leaves the lifetime to the server.
    recording.asked_for(&player.heard()[0]);
    assert!(error.status() == Some(401) && error.to_string().contains("Invalid API key"), "{error}");
    assert_eq!(player.heard().len(), 1);
}

/// Plays a recording, makes a call of the interpreter's, and checks that it is the SDK's.
macro_rules! interpreter_call {
    ($name:literal, |$interpreter:ident| $call:expr) => {{
        let recording = Recording::read(concat!("e2b-interpreter/", $name));
        let player = recording.play().await;
        let $interpreter = player.interpreter().await;
        let answer = $call.await;
        recording.asked(&player.heard()[0]);
        answer
    }};
}

async fn outputs(execution: Result<Execution, CallError>) -> Result<Vec<Output>, CallError> {
    let (mut execution, mut outputs) = (execution?, Vec::new());
    while let Some(output) = execution.next().await? {
        outputs.push(output);
    }
    Ok(outputs)
}

/// What a cell says, without where an error happened.
fn told(outputs: &[Output]) -> Vec<String> {
    let told = |output: &Output| match output {
        Output::Stdout(text) => format!("out {text}"),
        Output::Stderr(text) => format!("err {text}"),
        Output::Result(rich) => format!("{} {}", if rich.is_main { "value" } else { "shown" }, json!(rich.forms)),
        Output::Error { name, value, traceback } => {
            assert!(traceback.starts_with("Traceback (most recent call last):\n") && traceback.contains(name));
            format!("{name}: {value}")
        }
        Output::Count(count) => format!("cell {count}"),
        other => panic!("{other:?}"),
    };
    outputs.iter().map(told).collect()
}

#[tokio::test]
async fn cells_are_run_as_the_sdk_runs_them() {
    let context = "604c89f5-28ab-4058-af21-8b6dab1dc6ea";
    let cell = Cell::new("x = 20");
    let said = outputs(interpreter_call!("001-post-execute", |interpreter| interpreter.execute(&cell))).await;
    assert_eq!(told(&said.unwrap()), ["cell 1"]);
    let cell = Cell::new("print('hi'); x + 1");
    let said = outputs(interpreter_call!("002-post-execute", |interpreter| interpreter.execute(&cell))).await;
    assert_eq!(told(&said.unwrap()), ["cell 2", "out hi\n", r#"value {"text/plain":"21"}"#]);
    let cell = Cell::new("1/0");
    let said = outputs(interpreter_call!("003-post-execute", |interpreter| interpreter.execute(&cell))).await;
    assert_eq!(told(&said.unwrap()), ["cell 3", "ZeroDivisionError: division by zero"]);

    let made = interpreter_call!("004-post-contexts", |interpreter| {
        interpreter.create_context(Some("python"), Some("/tmp"))
    });
    let made = made.unwrap();
    assert_eq!((made.id.as_str(), made.language.as_str(), made.cwd.as_str()), (context, "python", "/tmp"));
    let mut cell = Cell::new("x");
    cell.context = Some(context.to_owned());
    let said = outputs(interpreter_call!("005-post-execute", |interpreter| interpreter.execute(&cell))).await;
    assert_eq!(told(&said.unwrap()), ["cell 1", "NameError: name 'x' is not defined"]);
    let contexts = interpreter_call!("006-get-contexts", |interpreter| interpreter.contexts()).unwrap();
    assert_eq!(contexts.iter().map(|context| context.cwd.as_str()).collect::<Vec<_>>(), ["/home/user", "/tmp"]);
    interpreter_call!("007-post-contexts-id-restart", |interpreter| interpreter.restart_context(context)).unwrap();
    interpreter_call!("008-delete-contexts-id", |interpreter| interpreter.delete_context(context)).unwrap();
    let mut cell = Cell::new("echo out; echo err >&2");
    cell.language = Some("bash".to_owned());
    let said = outputs(interpreter_call!("009-post-execute", |interpreter| interpreter.execute(&cell))).await;
    assert_eq!(told(&said.unwrap()), ["cell 1", "out out\n", "err err\n"]);
}

#[tokio::test]
async fn a_recorded_cell_cut_at_any_byte_is_an_error_until_it_has_ended() {
    let cuts = cuts(&Recording::read("e2b-interpreter/002-post-execute"), "application/x-ndjson");
    let player = Player::new(cuts.iter().map(|(play, _)| play.clone())).await;
    let interpreter = player.interpreter().await;
    for (at, (_, whole)) in cuts.iter().enumerate() {
        let said = outputs(interpreter.execute(&Cell::new("print('hi'); x + 1")).await).await;
        assert_eq!(said.is_ok(), *whole, "cut {at} of {}: {said:?}", cuts.len());
        match said {
            Ok(said) => assert_eq!(said.len(), 3, "{at}: {said:?}"),
            Err(error) => assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{at}: {error}"),
        }
    }
    assert_eq!(player.heard().len(), cuts.len());
}
