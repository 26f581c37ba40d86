//! Waiting until a sandbox is up.

use std::time::Duration;

use hotcell_core::secret::Secret;
use hotcell_core::text::Printable;

use super::super::http::{CallError, Why};
use super::client::Client;
use super::endpoint::Via;
use super::execd::{EXECD_PORT, Execd};
use super::sandbox::{Sandbox, State};

const OPERATION: &str = "wait for a sandbox";

/// The pause before the second look, and the longest between two: most sandboxes are up in a second, some need minutes.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Client {
    /// Waits until a sandbox runs and its execd answers. Ends with an error when the server says that it will not, or when
    /// `deadline` has passed.
    pub async fn ready(
        &self,
        id: &str,
        via: Via,
        access_token: Option<&Secret<String>>,
        deadline: Duration,
    ) -> Result<Execd, CallError> {
        let mut last = None;
        let waiting = tokio::time::timeout(deadline, self.until_ready(id, via, access_token, &mut last));
        match waiting.await {
            Ok(ready) => ready,
            // What stood in the way says more than that time is up.
            Err(_) => Err(last.unwrap_or_else(|| self.failed(OPERATION, Why::TooSlow { waited: deadline }))),
        }
    }

    async fn until_ready(
        &self,
        id: &str,
        via: Via,
        access_token: Option<&Secret<String>>,
        last: &mut Option<CallError>,
    ) -> Result<Execd, CallError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let sandbox = self.get(id).await?;
            match self.look(&sandbox, via, access_token).await? {
                Look::Ready(execd) => return Ok(*execd),
                Look::NotYet(error) => *last = error,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn look(
        &self,
        sandbox: &Sandbox,
        via: Via,
        access_token: Option<&Secret<String>>,
    ) -> Result<Look, CallError> {
        match &sandbox.status.state {
            State::Running => {}
            State::Pending | State::Resuming => return Ok(Look::NotYet(None)),
            State::Other(word) if word == "Unknown" => return Ok(Look::NotYet(None)),
            _ => return Err(self.failed(OPERATION, Why::Unsupported { what: will_not_run(sandbox) })),
        }
        let endpoint = match self.endpoint(&sandbox.id, EXECD_PORT, via).await {
            Ok(endpoint) => endpoint,
            // It runs, and the server has not learned yet where.
            Err(error) if error.is_not_found() => return Ok(Look::NotYet(Some(error))),
            Err(error) => return Err(error),
        };
        let execd = self.execd(&endpoint, access_token)?;
        match execd.ping().await {
            Ok(()) => Ok(Look::Ready(Box::new(execd))),
            Err(error) if starts_soon(&error.why) => Ok(Look::NotYet(Some(error))),
            Err(error) => Err(error),
        }
    }
}

enum Look {
    Ready(Box<Execd>),
    NotYet(Option<CallError>),
}

/// Whether that is what a port looks like on which nobody listens yet, directly or behind a proxy.
fn starts_soon(why: &Why) -> bool {
    matches!(why, Why::Unreachable { .. } | Why::Broken { .. } | Why::Answered { status: 404 | 500 | 502..=504, .. })
}

fn will_not_run(sandbox: &Sandbox) -> String {
    let status = &sandbox.status;
    let mut what = format!("run the sandbox {}: it is {}", Printable(&sandbox.id), Printable(status.state.as_str()));
    for part in [&status.reason, &status.message] {
        if !part.is_empty() {
            what.push_str(&format!(", {}", Printable(part)));
        }
    }
    what
}
