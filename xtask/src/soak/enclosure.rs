//! Surroundings in which everything that can be seen is the soak's own.
//!
//! As root the soak runs in a process, mount and IPC namespace and in cgroups of its own: what others do on the machine
//! meanwhile is then neither counted as left behind nor hides what is. An ordinary user has no such namespaces and
//! counts what belongs to that user.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::getuid;

use super::cgroups::{self, Hierarchy};
use super::options::INSIDE;
use crate::Verdict;
use crate::workspace::forget_hotcell_settings;

/// Runs as pid 1 of the namespace. A shell, because it waits for every process that has lost its parent.
const SCRIPT: &str = r#"mount -n -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 99
"$@""#;

/// Whether this user can have surroundings of its own.
pub(super) fn is_possible() -> bool {
    getuid().is_root()
}

/// Runs the soak again, inside.
pub(super) fn run(arguments: &[String]) -> Verdict {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let groups = Groups::enter();
    // Should we be killed, `unshare` is killed with us, and its child and all of the namespace with it.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig=KILL", "unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child=KILL"])
        .args(["--mount-proc", "--", "sh", "-c", SCRIPT, "soak"])
        .arg(program)
        .args(["soak", INSIDE])
        .args(arguments);
    forget_hotcell_settings(&mut command);
    let status = command.status().context("cannot start `setpriv` and `unshare`")?;
    groups.leave();
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => anyhow::bail!("the soak ended with {status}"),
    }
}

/// The cgroups that we moved to, with those that we came from.
struct Groups(Vec<(Hierarchy, PathBuf)>);

impl Groups {
    /// Makes a cgroup in each hierarchy and goes there. Where that is not possible the soak stays where it is.
    fn enter() -> Self {
        let mut entered = Vec::new();
        for hierarchy in cgroups::hierarchies() {
            sweep(&hierarchy);
            let ours = hierarchy.own.join(format!("hotcell-soak-{}", std::process::id()));
            // With version 2 only a cgroup without processes can have children with limits.
            let place = if hierarchy.unified { ours.join("supervisor") } else { ours.clone() };
            if fs::create_dir_all(&place).is_ok() && go(&place).is_ok() {
                entered.push((hierarchy, ours));
            } else {
                remove(&ours);
            }
        }
        Self(entered)
    }

    fn leave(self) {
        for (from, ours) in self.0 {
            let _ = go(&from.own);
            remove(&ours);
        }
    }
}

fn go(place: &std::path::Path) -> Result<()> {
    Ok(fs::write(place.join("cgroup.procs"), std::process::id().to_string())?)
}

/// Removes a cgroup, and those below it, as soon as the processes in it are gone.
fn remove(group: &std::path::Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    for _ in 0..100 {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => thread::sleep(Duration::from_millis(20)),
            _ => return,
        }
    }
}

/// Removes what a soak left that was killed.
fn sweep(hierarchy: &Hierarchy) {
    for entry in fs::read_dir(&hierarchy.own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("hotcell-soak-")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}
