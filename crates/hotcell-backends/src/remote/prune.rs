//! Removes what processes that are gone have left on a server.

use std::collections::BTreeMap;
use std::future::Future;

use hotcell_remote::http::CallError;

use super::labels::is_abandoned;

/// What was found and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The ids of the sandboxes that were removed, or would have been.
    pub removed: Vec<String>,
    /// Those that could not be, and why.
    pub failed: Vec<(String, String)>,
}

/// A sandbox on a server.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) labels: BTreeMap<String, String>,
}

/// Removes the sandboxes among these whose processes were of this machine and are gone, or only finds them. Whatever else the server
/// has is not touched.
pub(crate) async fn prune<F>(found: Vec<Found>, only_look: bool, delete: impl Fn(String) -> F) -> Pruned
where
    F: Future<Output = Result<(), CallError>>,
{
    let mut pruned = Pruned::default();
    for sandbox in found.into_iter().filter(|sandbox| is_abandoned(&sandbox.labels)) {
        let removed = if only_look { Ok(()) } else { delete(sandbox.id.clone()).await };
        match removed {
            Ok(()) => pruned.removed.push(sandbox.id),
            Err(error) => pruned.failed.push((sandbox.id, error.to_string())),
        }
    }
    pruned
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use hotcell_core::backend::SandboxId;

    use super::super::labels::labels;
    use super::*;
    use crate::owner::Owner;

    fn found(id: &str, owner: &Owner) -> Found {
        Found { id: id.to_owned(), labels: labels(owner, &SandboxId::new("e2b-1-1").unwrap()) }
    }

    #[tokio::test]
    async fn only_what_this_machine_left_is_removed() {
        let there = vec![
            found("ended", &Owner::of_ended_process()),
            found("mine", &Owner::current().unwrap()),
            found("elsewhere", &Owner::of_another_boot()),
            Found { id: "strange".to_owned(), labels: BTreeMap::new() },
        ];
        let deleted = Mutex::new(Vec::new());
        let delete = |id: String| {
            deleted.lock().unwrap().push(id);
            async { Ok(()) }
        };
        assert_eq!(prune(there.clone(), true, delete).await.removed, ["ended"]);
        assert!(deleted.lock().unwrap().is_empty());
        assert_eq!(prune(there, false, delete).await.removed, ["ended"]);
        assert_eq!(*deleted.lock().unwrap(), ["ended"]);
    }
}
