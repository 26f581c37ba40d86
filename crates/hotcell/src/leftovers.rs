//! What programs that crashed left on this machine.
//!
//! Little is: boxes end with the program that made them. What remains is what the kernel keeps of a helper that was killed, and
//! what an engine keeps of a container that it could not remove by itself, or a server of a sandbox that nobody removed.

#[cfg(feature = "remote")]
mod server;
#[cfg(not(feature = "remote"))]
#[path = "leftovers/server_disabled.rs"]
mod server;

use hotcell_backends::docker::{self, Answer};
use hotcell_backends::native::Layout;

use crate::settings::RemoteRuntime;

/// What was found, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers {
    /// In container engines, each asked at the same time.
    pub engines: Vec<EngineLeftovers>,
    /// Cgroups of helpers that are gone.
    pub cgroups: Vec<Leftover>,
    /// On the server of the remote runtime that was asked about.
    pub server: Option<ServerLeftovers>,
}

/// What was left on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLeftovers {
    /// Where it is; the name of its runtime, if that is not known.
    pub address: String,
    /// Sandboxes that programs of this machine made that are gone.
    pub sandboxes: Vec<Leftover>,
    /// Why the server could not be asked, if so.
    pub unanswered: Option<String>,
}

/// What was left in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineLeftovers {
    /// Where it listens.
    pub address: String,
    /// Containers of boxes whose programs are gone.
    pub containers: Vec<Leftover>,
    /// Why the engine could not be asked, if so.
    pub unanswered: Option<String>,
}

/// Something that nobody needs any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// What it is called.
    pub name: String,
    /// Why it could not be removed, if it should have been.
    pub problem: Option<String>,
}

/// Finds what is left here and on the server of a remote runtime, if one is given, and changes nothing.
pub async fn find(configured: Option<&RemoteRuntime>) -> Leftovers {
    look(configured, true).await
}

/// Removes what is left here and on the server of a remote runtime, if one is given. What is in use, or might be somebody
/// else's, stays.
pub async fn remove(configured: Option<&RemoteRuntime>) -> Leftovers {
    look(configured, false).await
}

async fn look(configured: Option<&RemoteRuntime>, only_look: bool) -> Leftovers {
    let on_server = async {
        match configured {
            Some(runtime) => Some(server::look(runtime, only_look).await),
            None => None,
        }
    };
    let (engines, cgroups, server) =
        tokio::join!(in_engines(only_look), tokio::task::spawn_blocking(move || in_cgroups(only_look)), on_server);
    Leftovers { engines, cgroups: cgroups.unwrap_or_default(), server }
}

/// What was removed, or would be, and what could not be.
fn leftovers(removed: Vec<String>, failed: Vec<(String, String)>) -> Vec<Leftover> {
    let removed = removed.into_iter().map(|name| Leftover { name, problem: None });
    let failed = failed.into_iter().map(|(name, reason)| Leftover { name, problem: Some(reason) });
    removed.chain(failed).collect()
}

async fn in_engines(only_look: bool) -> Vec<EngineLeftovers> {
    let asked = match docker::prune_all(only_look).await {
        Ok(asked) => asked,
        Err(error) => return vec![unanswered("container engines".to_owned(), error.to_string())],
    };
    let mut engines = Vec::new();
    for engine in asked {
        match engine.answer {
            Answer::NotThere => {}
            Answer::Failed(reason) => engines.push(unanswered(engine.address, reason)),
            Answer::Given(pruned) => {
                let containers = leftovers(pruned.removed, pruned.failed);
                engines.push(EngineLeftovers { address: engine.address, containers, unanswered: None });
            }
        }
    }
    engines
}

fn unanswered(address: String, reason: String) -> EngineLeftovers {
    EngineLeftovers { address, containers: Vec::new(), unanswered: Some(reason) }
}

fn in_cgroups(only_look: bool) -> Vec<Leftover> {
    let layout = Layout::detect();
    if only_look {
        let name = |path: std::path::PathBuf| path.display().to_string();
        return layout.abandoned().into_iter().map(|path| Leftover { name: name(path), problem: None }).collect();
    }
    let removed = layout.remove_abandoned().into_iter();
    removed
        .map(|(path, result)| Leftover {
            name: path.display().to_string(),
            problem: result.err().map(|error| error.to_string()),
        })
        .collect()
}
