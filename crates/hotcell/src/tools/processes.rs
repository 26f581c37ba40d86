//! `process_output`, `process_input` and `stop_process`.

use std::sync::Arc;
use std::time::Duration;

use hotcell_core::backend::{ProcessError, Signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Shared;
use super::background::Process;
use super::exec::{codes, heading, push_denials, push_section};
use super::result::Render;
use super::text::{self, Returns};
use super::{Denial, ErrorKind, ToolError, Toolbox, denials};

/// The most text that one call writes to a process.
const MOST_INPUT: usize = 1 << 20;
/// How long a process may take to read what is written to it.
const INPUT_TIME: Duration = Duration::from_secs(10);
/// How long a process that was asked to end has until it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// What `process_output` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessOutput {
    /// The process, as exec_shell named it, for instance `p1`.
    pub process: String,
    /// Where to read from: `cursor` of an earlier result, 0 for the beginning. Default: where the last call stopped.
    #[serde(default)]
    pub cursor: Option<u64>,
    /// Milliseconds to wait for something new; it returns as soon as there is output or the process ends. Default: 0.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// What `process_output` and `stop_process` give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ProcessOutputResult {
    /// The process.
    pub process: String,
    /// Whether it still runs.
    pub running: bool,
    /// `running`, or how it ended, as in exec_shell.
    pub status: String,
    /// Its exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it has been running, or ran.
    pub wall_ms: u64,
    /// What it wrote to standard output and standard error, in order.
    pub output: String,
    /// Where the next call goes on.
    pub cursor: u64,
    /// Whether there is more already.
    pub more: bool,
    /// How many bytes before `output` are lost, because nobody read them in time.
    pub lost_bytes: u64,
    /// Whether it wrote bytes that are no UTF-8; they are shown as U+FFFD.
    pub not_utf8: bool,
    /// What the policy denied, as far as that is known; once it has ended.
    pub denials: Vec<Denial>,
}

impl Render for ProcessOutputResult {
    fn text(&self) -> String {
        let state = if self.running {
            format!("running for {} ms", self.wall_ms)
        } else {
            heading(&self.status, self.exit_code, self.signal, self.wall_ms)
        };
        let mut shown = format!("{}: {state}; cursor {}", self.process, self.cursor);
        if self.lost_bytes > 0 {
            shown.push_str(&format!("; {} bytes before this are lost", self.lost_bytes));
        }
        if self.more {
            shown.push_str("; there is more");
        }
        push_denials(&mut shown, &self.denials);
        push_section(&mut shown, "output", &self.output);
        if self.output.is_empty() {
            shown.push_str("\n(nothing new)");
        }
        shown
    }
}

/// What `process_input` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessInput {
    /// The process, as exec_shell named it.
    pub process: String,
    /// Text for its standard input. Add `\n` where you would press enter.
    #[serde(default)]
    pub text: Option<String>,
    /// A key: `ctrl-c` interrupts it, `ctrl-\` asks it to quit, `ctrl-d` ends its input.
    #[serde(default)]
    pub key: Option<Key>,
    /// Whether its input ends after the text.
    #[serde(default)]
    pub close: bool,
}

/// A key that does more than write a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// Interrupts: SIGINT.
    CtrlC,
    /// Quits: SIGQUIT.
    #[serde(rename = "ctrl-\\")]
    CtrlBackslash,
    /// Ends the input.
    CtrlD,
    /// A line end.
    Enter,
}

/// What `process_input` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ProcessInputResult {
    /// The process.
    pub process: String,
    /// How many bytes were written to its standard input.
    pub written: u64,
    /// Whether its standard input is closed now.
    pub closed: bool,
    /// The signal that was sent.
    pub signal: Option<String>,
}

impl Render for ProcessInputResult {
    fn text(&self) -> String {
        let mut shown = format!("{}: wrote {} bytes", self.process, self.written);
        if self.closed {
            shown.push_str(", its input is closed");
        }
        if let Some(signal) = &self.signal {
            shown.push_str(&format!(", sent {signal}"));
        }
        shown
    }
}

/// What `stop_process` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopProcess {
    /// The process, as exec_shell named it; or the name of a context of run_code, which is forgotten with all its variables.
    pub process: String,
}

impl Toolbox {
    /// What a process in the background has written since the last call.
    pub async fn process_output(&self, input: ProcessOutput) -> Result<ProcessOutputResult, ToolError> {
        self.shared.until_closed(output(&self.shared, input)).await
    }

    /// Writes to a process in the background, or presses a key.
    pub async fn process_input(&self, input: ProcessInput) -> Result<ProcessInputResult, ToolError> {
        self.shared.until_closed(write(&self.shared, input)).await
    }

    /// Ends a process in the background with all that it started, politely first.
    pub async fn stop_process(&self, input: StopProcess) -> Result<ProcessOutputResult, ToolError> {
        self.shared.until_closed(stop(&self.shared, input)).await
    }
}

async fn output(shared: &Shared, input: ProcessOutput) -> Result<ProcessOutputResult, ToolError> {
    let process = shared.processes.find(&input.process)?;
    let cursor = input.cursor.unwrap_or_else(|| process.ring().read_to);
    if let Some(wait) = input.wait_ms {
        let longest = shared.options.limits.longest;
        let _ = tokio::time::timeout(Duration::from_millis(wait).min(longest), process.more_than(cursor)).await;
    }
    read(shared, &process, Some(cursor))
}

fn read(shared: &Shared, process: &Process, cursor: Option<u64>) -> Result<ProcessOutputResult, ToolError> {
    let state = process.state();
    let (piece, shown, end, tail) = {
        let mut ring = process.ring();
        let (cursor, has_ended) = (cursor.unwrap_or(ring.read_to), state.ended.is_some());
        let mut most = shared.options.limits.text;
        let (piece, shown) = loop {
            let piece = ring.from(cursor, most, has_ended);
            let shown = text::bounded(&piece.bytes, usize::MAX, Returns::EndLines);
            // What drives terminals takes more room once it is written out: then the rest is for the next call.
            if most < 8 || shown.text.len() <= shared.options.limits.text.saturating_mul(2) {
                break (piece, shown);
            }
            most /= 2;
        };
        ring.read_to = piece.next;
        (piece, shown, ring.end(), has_ended.then(|| ring.tail()))
    };
    let mut result = ProcessOutputResult {
        process: process.id.clone(),
        running: state.ended.is_none(),
        status: "running".to_owned(),
        exit_code: None,
        signal: None,
        wall_ms: process.running_ms(),
        output: shown.text,
        cursor: piece.next,
        more: piece.next < end,
        lost_bytes: piece.missed,
        not_utf8: shown.lossy,
        denials: Vec::new(),
    };
    match state.ended {
        None => {}
        Some(Ok(outcome)) => {
            (result.exit_code, result.signal) = codes(outcome.status);
            outcome.status.as_str().clone_into(&mut result.status);
            result.wall_ms = super::exec::millis(outcome.usage.wall);
            result.denials =
                denials::of_command(shared, &outcome, process.time, &process.cwd, &tail.unwrap_or_default());
        }
        Some(Err(ProcessError::Lost { reason })) => return Err(ToolError::lost(reason)),
        Some(Err(error)) => return Err(error.into()),
    }
    Ok(result)
}

async fn write(shared: &Shared, input: ProcessInput) -> Result<ProcessInputResult, ToolError> {
    if input.text.is_none() && input.key.is_none() && !input.close {
        return Err(ToolError::invalid("there is nothing to do").instead("give `text`, `key` or `close`"));
    }
    let mut bytes = input.text.unwrap_or_default().into_bytes();
    if bytes.len() > MOST_INPUT {
        let message = format!("the text has {} bytes, {MOST_INPUT} are possible", bytes.len());
        return Err(ToolError::new(ErrorKind::TooLarge, message).instead("write it to a file, or in parts"));
    }
    if input.key == Some(Key::Enter) {
        bytes.push(b'\n');
    }
    let process = shared.processes.find(&input.process)?;
    let running = process.handle().ok_or(ProcessError::Ended)?;
    let close = input.close || input.key == Some(Key::CtrlD);
    if !bytes.is_empty() || close {
        let time = INPUT_TIME.min(shared.options.limits.timeout);
        tokio::time::timeout(time, feed(&process, &bytes, close)).await.map_err(|_| {
            let message = format!("the process has not read its input within {} ms", time.as_millis());
            ToolError::new(ErrorKind::Timeout, message)
                .instead("see with process_output what it is doing; a part of the text may have been taken")
        })??;
    }
    let signal = match input.key {
        Some(Key::CtrlC) => Some(Signal::INT),
        Some(Key::CtrlBackslash) => Some(Signal::QUIT),
        _ => None,
    };
    if let Some(signal) = signal {
        running.signal(signal).await?;
    }
    Ok(ProcessInputResult {
        process: process.id.clone(),
        written: bytes.len() as u64,
        closed: close,
        signal: signal.map(|signal| signal.to_string()),
    })
}

async fn feed(process: &Process, bytes: &[u8], close: bool) -> Result<(), ToolError> {
    let mut held = process.stdin.lock().await;
    let Some(stdin) = held.as_mut() else {
        return Err(ToolError::new(ErrorKind::Refused, "the input of the process is closed")
            .instead("start it again, and do not close its input before the end"));
    };
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => {
            ToolError::new(ErrorKind::Refused, "the process does not read its input any more")
        }
        _ => ToolError::new(ErrorKind::Failed, format!("could not write to the process: {error}")),
    };
    if !bytes.is_empty() {
        stdin.write_all(bytes).await.map_err(failed)?;
    }
    if close {
        stdin.close().await.map_err(failed)?;
        held.take();
    }
    Ok(())
}

/// Ends a context of `run_code`, if there is one of this name.
async fn forget(shared: &Shared, context: &str) -> Result<Option<ProcessOutputResult>, ToolError> {
    let removed = shared.interpreter.remove(context).await.map_err(super::code::code_error)?;
    Ok(removed.then(|| ProcessOutputResult {
        process: text::line(context),
        running: false,
        status: "canceled".to_owned(),
        exit_code: None,
        signal: None,
        wall_ms: 0,
        output: String::new(),
        cursor: 0,
        more: false,
        lost_bytes: 0,
        not_utf8: false,
        denials: Vec::new(),
    }))
}

async fn stop(shared: &Shared, input: StopProcess) -> Result<ProcessOutputResult, ToolError> {
    let process: Arc<Process> = match shared.processes.find(&input.process) {
        Ok(process) => process,
        Err(error) => return forget(shared, &input.process).await?.ok_or(error),
    };
    if let Some(running) = process.handle() {
        // Politely: a server may want to write something down.
        running.stop(GRACE).await?;
        drop(running);
        process.ended().await;
    }
    read(shared, &process, None)
}
