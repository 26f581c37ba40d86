//! A server of the library's, for one test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell::tools::ToolboxOptions;
use hotcell::{Engine, Policy};
use hotcell_mcp::Host;
use hotcell_mcp::http::{HttpOptions, HttpServer, Tokens};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const FIRST: &str = "the-first-token-of-the-tests";
pub(crate) const SECOND: &str = "the-second-token-of-the-tests";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) workspace: TempDir,
    stop: CancellationToken,
    served: Option<JoinHandle<()>>,
    runtime: Runtime,
}

impl Server {
    /// None where no box can be made; the test is listed as skipped then.
    pub(crate) fn start(test: &str, change: impl FnOnce(&mut HttpOptions)) -> Option<Self> {
        let runtime = Runtime::new().unwrap();
        let workspace = TempDir::new().unwrap();
        let path = workspace.path().canonicalize().unwrap();
        let stop = CancellationToken::new();
        let engine = match runtime.block_on(Engine::new()) {
            Ok(engine) => engine,
            Err(error) => {
                skip(test, &error.to_string());
                return None;
            }
        };
        let policy = Policy::builder().overlay(&path).build().unwrap();
        let mut options = HttpOptions::new(Tokens::parse(&format!("{FIRST}\n{SECOND}\n")).unwrap());
        change(&mut options);
        let (host, server) = runtime.block_on(async {
            let host = Host::new(engine, ToolboxOptions::new(policy, path)).await.unwrap();
            (host, HttpServer::bind("127.0.0.1:0".parse().unwrap(), options).await.unwrap())
        });
        let url = server.url();
        let address = url.split_once("://").unwrap().1.strip_suffix("/mcp").unwrap().parse().unwrap();
        let serving = server.serve(Arc::new(host), stop.clone());
        let served = Some(runtime.spawn(serving));
        Some(Self { address, workspace, stop, served, runtime })
    }

    /// Tells the server to stop, and waits for it.
    pub(crate) fn stop(&mut self) {
        self.stop.cancel();
        if let Some(served) = self.served.take() {
            self.runtime.block_on(served).unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn skip(test: &str, reason: &str) {
    use std::io::Write;
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}

/// A number of seconds to sleep that no other process has: what is looked for in `/proc`.
pub(crate) fn word() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("9{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a process with this word in its command line exists.
pub(crate) fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
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
