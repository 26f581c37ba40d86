//! What real servers said to the official SDK, played back: the client asks what the SDK asked, in the same words, and
//! understands the same answers, however they are cut.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hotcell_core::secret::Secret;
use hotcell_remote::http::{CallError, Why};
use hotcell_remote::opensandbox::{
    Client, Command, Endpoint, Event, Execd, Exit, FileKind, Filter, NetworkPolicy, NewSandbox, Permissions, Running,
    SessionCommand, Source, State, Upload, Via,
};
use serde_json::{Value, json};

use crate::player::{Play, Player};

/// An exchange between a client and a server.
struct Recording {
    name: &'static str,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Recording {
    fn read(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let side = |mark: &str| text.lines().filter_map(|line| line.strip_prefix(mark)).flat_map(unescaped).collect();
        Self { name, request: side("> "), answer: side("< ") }
    }

    fn play(&self) -> Player {
        Player::one(Play::Bytes(self.answer.clone()))
    }

    /// Checks that the client asked what the SDK did; some fields of the SDK's say what is so without them.
    fn asked(&self, player: &Player) {
        let (ours, theirs) = (&player.requests()[0], String::from_utf8_lossy(&self.request).into_owned());
        assert_eq!(asked_for(ours), asked_for(&theirs), "{}", self.name);
        assert_eq!(said(ours), said(&theirs), "{}", self.name);
    }
}

fn unescaped(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            _ => match rest.next().unwrap() {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            },
        });
    }
    bytes
}

/// The method, the path and the query, in any order and however they are encoded.
fn asked_for(request: &str) -> (String, BTreeSet<(String, String)>) {
    let line = request.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
    let (path, query) = line.split_once('?').unwrap_or((line, ""));
    // How many at once is each client's own affair, and both of these are what is so anyway.
    let own = ["page", "pageSize", "verbose"];
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    let plain = |(name, value): &(String, String)| !own.contains(&name.as_str()) && value != "false";
    (path.to_owned(), query.filter(plain).collect())
}

/// The body, without what says nothing.
fn said(request: &str) -> Value {
    let body = request.split_once("\r\n\r\n").unwrap().1;
    without_nothing(serde_json::from_str(body).unwrap_or(Value::Null))
}

fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_nothing(value)));
            fields.filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)) && value != "").collect()
        }
        Value::Array(items) => items.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

fn execd(player: &Player) -> Execd {
    Execd::new(&Endpoint::new(player.address()), None).unwrap()
}

fn client(player: &Player) -> Client {
    Client::new(player.address(), Some(&Secret::new("k3y".to_owned()))).unwrap()
}

async fn all_of(running: Result<Running, CallError>) -> Result<(String, Exit), CallError> {
    let (mut running, mut output) = (running?, String::new());
    while let Some(event) = running.next().await? {
        let (stream, bytes) = match event {
            Event::Stdout(bytes) => ("out", bytes),
            Event::Stderr(bytes) => ("err", bytes),
            _ => continue,
        };
        output.push_str(&format!("{stream} {}", String::from_utf8(bytes.to_vec()).unwrap()));
    }
    Ok((output, running.exit().unwrap()))
}

fn commands() -> Vec<(&'static str, Command, &'static str, Exit)> {
    let mut placed = Command::line("echo $A; pwd");
    placed.cwd = Some("/usr".to_owned());
    placed.env.insert("A".to_owned(), "1".to_owned());
    let mut short = Command::line("sleep 600");
    short.timeout = Some(Duration::from_millis(300));
    vec![
        (
            "opensandbox-execd/002-post-command.txt",
            Command::line("echo out; echo err >&2"),
            "out out\nerr err\n",
            Exit::Code(0),
        ),
        ("opensandbox-execd/003-post-command.txt", Command::line("echo before; exit 3"), "out before\n", Exit::Code(3)),
        (
            "opensandbox-execd/004-post-command.txt",
            Command::line(r"printf 'a\\r\\nb\\n\\nlast'; printf '\\377\\376 <&>\\n'".replace(r"\\", "\\")),
            "out a\nout b\nout \nout last\u{fffd}\u{fffd} <&>\n",
            Exit::Code(0),
        ),
        ("opensandbox-execd/005-post-command.txt", placed, "out 1\nout /usr\n", Exit::Code(0)),
        ("opensandbox-execd/006-post-command.txt", short, "", Exit::Signal(9)),
        ("opensandbox-execd/007-post-command.txt", Command::line("kill -9 $$"), "", Exit::Signal(9)),
        (
            "opensandbox-execd/008-post-command.txt",
            Command::line("echo one; sleep 4; echo two"),
            "out one\nout two\n",
            Exit::Code(0),
        ),
    ]
}

fn sorted(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    // The order between the streams is nobody's.
    lines.sort_unstable_by_key(|line| line.split(' ').next().map(str::to_owned));
    lines
}

#[tokio::test]
async fn commands_are_run_as_the_sdk_runs_them() {
    for (name, command, output, exit) in commands() {
        let recording = Recording::read(name);
        let player = recording.play();
        let (heard, end) = all_of(execd(&player).run(&command).await).await.unwrap();
        recording.asked(&player);
        assert_eq!((sorted(&heard), end), (sorted(output), exit), "{name}");
    }
}

#[tokio::test]
async fn a_recorded_answer_cut_at_any_byte_is_an_error_until_the_command_has_ended() {
    for (name, command, output, exit) in commands().into_iter().take(2) {
        let whole = Recording::read(name).answer;
        // The last event ends before the chunk that ends it, and the one that ends all.
        let ended = whole.len() - b"\n\r\n0\r\n\r\n".len();
        for cut in 0..=whole.len() {
            let player = Player::one(Play::Bytes(whole[..cut].to_vec()));
            match all_of(execd(&player).run(&command).await).await {
                Ok(end) => assert!(cut >= ended && end.1 == exit && sorted(&end.0) == sorted(output), "{cut}: {end:?}"),
                Err(error) => {
                    assert!(cut < ended, "{cut} of {}: {error}", whole.len());
                    assert!(matches!(error.why, Why::Broken { .. } | Why::Garbled { .. }), "{cut}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn commands_go_through_the_servers_proxy() {
    let recording = Recording::read("opensandbox-proxy/005-post-v1-sandboxes-id-proxy-44772-command.txt");
    let player = recording.play();
    let mut through = Endpoint::new(player.address());
    let path = "v1/sandboxes/70430f84-25e9-40db-87c1-87da1a9d7254/proxy/44772";
    through.address = player.address().given(&format!("{}/{path}", player.place())).unwrap();
    through.via = Via::ServerProxy;
    let execd = client(&player).execd(&through, None).unwrap();
    let (output, exit) = all_of(execd.run(&Command::line("echo out; echo err >&2; exit 3")).await).await.unwrap();
    recording.asked(&player);
    assert_eq!((sorted(&output), exit), (vec!["err err", "out out"], Exit::Code(3)));
    assert!(player.requests()[0].contains("open-sandbox-api-key: k3y\r\n"));
}

/// Plays a recording, makes a call of execd's, and checks that it is the SDK's.
macro_rules! execd_call {
    ($name:literal, |$execd:ident| $call:expr) => {{
        let recording = Recording::read(concat!("opensandbox-execd/", $name, ".txt"));
        let player = recording.play();
        let $execd = execd(&player);
        let answer = $call.await;
        recording.asked(&player);
        answer
    }};
}

#[tokio::test]
async fn the_rest_of_execd_is_asked_as_the_sdk_asks_it() {
    let id = "174dd0d10d6e4773aa7148822bc25702";
    execd_call!("001-get-ping", |execd| execd.ping()).unwrap();
    let mut nowhere = Command::line("x");
    nowhere.cwd = Some("/no-such-directory".to_owned());
    let error = execd_call!("009-post-command", |execd| execd.run(&nowhere)).unwrap_err();
    assert!(error.to_string().contains("working directory does not exist"), "{error}");

    let status = execd_call!("011-get-command-status-id", |execd| execd.status(id)).unwrap();
    assert!(status.running && status.exit.is_none() && status.started_at.is_some());
    let logs = execd_call!("012-get-command-id-logs", |execd| execd.logs(id, 0)).unwrap();
    assert_eq!((logs.bytes, logs.cursor), (Bytes::from_static(b"one\n"), 4));
    let logs = execd_call!("013-get-command-id-logs", |execd| execd.logs(id, 4)).unwrap();
    assert_eq!((logs.bytes, logs.cursor), (Bytes::new(), 4));
    execd_call!("014-delete-command", |execd| execd.interrupt(id)).unwrap();
    let status = execd_call!("015-get-command-status-id", |execd| execd.status(id)).unwrap();
    assert_eq!((status.running, status.exit), (false, Some(Exit::Signal(15))));
    execd_call!("016-delete-command", |execd| execd.interrupt(id)).unwrap_err();
    assert!(
        execd_call!("017-get-command-status-no-such-command", |execd| execd.status("no-such-command"))
            .unwrap_err()
            .is_not_found()
    );

    let session = "86070acf-2933-4130-904c-009a145eca3a";
    assert_eq!(execd_call!("018-post-session", |execd| execd.create_session(Some("/tmp"))).unwrap(), session);
    let command = SessionCommand::line("export A=1; cd /usr; echo hi");
    let running = execd_call!("019-post-session-id-run", |execd| execd.run_in_session(session, &command));
    assert_eq!(all_of(running).await.unwrap(), ("out hi\n".to_owned(), Exit::Code(0)));
    let command = SessionCommand::line("echo $A $PWD; exit 7");
    let running = execd_call!("020-post-session-id-run", |execd| execd.run_in_session(session, &command));
    assert_eq!(all_of(running).await.unwrap(), ("out 1 /usr\n".to_owned(), Exit::Code(7)));
    execd_call!("021-delete-session-id", |execd| execd.delete_session(session)).unwrap();
}

#[tokio::test]
async fn files_are_handled_as_the_sdk_handles_them() {
    let (directory, file) = ("/tmp/recording", "/tmp/recording/a.txt");
    assert_eq!(execd_call!("024-get-files-download", |execd| execd.read(file, 100)).unwrap(), "hello\nworld\n");
    let mut part = execd_call!("025-get-files-download", |execd| execd.download_part(file, 1, Some(3))).unwrap();
    assert_eq!(part.next().await.unwrap().unwrap(), "ell");
    assert_eq!(part.next().await.unwrap(), None);
    let missing = execd_call!("026-get-files-download", |execd| execd.download("/tmp/recording/missing"));
    assert!(missing.unwrap_err().is_not_found());
    let info = execd_call!("027-get-files-info", |execd| execd.info(file)).unwrap();
    assert_eq!((info.kind, info.size, info.mode, info.owner.as_str()), (FileKind::File, 12, 0o640, "root"));
    let mode = Permissions::mode(0o755);
    execd_call!("028-post-directories", |execd| execd.make_directory("/tmp/recording/dir", &mode)).unwrap();
    let found = execd_call!("029-get-directories-list", |execd| execd.list(directory, 2)).unwrap();
    assert!(found.iter().any(|info| info.kind == FileKind::Directory && info.path.ends_with("/dir")));
    let found = execd_call!("030-get-files-search", |execd| execd.search(directory, "*.txt")).unwrap();
    assert_eq!(found.len(), 1);
    let mode = Permissions::mode(0o600);
    execd_call!("031-post-files-permissions", |execd| execd.set_permissions(file, &mode)).unwrap();
    let replaced = execd_call!("032-post-files-replace", |execd| execd.replace(file, "hello", "bye"));
    assert_eq!(replaced.unwrap(), None);
    execd_call!("033-post-files-mv", |execd| execd.rename(file, "/tmp/recording/b.txt")).unwrap();
    execd_call!("034-delete-files", |execd| execd.remove_file("/tmp/recording/b.txt")).unwrap();
    execd_call!("035-delete-directories", |execd| execd.remove_directory(directory)).unwrap();
    assert!(execd_call!("036-get-metrics", |execd| execd.metrics()).unwrap().memory_total_mib > 20_000.0);
    let player = Recording::read("opensandbox-execd/022-post-files-upload.txt").play();
    execd(&player).write(&Upload::new(file), "hello\nworld\n").await.unwrap();
}

/// Plays a recording, makes a call of the server's, and checks that it is the SDK's.
macro_rules! server_call {
    ($name:literal, |$client:ident| $call:expr) => {{
        let recording = Recording::read(concat!("opensandbox-lifecycle/", $name, ".txt"));
        let player = recording.play();
        let $client = client(&player);
        let answer = $call.await;
        recording.asked(&player);
        answer
    }};
}

fn new_sandbox() -> NewSandbox {
    let mut new = NewSandbox::image("hotcell-test:latest");
    new.timeout = Some(Duration::from_secs(300));
    new.resource_limits =
        [("cpu", "500m"), ("memory", "256Mi")].map(|(name, limit)| (name.to_owned(), limit.to_owned())).into();
    new.env.insert("FROM_CREATE".to_owned(), "yes".to_owned());
    new.metadata.insert("mark".to_owned(), "recording".to_owned());
    new
}

#[tokio::test]
async fn the_server_is_asked_as_the_sdk_asks_it() {
    let id = "07834a3f-ed33-4d7c-bbd4-4d340fbbffcd";
    let made = server_call!("001-post-v1-sandboxes", |client| client.create(&new_sandbox())).unwrap();
    assert_eq!((made.id.as_str(), &made.status.state), (id, &State::Running));
    assert_eq!(made.expires_at.unwrap().duration_since(made.created_at.unwrap()).unwrap(), Duration::from_secs(300));
    let endpoint =
        server_call!("002-get-v1-sandboxes-id-endpoints-44772", |client| client.endpoint(id, 44772, Via::Direct));
    assert_eq!(endpoint.unwrap().address.to_string(), "http://127.0.0.1:40147/proxy/44772");
    let got = server_call!("004-get-v1-sandboxes-id", |client| client.get(id)).unwrap();
    assert_eq!((got.image.as_deref(), got.metadata["mark"].as_str()), (Some("hotcell-test:latest"), "recording"));
    let filter = Filter { states: vec![State::Running], metadata: new_sandbox().metadata };
    assert_eq!(server_call!("005-get-v1-sandboxes", |client| client.list(&filter)).unwrap().len(), 1);
    let filter = Filter { states: vec![], metadata: [("mark".to_owned(), "none".to_owned())].into() };
    assert!(server_call!("006-get-v1-sandboxes", |client| client.list(&filter)).unwrap().is_empty());
    let player = Recording::read("opensandbox-lifecycle/007-post-v1-sandboxes-id-renew-expiration.txt").play();
    assert!(client(&player).renew(id, SystemTime::now()).await.unwrap() > made.expires_at.unwrap());
    server_call!("009-post-v1-sandboxes-id-pause", |client| client.pause(id)).unwrap();
    assert_eq!(server_call!("010-get-v1-sandboxes-id", |client| client.get(id)).unwrap().status.state, State::Paused);
    assert_eq!(
        server_call!("011-post-v1-sandboxes-id-pause", |client| client.pause(id)).unwrap_err().status(),
        Some(409)
    );
    server_call!("012-post-v1-sandboxes-id-resume", |client| client.resume(id)).unwrap();
    assert_eq!(
        server_call!("013-post-v1-sandboxes-id-resume", |client| client.resume(id)).unwrap_err().status(),
        Some(409)
    );

    let snapshot = "bd428152-dd20-4c29-8f76-e90fb9c4f2d1";
    let made = server_call!("014-post-v1-sandboxes-id-snapshots", |client| client.snapshot(id, Some("kept"))).unwrap();
    assert_eq!((made.id.as_str(), made.sandbox.as_str(), made.state.as_str()), (snapshot, id, "Creating"));
    assert_eq!(server_call!("017-get-v1-snapshots-id", |client| client.get_snapshot(snapshot)).unwrap().state, "Ready");
    let mut from = NewSandbox::image("");
    from.source = Source::Snapshot(snapshot.to_owned());
    from.timeout = Some(Duration::from_secs(300));
    server_call!("018-post-v1-sandboxes", |client| client.create(&from)).unwrap();
    server_call!("021-delete-v1-sandboxes-id", |client| client.delete("90398b0e-682b-4793-a860-a183cb87e000")).unwrap();
    server_call!("022-delete-v1-snapshots-id", |client| client.delete_snapshot(snapshot)).unwrap();
}

#[tokio::test]
async fn what_the_server_refuses_is_told() {
    let id = "07834a3f-ed33-4d7c-bbd4-4d340fbbffcd";
    assert!(
        server_call!("023-get-v1-sandboxes-no-such-sandbox", |client| client.get("no-such-sandbox"))
            .unwrap_err()
            .is_not_found()
    );
    server_call!("024-delete-v1-sandboxes-no-such-sandbox", |client| client.delete("no-such-sandbox")).unwrap();
    let error = server_call!("025-get-v1-sandboxes-id", |client| client.get(id)).unwrap_err();
    assert!(error.status() == Some(401) && error.to_string().contains("credentials are invalid"), "{error}");
    let mut short = NewSandbox::image("hotcell-test:latest");
    short.timeout = Some(Duration::from_secs(5));
    let error = server_call!("026-post-v1-sandboxes", |client| client.create(&short)).unwrap_err();
    assert!(error.to_string().contains("greater than or equal to 60"), "{error}");
    let mut closed = new_sandbox();
    closed.network_policy = Some(NetworkPolicy::deny_all());
    let error = server_call!("027-post-v1-sandboxes", |client| client.create(&closed)).unwrap_err();
    assert!(error.to_string().contains("egress.image must be configured"), "{error}");
    assert!(server_call!("029-get-v1-sandboxes-id", |client| client.get(id)).unwrap_err().is_not_found());
    assert_eq!(without_nothing(json!({ "a": null, "b": [{ "c": false }], "d": 1 })), json!({ "b": [{}], "d": 1 }));
}
