//! Remote boxes that run, on servers that were started for the tests.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotcell::remote::http::{Address, PlainHttp};
use hotcell::remote::{e2b, opensandbox};
use hotcell::secret::Secret;

use super::place::{Place, Ran, setting};

/// A server, and what a user says to use it.
struct Server {
    kind: &'static str,
    url: String,
    key: String,
    image: Option<String>,
}

/// The servers that there are; the others are listed as skipped.
fn servers(test: &str) -> Vec<Server> {
    let e2b = || {
        let url = setting(test, "HOTCELL_TEST_E2B_URL")?;
        Some(Server { kind: "e2b", url, key: setting(test, "HOTCELL_TEST_E2B_KEY")?, image: None })
    };
    let opensandbox = || {
        let url = setting(test, "HOTCELL_TEST_OPENSANDBOX_URL")?;
        let key = setting(test, "HOTCELL_TEST_OPENSANDBOX_KEY")?;
        let image = setting(test, "HOTCELL_TEST_OPENSANDBOX_IMAGE")?;
        Some(Server { kind: "opensandbox", url, key, image: Some(image) })
    };
    [e2b(), opensandbox()].into_iter().flatten().collect()
}

impl Server {
    /// The key in a file beside the project, so that it is not sent along.
    fn key_file(&self, place: &Place) -> String {
        let file = place.home().join(format!("{}.key", self.kind));
        fs::write(&file, format!("{}\n", self.key)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn command(&self, place: &Place, subcommand: &str, rest: &[&str]) -> Command {
        let key = self.key_file(place);
        let mut words =
            vec![subcommand, "--runtime", self.kind, "--sandbox-url", &self.url, "--sandbox-key-file", &key];
        if let (Some(image), "run") = (&self.image, subcommand) {
            words.extend(["--image", image]);
        }
        place.command(&[&words[..], rest].concat())
    }

    fn run(&self, place: &Place, rest: &[&str]) -> Ran {
        Ran::of(self.command(place, "run", rest).output().unwrap())
    }

    /// The sandboxes on the server, and what they are labelled with.
    fn sandboxes(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        block_on(async {
            let address = Address::parse(&self.url, PlainHttp::LoopbackOnly).unwrap();
            let key = Secret::new(self.key.clone());
            if self.kind == "opensandbox" {
                let client = opensandbox::Client::new(address, Some(&key)).unwrap();
                let listed = client.list(&opensandbox::Filter::default()).await.unwrap();
                return listed.into_iter().map(|found| (found.id, found.metadata)).collect();
            }
            let listed = self.e2b(address, key).list(&e2b::Filter::new(1000)).await.unwrap();
            listed.into_iter().map(|found| (found.id.to_string(), found.metadata)).collect()
        })
    }

    fn e2b(&self, address: Address, key: Secret<String>) -> e2b::Client {
        let mut options = e2b::Options::new(address.clone(), e2b::Data::Url(address));
        options.api_key = Some(key);
        e2b::Client::new(options).unwrap()
    }

    /// Makes a sandbox that is somebody else's, with one of our labels.
    fn make_foreign(&self) -> String {
        let labels = BTreeMap::from([("hotcell.box".to_owned(), "e2b-1-1".to_owned())]);
        block_on(async {
            let address = Address::parse(&self.url, PlainHttp::LoopbackOnly).unwrap();
            let key = Secret::new(self.key.clone());
            if let Some(image) = &self.image {
                let mut new = opensandbox::NewSandbox::image(image);
                new.metadata = labels;
                return opensandbox::Client::new(address, Some(&key)).unwrap().create(&new).await.unwrap().id;
            }
            let mut new = e2b::NewSandbox::new("base", Duration::from_secs(300));
            new.metadata = labels;
            self.e2b(address, key).create(&new).await.unwrap().id().to_string()
        })
    }

    fn remove(&self, id: &str) {
        block_on(async {
            let address = Address::parse(&self.url, PlainHttp::LoopbackOnly).unwrap();
            let key = Secret::new(self.key.clone());
            match self.kind {
                "opensandbox" => opensandbox::Client::new(address, Some(&key)).unwrap().delete(id).await.unwrap(),
                _ => self.e2b(address, key).delete(&id.parse().unwrap()).await.unwrap(),
            }
        });
    }

    /// The sandboxes that a process made.
    fn made_by(&self, process: u32) -> Vec<String> {
        let name = format!("{}-{process}-", self.kind);
        let is_its =
            |labels: &BTreeMap<String, String>| labels.get("hotcell.box").is_some_and(|id| id.starts_with(&name));
        self.sandboxes().into_iter().filter(|(_, labels)| is_its(labels)).map(|(id, _)| id).collect()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Runs a command to its end, and sees that the box is gone with it.
fn to_its_end(server: &Server, mut command: Command) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(server.made_by(process), [""; 0], "the box is still there; {}", ran.stderr);
    ran
}

const BOTH_STREAMS: [&str; 4] = ["--", "sh", "-c", "echo out; echo err >&2; exit 3"];

#[test]
fn a_command_runs_there_with_both_streams_and_its_exit_code() {
    for server in servers("a_command_runs_there_with_both_streams_and_its_exit_code") {
        let place = Place::new();
        let ran = to_its_end(&server, server.command(&place, "run", &BOTH_STREAMS));
        assert_eq!((ran.code, ran.text(), &*ran.stderr), (3, "out\n", "err\n"), "{}", server.kind);
        let missing = to_its_end(&server, server.command(&place, "run", &["--", "no-such-program"]));
        assert_eq!((missing.code, missing.text()), (127, ""), "{missing:?}");
    }
}

#[test]
fn flat_keys_do_the_same_with_no_flag() {
    for server in servers("flat_keys_do_the_same_with_no_flag") {
        let place = Place::new();
        let directory = place.home().join(".config/hotcell");
        fs::create_dir_all(&directory).unwrap();
        let write = |backend: &str| {
            let Server { url, key, image, .. } = &server;
            let mut text =
                format!("sandbox_backend = \"{backend}\"\nsandbox_url = \"{url}\"\nsandbox_api_key = \"{key}\"\n");
            if let Some(image) = image {
                text.push_str(&format!("[container]\nimage = \"{image}\"\n"));
            }
            fs::write(directory.join("hotcell.toml"), text).unwrap();
        };
        write(server.kind);
        let ran = to_its_end(&server, place.command(&[&["run"], &BOTH_STREAMS[..]].concat()));
        assert_eq!((ran.code, ran.text(), &*ran.stderr), (3, "out\n", "err\n"), "{}", server.kind);
        let object = place.hotcell(&["run", "--json", "true"]).json();
        assert_eq!((&object["backend"], &object["isolation"]), (&server.kind.into(), &"remote".into()), "{object}");
        // The same file asks for the native box with one word.
        write("none");
        let plan = place.hotcell(&["plan", "--json"]);
        assert!(plan.text().contains("\"native\"") && !plan.text().contains(server.kind), "{plan:?}");
    }
}

#[test]
fn what_happened_is_told_as_json() {
    for server in servers("what_happened_is_told_as_json") {
        let place = Place::new();
        let script = ["--json", "--", "sh", "-c", "printf 'a\\000\\377'; echo b >&2; kill -9 $$"];
        let object = to_its_end(&server, server.command(&place, "run", &script)).json();
        assert_eq!(object["backend"], server.kind);
        assert_eq!((&object["exit_code"], &object["signal"]), (&137.into(), &9.into()), "{object}");
        assert_eq!((&object["stdout_base64"], &object["stderr"]), (&"YQD/".into(), &"b\n".into()), "{object}");
        let enforcement = object["enforcement"].as_array().unwrap();
        let of = |control: &str| enforcement.iter().find(|entry| entry["control"] == control).unwrap().to_string();
        for control in ["syscalls", "privileges", "process-isolation", "network"] {
            assert!(of(control).contains("approximated") && of(control).contains("its word"), "{}", of(control));
        }
        assert!(of("filesystem-view").contains("enforced"), "{}", of("filesystem-view"));
    }
}

#[test]
fn the_time_and_output_limits_are_held_from_here() {
    for server in servers("the_time_and_output_limits_are_held_from_here") {
        let place = Place::new();
        let slow = server.command(&place, "run", &["--timeout", "300ms", "--", "sh", "-c", "echo ready; sleep 600"]);
        let ran = to_its_end(&server, slow);
        assert_eq!((ran.code, ran.text()), (124, "ready\n"), "{ran:?}");
        let loud = server.command(
            &place,
            "run",
            &["--max-output", "64k", "--", "sh", "-c", "while :; do echo xxxxxxxxxxxxxxxx; done"],
        );
        let ran = to_its_end(&server, loud);
        assert!(ran.code == 137 && ran.stdout.len() <= 64 << 10, "{} {}", ran.code, ran.stderr);
    }
}

#[test]
fn input_goes_through_a_pipe_byte_for_byte() {
    for server in servers("input_goes_through_a_pipe_byte_for_byte") {
        let place = Place::new();
        let key = server.key_file(&place);
        let mut words = vec!["run", "--runtime", server.kind, "--sandbox-url", &server.url, "--sandbox-key-file", &key];
        if let Some(image) = &server.image {
            words.extend(["--image", image]);
        }
        let bytes: Vec<u8> =
            (0..100_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        words.extend(["--", "cat"]);
        let ran = place.hotcell_with_stdin(&words, &bytes);
        assert!(ran.code == 0 && ran.stdout == bytes, "{} of {} bytes, {}", ran.stdout.len(), bytes.len(), ran.stderr);
    }
}

#[test]
fn trees_are_copied_there_and_back_as_the_policy_says() {
    for server in servers("trees_are_copied_there_and_back_as_the_policy_says") {
        let place = Place::new();
        place.file("kept", "old\n");
        place.file("gone", "old\n");
        place.file("private", "CANARY\n");
        let change = "cat kept private; echo new > kept; rm gone; mkdir made; echo 1 > made/one; chmod 750 made/one; \
                      mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > .envrc; echo done";
        let read = |name: &str| fs::read_to_string(place.project().join(name)).unwrap_or_default();

        let ran = server.run(&place, &["--overlay", ".", "--", "sh", "-c", change]);
        assert!(ran.code == 0 && ran.text().contains("done"), "{ran:?}");
        assert_eq!((read("kept"), read("gone")), ("old\n".to_owned(), "old\n".to_owned()));
        let ran = server.run(&place, &["--read", ".", "--", "sh", "-c", change]);
        assert!(ran.text().contains("old\nCANARY\n"), "{ran:?}");
        assert_eq!((read("kept"), read("made/one")), ("old\n".to_owned(), String::new()));

        let ran = server.run(&place, &["--write", ".", "--deny", "private", "--", "sh", "-c", change]);
        assert!(ran.text().ends_with("done\n") && !ran.text().contains("CANARY"), "{ran:?}");
        assert_eq!((read("kept"), read("made/one")), ("new\n".to_owned(), "1\n".to_owned()), "{ran:?}");
        assert!(!place.project().join("gone").exists());
        assert_eq!(fs::metadata(place.project().join("made/one")).unwrap().permissions().mode() & 0o777, 0o750);
        // What was never sent is not taken for removed; what steers programs here is not brought back.
        assert_eq!(read("private"), "CANARY\n");
        for steers in [".git", ".envrc"] {
            assert!(!place.project().join(steers).exists(), "{steers} came back");
        }
    }
}

#[test]
fn after_kill_9_prune_removes_the_sandbox_and_nothing_else() {
    for server in servers("after_kill_9_prune_removes_the_sandbox_and_nothing_else") {
        let place = Place::new();
        let mut command = server.command(&place, "run", &["--", "sh", "-c", "echo ready; exec sleep 600"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let made = server.made_by(child.id());
        assert_eq!(made.len(), 1, "the test does not see what it is looking for");
        let foreign = server.make_foreign();
        let prune = |rest: &[&str]| Ran::of(server.command(&place, "prune", rest).output().unwrap());

        // As long as its program lives, nobody takes it away.
        let alive = prune(&[]);
        assert!(!alive.text().contains(&made[0]) && server.made_by(child.id()) == made, "{alive:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let looked = prune(&["--dry-run"]);
        let before = server.made_by(child.id());
        let ran = prune(&["--json"]);
        let (after, foreign_is_there) = (server.made_by(child.id()), server.sandboxes().contains_key(&foreign));
        server.remove(&foreign);
        // Another start may have cleaned up in between: then there was nothing to see.
        if before == made {
            let line = format!("would remove sandbox {} in {}", made[0], server.url);
            assert!(looked.code == 1 && looked.text().contains(&line), "{looked:?}");
        }
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(after, [""; 0], "{ran:?}");
        assert!(foreign_is_there && !ran.text().contains(&foreign), "{ran:?}");
    }
}

#[test]
fn doctor_describes_the_server() {
    for server in servers("doctor_describes_the_server") {
        let place = Place::new();
        let doctor = |rest: &[&str]| Ran::of(server.command(&place, "doctor", rest).output().unwrap());
        let ran = doctor(&[]);
        let Server { kind, url, .. } = &server;
        let server_line = format!("{url}, which answers and takes the key").replace("/,", ",");
        let verdict = format!("A box of the configured runtime, {kind}, with the default policy can be made here.");
        for word in
            [&*format!("{kind} server"), &server_line, &verdict, &format!("in full by {kind} boxes"), "server's word"]
        {
            assert!(
                ran.code == 0 && ran.text().replace("/v1,", ",").contains(word),
                "`{word}` is not in {}",
                ran.text()
            );
        }
        if *kind == "opensandbox" {
            assert!(ran.text().contains("version 1.") && ran.text().contains("no pools"), "{}", ran.text());
        }
        let object = doctor(&["--json"]).json();
        let capabilities = object["capabilities"].as_array().unwrap();
        assert!(capabilities.iter().any(|capabilities| capabilities["kind"] == *kind), "{object}");
        assert!(!ran.text().contains(&server.key) && !object.to_string().contains(&server.key));

        fs::write(place.home().join("wrong"), "wrong-key-of-somebody").unwrap();
        fs::set_permissions(place.home().join("wrong"), fs::Permissions::from_mode(0o600)).unwrap();
        let wrong = place.home().join("wrong");
        let flags = ["--runtime", kind, "--sandbox-url", url, "--sandbox-key-file", wrong.to_str().unwrap()];
        let ran = place.hotcell(&[&["doctor"], &flags[..]].concat());
        assert!(
            ran.code == 1 && ran.text().contains("answered 401") && ran.text().contains("check the key"),
            "{ran:?}"
        );
        assert!(!ran.text().contains("wrong-key-of-somebody"), "{ran:?}");
        place.hotcell(&[&["run"], &flags[..], &["true"]].concat()).assert_refused(&["answered 401"]);
    }
}
