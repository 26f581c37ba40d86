//! Files, variables and directories that a run starts from.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::place::{Place, Ran};

const ECHO: [&str; 3] = ["--", "echo", "ran"];

fn run(place: &Place, flags: &[&str]) -> Ran {
    place.hotcell(&[&["run"], flags, &ECHO].concat())
}

#[test]
fn a_path_that_does_not_exist_is_named() {
    let place = Place::new();
    for flag in ["--read", "--write", "--overlay"] {
        let words = [format!("hotcell: {flag}: `"), "/project/nope` does not exist".to_owned()];
        run(&place, &[flag, "nope"]).assert_refused(&words.each_ref().map(String::as_str));
    }
    place.hotcell(&["run", "--read", "", "true"]).assert_refused(&["--read"]);
}

#[test]
fn a_path_cannot_have_two_accesses() {
    let place = Place::new();
    run(&place, &["--read", ".", "--write", "."]).assert_refused(&["contradicts"]);
}

#[test]
fn a_policy_file_must_be_a_file_with_known_keys() {
    let place = Place::new();
    run(&place, &["--policy", "."]).assert_refused(&["is a directory, not a file"]);
    run(&place, &["--policy", "nope.toml"]).assert_refused(&["cannot read the policy file", "nope.toml"]);
    place.file("bad.toml", "[limits]\nmemroy = \"1g\"\n");
    run(&place, &["--policy", "bad.toml"]).assert_refused(&["bad.toml:2: unknown key `memroy`", "`memory`"]);
    place.file("syntax.toml", "[limits\n");
    run(&place, &["--policy", "syntax.toml"]).assert_refused(&["syntax.toml:1: not valid TOML"]);
    fs::write(place.project().join("large.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    run(&place, &["--policy", "large.toml"]).assert_refused(&["large.toml", "larger than"]);
}

#[test]
fn a_policy_file_that_everybody_may_write_is_not_obeyed() {
    let place = Place::new();
    let file = place.file("open.toml", "");
    fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    run(&place, &["--policy", "open.toml"]).assert_refused(&["everybody may write it", "chmod"]);
}

#[test]
fn a_project_file_can_tighten_but_not_loosen() {
    let place = Place::new();
    place.file("hotcell.toml", "[limits]\ntimeout = \"7s\"\n");
    assert!(place.hotcell(&["plan"]).text().contains("at most 7 s"));
    place.file("hotcell.toml", "[network]\nmode = \"open\"\n");
    run(&place, &[]).assert_refused(&["hotcell.toml:2: a project file can only tighten", "--net open"]);
}

#[test]
fn a_project_file_cannot_reach_out_through_a_link() {
    let place = Place::new();
    symlink(place.home(), place.project().join("link")).unwrap();
    place.file("hotcell.toml", "[filesystem]\nread = [\"link\"]\n");
    run(&place, &[]).assert_refused(&["hotcell.toml:2:", "which is outside of"]);
}

#[test]
fn variables_are_checked_like_flags() {
    let place = Place::new();
    let with = |name: &str, value: &str| {
        Ran::of(place.command(&[&["run"][..], &ECHO].concat()).env(name, value).output().unwrap())
    };
    with("HOTCELL_MEMROY", "1g").assert_refused(&["HOTCELL_MEMROY: unknown variable", "`HOTCELL_MEMORY`"]);
    with("HOTCELL_TIMEOUT", "0").assert_refused(&["HOTCELL_TIMEOUT: "]);
    with("HOTCELL_POLICY", "/").assert_refused(&["is a directory"]);
    with("HOTCELL_RUNTIME", "docker").assert_refused(&["`docker` backend", "`hotcell doctor`"]);
    if place.has_boxes("variables_are_checked_like_flags") {
        assert_eq!(with("HOTCELL_TEST_ANYTHING", "?").text(), "ran\n");
    }
}

#[test]
fn a_home_directory_is_not_shown_by_accident() {
    let place = Place::new();
    let at = |directory: &std::path::Path, flags: &[&str]| {
        let arguments = [&["run"], flags, &ECHO].concat();
        Ran::of(place.command(&arguments).current_dir(directory).output().unwrap())
    };
    at(&place.home(), &[]).assert_refused(&["is a home directory or above one", "--read DIR"]);
    for above in ["/", "/home", "/root"] {
        // An ordinary user cannot even enter some of these.
        if fs::read_dir(above).is_ok() {
            at(above.as_ref(), &[]).assert_refused(&["is a home directory or above one"]);
        }
    }
    at("/etc".as_ref(), &[]).assert_refused(&["`/etc` is a directory of the system", "--read DIR"]);
    if place.has_boxes("a_home_directory_is_not_shown_by_accident") {
        assert_eq!(at(&place.home(), &["--read", "."]).text(), "ran\n");
        assert_eq!(at(&place.home(), &["--cwd", "/tmp"]).text(), "ran\n");
    }
}

#[test]
fn the_current_directory_is_shown_and_cannot_be_written() {
    let place = Place::new();
    if !place.has_boxes("the_current_directory_is_shown_and_cannot_be_written") {
        return;
    }
    place.file("seen", "content\n");
    let ran = place.hotcell(&["run", "sh", "-c", "pwd; cat seen; echo x > written || echo refused"]);
    assert_eq!(ran.text(), format!("{}\ncontent\nrefused\n", place.project().display()));
    assert!(!place.project().join("written").exists());
    let ran = place.hotcell(&["run", "--write", ".", "sh", "-c", "echo x > written"]);
    assert_eq!((ran.code, fs::read_to_string(place.project().join("written")).unwrap().as_str()), (0, "x\n"));
    let ran = place.hotcell(&["run", "--overlay", ".", "sh", "-c", "echo y > written; cat written"]);
    assert_eq!((ran.text(), fs::read_to_string(place.project().join("written")).unwrap().as_str()), ("y\n", "x\n"));
}

#[test]
fn where_to_start_must_be_in_the_view() {
    let place = Place::new();
    if !place.has_boxes("where_to_start_must_be_in_the_view") {
        return;
    }
    run(&place, &["--cwd", "/nope"]).assert_refused(&["cannot start in `/nope`"]);
    let outside = place.home();
    run(&place, &["--cwd", outside.to_str().unwrap()]).assert_refused(&["cannot start in"]);
    fs::create_dir(place.project().join("sub")).unwrap();
    let ran = place.hotcell(&["run", "--cwd", "sub", "pwd"]);
    assert_eq!(ran.text(), format!("{}/sub\n", place.project().display()));
}

#[test]
fn the_root_cannot_be_written() {
    let place = Place::new();
    if place.has_boxes("the_root_cannot_be_written") {
        run(&place, &["--write", "/"]).assert_refused(&["`/`"]);
    }
}

#[test]
fn the_environment_is_what_was_asked_for() {
    let place = Place::new();
    if !place.has_boxes("the_environment_is_what_was_asked_for") {
        return;
    }
    let arguments = ["run", "--env", "A=b=c", "--pass-env", "WANTED", "env"];
    let ran = Ran::of(place.command(&arguments).env("WANTED", "yes").env("SECRET", "token").output().unwrap());
    assert!(ran.text().contains("A=b=c\n") && ran.text().contains("WANTED=yes\n"), "{}", ran.text());
    assert!(!ran.text().contains("SECRET"), "{}", ran.text());
}
