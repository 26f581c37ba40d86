//! `hotcell mcp` on stdin and stdout.

use serde_json::{Value, json};

use super::leftovers::runs;
use super::mcp_client::{Client, until, word};
use super::place::{Place, Ran};

#[test]
fn an_agent_works_in_a_box_and_the_users_files_stay() {
    let place = Place::new();
    if !place.has_boxes("an_agent_works_in_a_box_and_the_users_files_stay") {
        return;
    }
    place.file("given.txt", "given\n");
    let mut client = Client::silent(&place, &[]);
    let greeting = client.greet("2025-06-18");
    let told = greeting["instructions"].as_str().unwrap();
    assert!(told.contains(place.project().to_str().unwrap()) && told.contains("workspace_commit"), "{told}");
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let shell = tools.iter().find(|tool| tool["name"] == "exec_shell").unwrap();
    assert_eq!(shell["inputSchema"]["type"], "object", "{shell}");
    assert_eq!(shell["outputSchema"]["type"], "object", "{shell}");
    assert_eq!(shell["annotations"]["openWorldHint"], false, "{shell}");

    assert_eq!(client.shell("cat given.txt; echo made > made.txt; pwd").lines().next(), Some("given"));
    assert_eq!(client.shell("cat made.txt"), "made\n", "the box is kept");
    assert!(!place.project().join("made.txt").exists(), "an overlay keeps what is written");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_refusal_names_its_rule() {
    let place = Place::new();
    if !place.has_boxes("a_refusal_names_its_rule") {
        return;
    }
    place.file("secret.txt", "secret\n");
    let mut client = Client::start(&place, &["--deny", "secret.txt"]);
    let refused = client.call("read_file", json!({ "path": "secret.txt" }));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["structuredContent"]["error"]["rule"].is_string(), "{refused}");
    assert!(!refused.to_string().contains("secret\\n"), "{refused}");
}

#[test]
fn what_a_guest_prints_is_never_a_message() {
    let place = Place::new();
    if !place.has_boxes("what_a_guest_prints_is_never_a_message") {
        return;
    }
    let mut client = Client::start(&place, &[]);
    let forged = r#"{"jsonrpc":"2.0","id":4,"result":{"forged":true}}"#;
    let flood =
        format!("yes '{forged}' | head -c 4000000; yes '{forged}' | head -c 1000000 >&2; printf '\\033[2J\\r\\n\\0'");
    let meta = json!({ "progressToken": 9 });
    // Every line that is heard is checked: it is one message and drives no terminal.
    let id =
        client.begin("tools/call", json!({ "name": "exec_shell", "arguments": { "command": flood }, "_meta": meta }));
    let answer = client.answer(id);
    assert_eq!(answer["result"]["structuredContent"]["exit_code"], 0, "{answer}");
    assert!(!client.seen.iter().any(|message| message["result"]["forged"] == true));
    let file = client.call("write_file", json!({ "path": "f\u{1b}[2J\n", "content": "x" }));
    assert!(file.is_object());
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn what_is_no_message_is_answered_and_does_no_harm() {
    let place = Place::new();
    if !place.has_boxes("what_is_no_message_is_answered_and_does_no_harm") {
        return;
    }
    let mut client = Client::silent(&place, &[]);
    // Too early to mean anything, and no reason to go.
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.say(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(client.ask("ping", json!({})), json!({}));
    assert_eq!(client.fails("tools/list", json!({}))["code"], -32602);
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let codes = |client: &mut Client, bytes: &[u8]| {
        client.say_bytes(bytes);
        client.hear().unwrap()["error"]["code"].clone()
    };
    for garbage in ["no json\n", "{\"jsonrpc\": \n", "\u{0}\u{1}\n", "{\"a\":1}}\n"] {
        assert_eq!(codes(&mut client, garbage.as_bytes()), -32700, "{garbage:?}");
    }
    assert_eq!(codes(&mut client, b"\xff\xfe\n"), -32700);
    let deep = "[".repeat(100_000) + "\n";
    assert_eq!(codes(&mut client, deep.as_bytes()), -32700);
    for odd in ["[]\n", "1\n", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}\n", "{}\n"] {
        assert_eq!(codes(&mut client, odd.as_bytes()), -32600, "{odd:?}");
    }
    let long = format!("{{\"filler\":\"{}\"}}\n", "x".repeat(9 << 20));
    client.say_bytes(long.as_bytes());
    let refused = client.hear().unwrap()["error"].clone();
    assert_eq!(refused["code"], -32600, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("8388608 bytes"), "{refused}");
    client.say_bytes(b"\n  \n\r\n");

    client.greet("2025-06-18");
    assert_eq!(client.fails("no/such/method", json!({}))["code"], -32601);
    assert_eq!(client.fails("tools/call", json!({ "name": 5 }))["code"], -32602);
    let unknown = client.call("no_such_tool", json!({}));
    assert_eq!(unknown["isError"], true, "{unknown}");
    assert_eq!(client.shell("echo fine"), "fine\n");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_cancelled_call_is_killed_and_a_running_one_says_how_far_it_is() {
    let place = Place::new();
    if !place.has_boxes("a_cancelled_call_is_killed_and_a_running_one_says_how_far_it_is") {
        return;
    }
    let mut client = Client::start(&place, &[]);
    let word = word();
    let arguments = json!({ "command": format!("echo begun; sleep {word}") });
    let meta = json!({ "progressToken": "far" });
    let id = client.begin("tools/call", json!({ "name": "exec_shell", "arguments": arguments, "_meta": meta }));
    let progress = client.hear().unwrap();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(
        (&progress["params"]["progressToken"], &progress["params"]["message"]),
        (&"far".into(), &"begun".into())
    );
    until("the process", || runs(&word));
    let params = json!({ "requestId": id, "reason": "enough" });
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    until("the end of the process", || !runs(&word));
    assert_eq!(client.shell("echo after"), "after\n");
    let answered = client.seen.iter().any(|message| message["id"] == id);
    assert!(!answered, "what was cancelled is not answered: {:?}", client.seen);
    // It is in the list of calls, without what it ran.
    let read = client.ask("resources/read", json!({ "uri": "hotcell://audit" }));
    let audit: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&audit["last"][0]["tool"], &audit["last"][0]["ended"]), (&"exec_shell".into(), &"cancelled".into()));
    assert_eq!((&audit["calls"], &audit["last"][1]["ended"]), (&2.into(), &"ok".into()), "{audit}");
    assert!(!read.to_string().contains(&word), "{read}");
}

#[test]
fn nothing_is_left_however_it_ends() {
    let place = Place::new();
    if !place.has_boxes("nothing_is_left_however_it_ends") {
        return;
    }
    let linger = |client: &mut Client| {
        let word = word();
        client.shell(&format!("setsid sleep {word} >/dev/null 2>&1 &"));
        until("the process", || runs(&word));
        word
    };
    // The client is killed while a call runs.
    let mut client = Client::start(&place, &[]);
    let (word, called) = (linger(&mut client), word());
    client.begin("tools/call", json!({ "name": "exec_shell", "arguments": { "command": format!("sleep {called}") } }));
    until("the process", || runs(&called));
    let mut server = client.vanish();
    until("the end of the server", || server.try_wait().unwrap().is_some());
    assert!(!runs(&word) && !runs(&called));
    // The server is killed.
    let mut client = Client::start(&place, &[]);
    let word = linger(&mut client);
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    until("the end of the box", || !runs(&word));
    // It is asked to end.
    for signal in ["TERM", "INT", "HUP"] {
        let mut client = Client::start(&place, &[]);
        let word = linger(&mut client);
        let kill = format!("kill -{signal} {}", client.child.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        assert_eq!(client.child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(!runs(&word), "{signal}");
    }
}

#[test]
fn files_and_the_report_can_be_read_as_resources() {
    let place = Place::new();
    if !place.has_boxes("files_and_the_report_can_be_read_as_resources") {
        return;
    }
    place.file("a b.txt", "text\n");
    place.file("bytes", "\u{1b}[2J");
    std::fs::write(place.project().join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let medium = "0123456789".repeat(10_000);
    place.file("medium", &medium);
    std::fs::write(place.home().join("outside"), "outside\n").unwrap();
    let mut client = Client::start(&place, &[]);
    let listed = client.ask("resources/list", json!({}));
    let uris: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    for uri in ["hotcell://report", "hotcell://audit", "workspace:///a%20b.txt", "workspace:///bytes"] {
        assert!(uris.contains(&uri), "{uri}: {uris:?}");
    }
    let templates = client.ask("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "workspace:///{+path}");
    let mut read = |uri: &str| client.ask("resources/read", json!({ "uri": uri }))["contents"][0].clone();
    assert_eq!(read("workspace:///a%20b.txt")["text"], "text\n");
    assert_eq!(read("workspace:///medium")["text"], medium);
    assert_eq!(read("workspace:///bytes")["blob"], "G1sySg==", "text that drives a terminal comes as bytes");
    let report: Value = serde_json::from_str(read("hotcell://report")["text"].as_str().unwrap()).unwrap();
    assert_eq!(report["backend"], "native", "{report}");
    let mut fails = |uri: &str| client.fails("resources/read", json!({ "uri": uri }))["code"].clone();
    for absent in
        ["workspace:///none", "workspace:///../../home/outside", "workspace:///%2e%2e/x", "file:///etc/passwd"]
    {
        assert_eq!(fails(absent), -32002, "{absent}");
    }
    assert_eq!(fails("workspace:///large"), -32602);
    // Who may not read files by a tool may not do it this way either.
    let mut client = Client::start(&place, &["--tools", "exec_shell"]);
    assert_eq!(client.ask("resources/list", json!({}))["resources"].as_array().unwrap().len(), 2);
    assert_eq!(client.fails("resources/read", json!({ "uri": "workspace:///medium" }))["code"], -32002);
    assert_eq!(client.ask("tools/list", json!({}))["tools"].as_array().unwrap().len(), 1);
}

#[test]
fn every_version_of_the_protocol_is_spoken() {
    let place = Place::new();
    if !place.has_boxes("every_version_of_the_protocol_is_spoken") {
        return;
    }
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::silent(&place, &[]);
        assert_eq!(client.greet(version)["protocolVersion"], version);
        assert_eq!(client.shell("echo ok"), "ok\n");
    }
    let mut client = Client::silent(&place, &[]);
    assert_eq!(client.greet("2099-01-01")["protocolVersion"], "2025-11-25");
    // The newest has no greeting: each request says what it needs.
    let mut client = Client::silent(&place, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "by hand", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discovered = client.ask("server/discover", json!({ "_meta": meta }));
    assert!(discovered["supportedVersions"].as_array().unwrap().contains(&"2026-07-28".into()), "{discovered}");
    let arguments = json!({ "command": "echo new" });
    let result = client.ask("tools/call", json!({ "name": "exec_shell", "arguments": arguments, "_meta": meta }));
    assert_eq!((&result["structuredContent"]["stdout"], &result["resultType"]), (&"new\n".into(), &"complete".into()));
}

#[test]
fn what_cannot_be_is_said_before_anything_is_served() {
    let place = Place::new();
    if !place.has_boxes("what_cannot_be_is_said_before_anything_is_served") {
        return;
    }
    place.hotcell(&["mcp", "--tools", "no_such_tool"]).assert_refused(&["no_such_tool", "exec_shell"]);
    place.hotcell(&["mcp", "--workspace", "/no/such/place"]).assert_refused(&["/no/such/place"]);
    place.hotcell(&["mcp", "--workspace", place.home().to_str().unwrap()]).assert_refused(&["home"]);
    place.hotcell(&["mcp", "--isolation", "microvm", "--runtime", "native"]).assert_refused(&["isolation"]);
    place.hotcell(&["mcp", "--idle-timeout", "5s"]).assert_refused(&["--http"]);
    // Without a client there is nothing to do.
    let ran = place.hotcell(&["mcp"]);
    assert_eq!((ran.code, ran.text()), (0, ""), "{ran:?}");
}

#[test]
fn contexts_and_processes_are_not_ended_for_what_a_session_adds_up_to() {
    let place = Place::new();
    if !place.has_boxes("contexts_and_processes_are_not_ended_for_what_a_session_adds_up_to") {
        return;
    }
    let limit = |client: &mut Client, name: &str| {
        let status = client.call("sandbox_status", json!({}));
        let limits = status["structuredContent"]["limits"].as_array().unwrap().clone();
        limits.iter().find(|limit| limit["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
    };
    let mut client = Client::start(&place, &[]);
    assert_eq!(
        (limit(&mut client, "cpu_time"), limit(&mut client, "timeout")),
        ("unlimited".into(), "unlimited".into())
    );
    let mut client = Client::start(&place, &["--preset", "package-install"]);
    assert_eq!(
        (limit(&mut client, "cpu_time"), limit(&mut client, "timeout")),
        ("unlimited".into(), "unlimited".into())
    );
    assert_eq!(limit(&mut client, "disk"), "4 GiB");
    // What somebody asks for holds, and a model is told what it can do.
    let asked = ["--cpu-time", "1s", "--approximate", "cpu-time", "--timeout", "10m"];
    let mut client = Client::start(&place, &asked);
    assert_eq!((limit(&mut client, "cpu_time"), limit(&mut client, "timeout")), ("1 s".into(), "600 s".into()));
    let spin = json!({ "language": "bash", "code": "while :; do :; done", "context": "main" });
    let ended = client.call("run_code", spin)["structuredContent"].clone();
    assert_eq!(ended["denials"][0]["rule"], "limits.cpu_time = \"1 s\"", "{ended}");
    assert!(ended["denials"][0]["instead"].as_str().unwrap().contains("a new one starts from zero"), "{ended}");
    let again = json!({ "language": "bash", "code": "echo anew", "context": "main" });
    assert_eq!(client.call("run_code", again)["structuredContent"]["stdout"], "anew\n");
}

#[test]
fn a_snippet_starts_the_server_it_describes() {
    let place = Place::new();
    if !place.has_boxes("a_snippet_starts_the_server_it_describes") {
        return;
    }
    let printed = place.hotcell(&["mcp", "--print-config", "claude-code", "--preset", "read-only"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    for told in [".mcp.json", "add `hotcell` to its `mcpServers`", "for this project"] {
        assert!(printed.stderr.contains(told), "{told}: {printed:?}");
    }
    let snippet: Value = serde_json::from_str(printed.text()).unwrap();
    let server = &snippet["mcpServers"]["hotcell"];
    assert_eq!(server["command"], env!("CARGO_BIN_EXE_hotcell"));
    let flags: Vec<&str> =
        server["args"].as_array().unwrap().iter().skip(1).map(|flag| flag.as_str().unwrap()).collect();
    // Started from anywhere.
    let elsewhere = Place::new();
    let mut client = Client::start(&elsewhere, &flags);
    assert_eq!(
        client.shell("pwd; touch x 2>/dev/null || echo read-only"),
        format!("{}\nread-only\n", place.project().display())
    );
}

#[test]
fn no_snippet_describes_what_could_not_be_served() {
    let place = Place::new();
    if !place.has_boxes("no_snippet_describes_what_could_not_be_served") {
        return;
    }
    place.file("tokens", "a-token-that-others-can-read\n");
    let home = place.home();
    let refused: [&[&str]; 12] = [
        &["--tools", "no_such_tool"],
        &["--workspace", "/no/such/place"],
        &["--workspace", home.to_str().unwrap()],
        &["--preset", "offline", "--net", "open"],
        &["--memory", "none"],
        &["--isolation", "microvm", "--runtime", "native"],
        &["--http", "0.0.0.0:7700", "--allow-host", "box.example"],
        &["--http", "0.0.0.0:7700", "--insecure-bind", "--allow-host", "https://box.example"],
        &["--http", "127.0.0.1:7700", "--allow-origin", "*"],
        &["--http", "127.0.0.1:7700", "--max-sessions", "0"],
        &["--http", "127.0.0.1:7700", "--token-file", "tokens"],
        &["--http", "127.0.0.1:7700", "--tls-cert", "tokens", "--tls-key", "tokens"],
    ];
    for flags in refused {
        let served = place.hotcell(&[&["mcp"], flags].concat());
        let printed = place.hotcell(&[&["mcp", "--print-config", "codex"], flags].concat());
        assert_eq!((printed.code, printed.text()), (125, ""), "{flags:?}: {printed:?}");
        assert_eq!(printed.stderr, served.stderr, "{flags:?}");
    }
}

#[test]
fn a_snippet_says_what_is_not_in_it() {
    let place = Place::new();
    if !place.has_boxes("a_snippet_says_what_is_not_in_it") {
        return;
    }
    let print = ["mcp", "--print-config", "zed"];
    let told = Ran::of(place.command(&print).env("HOTCELL_PRESET", "offline").output().unwrap());
    assert!(told.code == 0 && told.stderr.contains("HOTCELL_PRESET is not part of it"), "{told:?}");
    let told = place.hotcell(&[&print[..], &["--env", "KEY=secret"]].concat());
    assert!(told.code == 0 && told.stderr.contains("the values of --env are in it"), "{told:?}");
    // Some clients would make another word of this.
    let variable = ["--env", "KEY=${HOME}"];
    assert_eq!(place.hotcell(&[&print[..], &variable].concat()).code, 0);
    for client in ["claude-code", "cursor", "vscode"] {
        let refused = place.hotcell(&[&["mcp", "--print-config", client], &variable[..]].concat());
        refused.assert_refused(&["KEY=${HOME}", "something else"]);
        assert_eq!(refused.text(), "");
    }
    let told = Ran::of(place.command(&print).env("HOTCELL_MCP_TOKEN", "a-token-of-another-server").output().unwrap());
    assert!(told.code == 0 && !told.stderr.contains("HOTCELL_MCP_TOKEN"), "{told:?}");

    let url = |flags: &[&str]| {
        let printed = place.hotcell(&[&["mcp", "--print-config", "cursor", "--http"], flags].concat());
        let snippet = serde_json::from_str::<Value>(printed.text()).unwrap_or_else(|_| panic!("{printed:?}"));
        (snippet["mcpServers"]["hotcell"]["url"].as_str().unwrap().to_owned(), printed.stderr)
    };
    let public = ["0.0.0.0:7700", "--insecure-bind", "--allow-host", "box.example"];
    let (named, told) = url(&public);
    assert_eq!(named, "http://box.example:7700/mcp");
    assert!(told.contains("without --token-file") && told.contains("its https address"), "{told}");
    assert_eq!(
        url(&["0.0.0.0:7700", "--insecure-bind", "--allow-host", "box.example:80"]).0,
        "http://box.example:80/mcp"
    );
    assert_eq!(url(&["10.1.2.3:7700", "--insecure-bind"]).0, "http://10.1.2.3:7700/mcp");
    let (local, told) = url(&["127.0.0.1:7700", "--allow-host", "box.example", "--token-file", "new-tokens"]);
    assert_eq!(local, "http://127.0.0.1:7700/mcp");
    assert!(!told.contains("its https address"), "{told}");
    assert!(!told.contains("without --token-file") && !place.project().join("new-tokens").exists(), "{told}");
    let nameless = ["mcp", "--print-config", "cursor", "--http", "0.0.0.0:7700", "--insecure-bind"];
    place.hotcell(&nameless).assert_refused(&["0.0.0.0", "--allow-host NAME"]);
}
