//! What programs read, on its way over a stream.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::common::{agent, in_time, read, rests, sh, status_of, with_input};

const MUCH: usize = 10 << 20;

fn writer(running: &mut hotcell_linux::Running) -> pipe::Sender {
    pipe::Sender::from_owned_fd(running.take_input().unwrap()).unwrap()
}

#[tokio::test]
async fn ten_megabytes_come_back_from_a_program_that_is_slow_to_read() {
    let agent = agent().await;
    let script = "sleep 0.2; head -c 1000; sleep 0.1; head -c 300000; sleep 0.1; cat";
    let mut running = agent.cell.launch(with_input(sh(script))).await.unwrap();
    let mut input = writer(&mut running);
    let sent: Vec<u8> = (0..MUCH).map(|number| (number / 251) as u8).collect();
    let back = tokio::spawn(read(running.take_output()));
    input.write_all(&sent).await.unwrap();
    drop(input);
    assert!(in_time("the echo", back).await.unwrap() == sent);
    assert_eq!(in_time("the end", running.wait()).await.unwrap().code, Some(0));
    let most: u64 = status_of(agent.pid(), "VmHWM").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(most < 1024, "{most} KiB");
}

#[tokio::test]
async fn a_program_that_never_reads_makes_the_writer_wait_and_nobody_else() {
    let agent = agent().await;
    let mut running = agent.cell.launch(with_input(sh("exec sleep 600"))).await.unwrap();
    let mut input = writer(&mut running);
    let bytes = vec![0; MUCH];
    let writing = tokio::time::timeout(Duration::from_millis(300), input.write_all(&bytes)).await;
    assert!(writing.is_err(), "ten megabytes went nowhere");
    let (output, _, _) = in_time("another program", agent.run("echo hello")).await;
    assert_eq!(output, "hello\n");
    rests(agent.pid()).await;
    running.signaler().kill_tree().await.unwrap();
    in_time("the end", running.wait()).await.unwrap();
    // With the program its input is gone.
    let error = in_time("the end of the pipe", input.write_all(&bytes)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_program_that_closes_its_input_is_noticed() {
    let agent = agent().await;
    let mut running = agent.cell.launch(with_input(sh("exec <&-; echo closed; exec sleep 600"))).await.unwrap();
    let input = writer(&mut running);
    let mut output = pipe::Receiver::from_owned_fd(running.take_output().unwrap()).unwrap();
    assert_eq!(in_time("that it is closed", output.read_u8()).await.unwrap(), b'c');
    rests(agent.pid()).await;
    // Known by now, without anything having been written.
    let error = input.try_write(b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    running.signaler().kill_tree().await.unwrap();
    in_time("the end", running.wait()).await.unwrap();
}

#[tokio::test]
async fn what_was_kept_for_a_program_is_gone_with_it() {
    let agent = agent().await;
    let size = || -> u64 { status_of(agent.pid(), "VmSize").unwrap().split(' ').next().unwrap().parse().unwrap() };
    let mut before = 0;
    for number in 0..40 {
        // A daemon still has it, so that only the end of the program ends it.
        let script = "exec 3<&0; (exec sleep 0.5 <&3 3<&- &); sleep 0.05";
        let mut running = agent.cell.launch(with_input(sh(script))).await.unwrap();
        let mut input = writer(&mut running);
        // More than pipes hold; nobody reads it.
        assert!(in_time("the end of the pipe", input.write_all(&[0; 400_000])).await.is_err());
        in_time("the end", running.wait()).await.unwrap();
        if number == 0 {
            before = size();
        }
    }
    assert!(size() < before + 256, "{} KiB have become {} KiB", before, size());
}

#[tokio::test]
async fn the_end_of_input_arrives_after_its_last_byte() {
    let agent = agent().await;
    for bytes in [0, 1, 4096, 65536, 200_000] {
        let mut running = agent.cell.launch(with_input(sh("sleep 0.05; wc -c"))).await.unwrap();
        let mut input = writer(&mut running);
        input.write_all(&vec![b'x'; bytes]).await.unwrap();
        drop(input);
        let output = in_time("the count", read(running.take_output())).await;
        assert_eq!(String::from_utf8(output).unwrap().trim(), bytes.to_string());
        in_time("the end", running.wait()).await.unwrap();
    }
}

#[tokio::test]
async fn a_program_without_input_reads_its_end() {
    let agent = agent().await;
    let (output, _, code) = in_time("cat", agent.run("cat; echo end")).await;
    assert_eq!((output.as_str(), code), ("end\n", Some(0)));
}
