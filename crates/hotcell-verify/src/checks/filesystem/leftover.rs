//! What a box could leave behind: in a tree that it may write to, for a box that comes after it.

use std::fs;

use hotcell::{Policy, SpawnConfig};

use crate::arena::Arena;
use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, Seen, Supervised, check};
use crate::target::Boxed;

pub(super) const CHECKS: &[Check] = &[
    check("filesystem.set-user-id", Filesystem, "leave a program in the workspace that runs with its owner's rights")
        .safe("no file with contents carries a set-ID bit")
        .grant(|policy, arena| policy.write(arena.workspace()))
        .intruder(&["set-user-id", "{workspace}"]),
    check(
        "filesystem.set-group-id-by-list",
        Filesystem,
        "keep a set-group-ID bit past a write, and let an access list make it count",
    )
    .safe("no file with contents carries a set-ID bit")
    .grant(|policy, arena| policy.write(arena.workspace()))
    .intruder(&["set-group-id-by-list", "{workspace}"]),
    check(
        "filesystem.file-capability",
        Filesystem,
        "leave a program in the workspace that gives a capability, with a user namespace of its own if it can get one",
    )
    .safe("no file carries a capability")
    .grant(|policy, arena| policy.write(arena.workspace()))
    .intruder(&["nested", "file-capability", "{workspace}/file"]),
    check("filesystem.device-node", Filesystem, "make device nodes in the workspace")
        .safe("there are none")
        .grant(|policy, arena| policy.write(arena.workspace()))
        .intruder(&["device-node", "{workspace}"]),
    check("filesystem.flags-of-workspace", Filesystem, "set inode flags in the workspace, which outlive the box")
        .safe("they stay as they were")
        .impact(Impact::Integrity)
        .grant(|policy, arena| policy.write(arena.workspace()))
        .intruder(&["set-flags", "{workspace}/file"]),
    check(
        "filesystem.next-box",
        Filesystem,
        "leave a message in every place that can be written, for the box that comes next",
    )
    .safe("the next box finds none of it")
    .impact(Impact::Lateral)
    .supervised(Supervised {
        naive: |arena| {
            let places = places(arena)?;
            let written = places.iter().filter(|place| fs::write(place, arena.token()).is_ok()).count();
            let found: String = places.iter().filter_map(|place| fs::read_to_string(place).ok()).collect();
            remove(&places);
            if written > 0 { Ok(found) } else { Err(NOTHING_WRITTEN.to_owned()) }
        },
        hotcell: |boxed, arena| Box::pin(two_boxes(boxed, arena)),
    }),
];

const NOTHING_WRITTEN: &str = "nothing could be written anywhere";

/// Files that do not exist, in directories that programs write to.
fn places(arena: &Arena) -> Result<Vec<String>, String> {
    let name = arena.expand("{marker}").map_err(|error| error.to_string())?;
    let directories = ["/tmp", "/var/tmp", "/dev/shm", "/home/hotcell"];
    Ok(directories.iter().map(|directory| format!("{directory}/{}", name.display())).collect())
}

/// Takes away what a box that writes to the host's places left there.
fn remove(places: &[String]) {
    for place in places {
        let _ = fs::remove_file(place);
    }
}

/// The first box writes, the second one, of the same engine, reads.
async fn two_boxes(boxed: &Boxed, arena: &Arena) -> Seen {
    let places = places(arena)?;
    let files = places.join(" ");
    let policy = boxed.accept(Policy::builder().cwd("/").build().map_err(|error| error.to_string())?);
    let engine = boxed.engine().await?;
    let script = |text: String| SpawnConfig::new("/bin/sh").args(["-c".to_owned(), text]);
    let token = arena.token();
    let write = format!("for file in {files}; do echo {token} >$file && echo written; done 2>/dev/null");
    let first = engine.run_with(&policy, script(write)).await;
    let second = engine.run_with(&policy, script(format!("cat {files} 2>/dev/null; echo looked"))).await;
    engine.close().await;
    remove(&places);
    let (first, second) = (first.map_err(|error| error.to_string())?, second.map_err(|error| error.to_string())?);
    let (wrote, found) = (String::from_utf8_lossy(&first.stdout.bytes()).into_owned(), second.stdout.bytes());
    let found = String::from_utf8_lossy(&found).into_owned();
    match (wrote.contains("written"), found.contains("looked")) {
        (true, true) => Ok(found),
        (false, _) => Err(NOTHING_WRITTEN.to_owned()),
        (_, false) => Err("the second box did not get to look".to_owned()),
    }
}
