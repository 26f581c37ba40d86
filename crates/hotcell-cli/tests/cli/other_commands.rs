//! `doctor`, `schema`, `completions` and `shell`.

use super::place::Place;

#[test]
fn doctor_says_what_it_found_and_whether_boxes_can_be_made() {
    let place = Place::new();
    let possible = place.can_hold(&["--runtime", "native"]);
    let ran = place.hotcell(&["doctor"]);
    assert_eq!(ran.code, if possible { 0 } else { 1 });
    assert!(ran.text().starts_with("Hotcell ") && ran.text().contains("namespaces"), "{}", ran.text());
    let object = place.hotcell(&["doctor", "--json"]).json();
    assert_eq!(object["default_policy"]["possible"], possible);
    for finding in object["findings"].as_array().unwrap() {
        assert!(finding["name"].is_string() && finding["detail"].is_string(), "{finding}");
        assert!(["good", "limited", "missing"].contains(&finding["state"].as_str().unwrap()));
    }
}

#[test]
fn doctor_is_ascii_where_the_locale_is() {
    let place = Place::new();
    let output = place.command(&["doctor"]).env("LC_ALL", "C").output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains(['✓', '✗']));
}

#[test]
fn the_schema_is_the_documented_one() {
    let ran = Place::new().hotcell(&["schema"]);
    assert_eq!(ran.text(), include_str!("../../../../docs/schema/hotcell.schema.json"));
}

#[test]
fn completions_know_the_flags() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = place.hotcell(&["completions", shell]);
        assert_eq!(ran.code, 0);
        for word in [
            "max-output",
            "doctor",
            "oci-runtime",
            "prune",
            "dry-run",
            "update-lock",
            "squashfs",
            "sandbox-url",
            "template",
        ] {
            assert!(ran.text().contains(word), "{shell}: {word}");
        }
    }
    place.hotcell(&["completions", "tcsh"]).assert_refused(&["tcsh"]);
}

#[test]
fn help_says_what_kinds_of_boxes_there_are() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["run", "--help"], &["image", "build", "--help"], &["prune", "--help"]] {
        let ran = place.hotcell(arguments);
        assert!(ran.code == 0 && ran.text().contains("container"), "{arguments:?}: {}", ran.text());
    }
    let ran = place.hotcell(&["run", "--help"]);
    assert!(
        ["native", "docker", "oci", "gvisor", "opensandbox", "e2b", "cube", "auto"]
            .iter()
            .all(|name| ran.text().contains(&format!("  {name} ")))
    );
}

#[test]
fn a_shell_needs_a_terminal() {
    Place::new().hotcell(&["shell"]).assert_refused(&["needs a terminal", "hotcell run"]);
}
