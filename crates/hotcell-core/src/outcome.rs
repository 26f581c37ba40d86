//! What happened.
//!
//! The guest's failure is data, and is here; Hotcell's own failure is an error, and is not.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::capability::Control;
use crate::plan::EnforcementReport;

/// How one command ended, what it used, and what was enforced meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What it used.
    pub usage: Usage,
    /// What was asked for and what held it, per control.
    pub report: EnforcementReport,
    /// Denials that the kernel or Hotcell itself can vouch for; never guessed from output.
    pub violations: Vec<Violation>,
    /// Which kinds of denials would have been seen.
    pub visibility: Visibility,
}

/// How a command ended.
///
/// [`Status::exit_code`] is what the `hotcell` command exits with:
///
/// | status | exit code |
/// |---|---|
/// | `exited` | the command's own |
/// | `signaled` | 128 + the signal's number |
/// | `timed-out` | 124, like timeout(1) |
/// | `cpu-time` | 152, 128 + SIGXCPU |
/// | `out-of-memory`, `processes`, `disk`, `output` | 137, 128 + SIGKILL: that is how these limits end a command |
/// | `canceled` | 130, 128 + SIGINT |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "status", content = "value", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// It exited by itself, with this code.
    Exited(i32),
    /// A signal that no limit of Hotcell's sent ended it.
    Signaled(i32),
    /// The wall-clock limit ended it.
    TimedOut,
    /// The memory limit ended it.
    OutOfMemory,
    /// The CPU time limit ended it.
    CpuTime,
    /// It was ended at the limit of processes.
    Processes,
    /// The disk limit ended it.
    Disk,
    /// The output limit ended it.
    Output,
    /// The caller ended it, with `kill` or by dropping the handle.
    Canceled,
}

impl Status {
    /// The name in `--json` and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Signaled(_) => "signaled",
            Self::TimedOut => "timed-out",
            Self::OutOfMemory => "out-of-memory",
            Self::CpuTime => "cpu-time",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Canceled => "canceled",
        }
    }

    /// The exit code of the `hotcell` command; see the table above.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + (signal & 0x7f),
            Self::TimedOut => 124,
            Self::CpuTime => 152,
            Self::OutOfMemory | Self::Processes | Self::Disk | Self::Output => 137,
            Self::Canceled => 130,
        }
    }

    /// Whether the command exited by itself with code 0.
    pub fn success(self) -> bool {
        self == Self::Exited(0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled(signal) => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("ended by the timeout"),
            Self::OutOfMemory => f.write_str("ended by the memory limit"),
            Self::CpuTime => f.write_str("ended by the CPU time limit"),
            Self::Processes => f.write_str("ended at the limit of processes"),
            Self::Disk => f.write_str("ended by the disk limit"),
            Self::Output => f.write_str("ended by the output limit"),
            Self::Canceled => f.write_str("canceled"),
        }
    }
}

/// What a command used, with all its descendants. What a backend cannot measure is absent, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// From start to end.
    #[serde(rename = "wall_ms", serialize_with = "crate::serialize::millis")]
    pub wall: Duration,
    /// CPU time in user mode.
    #[serde(rename = "cpu_user_ms", serialize_with = "crate::serialize::optional_millis")]
    pub cpu_user: Option<Duration>,
    /// CPU time in the kernel.
    #[serde(rename = "cpu_system_ms", serialize_with = "crate::serialize::optional_millis")]
    pub cpu_system: Option<Duration>,
    /// The most memory at any time.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_memory: Option<u64>,
    /// The most processes and threads at any time.
    #[serde(rename = "peak_processes")]
    pub processes: Option<u64>,
    /// Bytes written to storage.
    pub bytes_written: Option<u64>,
}

/// Something the code tried and was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The control that denied it.
    pub control: Control,
    /// What kind of denial it is.
    pub kind: ViolationKind,
    /// What was denied, for instance "ptrace" or "memory above 64 MiB".
    pub what: String,
    /// How often.
    pub count: u64,
    /// Who saw it, for instance "seccomp user notification" or "cgroup memory.events".
    pub vouched_by: String,
}

/// The kinds of denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ViolationKind {
    /// A system call was refused.
    Syscall,
    /// A limit was reached.
    Limit,
    /// A path was refused.
    Path,
    /// A connection was refused.
    Connection,
}

/// Which kinds of denials can be seen with the mechanisms in use, and which happen in silence: an empty list of
/// violations means little without it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Visibility {
    /// What would have been listed, one phrase each.
    pub seen: Vec<String>,
    /// What would not, one phrase each.
    pub unseen: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_the_table() {
        assert_eq!(Status::Exited(7).exit_code(), 7);
        assert_eq!(Status::Signaled(15).exit_code(), 143);
        assert_eq!(Status::TimedOut.exit_code(), 124);
        assert_eq!(Status::CpuTime.exit_code(), 152);
        for killed in [Status::OutOfMemory, Status::Processes, Status::Disk, Status::Output] {
            assert_eq!(killed.exit_code(), 137);
        }
        assert_eq!(Status::Canceled.exit_code(), 130);
        assert_eq!(Status::Signaled(i32::MAX).exit_code(), 255);
    }

    #[test]
    fn the_name_in_json_is_the_name() {
        let statuses = [
            Status::Exited(0),
            Status::Signaled(9),
            Status::TimedOut,
            Status::OutOfMemory,
            Status::CpuTime,
            Status::Processes,
            Status::Disk,
            Status::Output,
            Status::Canceled,
        ];
        for status in statuses {
            let json = serde_json::to_value(status).unwrap();
            assert_eq!(json["status"], status.as_str());
        }
    }

    #[test]
    fn usage_is_milliseconds_and_bytes() {
        let usage = Usage { wall: Duration::from_micros(1500), peak_memory: Some(9), ..Usage::default() };
        let json = serde_json::to_value(usage).unwrap();
        assert_eq!(json["wall_ms"], 1);
        assert_eq!(json["peak_memory_bytes"], 9);
        assert!(json["cpu_user_ms"].is_null());
    }
}
