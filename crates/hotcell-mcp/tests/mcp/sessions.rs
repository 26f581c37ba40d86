//! Sessions and their boxes.

use std::time::Duration;

use hotcell_mcp::http::HttpOptions;
use serde_json::{Value, json};

use super::client::{Answer, Session, raw, request};
use super::server::{FIRST, SECOND, Server, runs, until, word};

/// Starts something in a session that is there until its box ends.
fn linger(session: &Session) -> String {
    let word = word();
    session.shell(&format!("setsid sleep {word} >/dev/null 2>&1 &"));
    until("the process", || runs(&word));
    word
}

#[test]
fn each_session_has_a_box_of_its_own() {
    let Some(server) = Server::start("each_session_has_a_box_of_its_own", |_| {}) else { return };
    let (first, second) = (Session::begin(server.address, FIRST), Session::begin(server.address, FIRST));
    assert_ne!(first.id, second.id);
    assert_eq!(first.shell("echo mine > /tmp/mark; echo mine > mark; cat /tmp/mark mark"), "mine\nmine\n");
    assert_eq!(second.shell("cat /tmp/mark mark 2>/dev/null; ls /proc | grep -c '^[0-9]'").lines().count(), 1);
    // It is kept between calls, and the user's files are not touched.
    assert_eq!(first.shell("cat mark"), "mine\n");
    assert!(!server.workspace.path().join("mark").exists());
}

#[test]
fn a_session_belongs_to_its_token() {
    let Some(server) = Server::start("a_session_belongs_to_its_token", |_| {}) else { return };
    let mine = Session::begin(server.address, FIRST);
    let word = linger(&mine);
    let foreign = mine.with_token(SECOND);
    for method in ["GET", "DELETE"] {
        assert_eq!(foreign.send(method, "").status, 404, "{method}");
    }
    assert_eq!(foreign.call("exec_shell", json!({ "command": "id" })).status, 404);
    assert!(runs(&word) && mine.shell("echo still here") == "still here\n");
    // Who has the token may end it.
    assert_eq!(mine.send("DELETE", "").status, 204);
    until("the end of the box", || !runs(&word));
    assert_eq!(mine.call("exec_shell", json!({ "command": "id" })).status, 404);
}

#[test]
fn a_request_is_for_one_session() {
    let Some(server) = Server::start("a_request_is_for_one_session", |_| {}) else { return };
    let (one, other) = (Session::begin(server.address, FIRST), Session::begin(server.address, FIRST));
    let both = format!("{}\r\nMcp-Session-Id: {}", one.id, other.id);
    assert_eq!(one.with_id(&both).ask("ping", json!({})).status, 404);
    assert_eq!(one.with_id(&format!("{}, {}", one.id, other.id)).ask("ping", json!({})).status, 404);
    assert_eq!(one.with_id(&other.id).ask("ping", json!({})).status, 200);
}

#[test]
fn the_end_of_a_session_ends_a_call_that_runs() {
    let Some(server) = Server::start("the_end_of_a_session_ends_a_call_that_runs", |_| {}) else { return };
    let session = Session::begin(server.address, FIRST);
    let word = word();
    let (running, command) = (session.with_token(FIRST), format!("sleep {word}"));
    let call = std::thread::spawn(move || running.call("exec_shell", json!({ "command": command })));
    until("the process", || runs(&word));
    assert_eq!(session.send("DELETE", "").status, 204);
    assert!(!runs(&word), "the box is gone when the answer comes");
    call.join().unwrap();
}

#[test]
fn there_are_only_so_many_sessions() {
    let two = |options: &mut HttpOptions| options.sessions.sessions = 2;
    let Some(server) = Server::start("there_are_only_so_many_sessions", two) else { return };
    let first = Session::begin(server.address, FIRST);
    let _second = Session::begin(server.address, SECOND);
    let third = Session::try_begin(server.address, FIRST);
    assert_eq!((third.status, third.header("mcp-session-id")), (503, None));
    assert_eq!(first.shell("echo ok"), "ok\n");
    first.send("DELETE", "");
    Session::begin(server.address, FIRST);
}

#[test]
fn a_client_that_goes_away_while_it_greets_leaves_no_session() {
    let one = |options: &mut HttpOptions| {
        options.sessions.sessions = 1;
        options.sessions.unused = Duration::from_millis(1);
    };
    let name = "a_client_that_goes_away_while_it_greets_leaves_no_session";
    let Some(server) = Server::start(name, one) else { return };
    // At every moment between the greeting and its answer.
    for moment in 0..1000 {
        let greeting = Session::begin_greeting(server.address, FIRST);
        std::thread::sleep(Duration::from_micros(moment));
        drop(greeting);
    }
    until("a place", || Session::try_begin(server.address, FIRST).status == 200);
}

#[test]
fn a_session_ends_though_whoever_ends_it_does_not_wait() {
    let one = |options: &mut HttpOptions| options.sessions.sessions = 1;
    let Some(server) = Server::start("a_session_ends_though_whoever_ends_it_does_not_wait", one) else { return };
    for _ in 0..10 {
        let mut session = None;
        until("a place", || {
            session = Session::begin_if_free(server.address, FIRST);
            session.is_some()
        });
        let session = session.unwrap();
        let word = linger(&session);
        let ending = session.begin_end();
        until("the end of the process", || !runs(&word));
        drop(ending);
    }
}

#[test]
fn a_session_that_is_never_used_does_not_wait_long() {
    let short = |options: &mut HttpOptions| {
        options.sessions.sessions = 2;
        options.sessions.unused = Duration::from_secs(2);
    };
    let Some(server) = Server::start("a_session_that_is_never_used_does_not_wait_long", short) else { return };
    let used = Session::begin(server.address, FIRST);
    assert_eq!(Session::try_begin(server.address, FIRST).status, 200);
    assert_eq!(Session::try_begin(server.address, FIRST).status, 503);
    until("the end of the second", || Session::try_begin(server.address, FIRST).status == 200);
    assert_eq!(used.shell("echo on"), "on\n");
}

#[test]
fn a_session_in_which_nothing_happens_ends() {
    let short = |options: &mut HttpOptions| options.sessions.idle = Duration::from_millis(600);
    let Some(server) = Server::start("a_session_in_which_nothing_happens_ends", short) else { return };
    let session = Session::begin(server.address, FIRST);
    let word = linger(&session);
    // A call that runs is not nothing.
    assert_eq!(session.shell("sleep 1.5; echo done"), "done\n");
    until("the end of the box", || !runs(&word));
    assert_eq!(session.call("exec_shell", json!({ "command": "id" })).status, 404);
}

#[test]
fn a_session_with_a_process_in_the_background_is_not_idle() {
    let short = |options: &mut HttpOptions| options.sessions.idle = Duration::from_secs(2);
    let test = "a_session_with_a_process_in_the_background_is_not_idle";
    let Some(server) = Server::start(test, short) else { return };
    let session = Session::begin(server.address, FIRST);
    // Before the other, and not in the same tick: what is not older than a process that is stopped may end with it.
    let word = linger(&session);
    std::thread::sleep(Duration::from_millis(100));
    let started = session.call("exec_shell", json!({ "command": "sleep 600", "background": true })).result();
    let process = &started["structuredContent"]["process"];
    std::thread::sleep(Duration::from_secs(5));
    assert!(runs(&word), "nobody asked for anything, and something ran");
    assert_eq!(session.call("stop_process", json!({ "process": process })).status, 200);
    until("the end of the box", || !runs(&word));
    assert_eq!(session.call("exec_shell", json!({ "command": "id" })).status, 404);
}

#[test]
fn no_session_is_for_ever() {
    let short = |options: &mut HttpOptions| options.sessions.total = Duration::from_secs(5);
    let Some(server) = Server::start("no_session_is_for_ever", short) else { return };
    let session = Session::begin(server.address, FIRST);
    let word = linger(&session);
    session.call("exec_shell", json!({ "command": "sleep 600", "background": true }));
    until("the end of the session", || session.ask("ping", json!({})).status == 404);
    until("the end of the box", || !runs(&word));
}

#[test]
fn the_end_of_the_server_ends_all_boxes() {
    let Some(mut server) = Server::start("the_end_of_the_server_ends_all_boxes", |_| {}) else { return };
    let sessions = [FIRST, SECOND].map(|token| Session::begin(server.address, token));
    let words = sessions.each_ref().map(linger);
    server.stop();
    assert!(!words.iter().any(|word| runs(word)), "a box is left");
}

#[test]
fn a_call_can_be_cancelled_and_tells_how_far_it_is() {
    let Some(server) = Server::start("a_call_can_be_cancelled_and_tells_how_far_it_is", |_| {}) else { return };
    let session = Session::begin(server.address, FIRST);
    let word = word();
    let arguments = json!({ "command": format!("echo begun; sleep {word}") });
    let params = json!({ "name": "exec_shell", "arguments": arguments, "_meta": { "progressToken": "p" } });
    let mut call = session.begin_post(&json!({ "jsonrpc": "2.0", "id": 41, "method": "tools/call", "params": params }));
    call.wait_for("notifications/progress");
    until("the process", || runs(&word));
    let params = json!({ "requestId": 41, "reason": "enough" });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    assert_eq!(session.post(&cancel).status, 202);
    until("the end of the process", || !runs(&word));
    let messages = call.finish().messages();
    let progress = |message: &serde_json::Value| message["params"]["progressToken"] == "p";
    assert!(messages.iter().any(progress), "{messages:?}");
    assert!(!messages.iter().any(|message| message["id"] == 41 && message["result"].is_object()), "{messages:?}");
    assert_eq!(session.shell("echo after"), "after\n");
}

#[test]
fn a_batch_is_refused_and_ends_no_session() {
    let Some(server) = Server::start("a_batch_is_refused_and_ends_no_session", |_| {}) else { return };
    let session = Session::begin(server.address, FIRST);
    let ping = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
    for body in [json!([ping, ping]), json!([]), json!({}), json!("ping")] {
        let answer = session.post(&body);
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains("not one message"), "{answer:?}");
    }
    assert_eq!(session.post(&ping).status, 200);
}

/// Asks with a request that says of itself what a greeting says: a version that needs none, or that of a session.
fn ask_without_greeting(server: &Server, version: &str, more: &[(&str, &str)], method: &str, params: Value) -> Answer {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "by hand", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let (host, token) = (server.address.to_string(), format!("Bearer {FIRST}"));
    let headers = [
        ("Host", host.as_str()),
        ("Authorization", token.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    raw(server.address, &request("POST", "/mcp", &[&headers, more].concat(), &body))
}

/// Later versions of the protocol have no sessions over HTTP, and so nothing that a box could belong to.
#[test]
fn without_a_session_nothing_runs() {
    let Some(server) = Server::start("without_a_session_nothing_runs", |_| {}) else { return };
    let word = word();
    let arguments = json!({ "command": format!("setsid sleep {word} & sleep 1") });
    let params = json!({ "name": "exec_shell", "arguments": arguments });
    let said = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "exec_shell")];
    for more in [&[][..], &said] {
        let answer = ask_without_greeting(&server, "2026-07-28", more, "tools/call", params.clone());
        assert!(answer.status >= 400, "{answer:?}");
    }
    assert!(!runs(&word));
}

/// Such a request is answered outside of the session that it names, with a status for its error.
#[test]
fn a_method_that_does_not_exist_ends_no_session() {
    let Some(server) = Server::start("a_method_that_does_not_exist_ends_no_session", |_| {}) else { return };
    let session = Session::begin(server.address, FIRST);
    let word = linger(&session);
    let said = [("Mcp-Session-Id", session.id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let answer = ask_without_greeting(&server, "2025-11-25", &said, "no/such/method", json!({}));
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(runs(&word) && session.shell("echo still here") == "still here\n");
}
