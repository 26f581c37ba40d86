//! Removes what processes that are gone have left behind.

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::ListContainersOptions;

use super::{container, engine_error, labels};

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
    let found = client.list_containers(Some(options)).await.map_err(|error| engine_error(&error))?;
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
