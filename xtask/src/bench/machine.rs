//! The machine and the programs that numbers depend on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

/// What a reader has to know to compare numbers.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) architecture: &'static str,
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) memory: Option<u64>,
    pub(crate) user: &'static str,
    pub(crate) rustc: String,
    pub(crate) bubblewrap: String,
}

impl Machine {
    pub(crate) fn look(bubblewrap: Option<&Path>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            kernel: known(read("/proc/sys/kernel/osrelease").trim()),
            architecture: std::env::consts::ARCH,
            cpu: known(cpu_model(&read("/proc/cpuinfo")).unwrap_or_default()),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            memory: kibibytes(&read("/proc/meminfo"), "MemTotal"),
            user: if getuid().is_root() { "root" } else { "ordinary user" },
            rustc: version(Path::new("rustc")),
            bubblewrap: bubblewrap.map_or_else(|| "not installed".to_owned(), version),
        }
    }
}

fn known(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    known(output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default().as_str())
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name") || line.starts_with("CPU part"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

/// The share of the machine's CPU time that is used in a second in which we do nothing; none if it cannot be known.
pub(crate) fn busy_with_others() -> Option<f64> {
    let look = || cpu_time(&fs::read_to_string("/proc/stat").ok()?);
    let (used_before, all_before) = look()?;
    thread::sleep(Duration::from_secs(1));
    let (used, all) = look()?;
    let passed = all.checked_sub(all_before).filter(|passed| *passed > 0)?;
    Some(used.saturating_sub(used_before) as f64 / passed as f64)
}

/// CPU time that was used, and all that there was, since the start of the machine.
fn cpu_time(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // User, nice, system, idle, waiting for I/O, interrupts (2), taken by the hypervisor; guests are in the first two.
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let all: u64 = times.iter().sum();
    Some((all.checked_sub(times.get(3)? + times.get(4)?)?, all))
}

/// The value of a line such as `MemTotal:   1024 kB`, in bytes.
pub(crate) fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Lets this process, and the helper processes of its engines, have as many open files as it may: a thousand boxes have
/// several each.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it stays as it is, fewer boxes are made, and the report says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_time_is_all_but_idle_and_waiting() {
        assert_eq!(cpu_time("cpu  10 1 5 80 4 0 1 2 9 9\ncpu0 1\n"), Some((19, 103)));
        assert_eq!(cpu_time("cpu  10 1\n"), None);
    }

    #[test]
    fn proc_files_are_read() {
        let text = "MemTotalX: 1 kB\nMemTotal:       2048 kB\nHuge: 3\n";
        assert_eq!(kibibytes(text, "MemTotal"), Some(2 << 20));
        assert_eq!(kibibytes(text, "Huge"), None);
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: A CPU\n"), Some("A CPU"));
        assert_eq!(cpu_model("flags: x\n"), None);
    }
}
