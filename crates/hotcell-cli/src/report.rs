//! What happened, for programs and for people.

use hotcell::CapturedStream;
use hotcell::capability::Capability;
use hotcell::config::quantity::{show_duration, show_size};
use hotcell::outcome::{Outcome, Status, Usage, Violation, Visibility};
use hotcell::plan::Enforcement;
use hotcell::policy::Limits;
use hotcell::runtime::{Isolation, RuntimeKind};
use serde::Serialize;

use crate::{exit, json, table};

/// The object of `--json` and `--report`.
#[derive(Serialize)]
pub(crate) struct RunReport<'a> {
    backend: RuntimeKind,
    isolation: Isolation,
    status: &'static str,
    exit_code: u8,
    signal: Option<i32>,
    #[serde(flatten)]
    streams: StreamsReport,
    usage: &'a Usage,
    enforcement: &'a [Enforcement],
    violations: &'a [Violation],
    visibility: &'a Visibility,
}

/// What there is to say about the two streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Streams {
    /// They were captured.
    Captured { stdout: CapturedStream, stderr: CapturedStream },
    /// They were passed on; only their lengths are known.
    Passed { stdout: u64, stderr: u64 },
}

impl Streams {
    /// The same, with lengths only.
    pub(crate) fn without_content(&self) -> Self {
        match self {
            Self::Captured { stdout, stderr } => Self::Passed { stdout: stdout.total, stderr: stderr.total },
            passed => passed.clone(),
        }
    }
}

/// One stream: its content as text or base64, if it was captured.
struct StreamReport {
    text: Option<String>,
    base64: Option<String>,
    bytes: u64,
    truncated: Option<bool>,
    cut_at: Option<usize>,
}

impl StreamReport {
    fn passed(bytes: u64) -> Self {
        Self { text: None, base64: None, bytes, truncated: None, cut_at: None }
    }

    fn captured(stream: CapturedStream) -> Self {
        let truncated = stream.truncated();
        let cut_at = truncated.then_some(stream.head.len());
        let bytes = stream.total;
        let (text, base64) = match String::from_utf8(stream.bytes()) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(json::base64(error.as_bytes()))),
        };
        Self { text, base64, bytes, truncated: Some(truncated), cut_at }
    }
}

/// Both streams, as fields of the object that they are in.
#[derive(Serialize)]
pub(crate) struct StreamsReport {
    #[serde(flatten)]
    stdout: StdoutReport,
    #[serde(flatten)]
    stderr: StderrReport,
}

impl From<Streams> for StreamsReport {
    fn from(streams: Streams) -> Self {
        let (stdout, stderr) = match streams {
            Streams::Captured { stdout, stderr } => (StreamReport::captured(stdout), StreamReport::captured(stderr)),
            Streams::Passed { stdout, stderr } => (StreamReport::passed(stdout), StreamReport::passed(stderr)),
        };
        Self {
            stdout: StdoutReport {
                stdout: stdout.text,
                stdout_base64: stdout.base64,
                stdout_bytes: stdout.bytes,
                stdout_truncated: stdout.truncated,
                stdout_cut_at: stdout.cut_at,
            },
            stderr: StderrReport {
                stderr: stderr.text,
                stderr_base64: stderr.base64,
                stderr_bytes: stderr.bytes,
                stderr_truncated: stderr.truncated,
                stderr_cut_at: stderr.cut_at,
            },
        }
    }
}

#[derive(Serialize)]
struct StdoutReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stdout_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_truncated: Option<bool>,
    /// Where bytes are missing, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_cut_at: Option<usize>,
}

#[derive(Serialize)]
struct StderrReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    stderr_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_truncated: Option<bool>,
    /// Where bytes are missing, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_cut_at: Option<usize>,
}

impl<'a> RunReport<'a> {
    /// The report of a command that ran.
    pub(crate) fn new(outcome: &'a Outcome, streams: Streams) -> Self {
        Self {
            backend: outcome.report.backend,
            isolation: outcome.report.isolation,
            status: outcome.status.as_str(),
            exit_code: exit::of(outcome.status),
            signal: match outcome.status {
                Status::Signaled(signal) => Some(signal),
                _ => None,
            },
            streams: streams.into(),
            usage: &outcome.usage,
            enforcement: &outcome.report.controls,
            violations: &outcome.violations,
            visibility: &outcome.visibility,
        }
    }
}

/// Which limit ended the command, for people; none if no limit did.
pub(crate) fn limit_message(status: Status, limits: &Limits) -> Option<String> {
    let size = |limit: Option<u64>| limit.map_or("the machine has".to_owned(), show_size);
    let time = |limit: Option<std::time::Duration>| limit.map_or("its limit".to_owned(), show_duration);
    Some(match status {
        Status::TimedOut => {
            format!("timed out: the command ran longer than {} (limits.timeout, --timeout)", time(limits.timeout.value))
        }
        Status::OutOfMemory => {
            let memory = size(limits.memory.value);
            format!("out of memory: the box used more than {memory} (limits.memory, --memory)")
        }
        Status::CpuTime => {
            let cpu_time = time(limits.cpu_time.value);
            format!("out of CPU time: the box used more than {cpu_time} (limits.cpu_time, --cpu-time)")
        }
        Status::Processes => {
            let processes = limits.processes.value.map_or("its limit".to_owned(), |count| count.to_string());
            format!("too many processes: the box wanted more than {processes} (limits.processes, --pids)")
        }
        Status::Disk => format!("disk full: the box wrote more than {} (limits.disk, --disk)", size(limits.disk.value)),
        Status::Output => {
            let output = size(limits.output.value);
            format!("too much output: the command wrote more than {output} (limits.output, --max-output)")
        }
        _ => return None,
    })
}

/// Control, what was asked for, what holds it: one line each.
pub(crate) fn enforcement_table(enforcement: &[Enforcement]) -> String {
    let title = ["control", "requested", "held by"].map(str::to_owned);
    let rows = enforcement.iter().map(|entry| {
        let held_by = match &entry.actual {
            Capability::Enforced { by } => by.clone(),
            Capability::Approximated { by, how } => format!("approximated by {by}: {how}"),
            other => other.to_string(),
        };
        [entry.control.to_string(), entry.requested.clone(), held_by]
    });
    table::aligned("  ", &std::iter::once(title).chain(rows).collect::<Vec<_>>())
}

/// How it ended, what it used and what was denied, for people.
pub(crate) fn summary(outcome: &Outcome) -> String {
    let usage = &outcome.usage;
    let mut used = vec![format!("{} ms", usage.wall.as_millis())];
    if let (Some(user), Some(system)) = (usage.cpu_user, usage.cpu_system) {
        used.push(format!("CPU {} ms user, {} ms system", user.as_millis(), system.as_millis()));
    }
    used.extend(usage.peak_memory.map(|bytes| format!("peak memory {} KiB", bytes >> 10)));
    used.extend(usage.processes.map(|count| format!("peak processes {count}")));
    used.extend(usage.bytes_written.map(|bytes| format!("{bytes} bytes written")));
    let mut text = format!("{}; {}", outcome.status, used.join(", "));
    for violation in &outcome.violations {
        let Violation { control, what, count, vouched_by, .. } = violation;
        text.push_str(&format!("\n  denied by {control}: {what}, {count}× (seen by {vouched_by})"));
    }
    for unseen in &outcome.visibility.unseen {
        text.push_str(&format!("\n  not visible here: {unseen}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell::policy::Policy;

    #[test]
    fn bytes_are_text_or_base64_and_a_cut_is_shown() {
        let text = StreamReport::captured(CapturedStream { head: b"ab".into(), tail: b"yz".into(), total: 9 });
        assert_eq!((text.text.as_deref(), text.truncated, text.cut_at), (Some("abyz"), Some(true), Some(2)));
        let binary = StreamReport::captured(CapturedStream { head: vec![0xff], tail: vec![], total: 1 });
        assert_eq!((binary.text, binary.base64.as_deref(), binary.cut_at), (None, Some("/w=="), None));
    }

    #[test]
    fn every_limit_has_its_words() {
        let limits = Policy::default().limits;
        for (status, word) in [
            (Status::TimedOut, "--timeout"),
            (Status::OutOfMemory, "1 GiB"),
            (Status::CpuTime, "--cpu-time"),
            (Status::Processes, "256"),
            (Status::Disk, "--disk"),
            (Status::Output, "--max-output"),
        ] {
            let message = limit_message(status, &limits).unwrap();
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(limit_message(Status::Exited(1), &limits), None);
    }
}
