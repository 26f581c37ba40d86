//! Bytes in, bytes out.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use super::place::{Place, Ran};

#[test]
fn bytes_pass_through_unchanged() {
    let place = Place::new();
    if !place.has_boxes("bytes_pass_through_unchanged") {
        return;
    }
    let every_byte: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    let ran = place.hotcell_with_stdin(&["run", "cat"], &every_byte);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout == every_byte, "{} bytes came back", ran.stdout.len());
}

#[test]
fn a_file_can_be_stdin() {
    let place = Place::new();
    if !place.has_boxes("a_file_can_be_stdin") {
        return;
    }
    let file = std::fs::File::open(place.file("input", "from a file")).unwrap();
    let ran = Ran::of(place.command(&["run", "cat"]).stdin(file).output().unwrap());
    assert_eq!(ran.text(), "from a file");
}

#[test]
fn stdin_that_nobody_reads_or_nobody_writes_holds_nothing_up() {
    let place = Place::new();
    if !place.has_boxes("stdin_that_nobody_reads_or_nobody_writes_holds_nothing_up") {
        return;
    }
    assert_eq!(place.hotcell_with_stdin(&["run", "true"], &vec![0; 1 << 20]).code, 0);
    assert_eq!(place.hotcell(&["run", "cat"]).code, 0);
    let mut child = place.command(&["run", "true"]).stdin(Stdio::piped()).spawn().unwrap();
    let open_stdin = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(open_stdin);
}

#[test]
fn output_that_comes_after_stdout_was_closed_does_not_end_the_run() {
    let place = Place::new();
    if place.has_boxes("output_that_comes_after_stdout_was_closed_does_not_end_the_run") {
        assert_eq!(place.hotcell(&["run", "sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 6"]).code, 6);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let place = Place::new();
    if !place.has_boxes("a_reader_that_goes_away_ends_the_run_quietly") {
        return;
    }
    let mut child = place.command(&["run", "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 2];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"y\n");
    drop(stdout);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (141, ""));
}

#[test]
fn output_that_cannot_be_written_is_said() {
    let place = Place::new();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = Ran::of(place.command(&["schema"]).stdout(full()).output().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with("hotcell: could not write to stdout: "), "{ran:?}");
    if place.has_boxes("output_that_cannot_be_written_is_said") {
        let ran = Ran::of(place.command(&["run", "yes"]).stdout(full()).output().unwrap());
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.starts_with("hotcell: could not write to stdout: "), "{ran:?}");
    }
}

#[test]
fn verbose_says_what_is_enforced_on_stderr_only() {
    let place = Place::new();
    if place.has_boxes("verbose_says_what_is_enforced_on_stderr_only") {
        let ran = place.hotcell(&["run", "-v", "echo", "x"]);
        assert_eq!(ran.text(), "x\n");
        assert!(ran.stderr.contains("filesystem-view") && ran.stderr.contains("exited with code 0"), "{}", ran.stderr);
    }
}
