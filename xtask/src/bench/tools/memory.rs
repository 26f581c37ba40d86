//! Whether the server's memory grows with the calls.

use std::path::Path;

use anyhow::Result;

use super::candidates::Call;
use super::client::Client;

/// Calls after which memory is looked at.
pub(super) const EARLY: usize = 100;
pub(super) const LATE: usize = 1000;

/// The server's memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) early: u64,
    pub(super) late: u64,
}

impl Memory {
    /// How much of the early memory the late one is.
    pub(super) fn ratio(self) -> f64 {
        self.late as f64 / self.early as f64
    }
}

/// Calls both tools in turn, in one session.
pub(super) fn measure(hotcell: &Path, workspace: &Path) -> Result<Memory> {
    let mut client = Client::start(hotcell, workspace)?;
    let calls = [Call::shell(), Call::code()];
    let mut early = 0;
    for (number, call) in calls.iter().cycle().take(LATE).enumerate() {
        if number == EARLY {
            early = client.memory()?;
        }
        call.through(&mut client)?;
    }
    Ok(Memory { early, late: client.memory()? })
}
