//! Labels: by which a container says that it is a box of ours, and of which process.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use hotcell_core::backend::SandboxId;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Who made the container.
pub(super) const OWNER: &str = "dev.hotcell.owner";
/// Which Hotcell.
pub(super) const VERSION: &str = "dev.hotcell.version";
/// The name of the box.
pub(super) const BOX: &str = "dev.hotcell.box";

/// A process, told apart from all that had its number before or will have it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    boot: String,
    /// The pid namespace: in another one, numbers mean other processes.
    namespace: u64,
    process: u32,
    started: u64,
}

impl Owner {
    /// This process.
    pub(super) fn current() -> std::io::Result<Self> {
        let process = std::process::id();
        let started = start_time(process).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Self { boot: boot_id()?, namespace: pid_namespace()?, process, started })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let boot = parts.next().filter(|boot| is_boot_id(boot))?.to_owned();
        let namespace = parts.next()?.parse().ok()?;
        let process = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { boot, namespace, process, started })
    }

    fn label(&self) -> String {
        format!("{}/{}/{}/{}", self.boot, self.namespace, self.process, self.started)
    }

    /// Whether it is certain that the process has ended. One in another pid namespace cannot be looked at.
    fn is_gone(&self) -> bool {
        let (Ok(boot), Ok(namespace)) = (boot_id(), pid_namespace()) else { return false };
        if self.boot != boot {
            return true;
        }
        if self.namespace != namespace {
            return false;
        }
        let Some(pid) = i32::try_from(self.process).ok().and_then(Pid::from_raw) else { return true };
        // Asked of the kernel, because /proc may hide the processes of others.
        if test_kill_process(pid) == Err(Errno::SRCH) {
            return true;
        }
        start_time(self.process).is_some_and(|started| started != self.started)
    }
}

/// The labels of a box.
pub(super) fn labels(owner: &Owner, id: &SandboxId) -> BTreeMap<String, String> {
    [(OWNER, owner.label()), (VERSION, env!("CARGO_PKG_VERSION").to_owned()), (BOX, id.to_string())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The container's name for a box.
pub(super) fn container_name(id: &SandboxId) -> String {
    format!("hotcell-{id}")
}

/// Whether this is a box of ours that nobody needs any more: every label is as we write it, the container is called
/// as its label says, and its process is gone. Somebody else's container that has one of our labels is not.
pub(super) fn is_abandoned<'a>(names: &[String], label: impl Fn(&str) -> Option<&'a String>) -> bool {
    let owner = label(OWNER).and_then(|text| Owner::parse(text));
    let id = label(BOX).and_then(|text| SandboxId::new(text.as_str()).ok());
    let (Some(owner), Some(id), Some(version)) = (owner, id, label(VERSION)) else { return false };
    let expected = container_name(&id);
    let named = names.iter().any(|name| name.strip_prefix('/').unwrap_or(name) == expected);
    named && is_version(version) && owner.is_gone()
}

fn is_version(text: &str) -> bool {
    let mut numbers = text.split(['.', '-', '+']);
    (0..3).all(|_| numbers.next().is_some_and(|number| number.parse::<u64>().is_ok()))
}

fn is_boot_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

fn boot_id() -> std::io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let id = text.trim();
    if is_boot_id(id) { Ok(id.to_owned()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

fn pid_namespace() -> std::io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// When a process was started, in ticks since the boot.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain anything; the start is the twenty-second.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

    use super::*;

    fn abandoned(names: &[&str], labels: &BTreeMap<String, String>) -> bool {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        is_abandoned(&names, |name| labels.get(name))
    }

    /// Labels of a box whose process has ended.
    fn left_behind() -> BTreeMap<String, String> {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read x"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let owner =
            Owner { process: child.id(), started: start_time(child.id()).unwrap(), ..Owner::current().unwrap() };
        assert!(!owner.is_gone());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(owner.is_gone());
        labels(&owner, &SandboxId::new("docker-7-1").unwrap())
    }

    #[test]
    fn what_a_process_left_is_found_when_it_has_ended() {
        assert!(abandoned(&["/hotcell-docker-7-1"], &left_behind()));
        let mut rebooted = left_behind();
        let other_boot = "00000000-0000-0000-0000-000000000000/1/1/1";
        rebooted.insert(OWNER.into(), other_boot.into());
        assert!(abandoned(&["hotcell-docker-7-1"], &rebooted));
        let mut reused = left_behind();
        let mut owner = Owner::current().unwrap();
        owner.started += 1;
        reused.insert(OWNER.into(), owner.label());
        assert!(abandoned(&["/hotcell-docker-7-1"], &reused));
    }

    #[test]
    fn what_lives_or_is_not_ours_is_not_touched() {
        let id = SandboxId::new("docker-7-1").unwrap();
        let mine = labels(&Owner::current().unwrap(), &id);
        assert!(!abandoned(&["/hotcell-docker-7-1"], &mine));
        let elsewhere = Owner { namespace: 1, process: 4_000_000, ..Owner::current().unwrap() };
        assert!(!abandoned(&["/hotcell-docker-7-1"], &labels(&elsewhere, &id)));
        assert!(!abandoned(&["/database"], &left_behind()));
        assert!(!abandoned(&["/hotcell-docker-7-2"], &left_behind()));
        for name in [OWNER, VERSION, BOX] {
            let mut other = left_behind();
            other.remove(name);
            assert!(!abandoned(&["/hotcell-docker-7-1"], &other), "without {name}");
            for value in ["", "me", "1/2/3/4", "/../x"] {
                other.insert(name.into(), value.into());
                assert!(!abandoned(&["/hotcell-docker-7-1"], &other), "{name}={value}");
            }
        }
    }
}
