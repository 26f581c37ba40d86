//! What programs write, on its way over a stream.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::common::{agent, in_time, init, marker, read, rests, runs, status_of, until};

/// More than pipes and windows hold together.
const MUCH: usize = 100 << 20;

fn resident_kib(pid: u32, name: &str) -> u64 {
    status_of(pid, name).and_then(|line| line.split(' ').next()?.parse().ok()).unwrap()
}

#[tokio::test]
async fn bytes_arrive_as_they_were_written() {
    let agent = agent().await;
    let script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
    let (output, error, code) = agent.run(script).await;
    let expected: String = (0..20000).map(|number| format!("line {number}\n")).collect();
    assert!(output == expected);
    assert_eq!((error.as_str(), code), ("", Some(0)));
}

#[tokio::test]
async fn unread_output_stops_the_program_and_takes_no_memory() {
    let agent = agent().await;
    let script = format!("dd if=/dev/zero bs=65536 count={} 2>/dev/null; echo done >&2", MUCH / 65536);
    let mut running = agent.sh(&script).await;
    let mut error = pipe::Receiver::from_owned_fd(running.take_error().unwrap()).unwrap();
    let mut output = pipe::Receiver::from_owned_fd(running.take_output().unwrap()).unwrap();
    let early = tokio::time::timeout(Duration::from_millis(500), error.read_u8()).await;
    assert!(early.is_err(), "the program did not wait for its reader");
    rests(agent.pid()).await;
    let mut total = 0;
    let mut buffer = vec![0; 1 << 20];
    while let length @ 1.. = output.read(&mut buffer).await.unwrap() {
        total += length;
        if total % (1 << 20) < length {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
    assert_eq!(total, MUCH);
    assert_eq!(error.read_u8().await.unwrap(), b'd');
    assert_eq!(in_time("the end", running.wait()).await.unwrap().code, Some(0));
    assert!(resident_kib(agent.pid(), "VmHWM") < 1024, "{} KiB", resident_kib(agent.pid(), "VmHWM"));
}

#[tokio::test]
async fn one_output_that_nobody_reads_does_not_hold_up_another() {
    let agent = agent().await;
    let mut stuck = agent.sh("exec cat /dev/zero").await;
    let (output, _, code) = in_time("another program", agent.run("echo hello")).await;
    assert_eq!((output.as_str(), code), ("hello\n", Some(0)));
    stuck.signaler().kill_tree().await.unwrap();
    assert_eq!(in_time("the end", stuck.wait()).await.unwrap().signal, Some(9));
}

#[tokio::test]
async fn what_was_written_before_the_end_arrives_whatever_is_allowed() {
    let agent = agent().await;
    // More than the pipe here (at most 64 KiB) and the window (256 KiB) hold: the rest is in the program's own pipe.
    let mut running = agent.sh("dd if=/dev/zero bs=1024 count=330 2>/dev/null").await;
    assert_eq!(in_time("the end before anything is read", running.wait()).await.unwrap().code, Some(0));
    assert!(running.output_ends());
    assert_eq!(read(running.take_output()).await.len(), 330 * 1024);
}

#[tokio::test]
async fn the_output_ends_with_the_program_and_daemons_write_to_nobody() {
    let agent = agent().await;
    let word = marker();
    let script = format!("(trap '' HUP; setsid sh -c 'sleep 0.3; echo late; exec sleep {word}' &) ; echo first");
    let mut running = agent.sh(&script).await;
    let output = in_time("the end of output", read(running.take_output())).await;
    assert_eq!(output, b"first\n");
    assert_eq!(in_time("the end", running.wait()).await.unwrap().code, Some(0));
    // It got SIGPIPE, or an error that echo reports; either way it is ours to end.
    running.signaler().kill_tree().await.unwrap();
    until("the daemon is gone", || !runs(&word)).await;
}

#[tokio::test]
async fn a_program_whose_reader_has_gone_hears_of_it() {
    let agent = agent().await;
    let mut running = agent.sh("while echo word; do :; done 2>/dev/null; exit 42").await;
    drop(running.take_output());
    let ended = in_time("the end", running.wait()).await.unwrap();
    assert!(ended.signal == Some(libc::SIGPIPE) || ended.code == Some(42), "{ended:?}");
}

#[tokio::test]
async fn an_output_that_is_closed_early_ends_early() {
    let agent = agent().await;
    let mut running = agent.sh("echo last; exec >&-; exec sleep 600").await;
    assert_eq!(in_time("the end of output", read(running.take_output())).await, b"last\n");
    running.signaler().kill_tree().await.unwrap();
    in_time("the end", running.wait()).await.unwrap();
}

#[tokio::test]
async fn an_init_on_a_socket_hands_the_pipes_over() {
    let init = init().await;
    let mut running = init.sh("echo hello").await;
    assert!(!running.output_ends());
    assert_eq!(read(running.take_output()).await, b"hello\n");
    running.wait().await.unwrap();
}
