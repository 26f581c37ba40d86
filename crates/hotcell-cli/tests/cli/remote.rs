//! Remote boxes, as far as they go without a server: which settings lead there, what is refused, and that no key is shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

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
    place.hotcell(&LEAVE_A_TRACE).assert_refused(&["`opensandbox` backend"]);
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

/// Every command, in every way to give it a key: neither the key nor a part of it is in what is printed or written.
#[test]
fn no_command_shows_a_key() {
    let place = Place::new();
    private(&place, "key", KEY);
    let report = place.project().join("report.json");
    let commands: &[&[&str]] = &[
        &["run", "--verbose", "true"],
        &["run", "--json", "env"],
        &["run", "--report", "report.json", "sh", "-c", "env; cat /proc/self/environ"],
        &["plan"],
        &["plan", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["shell"],
        &["verify", "--list"],
        &["image", "list"],
        &["prune", "--dry-run"],
        &["prune", "--dry-run", "--json"],
        &["schema"],
        &["completions", "bash"],
        &["run", "--help"],
    ];
    let flat = format!("sandbox_url = \"{NOBODY}\"\nsandbox_api_key = \"{KEY}\"\n");
    let table = format!("[remote]\nurl = \"{NOBODY}\"\napi_key = \"{KEY}\"\n");
    let in_file =
        format!("[remote]\nurl = \"{NOBODY}\"\napi_key_file = \"{}\"\n", place.project().join("key").display());
    let wrong = [
        format!("sandbox_api_key = \"{KEY}\\n\"\n"),
        format!("sandbox_api_key = {KEY}\n"),
        format!("sandbox_api_key = [\"{KEY}\"]\n"),
        format!("sandbox_url = \"https://me:{KEY}@host\"\n"),
        format!("sandbox_url = \"https://host/?key={KEY}\"\n"),
        format!("sandbox_url = \"{KEY}@host\"\n"),
        format!("sandbox_api_key = \"x\"\n[remote]\napi_key = \"{KEY}\"\n"),
    ];
    let files = [String::new(), flat, table, in_file].into_iter().chain(wrong);
    let mut ran = 0;
    for (index, text) in files.enumerate() {
        own_file(&place, &text);
        for kind in ["native", "opensandbox", "e2b", "cube"] {
            for arguments in commands {
                let mut command = place.command(arguments);
                command.env("HOTCELL_RUNTIME", kind);
                if index == 0 {
                    let names = ["HOTCELL_SANDBOX_API_KEY", "E2B_API_KEY", "CUBE_API_KEY", "OPEN_SANDBOX_API_KEY"];
                    command.envs(names.map(|name| (name, KEY))).env("HOTCELL_SANDBOX_URL", NOBODY);
                }
                assert_silent(&mut command, &format!("{kind} {arguments:?} with {text:?}"));
                ran += 1;
            }
        }
    }
    assert_eq!(ran, 11 * 4 * commands.len());
    // The run of a native box was reported.
    if place.has_boxes("no_command_shows_a_key") {
        assert!(!fs::read_to_string(report).unwrap().contains(KEY));
    }
}

fn assert_silent(command: &mut Command, what: &str) {
    let output = command.output().unwrap();
    for shown in [output.stdout, output.stderr] {
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(!shown.contains(KEY), "{what}: {shown}");
    }
}
