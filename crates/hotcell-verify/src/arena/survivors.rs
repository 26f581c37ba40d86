//! Processes that outlive their box.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a process that is being ended may take to vanish.
const VANISHING: Duration = Duration::from_secs(2);

/// How long a process may still be there after its sandbox has ended, on its way out: another sandbox's monitor is.
const LEAVING: Duration = Duration::from_millis(200);

/// The processes that have `marker` among their arguments.
pub(super) fn find(marker: &str) -> Vec<Pid> {
    processes().filter(|pid| is_marked(*pid, marker)).collect()
}

/// Finds processes that have `marker` among their arguments, and ends them.
pub(super) fn end(marker: &str) -> Vec<String> {
    let mut found = find(marker);
    let leaving = Instant::now() + LEAVING;
    while !found.is_empty() && Instant::now() < leaving {
        std::thread::sleep(Duration::from_millis(10));
        // Anew each time: some attacks go on in one process after the other.
        found = find(marker);
    }
    let survivors = found.iter().map(|pid| format!("process {}", pid.as_raw_nonzero())).collect();
    let deadline = Instant::now() + VANISHING;
    for pid in found {
        // The descriptor stands for this one process, whatever happens to its number; then it is looked at once more.
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if is_marked(pid, marker) {
            let _ = pidfd_send_signal(&descriptor, Signal::KILL);
        }
        while is_marked(pid, marker) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    survivors
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// A zombie has no arguments any more, and so is no survivor.
fn is_marked(pid: Pid, marker: &str) -> bool {
    let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    arguments.split(|byte| *byte == 0).any(|argument| argument == marker.as_bytes())
}
