//! The beginning and the end of a helper, and of what it started.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::Ordering;

use hotcell_linux::wire::{RECORD_MAX, STREAM_CHUNK, Writer, notice, order};

use crate::common::{Box, Process, agent, both, helper, in_time, launch, marker, runs, until, with_input};

#[tokio::test]
async fn the_end_of_the_conversation_ends_everything() {
    for cell in both().await {
        let word = marker();
        let running = cell.sh(&format!("trap '' HUP TERM; (setsid sleep {word} &) ; sleep {word}; sleep {word}")).await;
        until("both run", || runs(&word)).await;
        let Box { cell, keeper, mut process } = cell;
        drop(cell);
        drop(running);
        // By itself: with 1 if it had something to say and nobody heard it.
        let status = tokio::task::spawn_blocking(move || process.ended()).await.unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
        until("nothing runs", || !runs(&word)).await;
        assert!(keeper.kills.load(Ordering::Relaxed) > 0);
        assert_eq!(keeper.releases.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_box_that_is_killed_is_gone() {
    for cell in both().await {
        let word = marker();
        let mut running = cell.sh(&format!("sleep {word}")).await;
        cell.cell.kill();
        in_time("the end of the box", cell.cell.gone()).await;
        assert!(running.wait().await.is_err());
        until("nothing runs", || !runs(&word)).await;
    }
}

#[tokio::test]
async fn a_helper_that_dies_is_noticed() {
    for mut cell in both().await {
        // The helper is not pid 1 here: the program has to end by itself, with its input.
        let mut running = cell.cell.launch(with_input(launch("cat", &[]))).await.unwrap();
        cell.process.0.kill().unwrap();
        in_time("the end of the box", cell.cell.gone()).await;
        assert!(running.wait().await.is_err());
        assert!(cell.keeper.kills.load(Ordering::Relaxed) > 0, "nobody was told to end the rest");
    }
}

fn frame(record: &[u8]) -> Vec<u8> {
    [&(record.len() as u32).to_le_bytes(), record].concat()
}

/// An agent that is told these bytes ends by itself with this code.
fn ends_with(bytes: &[u8], code: i32) {
    let mut child = helper("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // It may end before it has read everything.
    let _ = input.write_all(bytes);
    let mut process = Process(child);
    let status = process.ended();
    assert_eq!(status.code(), Some(code), "{:?}", &bytes[..bytes.len().min(20)]);
    let mut said = Vec::new();
    output.read_to_end(&mut said).unwrap();
    assert!(said.len() <= 3 * STREAM_CHUNK);
}

#[test]
fn malformed_frames_end_the_agent() {
    let ready = frame(&Writer::new(order::SETUP).u32(0).finish());
    let after = |bytes: &[u8]| [&ready, bytes].concat();
    // Not set up first.
    ends_with(&frame(&Writer::new(order::SAMPLE).u32(0).finish()), 1);
    // Lengths that no record has.
    ends_with(&0_u32.to_le_bytes(), 1);
    ends_with(&after(&0_u32.to_le_bytes()), 1);
    ends_with(&after(&u32::MAX.to_le_bytes()), 1);
    ends_with(&after(&(RECORD_MAX as u32 + 1).to_le_bytes()), 1);
    // No such order, orders that end early, set up twice.
    for record in [&[99, 0, 0, 0, 0][..], &[0], &[order::SIGNAL, 1], &[order::SIGNAL, 0, 0, 0, 0, 9]] {
        ends_with(&after(&frame(record)), 1);
    }
    ends_with(&after(&ready), 1);
}

#[test]
fn a_frame_that_is_cut_off_ends_the_agent() {
    let ready = frame(&Writer::new(order::SETUP).u32(0).finish());
    for length in 1..ready.len() {
        let mut child = helper("agent").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&ready[..length]).unwrap();
        assert_eq!(Process(child).ended().code(), Some(1), "{length} bytes");
    }
}

#[test]
fn input_beyond_what_was_allowed_ends_the_agent() {
    let mut child = helper("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut process = Process(child);
    let mut said = [0; 7];
    input.write_all(&frame(&Writer::new(order::SETUP).u32(0).finish())).unwrap();
    output.read_exact(&mut said).unwrap();
    assert_eq!(said[4], notice::READY);
    let spawn = Writer::new(order::SPAWN).u32(1).u32(0).u32(0).u32(0).text("/").text("/bin:/usr/bin").u32(0);
    let spawn = spawn.u32(2).text("sleep").text("600").u32(0).finish();
    input.write_all(&frame(&spawn)).unwrap();
    let piece = frame(&Writer::new(order::INPUT).u32(1).bytes(&[0; STREAM_CHUNK]).finish());
    // A pipe full, the window full, and one more.
    for _ in 0..6 {
        let _ = input.write_all(&piece);
    }
    assert_eq!(process.ended().code(), Some(1));
}

#[tokio::test]
async fn an_agent_behind_a_bridge_that_ends_says_so() {
    let cell = agent().await;
    cell.cell.kill();
    in_time("the end of the box", cell.cell.gone()).await;
    assert_eq!(cell.cell.broken(), None, "an end in good order is no fault");
}

#[test]
fn a_mode_that_there_is_not_is_refused() {
    let mut child = helper("nonsense").stdin(Stdio::null()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
