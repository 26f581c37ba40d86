//! Signals to `hotcell` are for the command.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::place::Place;

/// Starts a script that prints a line when it is ready.
fn start(place: &Place, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child =
        place.command(&["run", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, stdout)
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_signal_is_passed_on() {
    let place = Place::new();
    if !place.has_boxes("a_signal_is_passed_on") {
        return;
    }
    for signal in ["TERM", "INT"] {
        let script = format!("trap 'echo caught; exit 9' {signal}; echo ready; while :; do sleep 0.05; done");
        let (mut child, mut stdout) = start(&place, &script);
        send(signal, &child);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), child.wait().unwrap().code()), ("caught\n", Some(9)), "{signal}");
    }
}

#[test]
fn whoever_asks_twice_means_it() {
    let place = Place::new();
    if !place.has_boxes("whoever_asks_twice_means_it") {
        return;
    }
    let script = "trap 'echo ignored' INT; echo ready; while :; do sleep 0.05; done";
    let (mut child, mut stdout) = start(&place, script);
    send("INT", &child);
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ignored\n");
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_reader_that_does_not_read_cannot_hold_up_who_asks_twice() {
    let place = Place::new();
    if !place.has_boxes("a_reader_that_does_not_read_cannot_hold_up_who_asks_twice") {
        return;
    }
    let (mut child, stdout) = start(&place, "echo ready; exec yes");
    thread::sleep(Duration::from_millis(300));
    send("TERM", &child);
    thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the output is not written yet");
    send("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    drop(stdout);
}

/// A caller that ignores the ends of its children hands that on; then nobody would hear of the command's end.
#[test]
fn what_the_caller_ignores_does_not_matter() {
    let place = Place::new();
    if !place.has_boxes("what_the_caller_ignores_does_not_matter") {
        return;
    }
    let hotcell = place.command(&["run", "--timeout", "60s", "--", "sh", "-c", "exit 3"]);
    // A shell would take its own handling back before it executes.
    let mut caller = Command::new("/usr/bin/env");
    caller.arg("--ignore-signal=CHLD").arg(hotcell.get_program()).args(hotcell.get_args());
    caller.current_dir(place.project()).env_clear().env("HOME", place.home());
    assert_eq!(caller.status().unwrap().code(), Some(3));
}
