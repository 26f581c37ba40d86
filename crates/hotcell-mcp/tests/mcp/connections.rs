//! Connections of strangers, who must not be in the way of clients, and of clients who do not do their part.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hotcell_mcp::http::HttpOptions;

use super::client::{Incoming, Session, kept_request};
use super::server::{FIRST, SECOND, Server, until};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
/// The end of an answer on a connection that is kept.
const ANSWERED: &str = "\r\n0\r\n\r\n";

#[test]
fn strangers_do_not_lock_clients_out() {
    let few = |options: &mut HttpOptions| {
        (options.connections, options.strangers) = (16, 4);
        (options.patience, options.introduction) = (LONG, LONG);
    };
    let Some(server) = Server::start("strangers_do_not_lock_clients_out", few) else { return };
    let early = Session::begin(server.address, FIRST);
    let mut kept = Incoming::of(server.address, &early.kept("ping"));
    kept.wait_for(ANSWERED);
    let begun: &[u8] = b"POST /mcp HTTP/1.1\r\nAuthorization: Bear";
    let strangers: Vec<_> = (0..40).map(|n| Incoming::of(server.address, [b"", begun][n % 2])).collect();
    // One who comes now is served,
    assert_eq!(Session::begin(server.address, SECOND).shell("echo served"), "served\n");
    // and one who was there is not sent away.
    kept.send(&early.kept("ping"));
    kept.wait_for(ANSWERED);
    // There are only so many strangers.
    for stranger in strangers.into_iter().take(36) {
        stranger.closed();
    }
}

#[test]
fn a_stranger_has_little_time() {
    let little = |options: &mut HttpOptions| {
        (options.patience, options.introduction) = (LONG, Duration::from_millis(500));
    };
    let Some(server) = Server::start("a_stranger_has_little_time", little) else { return };
    let session = Session::begin(server.address, FIRST);
    let mut kept = Incoming::of(server.address, &session.kept("ping"));
    kept.wait_for(ANSWERED);
    Incoming::of(server.address, b"").closed();
    Incoming::of(server.address, b"POST /mcp HTTP/1.1\r\nHost: ").closed();
    // One who is always about to say something.
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.write_all(b"GET /mcp HTTP/1.1\r\nX: ").unwrap();
    until("the end of the slow one", || {
        std::thread::sleep(Duration::from_millis(50));
        slow.write_all(b"x").is_err()
    });
    // All of this took longer than a stranger has; a client has longer.
    kept.send(&session.kept("ping"));
    kept.wait_for(ANSWERED);
}

#[test]
fn a_refusal_ends_the_connection() {
    let patient = |options: &mut HttpOptions| (options.patience, options.introduction) = (LONG, LONG);
    let Some(server) = Server::start("a_refusal_ends_the_connection", patient) else { return };
    let (host, token) = (server.address.to_string(), format!("Bearer {FIRST}"));
    let (host, token) = (("Host", host.as_str()), ("Authorization", token.as_str()));
    let refused = |status: u16, method: &str, headers: &[(&str, &str)]| {
        let answer = Incoming::of(server.address, &kept_request(method, "/mcp", headers, "")).closed().unwrap();
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{answer:?}");
    };
    refused(401, "GET", &[host]);
    refused(403, "GET", &[("Host", "evil.test"), token]);
    refused(403, "GET", &[host, token, ("Origin", "https://evil.test")]);
    refused(404, "GET", &[host, token, ("Mcp-Session-Id", "nobody's")]);
    refused(405, "PUT", &[host, token]);
    refused(406, "GET", &[host, token]);
    refused(400, "GET", &[host, token, ("Accept", "text/event-stream")]);
    refused(415, "POST", &[host, token]);
}

#[test]
fn there_are_only_so_many_connections_of_clients() {
    let two = |options: &mut HttpOptions| options.connections = 2;
    let Some(server) = Server::start("there_are_only_so_many_connections_of_clients", two) else { return };
    let session = Session::begin(server.address, FIRST);
    let mut kept = Vec::new();
    // The connections of the session's beginning take a moment to be gone.
    until("two connections", || {
        let mut one = Incoming::of(server.address, &session.kept("ping"));
        kept.extend(one.brings(ANSWERED).then_some(one));
        kept.len() == 2
    });
    let answer = Session::try_begin(server.address, FIRST);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("30")), "{answer:?}");
    for one in &mut kept {
        one.send(&session.kept("ping"));
        one.wait_for(ANSWERED);
    }
    drop(kept);
    until("a place", || Session::try_begin(server.address, FIRST).status == 200);
}

#[test]
fn who_does_not_read_is_left() {
    let impatient = |options: &mut HttpOptions| options.patience = Duration::from_millis(500);
    let Some(server) = Server::start("who_does_not_read_is_left", impatient) else { return };
    let session = Session::begin(server.address, FIRST);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = session.kept("tools/list");
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < Duration::from_secs(120), "the server answers without being heard");
        if let Err(error) = stream.write_all(&request) {
            break error;
        }
    };
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    assert_eq!(session.shell("echo on"), "on\n");
}
