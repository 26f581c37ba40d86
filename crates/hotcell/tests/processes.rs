//! Commands: how they end, what they read and write, terminals, signals, and what is left when a handle is dropped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::process::{Child, Stdio};
use std::time::Duration;

use common::{LONG, PYTHON, Place, engine, eventually, has_program, marker, processes_with, python, run_in, sh};
use hotcell::{
    CaptureLimits, EngineError, OutputEvents, Policy, ProcessError, Signal, SpawnConfig, SpawnError, Status, StdinMode,
    Stream, TtySize,
};

/// Everything to come on both streams.
async fn read_all(output: &mut dyn OutputEvents) -> (Vec<u8>, Vec<u8>) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(event) = output.next().await {
        assert!(!event.bytes.is_empty());
        match event.stream {
            Stream::Stdout => stdout.extend(event.bytes),
            Stream::Stderr => stderr.extend(event.bytes),
        }
    }
    (stdout, stderr)
}

/// Reads until what came contains `wanted`; all that came.
async fn read_until(output: &mut dyn OutputEvents, wanted: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(wanted) {
        match tokio::time::timeout(LONG, output.next()).await {
            Ok(Some(event)) => seen.push_str(&String::from_utf8_lossy(&event.bytes)),
            Ok(None) => panic!("ended without {wanted:?}: {seen:?}"),
            Err(_) => panic!("no {wanted:?} in {seen:?}"),
        }
    }
    seen
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let Some(engine) = engine("exit_codes_and_signals_are_told_apart").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    for code in [0, 1, 3, 124, 125, 126, 127, 128, 137, 255] {
        let output = run_in(&*sandbox, sh(&format!("exit {code}"))).await;
        assert_eq!(output.status(), Status::Exited(code));
    }
    for signal in [1, 2, 6, 9, 11, 13, 15, 34, 64] {
        let output = run_in(&*sandbox, sh(&format!("kill -{signal} $$"))).await;
        assert_eq!(output.status(), Status::Signaled(signal));
    }
}

#[tokio::test]
async fn streams_are_separate_and_bytes_are_bytes() {
    let test = "streams_are_separate_and_bytes_are_bytes";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let program = "import os\nfor i in range(64): os.write(1, bytes(range(256)) * 16); os.write(2, bytes(range(255, -1, -1)) * 3)";
    let output = engine.run(python(program)).await.unwrap();
    assert_eq!(output.status(), Status::Exited(0));
    let up: Vec<u8> = (0..=255).collect();
    let down: Vec<u8> = (0..=255).rev().collect();
    assert!(output.stdout.bytes() == up.repeat(16 * 64));
    assert!(output.stderr.bytes() == down.repeat(3 * 64));
    assert_eq!((output.stdout.truncated(), output.stderr.truncated()), (false, false));
}

#[tokio::test]
async fn a_stream_keeps_its_order() {
    let Some(engine) = engine("a_stream_keeps_its_order").await else { return };
    let output = engine.run(sh("seq 200000; seq 9 -1 1 >&2")).await.unwrap();
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(common::stdout(&output) == expected);
    assert_eq!(common::text(&output.stderr), "9\n8\n7\n6\n5\n4\n3\n2\n1\n");
}

#[tokio::test]
async fn what_comes_first_on_one_stream_is_seen_before_what_comes_later_on_the_other() {
    let Some(engine) = engine("what_comes_first_on_one_stream").await else { return };
    let config = sh("echo a; read go; echo b >&2; read go; echo c").stdin(StdinMode::Piped);
    let mut command = engine.start(&Policy::default(), config).await.unwrap();
    let io = command.take_io();
    let (mut stdin, mut output) = (io.stdin.unwrap(), io.output.unwrap());
    for (stream, line) in [(Stream::Stdout, "a\n"), (Stream::Stderr, "b\n"), (Stream::Stdout, "c\n")] {
        let event = output.next().await.unwrap();
        assert_eq!((event.stream, event.bytes.as_slice()), (stream, line.as_bytes()));
        let _ = stdin.write_all(b"\n").await;
    }
    assert!(output.next().await.is_none() && output.next().await.is_none());
    assert_eq!(command.finish().await.unwrap().status, Status::Exited(0));
}

#[tokio::test]
async fn a_mebibyte_goes_through_and_comes_back() {
    let Some(engine) = engine("a_mebibyte_goes_through_and_comes_back").await else { return };
    let mut command = engine.start(&Policy::default(), SpawnConfig::new("cat").stdin(StdinMode::Piped)).await.unwrap();
    let io = command.take_io();
    let (mut stdin, mut output) = (io.stdin.unwrap(), io.output.unwrap());
    let sent: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_le_bytes).collect();
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        stdin.write_all(&copy).await.unwrap();
        stdin.close().await.unwrap();
        stdin.close().await.unwrap();
        stdin.write_all(b"more").await.unwrap_err()
    });
    let (stdout, _) = tokio::time::timeout(LONG, read_all(&mut *output)).await.expect("stuck");
    assert!(stdout == sent);
    assert_eq!(writer.await.unwrap().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(command.finish().await.unwrap().status, Status::Exited(0));
}

#[tokio::test]
async fn no_stdin_is_an_end_of_file() {
    let Some(engine) = engine("no_stdin_is_an_end_of_file").await else { return };
    let output = engine.run(sh("cat; read x || echo end")).await.unwrap();
    assert_eq!(common::stdout(&output), "end\n");
    // A piped stdin that nobody takes is closed, too.
    let output = engine.run(sh("cat; echo end").stdin(StdinMode::Piped)).await.unwrap();
    assert_eq!(common::stdout(&output), "end\n");
}

#[tokio::test]
async fn writing_to_a_command_that_does_not_read_is_a_broken_pipe() {
    let Some(engine) = engine("writing_to_a_command_that_does_not_read").await else { return };
    let mut command = engine.start(&Policy::default(), sh("exec <&-; exit 0").stdin(StdinMode::Piped)).await.unwrap();
    let mut stdin = command.take_io().stdin.unwrap();
    let write = tokio::time::timeout(LONG, stdin.write_all(&vec![0; 1 << 20])).await.expect("stuck");
    assert_eq!(write.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(command.finish().await.unwrap().status, Status::Exited(0));
}

#[tokio::test]
async fn a_reader_that_stops_makes_the_writer_wait() {
    let test = "a_reader_that_stops_makes_the_writer_wait";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    // Notes how much it could write.
    let program = "import os\nn = 0\nb = bytes(4096)\nwhile True:\n  n += os.write(1, b)\n  f = open('/tmp/n', 'w'); f.write(str(n)); f.close()";
    let mut process = sandbox.spawn(python(program)).await.unwrap();
    let mut output = process.take_io().output.unwrap();
    output.next().await.unwrap();
    let written = async || -> u64 {
        let text = sandbox.files().unwrap().read("/tmp/n".as_ref(), 99).await.unwrap_or_default();
        String::from_utf8(text).unwrap().parse().unwrap_or(0)
    };
    // It stands still: the same for a while.
    let (mut before, mut still) = (0, 0);
    while still < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = written().await;
        still = if now == before && now > 0 { still + 1 } else { 0 };
        before = now;
        assert!(now < 1 << 20, "wrote {now} bytes that nobody read");
    }
    // And goes on when it is read.
    while written().await < 4 << 20 {
        output.next().await.unwrap();
    }
}

#[tokio::test]
async fn head_and_tail_are_kept_and_the_rest_is_counted() {
    let Some(engine) = engine("head_and_tail_are_kept_and_the_rest_is_counted").await else { return };
    let config = sh("seq -w 0 99999").capture(CaptureLimits { head: 600, tail: 12 });
    let stdout = engine.run(config).await.unwrap().stdout;
    assert_eq!(stdout.total, 600_000);
    assert_eq!(stdout.dropped(), 600_000 - 612);
    assert!(stdout.truncated() && stdout.head.starts_with(b"00000\n") && stdout.head.ends_with(b"00099\n"));
    assert_eq!(stdout.tail, b"99998\n99999\n");
    let config = sh("printf abcdef").capture(CaptureLimits { head: 0, tail: 0 });
    let stdout = engine.run(config).await.unwrap().stdout;
    assert_eq!((stdout.total, stdout.bytes().len()), (6, 0));
}

#[tokio::test]
async fn stopping_to_wait_changes_nothing() {
    let Some(engine) = engine("stopping_to_wait_changes_nothing").await else { return };
    // Nobody takes the output, and it is written after somebody stopped waiting.
    let script = "sleep 0.5; head -c 300000 /dev/zero || exit 1; echo more || exit 2; exit 5";
    let command = engine.start(&Policy::default(), sh(script)).await.unwrap();
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(50), command.wait()).await.is_err());
    }
    let (one, two) = tokio::join!(command.wait(), command.wait());
    assert_eq!(one.unwrap().status, Status::Exited(5));
    assert_eq!(two.unwrap().status, Status::Exited(5));
    assert_eq!(command.wait().await.unwrap().status, Status::Exited(5));
}

#[tokio::test]
async fn an_event_is_not_lost_when_nobody_waits_for_it() {
    let Some(engine) = engine("an_event_is_not_lost_when_nobody_waits_for_it").await else { return };
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.03; done";
    let mut command = engine.start(&Policy::default(), sh(script)).await.unwrap();
    let mut output = command.take_io().output.unwrap();
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_millis(5), output.next()).await {
            Err(_) => {}
            Ok(Some(event)) => seen.extend(event.bytes),
            Ok(None) => break,
        }
    }
    assert_eq!(String::from_utf8_lossy(&seen), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

#[tokio::test]
async fn a_daemon_that_writes_for_ever_does_not_hold_up_the_result() {
    let Some(engine) = engine("a_daemon_that_writes_for_ever").await else { return };
    let policy = Policy::builder().unlimited(hotcell::Control::Output).build().unwrap();
    let run =
        engine.run_with(&policy, sh("echo mine; for i in 1 2 3 4 5 6 7 8; do cat /dev/zero & done; sleep 0.1; exit 3"));
    let output = tokio::time::timeout(LONG, run).await.expect("the daemon's output is read for ever").unwrap();
    assert_eq!(output.status(), Status::Exited(3));
    assert!(output.stdout.head.starts_with(b"mine\n"));
}

#[tokio::test]
async fn output_of_a_command_is_complete_although_a_daemon_holds_its_streams() {
    let Some(engine) = engine("output_of_a_command_is_complete").await else { return };
    let output = engine.run(sh("sleep 600 & head -c 60000 /dev/zero; echo end")).await.unwrap();
    assert_eq!((output.status(), output.stdout.total), (Status::Exited(0), 60_004));
}

#[tokio::test]
async fn output_ends_when_the_handle_is_dropped() {
    let Some(engine) = engine("output_ends_when_the_handle_is_dropped").await else { return };
    let sandbox = engine.create(&with_terminal()).await.unwrap();
    // The second leaves a daemon that holds the streams and outlives the handle.
    for config in [sh("echo a; sleep 600"), sh("echo a; sleep 600 &"), sh("echo a; sleep 600").tty(TtySize::default())]
    {
        let mut process = sandbox.spawn(config).await.unwrap();
        let mut output = process.take_io().output.unwrap();
        read_until(&mut *output, "a").await;
        drop(process);
        tokio::time::timeout(LONG, read_all(&mut *output)).await.expect("output without an end");
    }
}

fn with_terminal() -> Policy {
    Policy::builder().tty(true).build().unwrap()
}

#[tokio::test]
async fn a_terminal_is_one() {
    let Some(engine) = engine("a_terminal_is_one").await else { return };
    let size = TtySize { columns: 91, rows: 37 };
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && tty && echo direct > /dev/tty";
    let output = engine.run_with(&with_terminal(), sh(script).tty(size)).await.unwrap();
    assert_eq!(common::stdout(&output), "37 91\r\n/dev/pts/0\r\ndirect\r\n");
    // Without one there is none, not even the caller's.
    let output =
        engine.run_with(&with_terminal(), sh("test -t 1 || echo no; echo x > /dev/tty || echo none")).await.unwrap();
    assert_eq!(common::stdout(&output), "no\nnone\n");
    // And a policy that does not allow one does not allow one.
    let error = engine.run(sh("tty").tty(size)).await.unwrap_err();
    assert!(matches!(error, EngineError::Spawn(SpawnError::NotAllowed { .. })), "{error}");
}

#[tokio::test]
async fn a_terminal_can_be_resized_and_interrupted() {
    let test = "a_terminal_can_be_resized_and_interrupted";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let program = "import os, signal, sys\ndef show(*a):\n  s = os.get_terminal_size(); os.write(1, b'size %d %d\\n' % (s.columns, s.lines))\nsignal.signal(signal.SIGWINCH, show)\nos.write(1, b'ready\\n')\nwhile True: signal.pause()";
    let mut command = engine.start(&with_terminal(), python(program).tty(TtySize::default())).await.unwrap();
    let io = command.take_io();
    let (mut stdin, mut output) = (io.stdin.unwrap(), io.output.unwrap());
    read_until(&mut *output, "ready").await;
    command.resize(TtySize { columns: 132, rows: 50 }).await.unwrap();
    read_until(&mut *output, "size 132 50").await;
    // Ctrl-C.
    stdin.write_all(&[3]).await.unwrap();
    let (rest, _) = read_all(&mut *output).await;
    assert!(String::from_utf8_lossy(&rest).contains("^C"));
    let outcome = command.wait().await.unwrap();
    assert!(matches!(outcome.status, Status::Signaled(2) | Status::Exited(1 | 130)), "{:?}", outcome.status);
    assert!(command.resize(TtySize::default()).await.is_ok() || command.wait().await.is_ok());
    // What has no terminal has no size.
    let plain = engine.start(&Policy::default(), sh("sleep 600")).await.unwrap();
    assert!(matches!(plain.resize(TtySize::default()).await, Err(ProcessError::NoTerminal)));
}

#[tokio::test]
async fn closing_the_keyboard_ends_a_shell() {
    let Some(engine) = engine("closing_the_keyboard_ends_a_shell").await else { return };
    let mut command = engine.start(&with_terminal(), SpawnConfig::new("cat").tty(TtySize::default())).await.unwrap();
    let io = command.take_io();
    let (mut stdin, mut output) = (io.stdin.unwrap(), io.output.unwrap());
    stdin.write_all(b"hello\n").await.unwrap();
    // Its own echo, and what the program writes.
    read_until(&mut *output, "hello\r\nhello\r\n").await;
    stdin.close().await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, command.wait()).await.expect("no end").unwrap().status, Status::Exited(0));
}

#[tokio::test]
async fn a_signal_reaches_its_handler() {
    let Some(engine) = engine("a_signal_reaches_its_handler").await else { return };
    let script = "trap 'echo got; exit 6' USR1; echo ready; while :; do sleep 0.01; done";
    let mut command = engine.start(&Policy::default(), sh(script)).await.unwrap();
    let mut output = command.take_io().output.unwrap();
    read_until(&mut *output, "ready\n").await;
    command.signal(Signal::USR1).await.unwrap();
    read_until(&mut *output, "got\n").await;
    assert_eq!(command.wait().await.unwrap().status, Status::Exited(6));
    assert!(matches!(command.signal(Signal::USR1).await, Err(ProcessError::Ended)));
}

#[tokio::test]
async fn a_signal_that_the_caller_sends_is_a_signal_and_a_kill_is_a_cancellation() {
    let Some(engine) = engine("a_signal_that_the_caller_sends").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let process = sandbox.spawn(sh("sleep 600")).await.unwrap();
    process.signal(Signal::KILL).await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Signaled(9));
    let word = marker();
    let script = format!("(setsid sleep {word} &); trap '' TERM INT; sleep {word}; sleep {word}");
    let process = sandbox.spawn(sh(&script)).await.unwrap();
    eventually("they run", || processes_with(&word).len() >= 2).await;
    process.kill().await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    eventually("they are gone", || processes_with(&word).is_empty()).await;
    // The contract: ending what has ended is no error.
    process.kill().await.unwrap();
    // The box goes on.
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
}

#[tokio::test]
async fn what_was_asked_to_end_is_ended_with_all_it_started() {
    let Some(engine) = engine("what_was_asked_to_end_is_ended_with_all_it_started").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let long = Duration::from_secs(3600);
    for (command, grace, status) in [
        ("trap 'exit 3' TERM", long, Status::Exited(3)),
        ("true", long, Status::Signaled(15)),
        ("trap '' TERM", Duration::from_millis(100), Status::Canceled),
        ("trap '' TERM", Duration::ZERO, Status::Canceled),
    ] {
        let mut process = sandbox.spawn(sh(&format!("{command}; echo; while :; do sleep 0.01; done"))).await.unwrap();
        let mut output = process.take_io().output.unwrap();
        output.next().await.unwrap();
        process.stop(grace).await.unwrap();
        assert_eq!(process.wait().await.unwrap().status, status, "{command}");
        process.stop(grace).await.unwrap();
    }
    // Dropping the handle, or a kill, does not wait until the time is over that daemons have.
    for dropped in [true, false] {
        let (leader, daemon, other) = (marker(), marker(), marker());
        let others = sandbox.spawn(sh(&format!("exec sleep {other}"))).await.unwrap();
        let process = sandbox.spawn(sh(&format!("setsid sh -c 'exec sleep {daemon}' & sleep {leader}"))).await.unwrap();
        eventually("they run", || processes_with(&leader).len() == 1 && processes_with(&daemon).len() == 1).await;
        process.stop(long).await.unwrap();
        eventually("it has ended", || processes_with(&leader).is_empty()).await;
        // It has its time whatever else runs.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(processes_with(&daemon).len(), 1);
        if dropped {
            drop(process);
        } else {
            process.kill().await.unwrap();
            assert_eq!(process.wait().await.unwrap().status, Status::Signaled(15));
        }
        eventually("nothing is left", || processes_with(&daemon).is_empty()).await;
        assert_eq!(processes_with(&other).len(), 1);
        others.kill().await.unwrap();
        assert_eq!(others.wait().await.unwrap().status, Status::Canceled);
    }
}

#[tokio::test]
async fn limits_hold_until_the_last_of_a_command_has_ended() {
    let Some(engine) = engine("limits_hold_until_the_last_of_a_command_has_ended").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let daemon = marker();
    let config =
        sh(&format!("setsid sh -c 'echo; exec sleep {daemon}' & exec sleep 600")).timeout(Duration::from_secs(2));
    let mut process = sandbox.spawn(config).await.unwrap();
    let mut output = process.take_io().output.unwrap();
    output.next().await;
    process.stop(Duration::from_secs(3600)).await.unwrap();
    let ended = tokio::time::timeout(LONG, process.wait()).await.expect("it goes on");
    assert_eq!(ended.unwrap().status, Status::TimedOut);
    eventually("nothing is left", || processes_with(&daemon).is_empty()).await;
}

#[tokio::test]
async fn what_took_too_long_is_ended_with_all_it_started_although_nobody_waits() {
    let name = "what_took_too_long_is_ended_with_all_it_started_although_nobody_waits";
    let Some(engine) = engine(name).await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let (leader, daemon) = (marker(), marker());
    let config = sh(&format!("setsid sleep {daemon} & echo; exec sleep {leader}")).timeout(Duration::from_secs(2));
    let mut process = sandbox.spawn(config).await.unwrap();
    let mut output = process.take_io().output.unwrap();
    output.next().await;
    eventually("it has ended", || processes_with(&leader).is_empty()).await;
    // The daemon has a moment to end by itself.
    drop(process);
    eventually("nothing is left", || processes_with(&daemon).is_empty()).await;
}

/// A process of the host's, ended with the test.
struct Outside(Child);

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_command_cannot_signal_its_init_or_what_is_outside() {
    let test = "a_command_cannot_signal_its_init_or_what_is_outside";
    let Some(engine) = engine(test).await else { return };
    let word = marker();
    let outside = Outside(
        std::process::Command::new("sleep").arg(&word).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
    );
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let script =
        format!("for s in TERM INT HUP KILL STOP; do kill -$s 1 {} ; done 2>/dev/null; exit 0", outside.0.id());
    assert_eq!(run_in(&*sandbox, sh(&script)).await.status(), Status::Exited(0));
    // -1: everything that may be signalled, which is what is in the box.
    assert_eq!(run_in(&*sandbox, sh("sleep 600 & kill -KILL -1; wait; exit 4")).await.status(), Status::Exited(4));
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
    assert_eq!(processes_with(&word), [outside.0.id()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_at_once_in_one_box() {
    let Some(engine) = engine("fifty_commands_at_once_in_one_box").await else { return };
    let sandbox: std::sync::Arc<dyn hotcell::Sandbox> = engine.create(&Policy::default()).await.unwrap().into();
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move {
                let output = run_in(&*sandbox, sh(&format!("sleep 0.1; echo {number}; exit {number}"))).await;
                assert_eq!(
                    (output.status(), common::text(&output.stdout)),
                    (Status::Exited(number), format!("{number}\n"))
                );
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_daemon_outlives_its_command_but_not_its_box() {
    let Some(engine) = engine("a_daemon_outlives_its_command_but_not_its_box").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let word = marker();
    let output = run_in(&*sandbox, sh(&format!("(setsid sleep {word} >/dev/null 2>&1 &)"))).await;
    assert_eq!(output.status(), Status::Exited(0));
    // Other commands come and go, and one is ended by force.
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
    // The kernel tells start times in hundredths of a second: what starts within one of them cannot be told apart.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let config = sh("sleep 600").timeout(Duration::from_millis(300));
    assert_eq!(run_in(&*sandbox, config).await.status(), Status::TimedOut);
    assert_eq!(processes_with(&word).len(), 1);
    sandbox.destroy().await.unwrap();
    assert_eq!(processes_with(&word), [0; 0]);
}

#[tokio::test]
async fn a_timeout_of_one_command_is_not_that_of_another() {
    let Some(engine) = engine("a_timeout_of_one_command_is_not_that_of_another").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let (early, late) = (marker(), marker());
    let older = sandbox.spawn(sh(&format!("sleep {early} & wait; exit 1"))).await.unwrap();
    let config = sh("sleep 600 & wait").timeout(Duration::from_millis(600));
    let ended = sandbox.spawn(config).await.unwrap();
    // Starts after the one that is ended, as a daemon of that would.
    let younger = sandbox.spawn(sh(&format!("sleep {late} & wait; exit 1"))).await.unwrap();
    assert_eq!(ended.wait().await.unwrap().status, Status::TimedOut);
    tokio::time::sleep(Duration::from_millis(100)).await;
    for (word, process) in [(&early, &older), (&late, &younger)] {
        assert_eq!(processes_with(word).len(), 1);
        process.kill().await.unwrap();
        assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    }
}

/// A command that resists, with a word to find all of it by.
fn stubborn(word: &str) -> SpawnConfig {
    sh(&format!(
        "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; sleep {word}; sleep {word}' &) ; sleep {word}; sleep {word}"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_any_handle_leaves_nothing() {
    let Some(engine) = engine("dropping_any_handle_leaves_nothing").await else { return };
    let word = marker();
    let runs = || processes_with(&word).len() >= 2;
    let gone = || processes_with(&word).is_empty();
    let sandbox = engine.create(&Policy::default()).await.unwrap();

    let process = sandbox.spawn(stubborn(&word)).await.unwrap();
    eventually("it runs", runs).await;
    drop(process);
    eventually("the process was dropped", gone).await;

    let process = sandbox.spawn(stubborn(&word)).await.unwrap();
    eventually("it runs", runs).await;
    drop(sandbox);
    eventually("the sandbox was dropped", gone).await;
    // How it ended nobody knows, but that it has is said.
    let ending = tokio::time::timeout(LONG, process.wait()).await.expect("no answer");
    assert!(matches!(ending, Err(ProcessError::Lost { .. }) | Ok(_)), "{ending:?}");

    let command = engine.start(&Policy::default(), stubborn(&word)).await.unwrap();
    eventually("it runs", runs).await;
    drop(command);
    eventually("the one-shot was dropped", gone).await;

    let policy = Policy::default();
    let run = engine.run_with(&policy, stubborn(&word));
    tokio::select! {
        _ = run => panic!("it ended"),
        _ = eventually("it runs", runs) => {}
    }
    eventually("the future was dropped", gone).await;

    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let process = sandbox.spawn(stubborn(&word)).await.unwrap();
    eventually("it runs", runs).await;
    drop((process, sandbox, engine));
    eventually("the engine was dropped", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_dropped_at_any_moment_leaves_nothing() {
    let Some(engine) = engine("a_future_dropped_at_any_moment_leaves_nothing").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let word = marker();
    let policy = Policy::default();
    for micros in (0..6000).step_by(150) {
        let limit = Duration::from_micros(micros);
        // Dropped while making the box, starting the command, or waiting for it.
        let _ = tokio::time::timeout(limit, engine.run_with(&policy, stubborn(&word))).await;
        // Dropped while starting in a kept box, or right after.
        let _ = tokio::time::timeout(limit, sandbox.spawn(stubborn(&word))).await;
    }
    eventually("all were dropped", || processes_with(&word).is_empty()).await;
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
}

#[tokio::test]
async fn long_arguments_and_environments() {
    let Some(engine) = engine("long_arguments_and_environments").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let big = "x".repeat(2 << 20);
    // One that is too long, many that are too long together, and an environment that is.
    let too_long = [
        sh("exit 0").arg(&big),
        sh("exit 0").args(vec!["y".repeat(1000); 4000]),
        sh("exit 0").env("BIG", &big),
        sh("exit 0").args(vec![big.clone(); 20]),
        sh("exit 0").args(vec!["z"; 3_000_000]),
    ];
    for config in too_long {
        let what = config.args.len() + config.env.len();
        let error = sandbox.spawn(config).await.map(drop).unwrap_err();
        assert!(matches!(error, SpawnError::TooLong { .. }), "{what}: {error}");
    }
    // The kernel takes this: 100 KiB of environment, and the same in arguments.
    let fits = sh("echo ${#BIG} $# ${#1}").arg("sh").args(vec!["a".repeat(100); 1000]).env("BIG", &big[..100_000]);
    assert_eq!(common::stdout(&run_in(&*sandbox, fits).await), "100000 1000 100\n");
    let many = (0..2000)
        .fold(sh("env | grep -c ^MANY_"), |config, number| config.env(format!("MANY_{number}"), "v".repeat(50)));
    assert_eq!(common::stdout(&run_in(&*sandbox, many).await), "2000\n");
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let Some(engine) = engine("what_cannot_be_started_says_why").await else { return };
    let place = Place::new();
    place.file("plain", "#!/bin/sh\n");
    place.file("garbage", "\u{1}\u{2}");
    place.file("dangling", "#!/no/such/interpreter\n");
    for (name, mode) in [("plain", 0o644), ("garbage", 0o755), ("dangling", 0o755)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(place.join(name), mode).unwrap();
    }
    let policy = Policy::builder().read(place.path()).build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    let start = async |config: SpawnConfig| sandbox.spawn(config).await.map(drop).unwrap_err();
    for missing in ["no-such-program", "/no/such/program", "./no", "/bin/sh/x", "", "a\0b"] {
        let error = start(SpawnConfig::new(missing)).await;
        let right = match missing {
            "" | "a\0b" => matches!(error, SpawnError::InvalidArgument { .. }),
            _ => matches!(error, SpawnError::NotFound { .. }) && error.exit_code() == 127,
        };
        assert!(right, "{missing:?}: {error:?}");
    }
    assert!(matches!(start(SpawnConfig::new(place.join("dangling"))).await, SpawnError::NotFound { .. }));
    for refused in [place.path().to_owned(), place.join("plain"), place.join("garbage"), "/usr".into()] {
        let error = start(SpawnConfig::new(&refused)).await;
        assert!(
            matches!(error, SpawnError::NotExecutable { .. }) && error.exit_code() == 126,
            "{refused:?}: {error:?}"
        );
    }
    for nul in [sh("exit").arg("a\0"), sh("exit").env("A", "\0"), sh("exit").env("A=B", "c"), sh("exit").cwd("/\0")] {
        assert!(matches!(start(nul).await, SpawnError::InvalidArgument { .. }));
    }
    for directory in ["/no/such/directory", "/etc/passwd", "relative", "/root/.ssh", "/proc/1/root", "/proc/self/fd/0"]
    {
        let error = start(sh("exit").cwd(directory)).await;
        assert!(matches!(error, SpawnError::BadCwd { .. }), "{directory}: {error:?}");
    }
    // And the box is none the worse for it.
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
}

#[tokio::test]
async fn a_box_that_is_gone_says_so() {
    let Some(engine) = engine("a_box_that_is_gone_says_so").await else { return };
    let policy = Policy::builder().processes(8).build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    // No room for another: an error of the box, not of the caller.
    let word = marker();
    let mut held = Vec::new();
    let error = loop {
        match sandbox.spawn(SpawnConfig::new("sleep").arg(&word)).await {
            Ok(process) => held.push(process),
            Err(error) => break error,
        }
        assert!(held.len() <= 8, "more than eight processes");
    };
    assert!(matches!(error, SpawnError::LimitTooLow { .. }), "{error}");
    assert_eq!(held.len(), 8);
    held.clear();
    eventually("they are gone", || processes_with(&word).is_empty()).await;
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
}
