//! `hotcell prune`: what crashed programs left goes, and nothing else.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::place::{Place, Ran, has_program, setting, turn_at_engines};

const DOCKER: &str = "/usr/bin/docker";
const IMAGE: &str = "hotcell-test:latest";

fn prune(place: &Place, flags: &[&str]) -> Ran {
    let mut command = place.command(&[&["prune"], flags].concat());
    // No engine of this machine is asked.
    command.env("DOCKER_HOST", "unix:///nowhere/engine");
    Ran::of(command.output().unwrap())
}

/// A store with a file that somebody was writing.
fn half_written(place: &Place) -> std::path::PathBuf {
    let temporary = place.home().join("store/temporary");
    fs::create_dir_all(&temporary).unwrap();
    fs::write(temporary.join("half"), "x").unwrap();
    temporary
}

#[test]
fn half_written_files_of_the_store_are_removed_and_a_dry_run_removes_nothing() {
    let place = Place::new();
    assert_eq!(prune(&place, &[]).text(), "nothing was left behind\n");
    assert!(!place.home().join("store").exists(), "a store was made to look into it");
    let temporary = half_written(&place);
    let ran = prune(&place, &["--dry-run"]);
    assert!(ran.code == 1 && ran.text().contains("would remove file") && ran.text().contains("half"), "{ran:?}");
    assert!(temporary.join("half").exists());
    let object = prune(&place, &["--json"]).json();
    assert_eq!((&object["found"][0]["kind"], &object["found"][0]["removed"]), (&"file".into(), &true.into()));
    assert!(!temporary.join("half").exists());
    let again = prune(&place, &[]);
    assert_eq!((again.code, again.text()), (0, "nothing was left behind\n"));
}

#[test]
fn a_store_in_use_is_left_alone() {
    let place = Place::new();
    let temporary = half_written(&place);
    let lock = File::create(place.home().join("store/removal.lock")).unwrap();
    lock.lock_shared().unwrap();
    let ran = prune(&place, &[]);
    assert!(ran.code == 0 && ran.text().contains("in use"), "{ran:?}");
    assert!(temporary.join("half").exists());
}

#[test]
fn what_cannot_be_removed_is_said_and_is_a_failure() {
    let test = "what_cannot_be_removed_is_said_and_is_a_failure";
    let place = Place::new();
    let temporary = half_written(&place);
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let set = |flag: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        if root {
            return Command::new("chattr").arg(flag).arg(temporary.join("half")).status().is_ok_and(|s| s.success());
        }
        fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).is_ok()
    };
    if !set("+i", 0o500) {
        return super::place::skip(test, "this file system has no files that root cannot remove");
    }
    let ran = prune(&place, &[]);
    set("-i", 0o700);
    assert!(ran.code == 1 && ran.text().contains("could not remove file"), "{ran:?}");
    assert_eq!(prune(&place, &[]).code, 0);
}

/// An engine for tests, and what is done in it with its own client.
struct Engine(String);

impl Engine {
    fn of(test: &str, variable: &str) -> Option<Self> {
        let address = setting(test, variable)?;
        has_program(test, DOCKER).then_some(Self(address))
    }

    fn docker(&self, arguments: &[&str]) -> Ran {
        Ran::of(Command::new(DOCKER).arg("-H").arg(&self.0).args(arguments).output().unwrap())
    }

    fn hotcell(&self, place: &Place, arguments: &[&str]) -> Command {
        let mut command = place.command(arguments);
        command.env("DOCKER_HOST", &self.0);
        command
    }

    fn names(&self, filter: &str) -> Vec<String> {
        let listed = self.docker(&["ps", "--all", "--filter", filter, "--format", "{{.Names}}"]);
        assert_eq!(listed.code, 0, "{listed:?}");
        listed.text().lines().map(str::to_owned).collect()
    }

    /// A container that nobody started.
    fn create(&self, name: &str, labels: &[(&str, &str)]) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("--label={name}={value}")).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let ran = self.docker(&[&["create", "--name", name], &labels[..], &[IMAGE, "true"]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

/// The owner's label of a process that has ended.
fn somebody_gone() -> String {
    let mut child = Command::new("true").spawn().unwrap();
    let process = child.id();
    child.wait().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    format!("{}/{namespace}/{process}/1", boot.trim())
}

#[test]
fn containers_of_programs_that_are_gone_are_removed_and_no_others() {
    let test = "containers_of_programs_that_are_gone_are_removed_and_no_others";
    let _turn = turn_at_engines();
    for variable in ["HOTCELL_TEST_DOCKER", "HOTCELL_TEST_PODMAN"] {
        let Some(engine) = Engine::of(test, variable) else { continue };
        let place = Place::new();
        let number = std::process::id();
        let (left, foreign) = (format!("hotcell-docker-{number}-7001"), format!("hotcell-docker-{number}-7002"));
        let owner = somebody_gone();
        let id = format!("docker-{number}-7001");
        let own = [("dev.hotcell.owner", &*owner), ("dev.hotcell.version", "0.1.0"), ("dev.hotcell.box", &id)];
        engine.create(&left, &own);
        // Somebody else's, with one of our labels and a name like ours.
        engine.create(&foreign, &own[..1]);

        let looked = Ran::of(engine.hotcell(&place, &["prune", "--dry-run"]).output().unwrap());
        let before = engine.names(&format!("name={left}"));
        let ran = Ran::of(engine.hotcell(&place, &["prune"]).output().unwrap());
        let after = (engine.names(&format!("name={left}")), engine.names(&format!("name={foreign}")));
        engine.docker(&["rm", &left, &foreign]);
        let line = format!("container {left} in {}", engine.0);
        assert!(looked.code == 1 && looked.text().contains(&format!("would remove {line}")), "{looked:?}");
        assert_eq!(before, std::slice::from_ref(&left), "a dry run removed it");
        assert!(ran.code == 0 && ran.text().contains(&format!("removed {line}")), "{ran:?}");
        assert!(!ran.text().contains(&foreign), "{ran:?}");
        assert_eq!(after, (Vec::new(), vec![foreign]));
    }
}

#[test]
fn after_kill_9_and_prune_nothing_is_left() {
    let test = "after_kill_9_and_prune_nothing_is_left";
    let _turn = turn_at_engines();
    let Some(engine) = Engine::of(test, "HOTCELL_TEST_DOCKER") else { return };
    let place = Place::new();
    let script = ["run", "--runtime", "docker", "--image", IMAGE, "sh", "-c", "echo ready; exec sleep 600"];
    let mut child = engine.hotcell(&place, &script).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let own = format!("name=hotcell-docker-{}-", child.id());
    assert_eq!(engine.names(&own).len(), 1, "the test does not see what it is looking for");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let ran = Ran::of(engine.hotcell(&place, &["prune"]).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(engine.names(&own), [""; 0], "{ran:?}");
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
}
