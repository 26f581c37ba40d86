//! The scripts that end and signal commands, against processes of this machine.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

const START: &str = include_str!("../scripts/start.sh");
const END: &str = include_str!("../scripts/end.sh");

/// A child that ends with the test, however that ends.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command under the wrapper: its process, and when that was started.
fn start(shell: &str, script: &str) -> (Guarded, String, String) {
    use std::io::BufRead;
    let mut child = Command::new(shell)
        .args(["-c", START, "hotcell", "n", "/", "/usr/bin:/bin", "--", "0", "/bin/sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let words: Vec<String> = line.trim_matches(['\x1e', '\n']).split(' ').map(str::to_owned).collect();
    assert_eq!(words[2], "ready", "{line}");
    // Until it says that it is where the test wants it.
    output.read_line(&mut line).unwrap();
    (Guarded(child), words[3].clone(), words[4].clone())
}

fn processes_with(word: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
    let has = |line: Vec<u8>| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes());
    lines.filter_map(|path| std::fs::read(path).ok()).filter(|line| has(line.clone())).count()
}

/// Waits until something is so; only a failing test waits long.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let enough = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_so()
    });
    assert!(enough);
}

fn shells() -> Vec<&'static str> {
    ["/bin/sh", "/bin/bash"].into_iter().filter(|path| std::path::Path::new(path).exists()).collect()
}

#[test]
fn a_command_is_ended_with_all_that_descends_from_it() {
    for (number, shell) in shells().into_iter().enumerate() {
        let word = format!("7{}{number}1", std::process::id());
        let script = format!(
            "(setsid sleep {word} & sleep {word}) & trap '' TERM; sleep {word} & echo; while :; do sleep {word}; done"
        );
        let (_child, process, started) = start(shell, &script);
        until(|| processes_with(&word) >= 3);
        let ended = Command::new(shell).args(["-c", END, "hotcell", &process, &started, "0.01"]).output().unwrap();
        assert_eq!(ended.stdout, b"gone\n", "{ended:?}");
        assert_eq!(processes_with(&word), 0);
    }
}

#[test]
fn a_number_that_is_somebody_elses_now_is_left_alone() {
    let word = format!("7{}9", std::process::id());
    let (_child, process, started) = start("/bin/sh", &format!("echo; exec sleep {word}"));
    until(|| processes_with(&word) == 1);
    let other: u64 = started.parse::<u64>().unwrap() + 1;
    let ended =
        Command::new("/bin/sh").args(["-c", END, "hotcell", &process, &other.to_string(), "0"]).output().unwrap();
    assert_eq!(ended.stdout, b"gone\n");
    assert_eq!(processes_with(&word), 1);
}
