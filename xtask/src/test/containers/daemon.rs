//! A daemon in the realm: started with a socket that listens already, stopped by its process descriptor.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::api::{Body, Connection};
use super::realm::{Group, Realm};
use super::wait::until_readable;

/// Longer than an engine takes to get ready on a slow machine.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longer than an engine takes to end.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How much of a log is shown.
const TAIL: usize = 20;

/// Hands the socket that is standard input over in the way of systemd.
const HAND_OVER: &str = r#"exec 3<&0 < /dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@""#;

/// A running daemon.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    socket: PathBuf,
    log: PathBuf,
    /// `nsenter`, whose only child the daemon is.
    child: Child,
    process: OwnedFd,
}

impl Daemon {
    /// Starts `program` and waits until it answers.
    ///
    /// The socket is there and takes connections before the program is: a first request waits until it is ready, and
    /// is cut off if it dies. Nobody has to look again and again.
    pub(super) fn start(realm: &Realm, name: &'static str, program: &[String]) -> Result<Self> {
        let socket = realm.directory().join(format!("{name}.sock"));
        let log = realm.directory().join(format!("{name}.log"));
        let listener = UnixListener::bind(&socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
        let written = File::create(&log)?;
        let mut command = realm.command(Group::Daemons, Path::new("/"));
        command
            .args(["sh", "-c", HAND_OVER, name])
            .args(program)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", realm.directory())
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(written.try_clone()?)
            .stderr(written);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        // It holds the socket.
        drop(command);

        let answered = Connection::open(&socket, START_LIMIT)
            .and_then(|mut connection| connection.ask("GET", "/_ping", Body::None)?.success("a first request"))
            .and_then(|_| descriptor_of_child(child.id()));
        match answered {
            Ok(process) => Ok(Self { name, socket, log, child, process }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.context(format!("{name} does not start; its log ends with:\n{}", tail(&log))))
            }
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The end of what it wrote.
    pub(super) fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Asks it to end, and waits for that.
    pub(super) fn stop(&mut self) -> Result<()> {
        pidfd_send_signal(&self.process, Signal::TERM).with_context(|| format!("cannot end {}", self.name))?;
        if !until_readable(self.process.as_fd(), Instant::now() + STOP_LIMIT)? {
            bail!("{} does not end within {} s", self.name, STOP_LIMIT.as_secs());
        }
        self.child.wait()?;
        Ok(())
    }
}

/// The one child of a process of ours.
fn descriptor_of_child(parent: u32) -> Result<OwnedFd> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let child = children.split_whitespace().next().and_then(|child| child.parse().ok()).and_then(Pid::from_raw);
    let child = child.context("it has ended")?;
    // Its parent, which waits for it, cannot have forgotten it yet: it answered a moment ago.
    pidfd_open(child, PidfdFlags::empty()).context("cannot open its process")
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default().join("\n")
}
