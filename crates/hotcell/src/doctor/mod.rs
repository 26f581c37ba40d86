//! What this machine can and cannot do, why, and the exact command that would change it.

#[cfg(target_os = "linux")]
mod containers;
#[cfg(target_os = "linux")]
mod native;

use hotcell_core::capability::Capabilities;

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
}

/// Looks at this machine, by trying.
#[cfg(target_os = "linux")]
pub async fn examine() -> Diagnosis {
    let mut diagnosis = native::examine().await;
    containers::examine(&mut diagnosis).await;
    diagnosis
}

fn finding(name: &str, state: State, detail: impl Into<String>, fix: Option<String>) -> Finding {
    Finding { name: name.to_owned(), state, detail: detail.into(), fix }
}
