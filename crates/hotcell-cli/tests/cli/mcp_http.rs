//! `hotcell mcp --http`: what the command adds to the server, which has tests of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use super::place::Place;

/// Starts a server; where it is, and what else it said before that.
fn start(place: &Place, flags: &[&str]) -> (Child, String, String) {
    let mut command = place.command(&[&["mcp", "--http", "127.0.0.1:0"], flags].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let serving = lines.next().unwrap();
    let address = serving.strip_prefix("hotcell: serving at http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let token = lines.next().unwrap();
    // Nobody reads on; what is said later must not block the server.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address, token)
}

/// The status that a greeting with this token gets.
fn greet(address: &str, token: &str) -> u16 {
    let client = json!({ "name": "by hand", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn end(mut child: Child) {
    let kill = format!("kill -TERM {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "", "stdout is not for this");
}

#[test]
fn a_token_is_made_for_the_run_or_for_the_file() {
    let place = Place::new();
    if !place.has_boxes("a_token_is_made_for_the_run_or_for_the_file") {
        return;
    }
    let (child, address, said) = start(&place, &[]);
    let token = said.strip_prefix("hotcell: the token of this run is ").unwrap();
    assert_eq!((greet(&address, token), greet(&address, "wrong-wrong-wrong-wrong")), (200, 401));
    end(child);

    let directory = place.home().join("not/there");
    let file = directory.join("tokens");
    let (child, address, said) = start(&place, &["--token-file", file.to_str().unwrap()]);
    let token = std::fs::read_to_string(&file).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for made in [&directory, directory.parent().unwrap()] {
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{made:?}");
    }
    assert!(!said.contains(token.trim()), "a token in a file is not printed: {said}");
    assert_eq!(greet(&address, token.trim()), 200);
    end(child);
}

#[test]
fn a_token_file_of_others_is_refused() {
    let place = Place::new();
    let file = place.file("tokens", "a-token-that-is-long-enough\n");
    // The origin is none: nothing is served even if the file were taken.
    let flags = ["mcp", "--http", "127.0.0.1:0", "--allow-origin", "*", "--token-file", "tokens"];
    for mode in [0o644, 0o620, 0o602] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        place.hotcell(&flags).assert_refused(&["tokens", "chmod 600"]);
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "short\n").unwrap();
    let refused = place.hotcell(&flags);
    refused.assert_refused(&["tokens", "line 1"]);
    assert!(!refused.stderr.contains("short"), "{refused:?}");
}

#[test]
fn what_is_no_file_of_tokens_is_refused_and_not_waited_for() {
    let place = Place::new();
    let file = place.file("tokens", "a-token-that-is-long-enough\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&file, file.with_file_name("link")).unwrap();
    std::fs::create_dir(file.with_file_name("directory")).unwrap();
    let pipe = file.with_file_name("pipe");
    assert!(std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
    let ask =
        |name: &str| place.hotcell(&["mcp", "--http", "127.0.0.1:0", "--allow-origin", "*", "--token-file", name]);
    ask("pipe").assert_refused(&["pipe", "not a regular file"]);
    ask("directory").assert_refused(&["directory", "not a regular file"]);
    ask("/dev/null").assert_refused(&["/dev/null", "not a regular file"]);
    ask("link").assert_refused(&["link", "symbolic link"]);
    // With the file itself it is the origin that is refused.
    ask("tokens").assert_refused(&["`*` is no origin"]);
}

#[test]
fn other_machines_are_not_let_in_without_tls() {
    let place = Place::new();
    place.hotcell(&["mcp", "--http", "0.0.0.0:0"]).assert_refused(&["0.0.0.0:0", "--tls-cert", "--insecure-bind"]);
    place.hotcell(&["mcp", "--http", "127.0.0.1:0", "--allow-origin", "*"]).assert_refused(&["`*` is no origin"]);
    place.hotcell(&["mcp", "--http", "127.0.0.1:0", "--tls-cert", "x"]).assert_refused(&["--tls-key"]);
    place.hotcell(&["mcp", "--http", "127.0.0.1:0", "--max-sessions", "0"]).assert_refused(&["--max-sessions"]);
    place.hotcell(&["mcp", "--http", "127.0.0.1:0", "--idle-timeout", "never"]).assert_refused(&["--idle-timeout"]);
}
