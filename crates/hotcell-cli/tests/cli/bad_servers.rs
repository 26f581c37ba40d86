//! Servers of remote boxes that cannot be used: what is said, and that nothing runs here instead.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::place::{Place, Ran};

const KEY: &str = "hunter2-not-to-be-seen";
const KINDS: [&str; 3] = ["opensandbox", "e2b", "cube"];
/// Where CubeSandbox's boxes would be.
const DOMAIN: &str = "cube.example.org";
/// What would leave a trace if it ran here.
const LEAVE_A_TRACE: [&str; 6] = ["--write", ".", "--", "sh", "-c", "echo ran; echo ran > trace"];

/// A server that says the same to everybody.
struct Parrot {
    address: String,
    calls: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

impl Parrot {
    /// Says nothing if there is nothing to say, and keeps the connection.
    fn new(says: &str) -> Self {
        let says: Arc<str> = says.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (calls, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (calls_here, ended_here) = (Arc::clone(&calls), Arc::clone(&ended));
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if ended_here.load(Ordering::SeqCst) {
                    return;
                }
                calls_here.fetch_add(1, Ordering::SeqCst);
                let says = Arc::clone(&says);
                match says.is_empty() {
                    true => kept.push(stream),
                    false => drop(thread::spawn(move || answer(stream, &says))),
                }
            }
        });
        Self { address, calls, ended }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Parrot {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

fn answer(mut stream: TcpStream, says: &str) {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(length @ 1..) => heard.extend_from_slice(&buffer[..length]),
            _ => return,
        }
    }
    let _ = stream.write_all(says.as_bytes());
}

/// A server's answer as it goes over the wire.
macro_rules! says {
    ($status:literal, $headers:literal, $body:literal) => {
        concat!("HTTP/1.1 ", $status, "\r\nconnection: close\r\n", $headers, "\r\n", $body)
    };
}

/// What a server says to everything, and what the user is told of it.
const BAD: &[(&str, &[&str])] = &[
    (
        says!("401 Unauthorized", "", r#"{"code":401,"message":"the key hunter2-not-to-be-seen is not known"}"#),
        &["answered 401", "is not known", "check the key (`sandbox_api_key`)"],
    ),
    (says!("403 Forbidden", "", "no"), &["answered 403", "check the key"]),
    (says!("404 Not Found", "", "not found"), &["answered 404", "check the address (`sandbox_url`)"]),
    (says!("429 Too Many Requests", "retry-after: 60\r\n", ""), &["answered 429", "wants fewer calls"]),
    // It answers, again and again: that is not silence.
    (says!("429 Too Many Requests", "retry-after: 1\r\n", ""), &["answered 429", "wants fewer calls"]),
    (says!("500 Oops", "", r#"{"message":"no database"}"#), &["answered 500: no database", "look at the server's log"]),
    (says!("200 OK", "", "<html>a router</html>"), &["something else than its protocol says", "that of such a server"]),
    (says!("200 OK", "", "{\"items\":7}"), &["something else than its protocol says"]),
    (says!("200 OK", "content-length: 1000000000000\r\n", "["), &["sent more than", "that of such a server"]),
    ("SSH-2.0-OpenSSH_9.2\r\n", &[]),
];

fn key_file(place: &Place) -> String {
    let file = place.home().join("key");
    fs::write(&file, KEY).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

fn hotcell(place: &Place, command: &str, kind: &str, address: &str, rest: &[&str]) -> Ran {
    let key = key_file(place);
    let flags = [command, "--runtime", kind, "--sandbox-url", address, "--sandbox-key-file", &key];
    let mut command = place.command(&[&flags, rest].concat());
    if kind == "cube" {
        command.env("CUBE_SANDBOX_DOMAIN", DOMAIN);
    }
    let ran = Ran::of(command.output().unwrap());
    let shown = String::from_utf8_lossy(&ran.stdout) + ran.stderr.as_str();
    assert!(!shown.contains(KEY), "{shown}");
    ran
}

fn assert_nothing_ran(place: &Place, ran: &Ran, words: &[&str]) {
    ran.assert_refused(words);
    assert!(!place.project().join("trace").exists());
}

#[test]
fn a_server_that_cannot_be_used_is_said_with_what_to_do_and_nothing_runs_here() {
    let place = Place::new();
    for (says, words) in BAD {
        let server = Parrot::new(says);
        for kind in KINDS {
            let ran = hotcell(&place, "run", kind, &server.address, &LEAVE_A_TRACE);
            assert_nothing_ran(&place, &ran, words);
            let named =
                [&*format!("`{kind}` backend"), &server.address, "nothing is run here instead", "hotcell doctor"];
            ran.assert_refused(&named);
        }
        assert!(server.calls() >= KINDS.len());
    }
}

#[test]
fn the_flat_keys_lead_to_the_same_end() {
    let place = Place::new();
    let server = Parrot::new(BAD[0].0);
    for kind in KINDS {
        let directory = place.home().join(".config/hotcell");
        fs::create_dir_all(&directory).unwrap();
        let url = &server.address;
        let domain = if kind == "cube" { format!("[remote]\ndomain = \"{DOMAIN}\"\n") } else { String::new() };
        let text =
            format!("sandbox_backend = \"{kind}\"\nsandbox_url = \"{url}\"\nsandbox_api_key = \"{KEY}\"\n{domain}");
        fs::write(directory.join("hotcell.toml"), text).unwrap();
        assert_nothing_ran(&place, &place.hotcell(&[&["run"], &LEAVE_A_TRACE[..]].concat()), BAD[0].1);
        let error = place.hotcell(&["run", "--json", "true"]).json()["error"].clone();
        assert_eq!((error["kind"].as_str(), error["exit_code"].as_i64()), (Some("start"), Some(125)), "{error}");
        assert!(!error.to_string().contains(KEY), "{error}");
    }
}

#[test]
fn a_server_that_is_down_or_silent_is_not_waited_for() {
    let place = Place::new();
    let down = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = Parrot::new("");
    for kind in KINDS {
        let ran = hotcell(&place, "run", kind, &format!("http://{down}"), &LEAVE_A_TRACE);
        assert_nothing_ran(&place, &ran, &["cannot be reached", "start the server, or correct its address"]);
        let started = Instant::now();
        let ran = hotcell(&place, "run", kind, &silent.address, &LEAVE_A_TRACE);
        assert_nothing_ran(&place, &ran, &["did not answer within 1.8 s"]);
        // It would be half a minute without a deadline of its own.
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let place = Place::new();
    let elsewhere = Parrot::new(says!("200 OK", "", "[]"));
    let location = format!("{}/v1/sandboxes", elsewhere.address);
    let server = Parrot::new(&format!("HTTP/1.1 307 Moved\r\nconnection: close\r\nlocation: {location}\r\n\r\n"));
    for kind in KINDS {
        let ran = hotcell(&place, "run", kind, &server.address, &LEAVE_A_TRACE);
        assert_nothing_ran(&place, &ran, &[&*format!("redirects to `{location}`"), "set `sandbox_url`"]);
    }
    assert_eq!(elsewhere.calls(), 0);
}

#[test]
fn doctor_says_why_and_its_exit_code_is_about_the_configured_server() {
    let place = Place::new();
    for (says, words) in BAD {
        let server = Parrot::new(says);
        for kind in KINDS {
            let ran = hotcell(&place, "doctor", kind, &server.address, &[]);
            assert_eq!(ran.code, 1, "{ran:?}");
            for word in words.iter().chain(&[&*server.address, &format!("{kind} server"), "cannot be made here: "]) {
                assert!(ran.text().contains(word), "`{word}` is not in {}", ran.text());
            }
            assert!(!ran.text().contains(&format!("{kind} boxes here")), "{ran:?}");
        }
    }
    let object = hotcell(&place, "doctor", "e2b", "http://127.0.0.1:1", &["--json"]).json();
    assert_eq!(object["default_policy"]["runtime"], "e2b");
    assert_eq!(object["default_policy"]["possible"], false, "{object}");
    // Without a key the fix is another one.
    let server = Parrot::new(BAD[0].0);
    let ran = place.hotcell(&["doctor", "--runtime", "opensandbox", "--sandbox-url", &server.address]);
    assert!(ran.code == 1 && ran.text().contains("give it a key: HOTCELL_SANDBOX_API_KEY"), "{ran:?}");
    let started = Instant::now();
    let ran = hotcell(&place, "doctor", "opensandbox", &Parrot::new("").address, &[]);
    assert!(ran.code == 1 && ran.text().contains("did not answer within 2 s"), "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn doctor_says_what_is_missing_and_little_where_nothing_is_configured() {
    let place = Place::new();
    let ran = place.hotcell(&["doctor", "--runtime", "cube"]);
    assert!(ran.code == 1 && ran.text().contains("needs the address of a CubeSandbox server"), "{ran:?}");
    let ran = place.hotcell(&["doctor"]);
    assert_eq!(ran.text().matches("opensandbox").count(), 1, "{ran:?}");
    assert!(!ran.text().contains("server of"), "{ran:?}");
    place.hotcell(&["doctor", "--runtime", "native"]).assert_refused(&["opensandbox, e2b or cube"]);
    place
        .hotcell(&["doctor", "--sandbox-url", "http://127.0.0.1:1"])
        .assert_refused(&["no remote runtime is configured"]);
}

#[test]
fn doctor_and_prune_go_on_where_settings_cannot_be_read() {
    let place = Place::new();
    place.file("hotcell.toml", "sandbox_backend = \"e2b\"\n");
    let ran = place.hotcell(&["doctor"]);
    assert!(ran.code == 1 && ran.text().contains("settings") && ran.text().contains("namespaces"), "{ran:?}");
    assert!(ran.text().contains("the settings cannot be read: "), "{ran:?}");
    let ran = place.hotcell(&["prune"]);
    assert!(ran.code == 0 && ran.text().contains("not asked: the server of remote boxes"), "{ran:?}");
}

#[test]
fn prune_says_which_server_it_could_not_ask_and_goes_on() {
    let place = Place::new();
    for (says, words) in BAD {
        let server = Parrot::new(says);
        for kind in KINDS {
            let ran = hotcell(&place, "prune", kind, &server.address, &["--dry-run"]);
            assert_eq!(ran.code, 0, "{ran:?}");
            for word in words.iter().chain(&[&*format!("not asked: {}: ", server.address)]) {
                assert!(ran.text().contains(word), "`{word}` is not in {}", ran.text());
            }
            assert!(!ran.text().contains("run here"), "{}", ran.text());
        }
    }
    let ran = place.hotcell(&["prune", "--runtime", "cube"]);
    assert!(ran.code == 0 && ran.text().contains("not asked: the server of cube boxes: "), "{ran:?}");
    place.hotcell(&["prune", "--runtime", "docker"]).assert_refused(&["opensandbox, e2b or cube"]);
}

#[test]
fn verify_tries_nothing_where_no_box_can_be_had() {
    let place = Place::new();
    let server = Parrot::new(BAD[0].0);
    for kind in KINDS {
        let ran = hotcell(&place, "verify", kind, &server.address, &["--filter", "work.files"]);
        ran.assert_refused(&[&format!("`{kind}` backend"), "answered 401"]);
    }
    place.hotcell(&["verify", "--sandbox-url", "http://127.0.0.1:1"]).assert_refused(&["no meaning for a local box"]);
    place.hotcell(&["verify", "--open-network"]).assert_refused(&["no meaning for a local box"]);
}
