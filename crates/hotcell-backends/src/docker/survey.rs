//! Every engine that boxes could be made in: what each says of itself, and what was left behind in it.
//!
//! A backend is content with the first engine that answers. Whoever looks at a machine or cleans it up asks all of them, at the
//! same time.

use std::time::Duration;

use hotcell_core::capability::Capabilities;

use super::connect::{self, Address};
use super::probe::{self, EngineFacts, Here};
use super::prune::{self, Pruned};
use super::{ConnectError, engine_error};

/// A place where an engine was looked for, and what came of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Asked<T> {
    /// Where it listens, or would.
    pub address: String,
    /// What came of it.
    pub answer: Answer<T>,
}

/// What came of asking an engine.
#[derive(Debug, Clone)]
pub enum Answer<T> {
    /// What was asked for.
    Given(T),
    /// There is no engine.
    NotThere,
    /// Something is there and does not answer as it should.
    Failed(String),
}

/// An engine, and what its boxes can hold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// What the engine says of itself.
    pub facts: EngineFacts,
    /// What boxes by its own OCI runtime can hold.
    pub capabilities: Capabilities,
}

/// Asks every engine what it is, for as long as `patience`; nothing is changed. The first that answers is the one that boxes
/// are made in.
pub async fn survey(patience: Duration) -> Result<Vec<Asked<Found>>, ConnectError> {
    ask_all(move |address| async move {
        let asked = tokio::time::timeout(patience, look(&address)).await;
        asked.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs())))
    })
    .await
}

async fn look(address: &Address) -> Result<Found, String> {
    let client = connect::try_address(address).await?;
    let (info, version) = tokio::join!(client.info(), client.version());
    let (info, version) =
        info.and_then(|info| version.map(|version| (info, version))).map_err(|error| engine_error(&error))?;
    let facts = EngineFacts::new(&info, &version, connect::is_rootless(address).await);
    let capabilities = probe::capabilities(&facts, Here::look(), None);
    Ok(Found { facts, capabilities })
}

/// Removes the containers of boxes whose processes are gone from every engine that answers, and nothing else. With `only_look`
/// they are found and stay.
pub async fn prune_all(only_look: bool) -> Result<Vec<Asked<Pruned>>, ConnectError> {
    ask_all(move |address| async move {
        let client = connect::try_address(&address).await?;
        prune::prune(&client, only_look).await
    })
    .await
}

async fn ask_all<T, F>(ask: impl Fn(Address) -> F) -> Result<Vec<Asked<T>>, ConnectError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, String>> + Send + 'static,
{
    let mut waiting = Vec::new();
    for address in connect::addresses_here()? {
        let is_there = !matches!(&address, Address::Unix(path) if !path.exists());
        waiting.push((address.to_string(), is_there.then(|| tokio::spawn(ask(address)))));
    }
    let mut asked = Vec::new();
    for (address, answer) in waiting {
        let answer = match answer {
            None => Answer::NotThere,
            Some(answer) => match answer.await {
                Ok(Ok(given)) => Answer::Given(given),
                Ok(Err(reason)) => Answer::Failed(reason),
                Err(error) => Answer::Failed(error.to_string()),
            },
        };
        asked.push(Asked { address, answer });
    }
    Ok(asked)
}
