//! Trees that somebody else changes while a container is made.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::place::{Place, Ran, skip};

/// gVisor's runtime mounts the trees of a policy once more, by name. A link that the code in another box puts in the place of
/// one, when everything has been looked at, must not lead it anywhere.
#[test]
fn a_link_in_place_of_a_tree_leads_a_runtime_nowhere() {
    let test = "swapped_trees::a_link_in_place_of_a_tree_leads_a_runtime_nowhere";
    let place = Place::new();
    let Some(runsc) = runsc().filter(|_| place.can_hold(&["--runtime", "gvisor"])) else {
        return skip(test, "no gvisor here");
    };
    let (shown, secrets) = (place.project().join("shown"), place.home().join("secrets"));
    for directory in [&shown.join("out"), &secrets] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(secrets.join("secret"), "not for the box").unwrap();

    // A runtime that waits, so that there is time.
    let (waits, wrapper) = (place.project().join("waits"), place.home().join("runsc-waiting"));
    let (file, program) = (waits.display(), runsc.display());
    let wait = format!("touch '{file}'\nwhile [ -e '{file}' ]; do sleep 0.01; done");
    fs::write(&wrapper, format!("#!/bin/sh\n{wait}\nexec '{program}' \"$@\"\n")).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();

    let out = shown.join("out");
    let flags = ["--runtime", "gvisor", "--oci-runtime", wrapper.to_str().unwrap(), "--cwd", "/", "--read"];
    let trees = [shown.to_str().unwrap(), "--write", out.to_str().unwrap()];
    let secret = out.join("secret");
    let command = ["--", "cat", secret.to_str().unwrap()];
    let mut command = place.command(&[&["run"], &flags[..], &trees, &command].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !waits.exists() {
        assert!(Instant::now() < end, "the runtime was not started");
        thread::sleep(Duration::from_millis(5));
    }
    fs::rename(&out, shown.join("moved")).unwrap();
    symlink(&secrets, &out).unwrap();
    fs::remove_file(&waits).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.code != 0 && !ran.text().contains("not for the box"), "{ran:?}");
}

/// That of the test command, else what is installed.
fn runsc() -> Option<PathBuf> {
    let named = std::env::var_os("HOTCELL_TEST_RUNSC").map(PathBuf::from).filter(|path| path.is_absolute());
    let path = std::env::var_os("PATH").unwrap_or_default();
    named.or_else(|| std::env::split_paths(&path).map(|place| place.join("runsc")).find(|program| program.exists()))
}
