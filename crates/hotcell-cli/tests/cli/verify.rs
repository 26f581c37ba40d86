//! `hotcell verify`: what it says, and how it exits.

use super::place::Place;

const CHECK: &str = "kernel.io-uring";

#[test]
fn a_box_that_holds_is_a_success() {
    let place = Place::new();
    if !place.has_boxes("a_box_that_holds_is_a_success") {
        return;
    }
    let ran = place.hotcell(&["verify", "--filter", CHECK]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.text().contains("1 checks: 1 held, 0 BROKEN, 0 vacuous, 0 not applicable"), "{}", ran.text());
}

#[test]
fn json_has_the_checks_and_a_summary() {
    let place = Place::new();
    if !place.has_boxes("json_has_the_checks_and_a_summary") {
        return;
    }
    let ran = place.hotcell(&["verify", "--filter", CHECK, "--json"]);
    let object = ran.json();
    assert_eq!(object["runtime"], "native");
    assert_eq!(object["summary"]["held"], 1);
    let check = &object["checks"][0];
    assert_eq!((&check["id"], &check["group"], &check["verdict"]), (&CHECK.into(), &"kernel".into(), &"held".into()));
    assert_eq!(check["layers"], serde_json::json!(["seccomp"]));
    assert!(!check["evidence"].as_array().unwrap().is_empty());
    assert!(check["control"][0].as_str().unwrap().starts_with("reached io_uring_setup"), "{check}");
}

#[test]
fn a_box_without_the_layer_is_broken_and_that_is_a_failure() {
    let place = Place::new();
    if !place.has_boxes("a_box_without_the_layer_is_broken_and_that_is_a_failure") {
        return;
    }
    let ran = place.hotcell(&["verify", "--filter", CHECK, "--knock-out", "seccomp"]);
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(ran.text().contains("native without seccomp: 1 get through"), "{}", ran.text());
}

#[test]
fn the_page_is_written() {
    let place = Place::new();
    if !place.has_boxes("the_page_is_written") {
        return;
    }
    let page = place.project().join("report.html");
    let ran = place.hotcell(&["verify", "--filter", CHECK, "--html", page.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains(CHECK), "{page}");
}

#[test]
fn what_does_not_exist_is_named_and_nothing_runs() {
    let place = Place::new();
    for (arguments, expected) in [
        (["--filter", "no-such-check"], "no check is called `no-such-check`"),
        (["--runtime", "natvie"], "did you mean `native`?"),
        (["--runtime", "firecracker"], "not part of this build"),
        (["--knock-out", "secomp"], "there is no layer `secomp`"),
    ] {
        let ran = place.hotcell(&["verify", arguments[0], arguments[1]]);
        ran.assert_refused(&[expected]);
    }
}

#[test]
fn the_list_tries_nothing() {
    let ran = Place::new().hotcell(&["verify", "--list"]);
    assert_eq!(ran.code, 0);
    assert!(ran.text().lines().any(|line| line.starts_with(CHECK)), "{}", ran.text());
}
