//! A real execd: what it runs is real, so it is one that may.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use hotcell_core::secret::Secret;
use hotcell_remote::http::{Address, PlainHttp};
use hotcell_remote::opensandbox::{
    Attach, Command, Endpoint, Event, ExactEvent, Execd, Exit, FileKind, NewPty, Permissions, PtyEvent, PtyMode,
    PtySignal, SessionCommand, Upload,
};

/// The execd that there is; none, after listing the test as skipped, where there is none.
fn execd(test: &str) -> Option<Execd> {
    let Ok(url) = std::env::var("HOTCELL_TEST_EXECD_URL") else {
        if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
            use std::io::Write;
            let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
            let reason = "HOTCELL_TEST_EXECD_URL does not name an execd";
            log.write_all(format!("live::{test}: {reason}\n").as_bytes()).unwrap();
        }
        return None;
    };
    let token = std::env::var("HOTCELL_TEST_EXECD_TOKEN").ok().map(Secret::new);
    let endpoint = Endpoint::new(Address::parse(&url, PlainHttp::LoopbackOnly).unwrap());
    Some(Execd::new(&endpoint, token.as_ref()).unwrap())
}

macro_rules! execd_or_skip {
    ($test:literal) => {
        match execd($test) {
            Some(execd) => execd,
            None => return,
        }
    };
}

/// A directory in the sandbox that no other test uses.
async fn place(execd: &Execd, name: &str) -> String {
    let path = format!("/tmp/hotcell-live-{name}-{}", std::process::id());
    execd.remove_directory(&path).await.unwrap();
    execd.make_directory(&path, &Permissions::mode(0o755)).await.unwrap();
    path
}

async fn collect(execd: &Execd, command: &Command) -> (String, String, Exit) {
    let mut running = execd.run(command).await.unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some(event) = running.next().await.unwrap() {
        match event {
            Event::Stdout(bytes) => out.extend_from_slice(&bytes),
            Event::Stderr(bytes) => err.extend_from_slice(&bytes),
            _ => {}
        }
    }
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), running.exit().unwrap())
}

async fn collect_exact(execd: &Execd, command: &Command, input: Option<&[u8]>) -> (Vec<u8>, Vec<u8>, Exit) {
    let mut exact = execd.run_exact(command, input.is_some()).await.unwrap();
    let feeding = input.map(|bytes| {
        let (bytes, mut input) = (Bytes::copy_from_slice(bytes), exact.take_input().unwrap());
        tokio::spawn(async move {
            input.send(bytes).await;
            input.close().await
        })
    });
    let (mut out, mut err, mut end) = (Vec::new(), Vec::new(), None);
    while let Some(event) = exact.next().await.unwrap() {
        match event {
            ExactEvent::Stdout(bytes) => out.extend_from_slice(&bytes),
            ExactEvent::Stderr(bytes) => err.extend_from_slice(&bytes),
            ExactEvent::Ended { exit, .. } => end = Some(exit),
            _ => {}
        }
    }
    if let Some(feeding) = feeding {
        feeding.await.unwrap().unwrap();
    }
    (out, err, end.unwrap())
}

#[tokio::test]
async fn commands_are_run_and_their_ends_told_apart() {
    let execd = execd_or_skip!("commands_are_run_and_their_ends_told_apart");
    execd.ping().await.unwrap();
    let (out, err, exit) = collect(&execd, &Command::line("echo out; echo err >&2; exit 3")).await;
    assert_eq!((out.as_str(), err.as_str(), exit), ("out\n", "err\n", Exit::Code(3)));
    assert_eq!(collect(&execd, &Command::line("true")).await.2, Exit::Code(0));
    assert_eq!(collect(&execd, &Command::line("kill -SEGV $$")).await.2, Exit::Signal(11));
    let mut slow = Command::line("sleep 60");
    slow.timeout = Some(Duration::from_millis(200));
    assert_eq!(collect(&execd, &slow).await.2, Exit::Signal(9));
}

#[tokio::test]
async fn arguments_environment_and_place_arrive() {
    let execd = execd_or_skip!("arguments_environment_and_place_arrive");
    let place = place(&execd, "arguments").await;
    let hard = "it's \"$HOME\" \\ `x` é\ttab *";
    let mut command = Command::argv(["sh", "-c", "printf '%s|' \"$@\"; printf '%s|' \"$V\"; pwd", "-", hard, ""]);
    command.env.insert("V".to_owned(), "a b'c\"".to_owned());
    command.cwd = Some(place.clone());
    let (out, _, exit) = collect(&execd, &command).await;
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(out, format!("{hard}||a b'c\"|{place}\n"));
    execd.remove_directory(&place).await.unwrap();
}

#[tokio::test]
async fn what_events_lose_is_what_the_documentation_says() {
    let execd = execd_or_skip!("what_events_lose_is_what_the_documentation_says");
    let (out, ..) = collect(&execd, &Command::line(r"printf 'a\r\nb\rc\n\nd\377e\000f\nlast'")).await;
    assert_eq!(out, "a\nb\nc\n\nd\u{fffd}e\0f\nlast\n");
}

#[tokio::test]
async fn exact_commands_lose_nothing() {
    let execd = execd_or_skip!("exact_commands_lose_nothing");
    let line = r"printf 'a\r\nb\rc\n\nd\377e\000f\nlast'; printf 'e\377' >&2; exit 3";
    let (out, err, exit) = collect_exact(&execd, &Command::line(line), None).await;
    assert_eq!(out, b"a\r\nb\rc\n\nd\xffe\0f\nlast");
    assert_eq!((err.as_slice(), exit), (&b"e\xff"[..], Exit::Code(3)));
    let kill = Command::argv(["sh", "-c", "kill -KILL $$"]);
    assert_eq!(collect_exact(&execd, &kill, None).await.2, Exit::Signal(9));
    let kill = Command::line("kill -TERM $$");
    assert_eq!(collect_exact(&execd, &kill, None).await.2, Exit::Signal(15));
    let missing = collect_exact(&execd, &Command::argv(["/no/such/program"]), None).await;
    assert_eq!(missing.2, Exit::Code(127));
    assert!(!missing.1.is_empty());
}

#[tokio::test]
async fn exact_commands_may_write_much() {
    let execd = execd_or_skip!("exact_commands_may_write_much");
    let line = "head -c 5000000 /dev/zero; head -c 3000000 /dev/zero | tr '\\0' x >&2";
    let (out, err, exit) = collect_exact(&execd, &Command::line(line), None).await;
    assert_eq!((out.len(), err.len(), exit), (5_000_000, 3_000_000, Exit::Code(0)));
    assert!(out.iter().all(|byte| *byte == 0) && err.iter().all(|byte| *byte == b'x'));
}

#[tokio::test]
async fn exact_commands_read_their_input_to_its_end() {
    let execd = execd_or_skip!("exact_commands_read_their_input_to_its_end");
    let (out, _, exit) = collect_exact(&execd, &Command::line("cat; echo done"), Some(b"a\xff\0b")).await;
    assert_eq!((out.as_slice(), exit), (&b"a\xff\0bdone\n"[..], Exit::Code(0)));
    let (out, ..) = collect_exact(&execd, &Command::argv(["cat"]), Some(b"")).await;
    assert!(out.is_empty());
    let much: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    let (out, _, exit) = collect_exact(&execd, &Command::argv(["cat"]), Some(&much)).await;
    assert!(out == much, "{} of {} bytes", out.len(), much.len());
    assert_eq!(exit, Exit::Code(0));
}

#[tokio::test]
async fn a_command_that_does_not_read_ends_all_the_same() {
    let execd = execd_or_skip!("a_command_that_does_not_read_ends_all_the_same");
    let much = vec![b'x'; 1 << 20];
    let (out, _, exit) = collect_exact(&execd, &Command::line("head -c 3; exit 4"), Some(&much)).await;
    assert_eq!((out.as_slice(), exit), (&b"xxx"[..], Exit::Code(4)));
}

#[tokio::test]
async fn exact_commands_leave_nothing_behind() {
    let execd = execd_or_skip!("exact_commands_leave_nothing_behind");
    let command = Command::line("ls -d /proc/self/fd/1; readlink /proc/self/fd/1");
    let (out, ..) = collect_exact(&execd, &command, None).await;
    let out = String::from_utf8(out).unwrap();
    let file = out.lines().last().unwrap();
    assert!(file.ends_with("/out"), "{file}");
    let directory = file.trim_end_matches("/out");
    // Its end is told before they are gone.
    for _ in 0..500 {
        if execd.info(directory).await.is_err_and(|error| error.is_not_found()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{directory} is still there");
}

#[tokio::test]
async fn output_that_cannot_be_kept_is_an_error() {
    let execd = execd_or_skip!("output_that_cannot_be_kept_is_an_error");
    let mut command = Command::line("echo never");
    // Nobody may write there as this user once /tmp is not to be found.
    command.env.insert("PATH".to_owned(), "/nowhere".to_owned());
    for piped in [false, true] {
        let mut exact = execd.run_exact(&command, piped).await.unwrap();
        let error = match exact.next().await {
            Ok(event) => panic!("{event:?}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("cannot be kept") && error.contains("mkdir"), "{error}");
        if let Some(input) = exact.take_input() {
            input.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn commands_are_interrupted() {
    let execd = execd_or_skip!("commands_are_interrupted");
    let mut running = execd.run(&Command::line("echo here; sleep 60")).await.unwrap();
    let mut id = None;
    while let Some(event) = running.next().await.unwrap() {
        match event {
            Event::Started { id: started } => id = Some(started),
            Event::Stdout(_) => execd.interrupt(id.as_deref().unwrap()).await.unwrap(),
            _ => {}
        }
    }
    assert_eq!(running.exit(), Some(Exit::Signal(15)));
    assert!(execd.interrupt(id.as_deref().unwrap()).await.is_err());
}

#[tokio::test]
async fn background_commands_are_listened_to_again() {
    let execd = execd_or_skip!("background_commands_are_listened_to_again");
    let place = place(&execd, "background").await;
    let line = format!("printf 'a\\377'; while [ ! -e {place}/go ]; do sleep 0.02; done; echo b >&2; exit 5");
    let id = execd.start_background(&Command::line(line)).await.unwrap();
    let mut first = execd.listen(id.as_str(), 0);
    assert_eq!(first.next().await.unwrap().unwrap(), &b"a\xff"[..]);
    assert!(execd.status(&id).await.unwrap().running);
    let cursor = first.cursor();
    drop(first);
    execd.write(&Upload::new(format!("{place}/go")), "").await.unwrap();
    let mut second = execd.listen(id.as_str(), cursor);
    assert_eq!(second.next().await.unwrap().unwrap(), &b"b\n"[..]);
    assert_eq!(second.next().await.unwrap(), None);
    assert_eq!(second.exit(), Some(Exit::Code(5)));
    let status = execd.status(&id).await.unwrap();
    assert!(!status.running && status.finished_at >= status.started_at && status.started_at.is_some());
    assert!(execd.status("nobody").await.unwrap_err().is_not_found());
    execd.remove_directory(&place).await.unwrap();
}

#[tokio::test]
async fn sessions_remember() {
    let execd = execd_or_skip!("sessions_remember");
    let session = execd.create_session(Some("/tmp")).await.unwrap();
    let mut seen = Vec::new();
    for line in ["export V=1; cd /usr", "echo $V; pwd; echo err >&2; false"] {
        let mut running = execd.run_in_session(&session, &SessionCommand::line(line)).await.unwrap();
        while let Some(event) = running.next().await.unwrap() {
            if let Event::Stdout(bytes) = event {
                seen.extend_from_slice(&bytes);
            }
        }
        seen.extend_from_slice(format!("{:?}\n", running.exit().unwrap()).as_bytes());
    }
    assert_eq!(String::from_utf8(seen).unwrap(), "Code(0)\n1\n/usr\nerr\nCode(1)\n");
    execd.delete_session(&session).await.unwrap();
    execd.delete_session(&session).await.unwrap();
}

#[tokio::test]
async fn a_session_that_runs_out_of_time_is_an_error_that_says_so() {
    let execd = execd_or_skip!("a_session_that_runs_out_of_time_is_an_error_that_says_so");
    let session = execd.create_session(None).await.unwrap();
    let mut command = SessionCommand::line("echo here; exec sleep 60");
    command.timeout = Some(Duration::from_millis(300));
    let mut running = execd.run_in_session(&session, &command).await.unwrap();
    let error = loop {
        match running.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("timeout after"), "{error}");
    execd.delete_session(&session).await.unwrap();
}

/// All that comes of a program until `done`, or its end.
async fn heard(output: &mut hotcell_remote::opensandbox::PtyOutput, done: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut all = Vec::new();
    while !done(&all) {
        match output.next().await.unwrap() {
            Some(PtyEvent::Stdout(bytes) | PtyEvent::Replay { bytes, .. }) => all.extend_from_slice(&bytes),
            Some(other) => panic!("{other:?} after {:?}", String::from_utf8_lossy(&all)),
            None => panic!("the end after {:?}", String::from_utf8_lossy(&all)),
        }
    }
    all
}

fn has(all: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(all).contains(text)
}

#[tokio::test]
async fn terminals_are_talked_to() {
    let execd = execd_or_skip!("terminals_are_talked_to");
    let session = execd.create_pty(&NewPty::line("stty -echo; echo ready; cat >/dev/null; stty size; read x")).await;
    let session = session.unwrap();
    let (mut input, mut output) = execd.attach(&session, &Attach::default()).await.unwrap();
    heard(&mut output, |all| has(all, "ready\r\n")).await;
    input.resize(123, 45).await.unwrap();
    input.send(b"text\n\x04").await.unwrap();
    heard(&mut output, |all| has(all, "45 123\r\n")).await;
    input.ping().await.unwrap();
    input.send(b"\n").await.unwrap();
    assert_eq!(output.next().await.unwrap(), Some(PtyEvent::Exit { code: Some(0) }));
    assert_eq!(output.next().await.unwrap(), None);
    execd.delete_pty(&session).await.unwrap();
    execd.delete_pty(&session).await.unwrap();
}

#[tokio::test]
async fn programs_with_pipes_are_left_taken_over_and_signalled() {
    let execd = execd_or_skip!("programs_with_pipes_are_left_taken_over_and_signalled");
    let mut new = NewPty::line("printf 'a\\377'; printf e >&2; read x; printf b; read x; printf c; exec sleep 60");
    new.cwd = Some("/tmp".to_owned());
    let session = execd.create_pty(&new).await.unwrap();
    let mut pipes = Attach::default();
    pipes.mode = PtyMode::Pipes;
    let (mut input, mut output) = execd.attach(&session, &pipes).await.unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while out.len() + err.len() < 3 {
        match output.next().await.unwrap() {
            Some(PtyEvent::Stdout(bytes)) => out.extend_from_slice(&bytes),
            Some(PtyEvent::Stderr(bytes)) => err.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((out.as_slice(), err.as_slice()), (&b"a\xff"[..], &b"e"[..]));
    let refused = execd.attach(&session, &pipes).await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    assert!(refused.to_string().contains("another client"), "{refused}");

    let status = execd.pty_status(&session).await.unwrap();
    assert!(status.running && status.offset == 3, "{status:?}");
    let mut over = pipes.clone();
    over.takeover = true;
    over.since = 1;
    let (mut input_2, mut output_2) = execd.attach(&session, &over).await.unwrap();
    assert_eq!(output.next().await.unwrap(), Some(PtyEvent::TakenOver));
    let _ = input.ping().await;
    match output_2.next().await.unwrap() {
        Some(PtyEvent::Replay { offset: 1, bytes }) => assert_eq!(bytes.len(), 2),
        other => panic!("{other:?}"),
    }
    input_2.send(b"\n").await.unwrap();
    heard(&mut output_2, |all| all == b"b").await;

    input_2.detach().await.unwrap();
    drop(output_2);
    // The server learns of it in its own time.
    pipes.since = 4;
    pipes.takeover = true;
    let (mut input, mut output) = execd.attach(&session, &pipes).await.unwrap();
    input.send(b"\n").await.unwrap();
    heard(&mut output, |all| all == b"c").await;
    input.signal(PtySignal::Kill).await.unwrap();
    assert_eq!(output.next().await.unwrap(), Some(PtyEvent::Exit { code: None }));
    execd.delete_pty(&session).await.unwrap();
    assert!(execd.pty_status(&session).await.unwrap_err().is_not_found());
    assert!(execd.attach(&session, &pipes).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn files_come_and_go() {
    let execd = execd_or_skip!("files_come_and_go");
    let place = place(&execd, "files").await;
    let path = format!("{place}/new/é \"x\".bin");
    let content: Bytes = (0..=255_u8).cycle().take(300_000).collect();
    let mut upload = Upload::new(&path);
    upload.permissions.mode = Some(0o640);
    execd.write(&upload, content.clone()).await.unwrap();
    assert_eq!(execd.read(&path, 300_000).await.unwrap(), content);
    assert!(execd.read(&path, 299_999).await.unwrap_err().to_string().contains("more than"));
    let info = execd.info(&path).await.unwrap();
    assert_eq!((info.kind, info.size, info.mode), (FileKind::File, 300_000, 0o640));
    assert!(info.modified.is_some() && !info.owner.is_empty());

    // Without a length, in pieces.
    let pieces = stream::iter(
        content.chunks(7_000).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect::<Vec<_>>(),
    );
    execd.upload(&upload, pieces, None).await.unwrap();
    assert_eq!(execd.read(&path, 1 << 20).await.unwrap(), content);

    for (offset, length, expected) in [
        (0, Some(10), &content[..10]),
        (299_990, None, &content[299_990..]),
        (299_990, Some(50), &content[299_990..]),
        (300_000, None, &[]),
        (400_000, Some(1), &[]),
        (5, Some(0), &[]),
    ] {
        let mut part = execd.download_part(&path, offset, length).await.unwrap();
        let mut all = Vec::new();
        while let Some(piece) = part.next().await.unwrap() {
            all.extend_from_slice(&piece);
        }
        assert!(all == expected, "{offset} {length:?}: {} bytes", all.len());
    }

    execd.set_permissions(&path, &Permissions::mode(0o600)).await.unwrap();
    assert_eq!(execd.info(&path).await.unwrap().mode, 0o600);
    let moved = format!("{place}/moved/b");
    execd.rename(&path, &moved).await.unwrap();
    assert!(execd.info(&path).await.unwrap_err().is_not_found());
    let linked = collect(&execd, &Command::line(format!("ln -s moved {place}/link"))).await;
    assert_eq!(linked.2, Exit::Code(0));
    let mut found: Vec<_> =
        execd.list(&place, 2).await.unwrap().into_iter().map(|info| (info.path, info.kind)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("link", FileKind::Symlink),
        ("moved", FileKind::Directory),
        ("moved/b", FileKind::File),
        ("new", FileKind::Directory),
    ];
    assert_eq!(found, expected.map(|(name, kind)| (format!("{place}/{name}"), kind)));

    execd.write(&Upload::new(format!("{place}/a.txt")), "one two one").await.unwrap();
    assert_eq!(execd.replace(&format!("{place}/a.txt"), "one", "1").await.unwrap(), Some(2));
    assert_eq!(execd.read(&format!("{place}/a.txt"), 100).await.unwrap(), "1 two 1");
    let found = execd.search(&place, "*.txt").await.unwrap();
    assert_eq!(found.iter().map(|info| info.path.as_str()).collect::<Vec<_>>(), [format!("{place}/a.txt")]);
    execd.remove_file(&format!("{place}/a.txt")).await.unwrap();
    execd.remove_file(&format!("{place}/a.txt")).await.unwrap();
    assert!(execd.search(&place, "*.txt").await.unwrap().is_empty());
    execd.remove_directory(&place).await.unwrap();
    assert!(execd.list(&place, 1).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_upload_that_fails_leaves_no_file() {
    let execd = execd_or_skip!("an_upload_that_fails_leaves_no_file");
    let place = place(&execd, "broken").await;
    let path = format!("{place}/f");
    let pieces = || stream::iter([Ok(Bytes::from_static(b"begin")), Err(std::io::Error::other("no more"))]);
    execd.upload(&Upload::new(&path), pieces(), None).await.unwrap_err();
    execd.upload(&Upload::new(&path), pieces(), Some(100)).await.unwrap_err();
    let short = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"short"))]);
    execd.upload(&Upload::new(&path), short, Some(100)).await.unwrap_err();
    let long = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1000]))]);
    execd.upload(&Upload::new(&path), long, Some(100)).await.unwrap_err();
    assert!(execd.info(&path).await.unwrap_err().is_not_found());
    execd.remove_directory(&place).await.unwrap();
}

#[tokio::test]
async fn measurements_are_taken() {
    let execd = execd_or_skip!("measurements_are_taken");
    let once = execd.metrics().await.unwrap();
    assert!(once.memory_total_mib > 0.0 && once.cpu_count >= 1.0);
    let mut watch = execd.watch_metrics().await.unwrap();
    let first = watch.next().await.unwrap().unwrap();
    let second = watch.next().await.unwrap().unwrap();
    assert!(first.at < second.at);
    // What there is depends on the version; that the question is answered does not.
    execd.capabilities().await.unwrap();
}

#[tokio::test]
async fn a_wrong_token_is_refused() {
    let execd = execd_or_skip!("a_wrong_token_is_refused");
    if std::env::var_os("HOTCELL_TEST_EXECD_TOKEN").is_none() {
        return;
    }
    let endpoint = Endpoint::new(execd.address().clone());
    let wrong = Execd::new(&endpoint, Some(&Secret::new("wrong".to_owned()))).unwrap();
    assert_eq!(wrong.ping().await.unwrap_err().status(), Some(401));
    let refused = wrong.attach("x", &Attach::default()).await.unwrap_err();
    assert_eq!(refused.status(), Some(401), "{refused}");
}
