//! A client of `hotcell mcp` on stdin and stdout, written by hand; it keeps every byte that it was sent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::place::Place;

pub(crate) struct Client {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// All that came, in order.
    pub(crate) seen: Vec<Value>,
}

impl Client {
    /// A server with these flags that has been greeted.
    pub(crate) fn start(place: &Place, flags: &[&str]) -> Self {
        let mut client = Self::silent(place, flags);
        let greeting = client.greet("2025-06-18");
        assert_eq!(greeting["serverInfo"]["name"], "hotcell", "{greeting}");
        client
    }

    /// A server to which nothing has been said.
    pub(crate) fn silent(place: &Place, flags: &[&str]) -> Self {
        let mut command = place.command(&[&["mcp"], flags].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, next: 1, seen: Vec::new() }
    }

    pub(crate) fn greet(&mut self, version: &str) -> Value {
        let client = json!({ "name": "by hand", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let result = self.ask("initialize", params);
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        result
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.say_bytes(format!("{message}\n").as_bytes());
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Begins a request; its id.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next message. Every line has to be one, and nothing in it may drive a terminal.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        if self.stdout.read_until(b'\n', &mut line).unwrap() == 0 {
            return None;
        }
        assert_eq!(line.pop(), Some(b'\n'), "half a line: {}", String::from_utf8_lossy(&line));
        let text = String::from_utf8(line).unwrap();
        assert!(!text.chars().any(char::is_control), "{text}");
        let message: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(message["jsonrpc"], "2.0", "{text}");
        self.seen.push(message.clone());
        Some(message)
    }

    /// The answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().expect("the server has gone");
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// The error that a request gets.
    pub(crate) fn fails(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_object(), "{answer}");
        answer["error"].clone()
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// What a command prints.
    pub(crate) fn shell(&mut self, command: &str) -> String {
        let result = self.call("exec_shell", json!({ "command": command }));
        result["structuredContent"]["stdout"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    /// Says nothing more; how the server ended.
    pub(crate) fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        while self.hear().is_some() {}
        self.child.wait().unwrap().code()
    }

    /// Goes away without a word, as a client that was killed does.
    pub(crate) fn vanish(mut self) -> Child {
        drop(self.stdin.take());
        drop(self.stdout);
        self.child
    }
}

/// A number of seconds to sleep that no other process has: what is looked for in `/proc`.
pub(crate) fn word() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("8{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits for something that must come, and fails if it does not.
#[track_caller]
pub(crate) fn until(what: &str, mut came: impl FnMut() -> bool) {
    let began = Instant::now();
    while !came() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
