//! What this machine can and cannot do, why, and the exact command that would change it.

#[cfg(target_os = "linux")]
mod containers;
#[cfg(target_os = "linux")]
mod native;
#[cfg(all(target_os = "linux", feature = "remote"))]
mod remote;
#[cfg(all(target_os = "linux", not(feature = "remote")))]
#[path = "remote_disabled.rs"]
mod remote;

use hotcell_core::capability::Capabilities;

use crate::settings::RemoteRuntime;

/// How well something works here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It works.
    Good,
    /// It works in part.
    Limited,
    /// It does not work.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub name: String,
    /// How well it works.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What would change it, where something would.
    pub fix: Option<String>,
}

/// The whole examination.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The kernel's release.
    pub kernel: String,
    /// Who asks.
    pub user: String,
    /// What was looked at.
    pub findings: Vec<Finding>,
    /// What each backend can hold.
    pub capabilities: Vec<Capabilities>,
    /// Why no box of the remote runtime that is configured can be made, if none can.
    pub remote_problem: Option<String>,
}

/// Looks at this machine, by trying, and at the server of the remote runtime that is configured, if one is. Nothing is made
/// on the server, and nothing removed.
#[cfg(target_os = "linux")]
pub async fn examine(configured: Option<&RemoteRuntime>) -> Diagnosis {
    let here = async {
        let mut diagnosis = native::examine().await;
        containers::examine(&mut diagnosis).await;
        diagnosis
    };
    let Some(runtime) = configured else { return here.await };
    let (mut diagnosis, server) = tokio::join!(here, remote::examine(runtime));
    diagnosis.findings.extend(server.findings);
    match server.boxes {
        Ok(capabilities) => diagnosis.capabilities.push(capabilities),
        Err(problem) => diagnosis.remote_problem = Some(problem),
    }
    diagnosis
}

/// What was found out about a server.
#[derive(Debug)]
struct Examined {
    findings: Vec<Finding>,
    /// What boxes of it can hold, or why none can be made.
    boxes: Result<Capabilities, String>,
}

fn finding(name: &str, state: State, detail: impl Into<String>, fix: Option<String>) -> Finding {
    Finding { name: name.to_owned(), state, detail: detail.into(), fix }
}
