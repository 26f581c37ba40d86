//! `--json` and `--report`: one object with the truth in it.

use std::fs;

use serde_json::Value;

use super::place::Place;

#[test]
fn the_object_has_everything() {
    let place = Place::new();
    if !place.has_boxes("the_object_has_everything") {
        return;
    }
    let ran = place.hotcell(&["run", "--json", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    let object = ran.json();
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let expected = [
        ("backend", Value::from("native")),
        ("isolation", "process".into()),
        ("status", "exited".into()),
        ("exit_code", 3.into()),
        ("signal", Value::Null),
        ("stdout", "out\n".into()),
        ("stderr", "err\n".into()),
        ("stdout_bytes", 4.into()),
        ("stderr_bytes", 4.into()),
        ("stdout_truncated", false.into()),
        ("stderr_truncated", false.into()),
    ];
    for (key, value) in expected {
        assert_eq!(object[key], value, "{key}");
    }
    assert!(object["usage"]["wall_ms"].is_u64());
    assert!(object["violations"].is_array() && object["visibility"]["unseen"].is_array());
    let memory = object["enforcement"].as_array().unwrap().iter().find(|entry| entry["control"] == "memory").unwrap();
    assert_eq!(memory["requested"], "at most 1 GiB");
    assert!(memory["actual"]["level"].is_string());
}

#[test]
fn signals_and_limits_are_told_apart() {
    let place = Place::new();
    if !place.has_boxes("signals_and_limits_are_told_apart") {
        return;
    }
    let object = place.hotcell(&["run", "--json", "sh", "-c", "kill -KILL $$"]).json();
    assert_eq!((object["status"].as_str(), object["signal"].as_i64()), (Some("signaled"), Some(9)));
    let object = place.hotcell(&["run", "--json", "--max-output", "1m", "yes"]).json();
    assert_eq!((object["status"].as_str(), object["signal"].as_i64()), (Some("output"), None));
    assert_eq!(object["exit_code"], 137);
}

#[test]
fn bytes_that_are_no_text_are_base64() {
    let place = Place::new();
    if !place.has_boxes("bytes_that_are_no_text_are_base64") {
        return;
    }
    let object = place.hotcell(&["run", "--json", "printf", r"\377\376\000"]).json();
    assert_eq!(object["stdout_base64"], "//4A");
    assert_eq!(object["stdout_bytes"], 3);
    assert!(object.get("stdout").is_none());
    assert_eq!(object["stderr"], "");
}

#[test]
fn nothing_in_it_drives_a_terminal() {
    let place = Place::new();
    if !place.has_boxes("nothing_in_it_drives_a_terminal") {
        return;
    }
    let nasty = "\u{1b}]0;t\u{7}\u{7f}\u{9b}2J\u{202e}\u{2066}é";
    let ran = place.hotcell(&["run", "--json", "printf", "%s", nasty]);
    let shown = ran.text().trim_end_matches('\n');
    assert!(
        !shown.contains(|c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    );
    assert_eq!(ran.json()["stdout"], nasty);
}

#[test]
fn much_output_is_cut_in_the_middle_and_says_so() {
    let place = Place::new();
    if !place.has_boxes("much_output_is_cut_in_the_middle_and_says_so") {
        return;
    }
    let object = place.hotcell(&["run", "--json", "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' a; echo z"]).json();
    assert_eq!((object["stdout_truncated"].as_bool(), object["stdout_bytes"].as_u64()), (Some(true), Some(5_000_002)));
    assert_eq!(object["stdout_cut_at"], 1 << 20);
    let text = object["stdout"].as_str().unwrap();
    assert!(text.len() == 2 << 20 && text.ends_with("az\n"));
}

#[test]
fn stdin_is_read_with_json_too() {
    let place = Place::new();
    if place.has_boxes("stdin_is_read_with_json_too") {
        let ran = place.hotcell_with_stdin(&["run", "--json", "cat"], b"given");
        assert_eq!(ran.json()["stdout"], "given");
    }
}

#[test]
fn a_refusal_is_an_object_with_every_rule() {
    let ran = Place::new().hotcell(&["run", "--json", "--isolation", "microvm", "--", "true"]);
    let error = ran.json()["error"].clone();
    assert_eq!((ran.code, error["kind"].as_str()), (125, Some("refused")));
    let rules = error["refusals"][0]["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["subject"] == "isolation").unwrap();
    assert!(rule["why"].is_string() && rule["hint"].is_string());
}

#[test]
fn a_report_is_written_whatever_happens() {
    let place = Place::new();
    let report = || -> Value { serde_json::from_slice(&fs::read(place.project().join("r.json")).unwrap()).unwrap() };
    place.hotcell(&["run", "--report", "r.json", "--isolation", "microvm", "true"]).assert_refused(&["isolation"]);
    assert_eq!(report()["error"]["kind"], "refused");
    place.hotcell(&["run", "--report", "no/such/r.json", "true"]).assert_refused(&["cannot write the report"]);
    if place.has_boxes("a_report_is_written_whatever_happens") {
        assert_eq!(place.hotcell(&["run", "--report", "r.json", "echo", "x"]).text(), "x\n");
        assert_eq!((report()["status"].as_str(), report()["stdout_bytes"].as_u64()), (Some("exited"), Some(2)));
        assert!(report().get("stdout").is_none());
    }
}
