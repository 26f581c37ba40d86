//! The exit status says what happened.

use std::time::{Duration, Instant};

use super::place::Place;

#[test]
fn the_code_is_the_commands_own() {
    let place = Place::new();
    if !place.has_boxes("the_code_is_the_commands_own") {
        return;
    }
    for code in [0, 1, 7, 124, 125, 255] {
        assert_eq!(place.hotcell(&["run", "--", "sh", "-c", &format!("exit {code}")]).code, code);
    }
}

#[test]
fn options_after_the_command_are_the_commands() {
    let place = Place::new();
    if place.has_boxes("options_after_the_command_are_the_commands") {
        assert_eq!(place.hotcell(&["run", "echo", "--memory", "-v", "--", "x"]).text(), "--memory -v -- x\n");
    }
}

#[test]
fn a_program_that_is_not_there_or_not_executable() {
    let place = Place::new();
    if !place.has_boxes("a_program_that_is_not_there_or_not_executable") {
        return;
    }
    place.file("data", "no program");
    for (program, code, words) in [
        ("no-such-program", 127, "`no-such-program` was not found in the box"),
        ("./no-such-program", 127, "was not found in the box"),
        ("./data", 126, "`./data` cannot be executed"),
        ("/tmp", 126, "`/tmp` cannot be executed"),
    ] {
        let ran = place.hotcell(&["run", program]);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.stderr.starts_with("hotcell: ") && ran.stderr.contains(words), "{ran:?}");
        let error = place.hotcell(&["run", "--json", program]).json()["error"].clone();
        assert_eq!((error["kind"].as_str(), error["exit_code"].as_i64()), (Some("spawn"), Some(i64::from(code))));
    }
}

#[test]
fn a_signal_is_128_and_its_number() {
    let place = Place::new();
    if place.has_boxes("a_signal_is_128_and_its_number") {
        assert_eq!(place.hotcell(&["run", "sh", "-c", "kill -TERM $$"]).code, 143);
        assert_eq!(place.hotcell(&["run", "sh", "-c", "kill -KILL $$"]).code, 137);
    }
}

#[test]
fn a_timeout_is_124_and_ends_everything() {
    let place = Place::new();
    if !place.has_boxes("a_timeout_is_124_and_ends_everything") {
        return;
    }
    let started = Instant::now();
    let ran = place.hotcell(&["run", "--timeout", "1s", "sh", "-c", "trap '' TERM; setsid sleep 600 & sleep 600"]);
    assert_eq!(ran.code, 124);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert!(ran.stderr.contains("hotcell: timed out: the command ran longer than 1 s"), "{}", ran.stderr);
}

#[test]
fn very_long_arguments_arrive_or_are_refused() {
    let place = Place::new();
    if !place.has_boxes("very_long_arguments_arrive_or_are_refused") {
        return;
    }
    let long = "x".repeat(100_000);
    let script = ["run", "sh", "-c", "echo $#", "sh"];
    let ran = place.hotcell(&[&script[..], &[long.as_str(); 15]].concat());
    if ran.code == 0 {
        assert_eq!(ran.text(), "15\n");
    } else {
        ran.assert_refused(&["too long"]);
    }
}
