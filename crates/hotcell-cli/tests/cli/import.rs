//! `hotcell import`: the settings of other sandboxes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::place::Place;

const SRT: &str = r#"{
  "network": { "allowedDomains": [], "deniedDomains": [] },
  "filesystem": { "denyRead": ["secrets"], "allowWrite": ["."], "denyWrite": ["fixed"] },
  "mandatoryDenySearchDepth": 1
}"#;

/// Sockets in what may be written can be talked to, and srt would not let that be.
const SOCKETS: &str = "network.allowUnixSockets";

#[test]
fn settings_become_a_policy_that_holds() {
    let place = Place::new();
    let file = place.file("srt.json", SRT);
    let ran = place.hotcell(&["import", "srt.json", "--output", "policy.toml", "--allow-loss", SOCKETS]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.text().starts_with("settings of srt\n\nline  setting"), "{}", ran.text());
    assert!(ran.text().contains("filesystem.denyRead[0]    carried   filesystem.deny\n"), "{}", ran.text());
    assert!(ran.stderr.contains("--policy policy.toml"), "{}", ran.stderr);
    let policy = place.project().join("policy.toml");
    assert_eq!(policy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    if !place.has_boxes("settings_become_a_policy_that_holds") {
        return;
    }
    fs::create_dir(place.project().join("secrets")).unwrap();
    place.file("secrets/key", "hidden\n");
    place.file("fixed", "fixed\n");
    let script = "cat secrets/key; echo x > new && cat new; echo y > fixed; cat fixed";
    let ran = place.hotcell(&["run", "--policy", "policy.toml", "--", "sh", "-c", script]);
    assert_eq!(ran.text(), "x\nfixed\n", "{}", ran.stderr);
    assert_eq!(fs::read_to_string(place.project().join("new")).unwrap(), "x\n");
    assert_eq!(fs::read_to_string(file).unwrap(), SRT);
}

#[test]
fn what_has_no_equal_is_an_error_until_it_may_be_left_out() {
    let place = Place::new();
    place.file("srt.json", &SRT.replace("\"allowedDomains\": []", "\"allowedDomains\": [\"example.org\"]"));
    let output = ["--output", "policy.toml"];
    let ran = place.hotcell(&[&["import", "srt.json"][..], &output].concat());
    ran.assert_refused(&["srt.json: 2 settings have no equal", "network.allowedDomains (line 2)", "--allow-loss"]);
    assert!(!place.project().join("policy.toml").exists());
    let ran = place.hotcell(&["import", "srt.json", "--json"]);
    assert_eq!((ran.code, ran.json()["error"]["kind"].as_str()), (125, Some("import")));
    let lost = ran.json()["settings"].as_array().unwrap().iter().filter(|setting| setting["fate"] == "lost").count();
    assert_eq!(lost, 2);

    let wrong = place.hotcell(&["import", "srt.json", "--allow-loss", "network.allowedDomain"]);
    wrong.assert_refused(&["is no setting that would be lost", "network.allowedDomains"]);
    let ran = place.hotcell(&["import", "srt.json", "--allow-loss", "network.allowedDomains,network.allowUnixSockets"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.text().contains("#   network.allowedDomains (line 2): "), "{}", ran.text());
    assert!(ran.stderr.contains("left out"), "{}", ran.stderr);
}

#[test]
fn files_are_not_replaced_by_accident() {
    let place = Place::new();
    place.file("srt.json", SRT);
    let policy = place.file("policy.toml", "mine\n");
    let import = ["import", "srt.json", "-o", "policy.toml", "--allow-loss", SOCKETS];
    place.hotcell(&import).assert_refused(&["cannot write `policy.toml`", "hint: --force replaces it"]);
    assert_eq!(fs::read_to_string(&policy).unwrap(), "mine\n");
    assert_eq!(place.hotcell(&[&import[..], &["--force"]].concat()).code, 0);
    assert!(fs::read_to_string(&policy).unwrap().starts_with("# Made by `hotcell import`"));
    assert_eq!(policy.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    // A link is replaced, and what it leads to is not touched.
    let other = place.file("other", "mine\n");
    symlink(&other, place.project().join("link.toml")).unwrap();
    place
        .hotcell(&["import", "srt.json", "-o", "link.toml", "--allow-loss", SOCKETS])
        .assert_refused(&["cannot write"]);
    assert_eq!(place.hotcell(&["import", "srt.json", "-o", "link.toml", "--allow-loss", SOCKETS, "--force"]).code, 0);
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine\n");
    let names: Vec<_> = fs::read_dir(place.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{names:?}");
}

#[test]
fn the_three_formats_are_told_apart() {
    let place = Place::new();
    place.file("codex.toml", "sandbox_mode = \"read-only\"\n[sandbox_workspace_write]\nnetwork_access = false\n");
    place.file("whale.toml", "sandbox_mode = \"read-only\"\nsandbox_backend = \"none\"\n");
    place.file("either.toml", "sandbox_mode = \"read-only\"\n");
    for (file, format) in [("codex.toml", "codex"), ("whale.toml", "codewhale")] {
        let object = place.hotcell(&["import", file, "--json"]).json();
        assert_eq!(object["format"], format);
        assert!(object["toml"].as_str().unwrap().contains("[network]\nmode = \"deny\"\n"));
    }
    place.hotcell(&["import", "either.toml"]).assert_refused(&["cannot tell whose settings these are", "--from"]);
    assert_eq!(place.hotcell(&["import", "either.toml", "--from", "codex"]).code, 0);
    place.hotcell(&["import", "either.toml", "--from", "cline"]).assert_refused(&["srt, codex and codewhale"]);
    let ran = place.hotcell_with_stdin(&["import", "-", "--allow-loss", SOCKETS], SRT.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn settings_that_cannot_be_read_are_refused() {
    let place = Place::new();
    place.hotcell(&["import", "nope"]).assert_refused(&["cannot read `nope`"]);
    place.hotcell(&["import", "."]).assert_refused(&["cannot read `.`"]);
    place.hotcell(&["import", "/dev/zero"]).assert_refused(&["larger than"]);
    fs::write(place.project().join("binary"), [0xff, 0xfe]).unwrap();
    place.hotcell(&["import", "binary"]).assert_refused(&["not UTF-8"]);
    place.file("broken.json", "{\n\"network\": }");
    place.hotcell(&["import", "broken.json"]).assert_refused(&["broken.json: line 2: not valid JSON"]);
    let ran = place.hotcell_with_stdin(&["import", "-"], b"{\"\\u001b[2J\": 1}");
    ran.assert_refused(&["1 setting has no equal"]);
    assert!(!ran.stderr.contains('\u{1b}'));
}
