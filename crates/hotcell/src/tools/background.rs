//! Processes in the background: started by a call, followed by later ones, ended with the box.
//!
//! ```text
//! exec_shell ──start──▶ Process ◀── a task reads its output into a Ring, whether anybody asks for it or not
//!                          ├── process_output: what came since a cursor
//!                          ├── process_input:  its stdin, or a signal
//!                          └── stop_process
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotcell_core::backend::{ProcessError, ProcessStdin, SandboxedProcess};
use hotcell_core::outcome::Outcome;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{ErrorKind, ToolError, text};

/// How many ended processes are remembered.
const MOST_ENDED: usize = 16;
/// How much of a command is remembered as the name of its process.
const SHOWN_COMMAND: usize = 200;

/// All processes in the background of one toolbox.
#[derive(Default)]
pub(super) struct Processes {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    processes: BTreeMap<u64, Arc<Process>>,
    /// Calls that have a place and are about to start a process.
    starting: usize,
}

/// How a process was started.
pub(super) struct Started<'a> {
    pub(super) command: &'a str,
    pub(super) cwd: PathBuf,
    pub(super) time: Duration,
}

/// A place for a process that is about to be started; given back when it is dropped.
pub(super) struct Place<'a>(&'a Processes);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut table = self.0.table();
        table.starting = table.starting.saturating_sub(1);
    }
}

impl Processes {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while it is held.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more.
    pub(super) fn place(&self, most: usize) -> Result<Place<'_>, ToolError> {
        let mut table = self.table();
        let running = table.processes.values().filter(|process| process.is_running()).count();
        if running + table.starting >= most {
            return Err(ToolError::new(
                ErrorKind::Busy,
                format!("{most} processes run in the background, as many as may"),
            )
            .instead("end one with stop_process; sandbox_status lists them"));
        }
        table.starting += 1;
        Ok(Place(self))
    }

    /// Takes over a process that was just started.
    pub(super) fn add(
        &self,
        _place: Place<'_>,
        mut process: Box<dyn SandboxedProcess>,
        started: Started<'_>,
        buffer: usize,
    ) -> Arc<Process> {
        let io = process.take_io();
        let running: Arc<dyn SandboxedProcess> = Arc::from(process);
        let mut table = self.table();
        table.last += 1;
        let process = Arc::new(Process {
            id: format!("p{}", table.last),
            command: text::cut(&text::line(started.command), SHOWN_COMMAND),
            cwd: started.cwd,
            time: started.time,
            started: Instant::now(),
            stdin: tokio::sync::Mutex::new(io.stdin),
            running: Mutex::new(Some(Arc::clone(&running))),
            ring: Mutex::new(Ring::new(buffer)),
            state: watch::Sender::new(State { written: 0, ended: None }),
            reader: Mutex::new(None),
        });
        let followed = Arc::clone(&process);
        let reader = tokio::spawn(async move {
            if let Some(mut output) = io.output {
                while let Some(event) = output.next().await {
                    followed.push(&event.bytes);
                }
            }
            let outcome = running.wait().await;
            drop(running);
            followed.end(outcome);
        });
        *process.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader.abort_handle());
        let number = table.last;
        table.processes.insert(number, Arc::clone(&process));
        table.forget_the_oldest();
        process
    }

    /// The process of this name.
    pub(super) fn find(&self, id: &str) -> Result<Arc<Process>, ToolError> {
        let table = self.table();
        let found = table.processes.values().find(|process| process.id == id).cloned();
        found.ok_or_else(|| {
            let known: Vec<&str> = table.processes.values().map(|process| process.id.as_str()).collect();
            let message = format!("there is no process `{}`", text::cut(&text::line(id), 40));
            let instead = if known.is_empty() {
                "start one with exec_shell and `background`: true".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            ToolError::new(ErrorKind::NotFound, message).instead(instead)
        })
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Process>> {
        self.table().processes.values().cloned().collect()
    }

    /// Whether any of them runs.
    pub(super) fn any_running(&self) -> bool {
        self.table().processes.values().any(|process| process.is_running())
    }

    /// Ends all of them, without waiting for that.
    pub(super) fn end(&self) {
        let processes = std::mem::take(&mut self.table().processes);
        processes.into_values().for_each(|process| process.abandon());
    }
}

impl Table {
    fn forget_the_oldest(&mut self) {
        let ended: Vec<u64> =
            self.processes.iter().filter(|(_, process)| !process.is_running()).map(|(number, _)| *number).collect();
        for number in ended.iter().take(ended.len().saturating_sub(MOST_ENDED)) {
            self.processes.remove(number);
        }
    }
}

/// One process in the background.
pub(super) struct Process {
    pub(super) id: String,
    pub(super) command: String,
    pub(super) cwd: PathBuf,
    /// How long it may run.
    pub(super) time: Duration,
    started: Instant,
    pub(super) stdin: tokio::sync::Mutex<Option<Box<dyn ProcessStdin>>>,
    /// None once it has ended.
    running: Mutex<Option<Arc<dyn SandboxedProcess>>>,
    ring: Mutex<Ring>,
    state: watch::Sender<State>,
    reader: Mutex<Option<AbortHandle>>,
}

/// What changes while it runs.
#[derive(Clone)]
pub(super) struct State {
    /// How many bytes it has written.
    pub(super) written: u64,
    /// How it ended, once it has.
    pub(super) ended: Option<Result<Outcome, ProcessError>>,
}

impl Process {
    fn push(&self, bytes: &[u8]) {
        let written = {
            let mut ring = self.ring();
            ring.push(bytes);
            ring.end()
        };
        self.state.send_modify(|state| state.written = written);
    }

    fn end(&self, outcome: Result<Outcome, ProcessError>) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Ok(mut stdin) = self.stdin.try_lock() {
            stdin.take();
        }
        self.state.send_modify(|state| state.ended = Some(outcome));
    }

    /// Lets go of it: dropping its handle ends it.
    fn abandon(&self) {
        if let Some(reader) = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reader.abort();
        }
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn is_running(&self) -> bool {
        self.state.borrow().ended.is_none()
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(super) fn running_ms(&self) -> u64 {
        super::exec::millis(self.started.elapsed())
    }

    /// The process itself, while it runs.
    pub(super) fn handle(&self) -> Option<Arc<dyn SandboxedProcess>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        // Nothing panics while it is held.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is more than `cursor`, or it has ended.
    pub(super) async fn more_than(&self, cursor: u64) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.written > cursor || state.ended.is_some()).await;
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.ended.is_some()).await;
    }
}

/// The newest output, with positions that count from the very first byte.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    most: usize,
    start: u64,
    /// Where whoever names no cursor goes on.
    pub(super) read_to: u64,
}

/// A part of the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// How many bytes before it are lost.
    pub(super) missed: u64,
    /// Where the next piece starts.
    pub(super) next: u64,
}

impl Ring {
    fn new(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most, start: 0, read_to: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.most)..];
        let excess = (self.bytes.len() + kept.len()).saturating_sub(self.most);
        self.bytes.drain(..excess);
        self.bytes.extend(kept);
        self.start += (excess + bytes.len() - kept.len()) as u64;
    }

    /// How many bytes there have been.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// At most `most` bytes from a position on. The start of a character whose rest may still come stays for the next piece.
    pub(super) fn from(&self, cursor: u64, most: usize, ended: bool) -> Piece {
        let begin = cursor.clamp(self.start, self.end());
        let skip = usize::try_from(begin - self.start).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = self.bytes.iter().skip(skip).take(most).copied().collect();
        let is_last = begin + bytes.len() as u64 == self.end();
        if !(ended && is_last) {
            let whole = text::without_cut_end(&bytes).len();
            if whole > 0 {
                bytes.truncate(whole);
            }
        }
        Piece { next: begin + bytes.len() as u64, missed: begin.saturating_sub(cursor), bytes }
    }

    /// The newest bytes.
    pub(super) fn tail(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_newest_and_counts_what_is_lost() {
        let mut ring = Ring::new(4);
        ring.push(b"abc");
        assert_eq!(ring.from(0, 10, false), Piece { bytes: b"abc".into(), missed: 0, next: 3 });
        ring.push(b"def");
        assert_eq!(ring.from(0, 10, false), Piece { bytes: b"cdef".into(), missed: 2, next: 6 });
        assert_eq!(ring.from(3, 2, false), Piece { bytes: b"de".into(), missed: 0, next: 5 });
        assert_eq!(ring.from(6, 10, false), Piece { bytes: b"".into(), missed: 0, next: 6 });
        // A cursor that there has not been.
        assert_eq!(ring.from(99, 10, false), Piece { bytes: b"".into(), missed: 0, next: 6 });
        ring.push(b"0123456789");
        assert_eq!(ring.from(6, 10, false), Piece { bytes: b"6789".into(), missed: 6, next: 16 });
        assert!(ring.bytes.len() <= 4);
    }

    #[test]
    fn a_character_that_is_not_complete_waits_for_its_rest() {
        let mut ring = Ring::new(100);
        ring.push("aé".as_bytes().split_last().unwrap().1);
        assert_eq!(ring.from(0, 10, false).bytes, b"a");
        assert_eq!(ring.from(0, 10, true).bytes, b"a\xc3");
        ring.push(&"é".as_bytes()[1..]);
        assert_eq!(ring.from(1, 10, false).bytes, "é".as_bytes());
    }
}
