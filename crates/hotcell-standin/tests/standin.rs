//! The stand-in as a program: what it refuses, and that nothing of it stays.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const STANDIN: &str = env!("CARGO_BIN_EXE_hotcell-standin");

/// A stand-in that ends with its input.
struct Standin {
    child: Child,
    address: String,
}

impl Standin {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(STANDIN)
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--lifeline"])
            .env("EXECD_ACCESS_TOKEN", "token")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    /// Sends a request and reads everything that comes.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}");
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        assert!(TcpStream::connect(&self.address).is_err());
    }
}

#[test]
fn other_addresses_than_loopback_are_refused() {
    for arguments in [
        &["execd", "--listen", "0.0.0.0:0"][..],
        &["e2b", "--api-key", "k", "--listen", "[::]:0"],
        &["record", "--to", "127.0.0.1:1", "--out", "/nowhere/x", "--listen", "192.0.2.1:0"],
        &["execd", "--in-container"],
    ] {
        // One that listens all the same ends at once, because its input has ended.
        let mut command = Command::new(STANDIN);
        command.args(arguments).arg("--lifeline").env_remove("OPENSANDBOX_ID").stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {output:?}");
    }
}

#[test]
fn help_says_that_it_protects_nothing() {
    let output = Command::new(STANDIN).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("For tests only") && text.contains("nothing is isolated"), "{text}");
}

#[test]
fn a_token_is_asked_for_and_both_ways_lead_to_execd() {
    let standin = Standin::start(&["execd"]);
    for path in ["/ping", "/proxy/44772/ping"] {
        assert!(standin.ask("GET", path, "", "").starts_with("HTTP/1.1 401 "), "{path}");
        let token = "X-EXECD-ACCESS-TOKEN: token\r\n";
        assert!(standin.ask("GET", path, token, "").starts_with("HTTP/1.1 200 "), "{path}");
    }
    standin.end();
}

#[test]
fn an_event_is_a_chunk_without_data_in_front() {
    let standin = Standin::start(&["execd"]);
    let token = "X-EXECD-ACCESS-TOKEN: token\r\n";
    let answer = standin.ask("POST", "/command", token, r#"{"command":"echo '<hi>'; exit 3"}"#);
    assert!(answer.contains("content-type: text/event-stream\r\n"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let events: Vec<&str> = body.split("\r\n").filter(|line| line.starts_with('{')).collect();
    assert!(events[0].starts_with(r#"{"type":"init","text":""#), "{body}");
    assert!(events[2].starts_with(r#"{"type":"stdout","text":"\u003chi\u003e","timestamp":"#), "{body}");
    let error = r#""error":{"ename":"CommandExecError","evalue":"3","traceback":["exit status 3"]}}"#;
    assert!(events.last().unwrap().ends_with(&format!("{error}\n\n")), "{body}");
    standin.end();
}

#[test]
fn what_was_started_ends_with_it() {
    let standin = Standin::start(&["execd"]);
    let token = "X-EXECD-ACCESS-TOKEN: token\r\n";
    let mark = format!("{}.4325", std::process::id());
    let body = format!(r#"{{"command":"sleep {mark}","background":true}}"#);
    standin.ask("POST", "/command", token, &body);
    let runs = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .any(|line| String::from_utf8_lossy(&line).starts_with(&format!("sleep\0{mark}")))
    };
    let comes_true = |what: &dyn Fn() -> bool| {
        // Far longer than anything here takes; only a failure waits for it.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !what() {
            assert!(Instant::now() < deadline, "sleep {mark} runs: {}", runs());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    comes_true(&runs);
    standin.end();
    comes_true(&|| !runs());
}

#[test]
fn a_first_version_has_no_second() {
    let key = "X-API-Key: k\r\nContent-Type: application/json\r\n";
    let standin = Standin::start(&["e2b", "--api-key", "k", "--v1-only"]);
    assert!(standin.ask("POST", "/v2/sandboxes", key, "{}").starts_with("HTTP/1.1 405 "));
    assert!(standin.ask("POST", "/v2/sandboxes/x/connect", key, "{}").starts_with("HTTP/1.1 404 "));
    assert!(standin.ask("GET", "/v2/sandboxes", key, "").starts_with("HTTP/1.1 200 "));
    assert!(standin.ask("GET", "/v2/sandboxes", "X-API-Key: wrong\r\n", "").starts_with("HTTP/1.1 401 "));
    assert!(
        standin
            .ask("GET", "/health", "E2b-Sandbox-Id: none\r\nE2b-Sandbox-Port: 49983\r\n", "")
            .starts_with("HTTP/1.1 502 ")
    );
    standin.end();
}
