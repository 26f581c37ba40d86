//! Who is not let in.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Answer, Session, initialize, raw, request};
use super::server::{FIRST, Server};

/// What a request needs to be let in, for tests to change one thing of.
fn good(server: &Server) -> Vec<(&'static str, String)> {
    vec![
        ("Host", server.address.to_string()),
        ("Authorization", format!("Bearer {FIRST}")),
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "application/json, text/event-stream".to_owned()),
    ]
}

fn ask(server: &Server, method: &str, path: &str, headers: &[(&'static str, String)], body: &str) -> Answer {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = raw(server.address, &request(method, path, &headers, body));
    let grants = answer.headers.iter().any(|(name, _)| name.starts_with("access-control-"));
    assert!(!grants, "a page is granted something: {answer:?}");
    answer
}

fn changed(server: &Server, name: &'static str, value: Option<&str>) -> u16 {
    let mut headers = good(server);
    headers.retain(|(known, _)| *known != name);
    headers.extend(value.map(|value| (name, value.to_owned())));
    ask(server, "POST", "/mcp", &headers, &initialize("2025-06-18")).status
}

#[test]
fn strangers_and_pages_are_refused() {
    let Some(server) = Server::start("strangers_and_pages_are_refused", |_| {}) else { return };
    assert_eq!(changed(&server, "X-Nothing", None), 200, "the request that is changed has to be a good one");

    assert_eq!(changed(&server, "Authorization", None), 401);
    assert_eq!(changed(&server, "Authorization", Some("Bearer the-first-token-of-the-test")), 401);
    assert_eq!(changed(&server, "Authorization", Some(&format!("Basic {FIRST}"))), 401);
    assert_eq!(changed(&server, "Host", Some("evil.test")), 403);
    assert_eq!(changed(&server, "Host", Some(&format!("evil.test:{}", server.address.port()))), 403);
    assert_eq!(changed(&server, "Host", None), 400);
    assert_eq!(changed(&server, "Origin", Some("https://evil.test")), 403);
    assert_eq!(changed(&server, "Origin", Some("null")), 403);
    assert_eq!(changed(&server, "Content-Type", Some("text/plain")), 415);
    assert_eq!(changed(&server, "Content-Type", Some("application/jsonfoo")), 415);
    assert_eq!(changed(&server, "Content-Type", None), 415);

    let preflight = [
        ("Host", server.address.to_string()),
        ("Origin", format!("http://{}", server.address)),
        ("Access-Control-Request-Method", "POST".to_owned()),
    ];
    assert_eq!(ask(&server, "OPTIONS", "/mcp", &preflight, "").status, 403);
    assert_eq!(ask(&server, "OPTIONS", "/mcp", &good(&server), "").status, 405);
    assert_eq!(ask(&server, "PUT", "/mcp", &good(&server), "{}").status, 405);
    assert_eq!(ask(&server, "POST", "/", &good(&server), "{}").status, 404);
    let unauthorized = ask(&server, "GET", "/.well-known/oauth-protected-resource", &preflight[..1], "");
    assert_eq!((unauthorized.status, unauthorized.header("www-authenticate")), (401, Some("Bearer")));
}

#[test]
fn pages_that_were_named_are_answered() {
    let named = |options: &mut hotcell_mcp::http::HttpOptions| {
        options.origins = vec!["https://app.example".to_owned()];
        options.names = vec!["box.example".to_owned(), "exact.example:8443".to_owned()];
    };
    let Some(server) = Server::start("pages_that_were_named_are_answered", named) else { return };
    assert_eq!(changed(&server, "Origin", Some("https://app.example")), 200);
    assert_eq!(changed(&server, "Origin", Some("https://app.example.evil.test")), 403);
    for name in ["box.example", "box.example:443", "exact.example:8443"] {
        assert_eq!(changed(&server, "Host", Some(name)), 200, "{name}");
    }
    for name in ["exact.example", "exact.example:443", "evil.test", "evil.test:8443", "box.example.evil.test"] {
        assert_eq!(changed(&server, "Host", Some(name)), 403, "{name}");
    }
}

#[test]
fn heads_are_bounded_in_length() {
    let Some(server) = Server::start("heads_are_bounded_in_length", |_| {}) else { return };
    assert_eq!(changed(&server, "X-Long", Some(&"x".repeat(60 << 10))), 200);
    assert_eq!(changed(&server, "X-Long", Some(&"x".repeat(65 << 10))), 431);
}

#[test]
fn whoever_sends_too_much_hears_so() {
    let strict = |options: &mut hotcell_mcp::http::HttpOptions| options.longest_body = 4096;
    let Some(server) = Server::start("whoever_sends_too_much_hears_so", strict) else { return };
    let body = "x".repeat(512 << 10);
    let tell = |status: u16, headers: Vec<(&str, &str)>| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let request = request("POST", "/mcp", &headers, &body);
        let (first, rest) = request.split_at(request.len() / 2);
        let early = "the server closes too early";
        stream.write_all(first).expect(early);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect(early);
        // A client that does not look for an answer until it has said all; a server that closes has done so by now.
        std::thread::sleep(Duration::from_millis(100));
        stream.write_all(rest).expect(early);
        assert_eq!(Answer::parse(&answer).status, status);
    };
    let good = good(&server);
    let mut headers: Vec<(&str, &str)> = good.iter().map(|(name, value)| (*name, value.as_str())).collect();
    tell(413, headers.clone());
    headers.retain(|(name, _)| *name != "Authorization");
    tell(401, headers);
}

#[test]
fn bodies_are_bounded_in_their_number_of_values() {
    let Some(server) = Server::start("bodies_are_bounded_in_their_number_of_values", |_| {}) else { return };
    let session = Session::begin(server.address, FIRST);
    let with = |filler: Value| session.ask("ping", json!({ "filler": filler })).status;
    assert_eq!(with(json!(vec![0; 90_000])), 200);
    assert_eq!(with(json!("[{,\\\",".repeat(100_000))), 200, "a text is one value");
    assert_eq!(with(json!(vec![0; 100_000])), 413);
    assert_eq!(with(json!(vec![json!({ "\"": [] }); 50_000])), 413);
}

#[test]
fn bodies_are_bounded_in_length_and_time() {
    let impatient = |options: &mut hotcell_mcp::http::HttpOptions| {
        options.longest_body = 4096;
        options.patience = Duration::from_millis(300);
    };
    let Some(server) = Server::start("bodies_are_bounded_in_length_and_time", impatient) else { return };
    let long = format!("{{\"filler\": \"{}\"}}", "x".repeat(5000));
    assert_eq!(ask(&server, "POST", "/mcp", &good(&server), &long).status, 413);
    assert_eq!(ask(&server, "POST", "/mcp", &good(&server), "no json").status, 400);

    let head = |rest: &str| {
        let mut headers: String = good(&server).iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        headers.push_str("Connection: close\r\n");
        format!("POST /mcp HTTP/1.1\r\n{headers}{rest}")
    };
    // One that does not say how long it is.
    let chunk = format!("{:x}\r\n{}\r\n", 2000, "x".repeat(2000));
    let chunked = head("Transfer-Encoding: chunked\r\n\r\n") + &chunk.repeat(3) + "0\r\n\r\n";
    assert_eq!(raw(server.address, chunked.as_bytes()).status, 413);
    // One that does not come.
    assert_eq!(raw(server.address, head("Content-Length: 100\r\n\r\n{").as_bytes()).status, 408);
    // A head that does not come.
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server keeps the connection");
    // Others are served meanwhile and after.
    assert!(!Session::begin(server.address, FIRST).id.is_empty());
}
