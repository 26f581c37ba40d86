//! A server that ends with its standard input, and so with us.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Longer than a server takes to end.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs what follows until standard input ends, for programs that do not look at it themselves.
pub(super) const UNTIL_INPUT_ENDS: &str = r#""$@" < /dev/null & cat > /dev/null; kill "$!"; wait "$!""#;

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    name: &'static str,
    child: Child,
    lifeline: Option<ChildStdin>,
}

impl Server {
    pub(super) fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).spawn().with_context(|| format!("cannot start {name}"))?;
        let lifeline = child.stdin.take();
        Ok(Self { name, child, lifeline })
    }

    /// Starts a stand-in, and reads where it listens.
    pub(super) fn start_standin(command: &mut Command) -> Result<(Self, String)> {
        let mut server = Self::start("the stand-in", command.stdout(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(output) = server.child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening on ");
        let address = address.with_context(|| format!("the stand-in said `{}`", line.trim()))?.to_owned();
        Ok((server, address))
    }

    /// Ends it, and waits for that.
    pub(super) fn stop(mut self) -> Result<()> {
        self.lifeline = None;
        let deadline = Instant::now() + STOP_LIMIT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("{} does not end within {} s", self.name, STOP_LIMIT.as_secs());
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that was stopped has been waited for; this is for errors on the way.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_ends_with_its_input() {
        let mut command = Command::new("sh");
        command.args(["-c", UNTIL_INPUT_ENDS, "server", "sleep", "4324"]);
        let server = Server::start("a server", &mut command).unwrap();
        server.stop().unwrap();
    }

    #[test]
    fn an_address_is_read() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo listening on http://127.0.0.1:1; cat"]);
        let (server, address) = Server::start_standin(&mut command).unwrap();
        assert_eq!(address, "http://127.0.0.1:1");
        server.stop().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no"]);
        assert!(Server::start_standin(&mut command).is_err());
    }
}
