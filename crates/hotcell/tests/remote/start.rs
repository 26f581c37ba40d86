//! Servers that cannot be used: the caller hears of it at the start, and nothing runs here instead.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use hotcell::{Engine, EngineError, EngineOptions, Policy, RuntimeKind};

/// Where nobody listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A server that answers every call with these bytes.
fn answers(bytes: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(bytes.as_bytes());
        }
    });
    address
}

/// A server that takes calls and says nothing.
fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let kept: Vec<_> = listener.incoming().collect();
        drop(kept);
    });
    address
}

async fn start(kind: RuntimeKind, url: &str) -> EngineError {
    let policy = Policy::builder().runtime(kind).sandbox_url(url).sandbox_api_key("hunter2");
    not_started(policy.sandbox_data_url(url).build().unwrap()).await
}

async fn not_started(policy: Policy) -> EngineError {
    let error = Engine::with_options(EngineOptions::for_policy(&policy)).await.err().unwrap();
    assert!(matches!(error, EngineError::Start(_)), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert_eq!(error.exit_code(), 125);
    error
}

#[tokio::test]
async fn a_domain_that_nobody_named_is_not_made_up() {
    let policy = Policy::builder().runtime(RuntimeKind::Cube).sandbox_url(nowhere()).sandbox_api_key("hunter2");
    let error = not_started(policy.build().unwrap()).await.to_string();
    assert!(error.contains("CUBE_SANDBOX_DOMAIN"), "{error}");
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_so_at_the_start() {
    let cases = [
        (nowhere(), "cannot be reached", "sandbox_url"),
        (answers("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"), "401", "sandbox_api_key"),
        (answers("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"), "404", "sandbox_url"),
        (answers("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"), "500", "log"),
        (answers("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"), "protocol", "version"),
        (
            answers("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
            "redirects",
            "address",
        ),
        (answers("HTTP/1.1 429 Slow Down\r\ncontent-length: 0\r\n\r\n"), "429", "wait"),
        (answers("rubbish\r\n\r\n"), "could not", ""),
    ];
    for kind in [RuntimeKind::Opensandbox, RuntimeKind::E2b, RuntimeKind::Cube] {
        for (url, what, fix) in &cases {
            let error = start(kind, url).await.to_string();
            assert!(error.contains(what) && error.contains(fix) && error.contains(url.as_str()), "{kind}: {error}");
            assert!(error.contains("nothing is run here instead"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    for kind in [RuntimeKind::Opensandbox, RuntimeKind::E2b] {
        let begun = Instant::now();
        let error = start(kind, &silent()).await.to_string();
        assert!(error.contains("did not answer within 1.8 s"), "{error}");
        // Not a measure of speed: without a bound it would be half a minute.
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
