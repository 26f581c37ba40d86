//! Removes what processes that are gone have left behind.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ListContainersOptions;

use super::{container, engine_error, labels};

/// How often a list that cannot be read is asked for, and how long is waited in between.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What was found and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The names of the containers that were removed, or would have been.
    pub removed: Vec<String>,
    /// Those that could not be, and why.
    pub failed: Vec<(String, String)>,
}

/// Removes the containers of boxes whose processes are gone, or only finds them. Whatever else the engine has is not touched.
pub(super) async fn prune(client: &Docker, only_look: bool) -> Result<Pruned, String> {
    let labelled = HashMap::from([("label".to_owned(), vec![labels::OWNER.to_owned()])]);
    let options = ListContainersOptions { all: true, filters: Some(labelled), ..ListContainersOptions::default() };
    let mut looks = 0;
    let found = loop {
        looks += 1;
        match client.list_containers(Some(options.clone())).await {
            Ok(found) => break found,
            // Podman has a word that nobody knows for containers that are just ending.
            Err(Error::JsonDataError { .. }) if looks < LOOKS => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(engine_error(&error)),
        }
    };
    let mut pruned = Pruned::default();
    for summary in found {
        let names = summary.names.unwrap_or_default();
        let labels = summary.labels.unwrap_or_default();
        let Some(id) = summary.id.filter(|_| labels::is_abandoned(&names, |name| labels.get(name))) else { continue };
        let name = names.first().map_or_else(|| id.clone(), |name| name.trim_start_matches('/').to_owned());
        let removed = if only_look { Ok(()) } else { container::remove(client, &id).await };
        match removed {
            Ok(()) => pruned.removed.push(name),
            Err(error) => pruned.failed.push((name, engine_error(&error))),
        }
    }
    Ok(pruned)
}
