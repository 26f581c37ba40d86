//! The scripts that end and signal commands, against processes of this machine.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

const START: &str = include_str!("../scripts/start.sh");
const END: &str = include_str!("../scripts/end.sh");
const ALIVE: &str = include_str!("../scripts/alive.sh");

/// A program whose first thread ends while another goes on; it says a line when that is so.
const HEADLESS: &str = "
import ctypes, os, platform, threading, time
def rest():
    while open('/proc/self/stat').read().split(') ')[1][0] != 'Z':
        time.sleep(0.01)
    os.write(1, b'\\n')
    time.sleep(1000)
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)
";

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
        let ended = Command::new(shell).args(["-c", END, "hotcell", &process, &started, "5", "0.01"]).output().unwrap();
        assert_eq!(ended.stdout, b"gone\n", "{ended:?}");
        assert_eq!(processes_with(&word), 0);
    }
}

/// Names that are no single line, or look like the rest of one.
const NAMES: [&str; 3] = ["a\\nb", "\\n) Z 1\\n", "a) Z 1 (\\n"];

#[test]
fn a_name_with_newlines_hides_nothing_from_its_end() {
    for (number, shell) in shells().into_iter().enumerate() {
        for (other, name) in NAMES.into_iter().enumerate() {
            let word = format!("7{}{number}{other}2", std::process::id());
            let hidden = format!("printf \"{name}\" > /proc/$$/comm; echo; while :; do sleep 0.05; done");
            // What the wrapper started, and what that started in a session of its own.
            for script in [
                format!("exec /bin/sh -c '{hidden}' {word}"),
                format!("setsid /bin/sh -c '{hidden}' {word} & exec 1>&-; wait"),
            ] {
                let (_child, process, started) = start(shell, &script);
                let ended =
                    Command::new(shell).args(["-c", END, "hotcell", &process, &started, "0", "0"]).output().unwrap();
                assert_eq!(ended.stdout, b"gone\n", "{ended:?}");
                assert_eq!(processes_with(&word), 0, "{shell} {script}");
            }
        }
    }
}

/// The interpreter itself, not what looks for it.
fn python(test: &str) -> Option<String> {
    let said = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let path = said.ok().and_then(|said| String::from_utf8(said.stdout).ok()).map(|path| path.trim().to_owned());
    let path = path.filter(|path| !path.is_empty());
    if path.is_none() {
        super::skip(test, "no python3, whose first thread could end");
    }
    path
}

#[test]
fn a_command_whose_first_thread_is_dead_is_ended() {
    let Some(python) = python("a_command_whose_first_thread_is_dead_is_ended") else { return };
    for shell in shells() {
        let (_child, process, started) = start(shell, &format!("exec {python} -c \"{HEADLESS}\""));
        let threads = || std::fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
        assert_eq!(threads(), 2);
        let ended = Command::new(shell).args(["-c", END, "hotcell", &process, &started, "0", "0"]).output().unwrap();
        assert_eq!(ended.stdout, b"gone\n", "{ended:?}");
        assert!(threads() <= 1, "{shell}");
    }
}

/// What is said of a box in which this program runs, which says a line once it has hidden itself, and then what after its end.
/// None where this machine has no namespaces for it.
fn alive(shell: &str, program: &[&str]) -> Option<String> {
    let script = r#"mount -t tmpfs none /tmp && mkfifo /tmp/said || exit 7
        exec 9<&0; script=$1 shell=$2; shift 2
        read -r stat < /proc/1/stat; stat=${stat##*) }; since=$(set -- $stat; echo ${20})
        sleep 0.1; "$@" <&9 > /tmp/said & read x < /tmp/said
        $shell -c "$script" hotcell "$since"
        kill -KILL $!; wait
        $shell -c "$script" hotcell "$since""#;
    let mut child = Command::new("unshare")
        .args(["-Urpfm", "--mount-proc", "/bin/sh", "-c", script, "sh", ALIVE, shell])
        .args(program)
        // Open as long as this lives.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let _open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    (output.status.code() == Some(0)).then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_hides_makes_no_box_quiet() {
    const TEST: &str = "what_hides_makes_no_box_quiet";
    let expected = "alive\nquiet\n";
    for shell in shells() {
        let Some(said) = alive(shell, &["/bin/sh", "-c", "echo; read x"]) else {
            return super::skip(TEST, "no namespaces of its own");
        };
        assert_eq!(said, expected, "{shell}");
        for name in NAMES {
            let hidden = format!("printf '{name}' > /proc/$$/comm; echo; read x");
            assert_eq!(alive(shell, &["/bin/sh", "-c", &hidden]).as_deref(), Some(expected), "{shell} {name}");
        }
        if let Some(python) = python(TEST) {
            assert_eq!(alive(shell, &[&python, "-c", HEADLESS]).as_deref(), Some(expected), "{shell}");
        }
    }
}

#[test]
fn a_number_that_is_somebody_elses_now_is_left_alone() {
    let word = format!("7{}9", std::process::id());
    let (_child, process, started) = start("/bin/sh", &format!("echo; exec sleep {word}"));
    until(|| processes_with(&word) == 1);
    let other: u64 = started.parse::<u64>().unwrap() + 1;
    let ended =
        Command::new("/bin/sh").args(["-c", END, "hotcell", &process, &other.to_string(), "0", "0"]).output().unwrap();
    assert_eq!(ended.stdout, b"gone\n");
    assert_eq!(processes_with(&word), 1);
}
