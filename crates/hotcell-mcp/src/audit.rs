//! What was called, and how it ended: the last calls of a connection.
//!
//! Arguments and results are left out. They hold file contents and whatever secrets the code came across, and the client has them
//! anyway.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hotcell::text::Printable;
use hotcell::tools::ToolResult;
use serde::Serialize;

/// How many calls are remembered.
const REMEMBERED: usize = 256;

/// The last calls.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    total: u64,
    last: VecDeque<Call>,
}

/// One call.
#[derive(Debug, Clone, Serialize)]
struct Call {
    number: u64,
    tool: String,
    /// Seconds since 1970.
    started: u64,
    milliseconds: u64,
    ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

#[derive(Serialize)]
struct Tail<'a> {
    /// How many calls there were.
    calls: u64,
    /// How many of them are not in the list any more.
    forgotten: u64,
    last: Vec<&'a Call>,
}

impl Audit {
    /// Notes the start of a call. If its end is never told, it was cancelled.
    pub(crate) fn start<'a>(&'a self, tool: &str) -> Running<'a> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let call = Call {
            number: 0,
            // The client chose the name: it may be anything.
            tool: Printable(tool).to_string(),
            started: since_1970.as_secs(),
            milliseconds: 0,
            ended: "cancelled",
            error: None,
            rule: None,
        };
        Running { audit: self, began: Instant::now(), call: Some(call) }
    }

    /// The last calls as one JSON object.
    pub(crate) fn tail(&self) -> String {
        let calls = self.lock();
        let kept = u64::try_from(calls.last.len()).unwrap_or(u64::MAX);
        let tail =
            Tail { calls: calls.total, forgotten: calls.total.saturating_sub(kept), last: calls.last.iter().collect() };
        serde_json::to_string_pretty(&tail).unwrap_or_default()
    }

    fn add(&self, mut call: Call) {
        let mut calls = self.lock();
        calls.total += 1;
        call.number = calls.total;
        if calls.last.len() == REMEMBERED {
            calls.last.pop_front();
        }
        calls.last.push_back(call);
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that has not ended.
pub(crate) struct Running<'a> {
    audit: &'a Audit,
    began: Instant,
    call: Option<Call>,
}

impl Running<'_> {
    /// Notes how it ended.
    pub(crate) fn end(mut self, result: &ToolResult) {
        if let Some(call) = &mut self.call {
            call.ended = if result.is_error { "error" } else { "ok" };
            let detail = |name: &str| {
                let value = result.structured.get("error")?.get(name)?.as_str()?;
                Some(Printable(value).to_string())
            };
            call.error = detail("kind");
            call.rule = detail("rule");
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut call) = self.call.take() {
            call.milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.audit.add(call);
        }
    }
}
