//! Command lines that cannot be understood: 125, a message that says why, and nothing runs.

use super::place::Place;

#[test]
fn unknown_flags_are_refused_with_a_suggestion() {
    Place::new()
        .hotcell(&["run", "--memroy", "1", "--", "echo", "ran"])
        .assert_refused(&["hotcell: unexpected argument '--memroy'", "'--memory'"]);
}

#[test]
fn unknown_and_missing_commands_are_refused() {
    let place = Place::new();
    place.hotcell(&["frobnicate"]).assert_refused(&["frobnicate"]);
    place.hotcell(&["run"]).assert_refused(&["COMMAND"]);
    place.hotcell(&["run", "--"]).assert_refused(&["COMMAND"]);
    place.hotcell(&["run", ""]).assert_refused(&["the program", "empty"]);
    assert_eq!(place.hotcell(&[]).code, 125);
}

#[test]
fn values_out_of_range_name_their_flag() {
    let place = Place::new();
    let bad = [
        ("--memory", "0", "zero"),
        ("--memory", "-5", "negative"),
        ("--memory", "12q", "256m"),
        ("--memory", "99999999999999999999g", "too large"),
        ("--memory", "", "empty"),
        ("--timeout", "0", "zero"),
        ("--timeout", "soon", "soon"),
        ("--pids", "0", "zero"),
        ("--pids", "-1", "negative"),
        ("--pids", "1.5", "1.5"),
        ("--cpus", "0", "0.01"),
        ("--cpus", "-1", "0.01"),
        ("--cpus", "nan", "0.01"),
        ("--cpu-time", "0s", "zero"),
        ("--disk", "-1m", "negative"),
        ("--open-files", "0", "zero"),
        ("--max-output", "0", "zero"),
        ("--net", "maybe", "\"deny\" and \"open\""),
        ("--runtime", "natvie", "did you mean `native`?"),
        ("--preset", "readonly", "did you mean `read-only`?"),
        ("--isolation", "vault", "vault"),
        ("--approximate", "memoory", "did you mean `memory`?"),
        ("--env", "NOTHING", "NAME=VALUE"),
        ("--env", "=x", "name"),
        ("--pass-env", "A=B", "name"),
        ("--user", "nobody", "hotcell"),
        ("--sandbox-url", "localhost:8080", "http://localhost:8080"),
        ("--sandbox-url", "https://me:pw@host", "no password"),
        ("--template", "../x", "begins with"),
        ("--snapshot", "", "256"),
    ];
    for (flag, value, word) in bad {
        let ran = place.hotcell(&["run", &format!("{flag}={value}"), "--", "echo", "ran"]);
        ran.assert_refused(&[&format!("hotcell: {flag}: "), word]);
    }
}

#[test]
fn a_flag_that_takes_one_value_takes_one() {
    let place = Place::new();
    place.hotcell(&["run", "--memory", "1g", "--memory", "2g", "true"]).assert_refused(&["--memory"]);
    place.hotcell(&["run", "--memory"]).assert_refused(&["--memory"]);
}

#[test]
fn with_json_a_bad_command_line_is_one_object() {
    let ran = Place::new().hotcell(&["run", "--json", "--memroy", "1", "--", "true"]);
    let error = &ran.json()["error"];
    assert_eq!((ran.code, error["kind"].as_str(), error["exit_code"].as_i64()), (125, Some("usage"), Some(125)));
    assert!(ran.stderr.is_empty());
}

#[test]
fn help_and_version_are_no_errors() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["run", "--help"], &["plan", "-h"], &["--version"]] {
        let ran = place.hotcell(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}");
        assert!(ran.stderr.is_empty() && ran.text().contains("hotcell"), "{arguments:?}");
    }
}

#[test]
fn escape_sequences_in_arguments_do_not_reach_the_terminal() {
    let place = Place::new();
    for arguments in [&["run", "--\u{1b}[2J", "x"][..], &["run", "--memory", "\u{1b}[2J", "x"], &["\u{9b}2J"]] {
        let ran = place.hotcell(arguments);
        assert_eq!(ran.code, 125);
        assert!(!ran.stderr.contains(['\u{1b}', '\u{9b}']), "{ran:?}");
    }
}
