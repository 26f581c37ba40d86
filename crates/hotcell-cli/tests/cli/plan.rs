//! `hotcell plan`: what would be enforced.

use std::fs;

use super::place::{Place, skip};

/// Control and request of every line; what holds it differs between machines.
fn requests(place: &Place, text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines().skip_while(|line| !line.trim_start().starts_with("control")) {
        let columns: Vec<&str> = line.trim().split("  ").filter(|column| !column.is_empty()).collect();
        let [control, requested, held_by] = columns[..] else { panic!("{line}") };
        assert!(!held_by.trim().is_empty());
        shown.push_str(&format!("{} | {}\n", control.trim(), requested.trim()));
    }
    shown.replace(place.project().to_str().unwrap(), "@")
}

#[test]
fn the_default_plan() {
    let place = Place::new();
    if !place.has_boxes("the_default_plan") {
        return;
    }
    let ran = place.hotcell(&["plan"]);
    assert!(ran.text().starts_with("native box, isolation process\n"), "{}", ran.text());
    let expected = "\
control | requested
filesystem-view | 1 host path
read-only | system directories, @
sockets | none of the host's in trees that are only read
network | no network
environment | 6 passed, 0 set, the rest scrubbed
syscalls | dangerous system calls refused
privileges | no privileges, none to gain
process-isolation | own processes only, all ended with the box
memory | at most 1 GiB
cpu-time | at most 300 s
processes | at most 256
open-files | at most 1024
disk | at most 512 MiB
output | at most 256 MiB
timeout | at most 300 s
";
    assert_eq!(requests(&place, ran.text()), expected);
}

#[test]
fn flags_and_files_change_the_plan() {
    let place = Place::new();
    if !place.has_boxes("flags_and_files_change_the_plan") {
        return;
    }
    let file = place.file("hotcell.toml", "[limits]\noutput = \"2m\"\n");
    let ran = place.hotcell(&["plan", "--timeout", "10s", "--net", "open", "--tty", "--env", "A=b"]);
    let shown = requests(&place, ran.text());
    for line in
        ["timeout | at most 10 s", "open-network | the host's network", "tty | a terminal", "output | at most 2 MiB"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(ran.text().contains(&format!("policy from {}\n", file.display())), "{}", ran.text());
    let object = place.hotcell(&["plan", "--json", "--env", "TOKEN=secret"]).json();
    assert_eq!((object["backend"].as_str(), object["isolation"].as_str()), (Some("native"), Some("process")));
    assert!(object["enforcement"].as_array().unwrap().len() > 10);
    assert_eq!(object["sources"][0], file.to_str().unwrap());
    // A variable's value may be a secret.
    assert!(!object.to_string().contains("secret"));
}

#[test]
fn a_refusal_names_every_rule() {
    let place = Place::new();
    place.hotcell(&["plan", "--isolation", "microvm"]).assert_refused(&["isolation (microvm", "what would:"]);
    place.hotcell(&["plan", "--runtime", "wasm"]).assert_refused(&["`wasm` backend", "hint: "]);
    let ran = place.hotcell(&["plan", "--json", "--isolation", "microvm"]);
    assert_eq!((ran.code, ran.json()["error"]["kind"].as_str()), (125, Some("refused")));
}

/// Whether overlays can be made here; if not, the test is listed as skipped.
fn can_overlay(place: &Place, test: &str) -> bool {
    let can = place.can_hold(&["--overlay", "."]);
    if !can {
        skip(test, "no overlay can be made here, see `hotcell doctor`");
    }
    can
}

#[test]
fn presets_are_planned_and_printed() {
    let place = Place::new();
    for name in ["read-only", "workspace-write", "workspace-overlay", "offline", "package-install"] {
        let ran = place.hotcell(&["plan", "--preset", name, "--print"]);
        assert!(ran.code == 0 && ran.text().starts_with(&format!("# The preset {name}: ")), "{ran:?}");
    }
    place.hotcell(&["plan", "--print"]).assert_refused(&["--preset"]);
    place.hotcell(&["plan", "--preset", "offline", "--print", "--net", "deny"]).assert_refused(&["--print"]);
    place.hotcell(&["plan", "--preset", "offline", "--print", "--policy", "x"]).assert_refused(&["--print"]);
    let ofline = ["--preset: ", "`ofline` is not a preset", "did you mean `offline`?"];
    place.hotcell(&["plan", "--preset", "ofline"]).assert_refused(&ofline);
    let opened = ["--net: `network.mode` asks for an open network", "--preset chooses the preset `offline`"];
    place.hotcell(&["plan", "--preset", "offline", "--net", "open"]).assert_refused(&opened);
    if !place.has_boxes("presets_are_planned_and_printed") || !can_overlay(&place, "presets_are_planned_and_printed") {
        return;
    }
    let ran = place.hotcell(&["plan", "--preset", "offline"]);
    assert!(ran.text().contains("preset offline from --preset\n"), "{}", ran.text());
    let shown = requests(&place, ran.text());
    assert!(shown.contains("network | no network") && shown.contains("overlay | @"), "{shown}");
    // What is printed, as a file of the user's own, comes to the same.
    fs::write(place.home().join("offline.toml"), place.hotcell(&["plan", "--preset", "offline", "--print"]).stdout)
        .unwrap();
    let file = place.home().join("offline.toml");
    let printed = place.hotcell(&["plan", "--policy", file.to_str().unwrap()]);
    assert_eq!(requests(&place, printed.text()), shown);
    let object = place.hotcell(&["plan", "--preset", "package-install", "--json"]).json();
    assert_eq!(
        (object["preset"].as_str(), object["policy"]["network"].as_str()),
        (Some("package-install"), Some("open"))
    );
}

#[test]
fn a_preset_holds_in_the_box() {
    let place = Place::new();
    if !place.has_boxes("a_preset_holds_in_the_box") || !can_overlay(&place, "a_preset_holds_in_the_box") {
        return;
    }
    let script = "echo x > written && cat written; ls /sys/class/net 2>/dev/null | grep -v lo; echo $HOME";
    let run = |preset: &str| place.hotcell(&["run", "--preset", preset, "--", "sh", "-c", script]);
    assert_eq!(run("read-only").text(), "/home/hotcell\n");
    assert_eq!(run("offline").text(), "x\n/home/hotcell\n");
    assert_eq!(run("workspace-overlay").text(), "x\n/home/hotcell\n");
    assert!(!place.project().join("written").exists());
    assert_eq!(run("workspace-write").text(), "x\n/home/hotcell\n");
    assert!(place.project().join("written").exists());
    // The default of the user's own file.
    fs::create_dir_all(place.home().join(".config/hotcell")).unwrap();
    fs::write(place.home().join(".config/hotcell/hotcell.toml"), "[sandbox]\npreset = \"offline\"\n").unwrap();
    place
        .hotcell(&["run", "--net", "open", "--", "true"])
        .assert_refused(&["hotcell.toml:2 chooses the preset `offline`"]);
}
