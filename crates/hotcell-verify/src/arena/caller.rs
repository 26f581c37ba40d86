//! Somebody on the host who calls a port until a box answers.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a call may take, and how long to wait before the next.
const PATIENCE: Duration = Duration::from_millis(100);
const INTERVAL: Duration = Duration::from_millis(5);

/// Calls until it is dropped; whoever answers is told the token.
#[derive(Debug)]
pub(super) struct Caller {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Caller {
    /// Calls a port of the loopback that nobody listens on.
    pub(super) fn start(token: &str) -> io::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, token) = (Arc::clone(&stop), token.to_owned());
        let thread = std::thread::Builder::new().spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(mut answered) = TcpStream::connect_timeout(&address, PATIENCE) {
                    let _ = answered.write_all(token.as_bytes());
                }
                std::thread::sleep(INTERVAL);
            }
        })?;
        Ok(Self { port, stop, thread: Some(thread) })
    }

    /// The port that is called.
    pub(super) fn port(&self) -> OsString {
        OsString::from(self.port.to_string())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
