//! `hotcell prune`: removes what programs that crashed left behind.

use hotcell::leftovers::{self, Leftover, Leftovers};
use hotcell_image::{Store, StoreError};
use serde::Serialize;

use super::block_on;
use crate::arguments::PruneArguments;
use crate::failure::Failure;
use crate::{exit, json, output};

#[derive(Serialize)]
struct PrunedObject {
    dry_run: bool,
    found: Vec<FoundObject>,
    /// Places that could not be looked at; what is left there is not known.
    not_asked: Vec<NotAsked>,
}

/// Something that was left.
#[derive(Serialize)]
struct FoundObject {
    kind: &'static str,
    name: String,
    /// The engine, the store or the server that it is in.
    place: Option<String>,
    removed: bool,
    /// Why it could not be removed.
    problem: Option<String>,
}

#[derive(Serialize)]
struct NotAsked {
    place: String,
    why: String,
}

/// Removes what is left, or shows it.
pub(crate) fn execute(arguments: &PruneArguments) -> Result<u8, Failure> {
    let configured = arguments.runtime.load()?;
    let server = configured.as_ref().ok().and_then(Option::as_ref);
    let left = block_on(async {
        Ok(if arguments.dry_run { leftovers::find(server).await } else { leftovers::remove(server).await })
    })?;
    let mut pruned = PrunedObject { dry_run: arguments.dry_run, found: Vec::new(), not_asked: Vec::new() };
    pruned.add(left);
    if let Err(error) = configured {
        let place = "the server of remote boxes, if one is configured".to_owned();
        pruned.not_asked.push(NotAsked { place, why: format!("the settings cannot be read: {error}") });
    }
    pruned.add_store();
    let shown = if arguments.json { json::line(&pruned) } else { output::printable(&as_text(&pruned)) };
    let left = pruned.found.iter().any(|found| !found.removed);
    let code = if left { exit::INCOMPLETE } else { exit::SUCCESS };
    Ok(output::to_stdout(&shown)?.max(code))
}

impl PrunedObject {
    fn add(&mut self, left: Leftovers) {
        for engine in left.engines {
            if let Some(why) = engine.unanswered {
                self.not_asked.push(NotAsked { place: engine.address, why });
                continue;
            }
            for Leftover { name, problem, .. } in engine.containers {
                self.push("container", name, Some(engine.address.clone()), problem);
            }
        }
        for Leftover { name, problem, .. } in left.cgroups {
            self.push("cgroup", name, None, problem);
        }
        let Some(server) = left.server else { return };
        for Leftover { name, problem, .. } in server.sandboxes {
            self.push("sandbox", name, Some(server.address.clone()), problem);
        }
        if let Some(why) = server.unanswered {
            self.not_asked.push(NotAsked { place: server.address, why });
        }
    }

    /// A store that is not there, or in use, has nothing that anybody would miss.
    fn add_store(&mut self) {
        let store = match Store::open_existing(None) {
            Ok(Some(store)) => store,
            Ok(None) | Err(StoreError::NoPlace) => return,
            Err(error) => {
                let place = "the image store".to_owned();
                return self.not_asked.push(NotAsked { place, why: error.to_string() });
            }
        };
        let place = store.place().display().to_string();
        match store.leftovers(self.dry_run) {
            Ok(Some(files)) => {
                for file in files {
                    self.push("file", file.path.display().to_string(), Some(place.clone()), file.problem);
                }
            }
            Ok(None) => {
                let why = "it is in use; whoever adds an image next cleans up".to_owned();
                self.not_asked.push(NotAsked { place, why });
            }
            Err(error) => self.not_asked.push(NotAsked { place, why: error.to_string() }),
        }
    }

    fn push(&mut self, kind: &'static str, name: String, place: Option<String>, problem: Option<String>) {
        let removed = !self.dry_run && problem.is_none();
        self.found.push(FoundObject { kind, name, place, removed, problem });
    }
}

fn as_text(pruned: &PrunedObject) -> String {
    let mut text = String::new();
    for FoundObject { kind, name, place, problem, .. } in &pruned.found {
        let place = place.as_deref().filter(|place| !name.starts_with(place)).map(|place| format!(" in {place}"));
        let place = place.unwrap_or_default();
        text.push_str(&match problem {
            Some(problem) => format!("could not remove {kind} {name}{place}: {problem}\n"),
            None if pruned.dry_run => format!("would remove {kind} {name}{place}\n"),
            None => format!("removed {kind} {name}{place}\n"),
        });
    }
    if pruned.found.is_empty() {
        text.push_str("nothing was left behind\n");
    }
    for NotAsked { place, why } in &pruned.not_asked {
        text.push_str(&format!("not asked: {place}: {why}\n"));
    }
    text
}
