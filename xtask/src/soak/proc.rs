//! Looking at processes, as `/proc` shows them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::process::getuid;

use crate::bench::machine::kibibytes;

/// The variable by which everything that a box of the soak runs can be found.
pub(super) const MARK: &str = "SOAK_MARK";

/// One process.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) name: String,
    /// Ended, and not yet waited for.
    pub(super) is_zombie: bool,
}

/// Every process that is ours to look at: as root all that `/proc` shows, else those that come from us. (Root's soak
/// has a process namespace of its own, so that all is its own.)
pub(super) fn processes() -> Vec<Process> {
    let me = getuid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        if !me.is_root() && field(&status, "Uid").and_then(first_number) != Some(me.as_raw()) {
            continue;
        }
        found.push(Process {
            pid,
            parent: field(&status, "PPid").and_then(first_number).unwrap_or(0),
            name: field(&status, "Name").unwrap_or_default().to_owned(),
            is_zombie: field(&status, "State").is_some_and(|state| state.starts_with(['Z', 'X'])),
        });
    }
    found
}

fn first_number(text: &str) -> Option<u32> {
    text.split_whitespace().next()?.parse().ok()
}

/// The value of a line such as `Name:   sh`.
pub(super) fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
}

/// The processes that have `word` among their arguments or in their environment.
pub(super) fn marked(word: &str) -> Vec<Process> {
    let has_word = |process: &Process| {
        ["cmdline", "environ"].iter().any(|file| {
            let text = fs::read(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
            text.windows(word.len()).any(|window| window == word.as_bytes())
        })
    };
    let me = std::process::id();
    processes().into_iter().filter(|process| process.pid != me && has_word(process)).collect()
}

/// The helper process of the engine in this program, or in `parent`.
pub(super) fn helper_of(parent: u32) -> Option<u32> {
    let is_helper = |process: &Process| process.parent == parent && process.name == "hotcell-spawner";
    processes().into_iter().find(is_helper).map(|process| process.pid)
}

/// The memory that a process has resident, in bytes.
pub(super) fn resident(pid: u32) -> Option<u64> {
    kibibytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS")
}

/// What the descriptors of a process lead to; none if that cannot be seen.
pub(super) fn descriptors(pid: u32) -> Option<Vec<String>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Some(targets.map(|target| target.to_string_lossy().into_owned()).collect())
}

/// The namespaces of a process, by kind.
pub(super) fn namespaces(pid: u32) -> BTreeMap<String, (u64, u64)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/ns")) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        if let Ok(data) = fs::metadata(entry.path()) {
            found.insert(entry.file_name().to_string_lossy().into_owned(), (data.dev(), data.ino()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn we_are_seen() {
        let me = std::process::id();
        let found = processes().into_iter().find(|process| process.pid == me).unwrap();
        assert!(!found.is_zombie && found.parent > 0);
        assert!(resident(me).unwrap() > 100_000);
        assert!(descriptors(me).unwrap().len() >= 3);
        assert!(namespaces(me).contains_key("mnt"));
    }

    #[test]
    fn a_mark_is_found_in_arguments_and_environment() {
        let word = format!("soak-test-{}", std::process::id());
        let mut by_argument = std::process::Command::new("sleep");
        by_argument.arg0(&word).arg("30");
        let mut by_variable = std::process::Command::new("sleep");
        by_variable.arg("30").env(MARK, &word);
        for mut command in [by_argument, by_variable] {
            let mut child = command.spawn().unwrap();
            let mut tries = 0;
            // The new process has our arguments until it executes.
            while marked(&word).is_empty() && tries < 200 {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let found = marked(&word);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
        }
    }
}
