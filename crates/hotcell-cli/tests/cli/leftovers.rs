//! Nothing is left behind, and nothing on the host is changed that was not given.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::place::Place;

/// Whether a process with this word in its command line exists.
pub(crate) fn runs(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
}

#[test]
fn killing_hotcell_ends_everything_in_the_box() {
    let place = Place::new();
    if !place.has_boxes("killing_hotcell_ends_everything_in_the_box") {
        return;
    }
    let word = format!("600.{}", std::process::id());
    let script = format!("trap '' TERM INT HUP; (setsid sleep {word} &) ; sleep 0.2; echo ready; sleep 600");
    let mut child = place.command(&["run", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(runs(&word), "the test does not see what it is looking for");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while runs(&word) {
        assert!(killed.elapsed() < Duration::from_secs(2), "still running");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn protected_paths_hold_and_leave_no_ghosts() {
    let place = Place::new();
    if !place.has_boxes("protected_paths_hold_and_leave_no_ghosts") {
        return;
    }
    let script = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit";
    assert_ne!(place.hotcell(&["run", "--write", ".", "sh", "-c", script]).code, 0);
    assert!(!place.project().join(".git/hooks/pre-commit").exists());
    // What the box may write is written.
    assert_eq!(place.hotcell(&["run", "--write", ".", "sh", "-c", "echo x > plain"]).code, 0);
    let names: Vec<_> = fs::read_dir(place.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name == ".envrc" || name == ".vscode"), "{names:?}");
    assert!(place.project().join("plain").exists());
}
