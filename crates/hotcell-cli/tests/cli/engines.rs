//! Container engines: those that answer, and those that do not.

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use super::place::{Place, Ran, has_program, setting, turn_at_engines};
use super::terminal::{PYTHON, shown_on_a_terminal};

/// An address at which no engine answers.
struct Silent {
    place: Place,
    /// Held: connections are made, and nobody ever says anything.
    _listener: Option<UnixListener>,
}

impl Silent {
    /// A socket that nobody listens on any more.
    fn stopped() -> Self {
        let place = Place::new();
        drop(UnixListener::bind(place.home().join("engine")).unwrap());
        Self { place, _listener: None }
    }

    /// A socket that takes connections.
    fn hanging() -> Self {
        let place = Place::new();
        let listener = UnixListener::bind(place.home().join("engine")).unwrap();
        Self { place, _listener: Some(listener) }
    }

    fn address(&self) -> String {
        format!("unix://{}", self.place.home().join("engine").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env("DOCKER_HOST", self.address());
        command
    }

    /// Runs it, and sees that nobody has to wait for long.
    fn hotcell(&self, arguments: &[&str]) -> Ran {
        let started = Instant::now();
        let ran = Ran::of(self.command(arguments).output().unwrap());
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        ran
    }
}

#[test]
fn nothing_runs_and_nothing_stands_in_for_an_engine_that_does_not_answer() {
    for silent in [Silent::stopped(), Silent::hanging()] {
        let ran = silent.hotcell(&["run", "--runtime", "docker", "--write", ".", "sh", "-c", "echo ran; touch here"]);
        ran.assert_refused(&["no container engine answers", &silent.address(), "--runtime native", "hotcell doctor"]);
        assert!(!silent.place.project().join("here").exists());
        let error = silent.hotcell(&["run", "--runtime", "docker", "--json", "echo"]).json()["error"].clone();
        assert_eq!((error["kind"].as_str(), error["exit_code"].as_i64()), (Some("start"), Some(125)), "{error}");
    }
}

#[test]
fn verify_tries_nothing_where_no_box_can_be_had() {
    let silent = Silent::stopped();
    let ran = silent.hotcell(&["verify", "--runtime", "docker", "--filter", "work."]);
    ran.assert_refused(&["no container engine answers", &silent.address()]);
}

#[test]
fn an_engine_that_is_elsewhere_or_badly_named_is_refused() {
    let place = Place::new();
    for (address, word) in [("tcp://192.0.2.1:2375", "another machine"), ("ssh://host", "unix://")] {
        let mut command = place.command(&["run", "--runtime", "docker", "echo", "ran"]);
        Ran::of(command.env("DOCKER_HOST", address).output().unwrap()).assert_refused(&["DOCKER_HOST", address, word]);
        // Not an error of what is there: it is said, and the rest is done.
        let ran = Ran::of(place.command(&["prune"]).env("DOCKER_HOST", address).output().unwrap());
        assert!(ran.code == 0 && ran.text().contains("not asked") && ran.text().contains(address), "{ran:?}");
    }
}

#[test]
fn doctor_and_prune_say_so_and_go_on() {
    let native = Place::new().can_hold(&["--runtime", "native"]);
    for silent in [Silent::stopped(), Silent::hanging()] {
        let ran = silent.hotcell(&["doctor"]);
        assert_eq!(ran.code, if native { 0 } else { 1 });
        assert!(ran.text().contains(&silent.address()) && ran.text().contains("apt install docker.io"), "{ran:?}");
        assert!(!ran.text().contains("docker boxes"), "{ran:?}");
        let ran = silent.hotcell(&["prune", "--json"]);
        assert_eq!((ran.code, ran.json()["not_asked"][0]["place"].as_str()), (0, Some(&*silent.address())), "{ran:?}");
    }
}

#[test]
fn doctor_describes_engines() {
    let test = "doctor_describes_engines";
    for (variable, name) in [("HOTCELL_TEST_DOCKER", "Docker"), ("HOTCELL_TEST_PODMAN", "Podman")] {
        let Some(address) = setting(test, variable) else { continue };
        let place = Place::new();
        let ran = Ran::of(place.command(&["doctor", "--json"]).env("DOCKER_HOST", &address).output().unwrap());
        let object = ran.json();
        let findings = object["findings"].as_array().unwrap();
        let engine = findings.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("{object}"));
        let detail = engine["detail"].as_str().unwrap();
        for word in [&address, "API 1.", "OCI runtimes ", "cgroup", "storage ", "as root"] {
            assert!(detail.contains(word), "`{word}` is not in {detail}");
        }
        let kinds: Vec<_> =
            object["capabilities"].as_array().unwrap().iter().map(|held| held["kind"].clone()).collect();
        assert!(kinds.contains(&"docker".into()), "{kinds:?}");
    }
}

fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(200));
    false
}

/// Loading from the store goes through the same channel as a pull, and needs no registry.
#[test]
fn the_fetching_of_an_image_is_shown_on_a_terminal_and_nowhere_else() {
    let test = "the_fetching_of_an_image_is_shown_on_a_terminal_and_nowhere_else";
    let _turn = turn_at_engines();
    let (Some(address), Some(archive)) =
        (setting(test, "HOTCELL_TEST_DOCKER"), setting(test, "HOTCELL_TEST_IMAGE_TAR"))
    else {
        return;
    };
    if !has_program(test, PYTHON) || !has_program(test, "/usr/bin/docker") {
        return;
    }
    let place = Place::new();
    let name = format!("hotcell-cli-progress-{}", std::process::id());
    let hotcell = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("DOCKER_HOST", &address);
        command
    };
    // The box's container may still be on its way out of the engine.
    let forget = || {
        let removes = || Command::new("docker").args(["-H", &address, "rmi", "--force", &name]).output().unwrap();
        (0..50).any(|_| removes().status.success() || pause())
    };
    let imported = Ran::of(hotcell(&["image", "import", &archive, "--name", &name]).output().unwrap());
    assert_eq!(imported.code, 0, "{imported:?}");
    let run = ["run", "--runtime", "docker", "--image", &name, "--pull", "never", "echo", "done"];

    let shown = shown_on_a_terminal(&hotcell(&run), "");
    assert!(forget(), "the image stays in the engine");
    assert_eq!(shown.code, 0, "{shown:?}");
    let line = format!("{name}:latest: Loading from Hotcell's store");
    let at = shown.text().find(&line).unwrap_or_else(|| panic!("{shown:?}"));
    let after = &shown.text()[at..];
    assert!(after.contains("\r\u{1b}[K") && after.ends_with("done\r\n"), "{shown:?}");

    let piped = Ran::of(hotcell(&run).output().unwrap());
    assert!(forget(), "the image stays in the engine");
    assert_eq!((piped.code, piped.text(), &*piped.stderr), (0, "done\n", ""), "{piped:?}");
}
