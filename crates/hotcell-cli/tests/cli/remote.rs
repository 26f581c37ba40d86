//! Remote boxes, as far as they go without a server: which settings lead there, what is refused, and that no key is shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::place::{Place, Ran};

const KEY: &str = "hunter2-not-to-be-seen";
/// Nothing listens on this port.
const NOBODY: &str = "http://127.0.0.1:1";
/// What would leave a trace if it ran here.
const LEAVE_A_TRACE: [&str; 7] = ["run", "--write", ".", "--", "sh", "-c", "echo ran; echo ran > trace"];

fn own_file(place: &Place, text: &str) {
    let directory = place.home().join(".config/hotcell");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("hotcell.toml"), text).unwrap();
}

fn private(place: &Place, name: &str, text: &str) -> PathBuf {
    let file = place.file(name, text);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

fn with(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    Ran::of(place.command(arguments).envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn flat_keys_choose_a_remote_box_and_nothing_runs_here_instead() {
    let place = Place::new();
    own_file(
        &place,
        &format!("sandbox_backend = \"opensandbox\"\nsandbox_url = \"{NOBODY}\"\nsandbox_api_key = \"{KEY}\"\n"),
    );
    // The hint is that of an engine that was started for this runtime alone: no native box is needed on this machine.
    place.hotcell(&LEAVE_A_TRACE).assert_refused(&["`opensandbox` backend", "`hotcell doctor`"]);
    place.hotcell(&["plan"]).assert_refused(&["`opensandbox` backend"]);
    for kind in ["opensandbox", "e2b", "cube"] {
        let variables = [("HOTCELL_RUNTIME", kind), ("HOTCELL_SANDBOX_URL", NOBODY), ("HOTCELL_SANDBOX_API_KEY", KEY)];
        with(&place, &LEAVE_A_TRACE, &variables).assert_refused(&[&format!("`{kind}` backend")]);
        let flags = ["--runtime", kind, "--sandbox-url", NOBODY];
        let ran = place.hotcell(&[&LEAVE_A_TRACE[..1], &flags, &LEAVE_A_TRACE[1..]].concat());
        ran.assert_refused(&[&format!("`{kind}` backend")]);
    }
    assert!(!place.project().join("trace").exists());
}

#[test]
fn none_is_the_native_box() {
    let place = Place::new();
    if !place.has_boxes("none_is_the_native_box") {
        return;
    }
    own_file(&place, &format!("sandbox_backend = \"none\"\nsandbox_url = \"{NOBODY}\"\nsandbox_api_key = \"{KEY}\"\n"));
    assert!(place.hotcell(&["plan"]).text().starts_with("native box, isolation process\n"));
    assert_eq!(place.hotcell(&["run", "echo", "ran"]).text(), "ran\n");
}

#[test]
fn a_server_that_is_missing_is_said_before_anything_starts() {
    let place = Place::new();
    let run = |flags: &[&str]| place.hotcell(&[&["run"], flags, &["echo", "ran"]].concat());
    run(&["--runtime", "e2b"]).assert_refused(&["E2B's service needs a key", "E2B_API_KEY"]);
    run(&["--runtime", "cube"]).assert_refused(&["needs the address of a CubeSandbox server", "--sandbox-url"]);
    let plain = "http://sandbox.example.org";
    run(&["--runtime", "opensandbox", "--sandbox-url", plain])
        .assert_refused(&["--sandbox-url: `remote.url` cannot be `http://sandbox.example.org`", "--plain-http"]);
    run(&["--runtime", "native", "--sandbox-url", NOBODY]).assert_refused(&["have no meaning for a local box"]);
    run(&["--template", "base"]).assert_refused(&["have no meaning for a local box", "--runtime opensandbox"]);
}

#[test]
fn a_project_file_names_no_server() {
    let place = Place::new();
    for line in [
        "sandbox_url = \"https://evil.example.org\"",
        "sandbox_api_key = \"theirs\"",
        "remote.template = \"theirs\"",
        "remote.api_key_file = \"theirs\"",
        "remote.plain_http = true",
    ] {
        place.file("hotcell.toml", line);
        let key = line.split(' ').next().unwrap();
        place
            .hotcell(&["run", "echo", "ran"])
            .assert_refused(&[&format!("hotcell.toml:1: a project file may not set `{key}`")]);
    }
    place.file("hotcell.toml", "sandbox_backend = \"e2b\"");
    place.hotcell(&["run", "echo", "ran"]).assert_refused(&["it would send files and code to another machine"]);
}

#[test]
fn a_key_file_is_nobody_elses() {
    let place = Place::new();
    let file = place.file("key", KEY);
    let run = |name: &str| {
        let flags = ["run", "--runtime", "opensandbox", "--sandbox-url", NOBODY, "--sandbox-key-file", name];
        place.hotcell(&[&flags[..], &["echo", "ran"]].concat())
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    run("key").assert_refused(&["--sandbox-key-file: the key file `", "/project/key` can be read", "chmod 600"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    run("key").assert_refused(&["`opensandbox` backend"]);
    run("nope").assert_refused(&["/project/nope` cannot be read: "]);
}

/// Every command, in every way to give it a key: the key is in nothing that is printed or written.
#[test]
fn no_command_shows_a_key() {
    let place = Place::new();
    let key_file = private(&place, "key", KEY);
    let made_of_settings: &[&[&str]] = &[
        &["run", "--verbose", "true"],
        &["run", "--json", "env"],
        &["run", "--report", "report.json", "sh", "-c", "env; cat /proc/self/environ"],
        &["plan"],
        &["plan", "--json"],
        &["shell"],
    ];
    let others: &[&[&str]] = &[
        &["doctor"],
        &["doctor", "--json"],
        &["verify", "--list"],
        &["image", "list"],
        &["prune", "--dry-run"],
        &["prune", "--dry-run", "--json"],
        &["schema"],
        &["completions", "bash"],
        &["run", "--help"],
    ];
    let names = ["HOTCELL_SANDBOX_API_KEY", "E2B_API_KEY", "CUBE_API_KEY", "OPEN_SANDBOX_API_KEY"];
    let variables: Vec<(&str, &str)> =
        names.map(|name| (name, KEY)).into_iter().chain([("HOTCELL_SANDBOX_URL", NOBODY)]).collect();
    for (text, variables) in [
        (String::new(), variables.as_slice()),
        (format!("sandbox_url = \"{NOBODY}\"\nsandbox_api_key = \"{KEY}\"\n"), &[]),
        (format!("[remote]\nurl = \"{NOBODY}\"\napi_key_file = \"{}\"\n", key_file.display()), &[]),
    ] {
        own_file(&place, &text);
        for arguments in others {
            assert_silent(&with(&place, arguments, variables), &format!("{arguments:?} with {text:?}"));
        }
        for kind in ["native", "opensandbox", "e2b", "cube"] {
            let variables = [&[("HOTCELL_RUNTIME", kind)], variables].concat();
            for arguments in made_of_settings {
                assert_silent(&with(&place, arguments, &variables), &format!("{kind} {arguments:?} with {text:?}"));
            }
        }
    }
    // The native box was there, and what it saw was reported.
    if place.has_boxes("no_command_shows_a_key") {
        assert!(!fs::read_to_string(place.project().join("report.json")).unwrap().contains(KEY));
    }
}

#[test]
fn no_mistake_shows_a_key() {
    let place = Place::new();
    for text in [
        format!("sandbox_api_key = \"{KEY}\\n\"\n"),
        format!("sandbox_api_key = {KEY}\n"),
        format!("sandbox_api_key = [\"{KEY}\"]\n"),
        format!("sandbox_url = \"https://me:{KEY}@host\"\n"),
        format!("sandbox_url = \"https://host/?key={KEY}\"\n"),
        format!("sandbox_url = \"{KEY}@host\"\n"),
        format!("sandbox_api_key = \"x\"\n[remote]\napi_key = \"{KEY}\"\n"),
    ] {
        own_file(&place, &text);
        let ran = place.hotcell(&["plan"]);
        ran.assert_refused(&["hotcell.toml:"]);
        assert_silent(&ran, &text);
        assert_silent(&place.hotcell(&["run", "--json", "true"]), &text);
    }
}

fn assert_silent(ran: &Ran, what: &str) {
    let shown = String::from_utf8_lossy(&ran.stdout) + ran.stderr.as_str();
    assert!(!shown.contains(KEY), "{what}: {shown}");
}
