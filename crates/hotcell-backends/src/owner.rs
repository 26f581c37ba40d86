//! Which process made something that outlives it elsewhere: in a container engine, on a server.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A process, told apart from all that had its number before or will have it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    boot: String,
    /// The pid namespace: in another one, numbers mean other processes.
    namespace: u64,
    process: u32,
    started: u64,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> std::io::Result<Self> {
        let process = std::process::id();
        let started = start_time(process).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Self { boot: boot_id()?, namespace: pid_namespace()?, process, started })
    }

    /// Reads what [`Owner::label`] wrote, and nothing else.
    #[cfg(feature = "docker")]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let boot = parts.next().filter(|boot| is_boot_id(boot))?.to_owned();
        let namespace = parts.next()?.parse().ok()?;
        let process = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { boot, namespace, process, started })
    }

    /// As a text that [`Owner::parse`] reads.
    #[cfg(feature = "docker")]
    pub(crate) fn label(&self) -> String {
        format!("{}/{}/{}/{}", self.boot, self.namespace, self.process, self.started)
    }

    /// As a text of at most 63 letters, digits, `-` and `.`, which every server takes as a label.
    #[cfg(feature = "remote")]
    pub(crate) fn short_label(&self) -> String {
        format!("{}.{:x}.{:x}.{:x}", self.boot, self.namespace, self.process, self.started)
    }

    /// Reads what [`Owner::short_label`] wrote, and nothing else.
    #[cfg(feature = "remote")]
    pub(crate) fn parse_short(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let boot = parts.next().filter(|boot| is_boot_id(boot))?.to_owned();
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (namespace, process, started) = (number()?, u32::try_from(number()?).ok()?, number()?);
        parts.next().is_none().then_some(Self { boot, namespace, process, started })
    }

    /// Whether it was on this machine, and since its last start.
    #[cfg(feature = "remote")]
    pub(crate) fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Whether it is certain that the process has ended. One in another pid namespace cannot be looked at.
    pub(crate) fn is_gone(&self) -> bool {
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
impl Owner {
    /// A process that was there a moment ago.
    #[allow(clippy::unwrap_used, reason = "tests assert by panicking")]
    pub(crate) fn of_ended_process() -> Self {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read x"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let owner = Self { process: child.id(), started: start_time(child.id()).unwrap(), ..Self::current().unwrap() };
        assert!(!owner.is_gone());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(owner.is_gone());
        owner
    }

    /// A process whose number is now this one's.
    #[allow(clippy::unwrap_used, reason = "tests assert by panicking")]
    pub(crate) fn of_reused_number() -> Self {
        let current = Self::current().unwrap();
        Self { started: current.started + 1, ..current }
    }

    /// A process of another machine.
    #[cfg(feature = "remote")]
    #[allow(clippy::unwrap_used, reason = "tests assert by panicking")]
    pub(crate) fn of_another_boot() -> Self {
        Self { boot: "00000000-0000-0000-0000-000000000000".to_owned(), ..Self::of_ended_process() }
    }

    /// A process that cannot be looked at from here.
    #[allow(clippy::unwrap_used, reason = "tests assert by panicking")]
    pub(crate) fn in_another_namespace() -> Self {
        Self { namespace: 1, process: 4_000_000, ..Self::current().unwrap() }
    }
}
