//! The wrapper of commands: what goes in comes out as it was, and nothing of it is run by a shell.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;

use hotcell_core::backend::{SpawnConfig, SpawnError};
use hotcell_core::policy::Limits;

use super::super::inside::Facts;
use super::super::start::{First, first, refused, wrap};

fn facts() -> Facts {
    Facts {
        directory: "/tmp/x".to_owned(),
        home: "/".to_owned(),
        environment: BTreeMap::new(),
        uid: 0,
        process_option: None,
        started: 0,
    }
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    let path = [("PATH", "/usr/bin:/bin")];
    pairs.iter().chain(&path).map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn unlimited() -> Limits {
    let mut limits = Limits::default();
    (limits.open_files.value, limits.disk.value, limits.cpu_time.value) = (None, None, None);
    limits
}

/// The shells of this machine that are like those of images.
fn shells() -> Vec<Vec<String>> {
    let known = [&["/bin/dash"][..], &["/bin/bash", "--posix"], &["/bin/busybox", "sh"], &["/usr/bin/busybox", "sh"]];
    let there = known.into_iter().filter(|words| Path::new(words[0]).exists());
    there.map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect()
}

/// Runs wrapped words under another shell than /bin/sh.
fn run(shell: &[String], words: &[String]) -> std::process::Output {
    assert_eq!(words[0], "/bin/sh");
    Command::new(&shell[0]).args(&shell[1..]).args(&words[1..]).env("LEAK", "1").output().unwrap()
}

#[test]
fn arguments_and_variables_arrive_as_they_were() {
    let odd = [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "$(touch /tmp/hotcell-spliced)",
        "`id`",
        "\\",
        "*",
        "-n",
        "--",
        "a\nb",
        "ä",
        ";exit 9",
    ];
    let config = SpawnConfig::new("printf").arg("[%s]").args(odd);
    let command = wrap(&config, Path::new("/"), &environment(&[]), &unlimited(), &facts()).unwrap();
    for shell in shells() {
        let output = run(&shell, &command.words);
        let First::Ready { rest, .. } = first(&output.stdout, &command.nonce) else { panic!("{shell:?} {output:?}") };
        let expected: String = odd.iter().map(|word| format!("[{word}]")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout[rest..]), expected, "{shell:?}");
    }
    assert!(!Path::new("/tmp/hotcell-spliced").exists());
}

#[test]
fn the_environment_is_what_was_given() {
    let config = SpawnConfig::new("env");
    let given = environment(&[("A", "x y"), ("B", "$HOME"), ("C", "")]);
    let command = wrap(&config, Path::new("/usr"), &given, &unlimited(), &facts()).unwrap();
    for shell in shells() {
        let output = run(&shell, &command.words);
        let First::Ready { rest, .. } = first(&output.stdout, &command.nonce) else { panic!("{shell:?} {output:?}") };
        let mut lines: Vec<String> =
            String::from_utf8_lossy(&output.stdout[rest..]).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["A=x y", "B=$HOME", "C=", "PATH=/usr/bin:/bin"], "{shell:?}");
    }
}

#[test]
fn a_program_whose_name_looks_like_a_variable() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a=b");
    std::fs::copy("/bin/echo", &path).unwrap();
    let config = SpawnConfig::new(&path).arg("hello");
    let command = wrap(&config, Path::new("/"), &environment(&[]), &unlimited(), &facts()).unwrap();
    for shell in shells() {
        let output = run(&shell, &command.words);
        assert!(output.stdout.ends_with(b"\nhello\n"), "{shell:?} {output:?}");
    }
}

#[test]
fn limits_are_set_for_soft_and_hard() {
    let mut limits = unlimited();
    limits.open_files.value = Some(32);
    limits.disk.value = Some(1 << 20);
    limits.cpu_time.value = Some(std::time::Duration::from_millis(1500));
    let script = "ulimit -n; ulimit -Hn; ulimit -f; ulimit -St; ulimit -Ht";
    let config = SpawnConfig::new("/bin/sh").args(["-c", script]);
    let command = wrap(&config, Path::new("/"), &environment(&[]), &limits, &facts()).unwrap();
    for shell in shells() {
        let output = run(&shell, &command.words);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.ends_with("\n32\n32\n2048\n2\n3\n"), "{shell:?} {said}");
    }
}

#[test]
fn what_cannot_start_is_said_in_the_terms_of_the_contract() {
    let cases = [
        (SpawnConfig::new("no-such-program"), "/", "NotFound"),
        (SpawnConfig::new("/no/such/program"), "/", "NotFound"),
        (SpawnConfig::new("/etc/passwd"), "/", "NotExecutable"),
        (SpawnConfig::new("/etc"), "/", "NotExecutable"),
        (SpawnConfig::new("true"), "/no/such/directory", "BadCwd"),
    ];
    for (config, directory, expected) in cases {
        let directory = Path::new(directory);
        let command = wrap(&config, directory, &environment(&[]), &unlimited(), &facts()).unwrap();
        for shell in shells() {
            let output = run(&shell, &command.words);
            let First::Refused(said) = first(&output.stdout, &command.nonce) else { panic!("{shell:?} {output:?}") };
            let error = refused(&said, &config, directory);
            assert!(format!("{error:?}").starts_with(expected), "{shell:?} {error:?}");
        }
    }
}

#[test]
fn what_no_server_carries_is_refused() {
    let bytes = OsString::from_vec(vec![b'a', 0xff]);
    let config = SpawnConfig::new("echo").arg(bytes);
    let error = wrap(&config, Path::new("/"), &environment(&[]), &unlimited(), &facts()).unwrap_err();
    assert!(matches!(error, SpawnError::InvalidArgument { .. }), "{error}");
    let config = SpawnConfig::new("echo").arg("x".repeat(200_000));
    let error = wrap(&config, Path::new("/"), &environment(&[]), &unlimited(), &facts()).unwrap_err();
    assert!(matches!(error, SpawnError::TooLong { .. }), "{error}");
}

#[test]
fn the_first_line_is_read_however_it_is_cut_and_nobody_else_can_say_it() {
    let line = b"\x1ehotcell abc ready 77 12345\x1e\nrest";
    for cut in 0..line.len() - 4 {
        assert_eq!(first(&line[..cut], "abc"), First::Incomplete, "{cut}");
    }
    assert_eq!(first(line, "abc"), First::Ready { process: 77, started: 12345, rest: line.len() - 4 });
    let terminal = b"\x1ehotcell abc ready 77 12345\x1e\r\nrest";
    assert_eq!(first(terminal, "abc"), First::Ready { process: 77, started: 12345, rest: terminal.len() - 4 });
    for garbled in [
        &b"hello"[..],
        b"\x1ehotcell abd ready 77 1\x1e\n",
        b"\x1ehotcell abc ready 1 1\x1e\n",
        b"\x1ehotcell abc ready -1 1\x1e\n",
        b"\x1ehotcell abc\x1e\n",
        b"\x1ehotcell abc ready 77 1\x1ex",
        b"\x1e\xff\xff\x1e\n",
    ] {
        assert_eq!(first(garbled, "abc"), First::Garbled, "{garbled:?}");
    }
    assert_eq!(first(&[&[0x1e][..], &[b'a'; 300]].concat(), "abc"), First::Garbled);
}
