//! What changes in a directory, asked for now and then.

use serde::Deserialize;
use serde_json::json;

use super::super::version::Ability;
use super::Envd;
use super::filesystem::method;
use super::process::Nothing;
use crate::http::CallError;

/// A watch over a directory; it stays until it is [removed](Envd::unwatch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    id: String,
}

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It was written.
    Written,
    /// It is gone.
    Removed,
    /// It has another name.
    Renamed,
    /// Its permissions are others.
    ModeChanged,
    /// Something that this program does not know.
    Other,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The path below the directory.
    pub name: String,
    /// How it changed.
    pub kind: ChangeKind,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    watcher_id: String,
}

#[derive(Deserialize)]
struct Events {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    name: String,
    #[serde(default)]
    r#type: String,
}

impl Envd {
    /// Begins to watch a directory, on demand with all that is below.
    pub async fn watch(&self, path: &str, recursive: bool) -> Result<Watcher, CallError> {
        let watch = method("watch the directory", "CreateWatcher", false);
        if recursive {
            self.needs(watch.operation, Ability::RECURSIVE_WATCH)?;
        }
        let Created { watcher_id } = self.rpc(watch, &json!({ "path": path, "recursive": recursive })).await?;
        Ok(Watcher { id: watcher_id })
    }

    /// What has changed since the last time.
    pub async fn changes(&self, watcher: &Watcher) -> Result<Vec<Change>, CallError> {
        let get = method("ask what changed", "GetWatcherEvents", false);
        let Events { events } = self.rpc(get, &json!({ "watcherId": watcher.id })).await?;
        let change = |event: Event| {
            let kind = match event.r#type.as_str() {
                "EVENT_TYPE_CREATE" => ChangeKind::Created,
                "EVENT_TYPE_WRITE" => ChangeKind::Written,
                "EVENT_TYPE_REMOVE" => ChangeKind::Removed,
                "EVENT_TYPE_RENAME" => ChangeKind::Renamed,
                "EVENT_TYPE_CHMOD" => ChangeKind::ModeChanged,
                _ => ChangeKind::Other,
            };
            Change { name: event.name, kind }
        };
        Ok(events.into_iter().map(change).collect())
    }

    /// Ends a watch.
    pub async fn unwatch(&self, watcher: Watcher) -> Result<(), CallError> {
        let remove = method("end the watch", "RemoveWatcher", false);
        let Nothing {} = self.rpc(remove, &json!({ "watcherId": watcher.id })).await?;
        Ok(())
    }
}
