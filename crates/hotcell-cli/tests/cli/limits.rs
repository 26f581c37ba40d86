//! Limits that were asked for: held and told apart, or refused by name.

use super::place::{Place, Ran};

/// Runs under a limit; none if this machine cannot hold it, after checking that it says so.
fn under(place: &Place, flag: &str, value: &str, control: &str, script: &str) -> Option<Ran> {
    let ran = place.hotcell(&["run", flag, value, "--", "sh", "-c", script]);
    if place.can_hold(&[flag, value]) {
        return Some(ran);
    }
    ran.assert_refused(&[&format!("{control} ("), flag]);
    None
}

#[test]
fn memory() {
    let script = "head -c 300000000 /dev/zero | tail -c 299999999 >/dev/null";
    if let Some(ran) = under(&Place::new(), "--memory", "64m", "memory", &format!("{script}; exit 3")) {
        assert_eq!(ran.code, 137, "{ran:?}");
        assert!(ran.stderr.contains("out of memory: the box used more than 64 MiB"), "{ran:?}");
    }
}

#[test]
fn cpu_time() {
    let script = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    if let Some(ran) = under(&Place::new(), "--cpu-time", "1s", "cpu-time", script) {
        assert_eq!(ran.code, 152, "{ran:?}");
        assert!(ran.stderr.contains("out of CPU time: the box used more than 1 s"), "{ran:?}");
    }
}

#[test]
fn processes() {
    // A shell that cannot fork ends, so this one tries from many shells.
    let script =
        "for i in $(seq 12); do (sleep 5 & sleep 5 & sleep 5) & done; ls /proc | grep -c '^[0-9]'; wait; exit 3";
    let place = Place::new();
    let Some(ran) = under(&place, "--pids", "20", "processes", script) else { return };
    let count: Option<u32> = ran.text().trim().parse().ok();
    assert!(count.is_none_or(|count| count <= 21), "{ran:?}");
    // Where the kernel counts refusals the outcome says so; elsewhere the command's own failure is all there is.
    assert_ne!(ran.code, 0, "{ran:?}");
    if ran.code == 137 {
        assert!(ran.stderr.contains("too many processes: the box wanted more than 20"), "{ran:?}");
    }
}

#[test]
fn output() {
    if let Some(ran) = under(&Place::new(), "--max-output", "1m", "output", "yes") {
        assert_eq!((ran.code, ran.stdout.len()), (137, 1 << 20), "{}", ran.stderr);
        assert!(ran.stderr.contains("too much output: the command wrote more than 1 MiB"), "{}", ran.stderr);
    }
}

#[test]
fn disk() {
    let script = "head -c 20000000 /dev/zero > /tmp/full";
    if let Some(ran) = under(&Place::new(), "--disk", "8m", "disk", script) {
        assert_eq!(ran.code, 137, "{ran:?}");
        assert!(ran.stderr.contains("disk full: the box wrote more than 8 MiB"), "{ran:?}");
    }
}

#[test]
fn cpus() {
    if let Some(ran) = under(&Place::new(), "--cpus", "0.5", "cpus", "exit 4") {
        assert_eq!(ran.code, 4, "{ran:?}");
    }
}

#[test]
fn a_disk_limit_on_direct_writes_is_refused_unless_it_is_accepted() {
    let place = Place::new();
    let flags = ["run", "--write", ".", "--disk", "8m"];
    if place.can_hold(&flags[1..]) {
        return;
    }
    place.hotcell(&[&flags[..], &["true"]].concat()).assert_refused(&["disk-direct"]);
    if place.has_boxes("a_disk_limit_on_direct_writes_is_refused_unless_it_is_accepted") {
        assert_eq!(place.hotcell(&[&flags[..], &["--approximate", "disk-direct", "true"]].concat()).code, 0);
    }
}

#[test]
fn a_limit_that_nothing_can_start_under_is_refused() {
    let place = Place::new();
    if place.can_hold(&["--memory", "4k"]) {
        place.hotcell(&["run", "--memory", "4k", "echo", "ran"]).assert_refused(&["memory", "4096 bytes"]);
    }
}
