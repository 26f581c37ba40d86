//! Commands in a terminal.
//!
//! `execd` says that a program ended as soon as it did, and hangs up, even if the last of its output has not been sent. So a shell
//! around the program waits: it writes a mark after the program's end, and lives on until the mark has been seen.

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use hotcell_core::backend::{Stream, TtySize};
use hotcell_remote::http::{CallError, Server, Why};
use hotcell_remote::opensandbox::{Attach, Execd, NewPty, PtyEvent, PtyInput, PtyMode, PtyOutput};
use tokio::sync::Mutex;

use crate::remote::link::{Command, Control, Ended, Event, Events, Started};
use crate::remote::start::MARK;

/// NONCE ROWS COLUMNS PROGRAM...: with job control, so that the program has the terminal and a group of its own.
const LEADER: &str = "nonce=$1 rows=$2 columns=$3; shift 3; stty rows \"$rows\" cols \"$columns\" 2>/dev/null; set -m; \"$@\"; \
    printf '\\036hotcell %s ended %s\\036' \"$nonce\" \"$?\"; exec sleep 60";

/// What a keyboard sends at the beginning of a line to say that there is no more.
const END_OF_TRANSMISSION: &[u8] = &[4];

/// The longest mark.
const MARK_MAX: usize = 128;

/// Starts a command in a terminal.
pub(super) async fn start(
    execd: &Execd,
    server: &Server,
    command: &Command,
    size: TtySize,
) -> Result<Started, CallError> {
    let leader = ["bash", "-c", LEADER, "hotcell", &command.nonce].map(str::to_owned);
    let words = [&leader[..], &[size.rows.to_string(), size.columns.to_string()], &command.words].concat();
    let line = hotcell_remote::opensandbox::Command::argv(&words).line;
    let session = execd.create_pty(&NewPty::line(format!("exec {line}"))).await?;
    let mut attach = Attach::default();
    attach.mode = PtyMode::Terminal;
    let (input, output) = match execd.attach(&session, &attach).await {
        Ok(halves) => halves,
        Err(error) => {
            let _ = execd.delete_pty(&session).await;
            return Err(error);
        }
    };
    let (execd, server) = (execd.clone(), server.clone());
    let control = TerminalControl { input: Mutex::new(input), execd: execd.clone(), session: session.clone() };
    let marks = Marks::new(&command.nonce);
    let events = TerminalEvents { output, marks, ready: VecDeque::new(), execd, session, server };
    Ok(Started { events: Box::new(events), control: Box::new(control) })
}

struct TerminalEvents {
    output: PtyOutput,
    marks: Marks,
    ready: VecDeque<Event>,
    execd: Execd,
    session: String,
    server: Server,
}

#[async_trait]
impl Events for TerminalEvents {
    async fn next(&mut self) -> Result<Event, CallError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if matches!(event, Event::Ended(_)) {
                    // The shell around the program has done its work.
                    let _ = self.execd.delete_pty(&self.session).await;
                }
                return Ok(event);
            }
            match self.output.next().await? {
                Some(PtyEvent::Stdout(bytes) | PtyEvent::Stderr(bytes) | PtyEvent::Replay { bytes, .. }) => {
                    self.ready.extend(self.marks.take(&bytes));
                }
                Some(PtyEvent::Exit { .. }) | None => {
                    let what = "the terminal was closed before its program had said how it ended".to_owned();
                    return Err(self.server.failed("run a command", Why::Broken { reason: what }));
                }
                Some(_) => {
                    let reason = "somebody else took the terminal over".to_owned();
                    return Err(self.server.failed("run a command", Why::Broken { reason }));
                }
            }
        }
    }
}

struct TerminalControl {
    input: Mutex<PtyInput>,
    execd: Execd,
    session: String,
}

#[async_trait]
impl Control for TerminalControl {
    async fn write(&self, bytes: &[u8]) -> Result<(), CallError> {
        self.input.lock().await.send(bytes).await
    }

    async fn close(&self) -> Result<(), CallError> {
        self.write(END_OF_TRANSMISSION).await
    }

    async fn resize(&self, size: TtySize) -> Result<(), CallError> {
        self.input.lock().await.resize(size.columns, size.rows).await
    }

    async fn kill(&self) -> Result<(), CallError> {
        self.execd.delete_pty(&self.session).await
    }
}

/// Finds the mark of the end in what a terminal shows, wherever that is cut.
#[derive(Debug)]
struct Marks {
    start: Vec<u8>,
    /// What may be the beginning of the mark.
    held: Vec<u8>,
    ended: bool,
}

impl Marks {
    fn new(nonce: &str) -> Self {
        let start = [&[MARK][..], format!("hotcell {nonce} ended ").as_bytes()].concat();
        Self { start, held: Vec::new(), ended: false }
    }

    /// What is certain to be output, and the end if the mark is there.
    fn take(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        if self.ended {
            return events;
        }
        self.held.extend_from_slice(bytes);
        let (certain, ended) = self.scan();
        let maybe = self.held.split_off(certain);
        let output = std::mem::replace(&mut self.held, maybe);
        if !output.is_empty() {
            events.push(Event::Output(Stream::Stdout, Bytes::from(output)));
        }
        if let Some(code) = ended {
            self.ended = true;
            events.push(Event::Ended(Ended::Exited(i32::from(code))));
        }
        events
    }

    /// How much of what is held is certain to be output, and the exit code if the mark follows. Looks at every byte a few times at
    /// most, whatever the program writes.
    fn scan(&self) -> (usize, Option<u8>) {
        let mut certain = 0;
        loop {
            let rest = self.held.get(certain..).unwrap_or_default();
            let Some(at) = rest.iter().position(|byte| *byte == MARK) else { return (self.held.len(), None) };
            certain += at;
            let rest = rest.get(at..).unwrap_or_default();
            let known = rest.len().min(self.start.len());
            if rest.get(..known) == self.start.get(..known) {
                let code = rest.get(self.start.len()..).unwrap_or_default();
                match code.iter().position(|byte| *byte == MARK) {
                    Some(end) => {
                        let code = code.get(..end).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
                        if code.is_some() {
                            return (certain, code);
                        }
                    }
                    None if rest.len() <= MARK_MAX => return (certain, None),
                    None => {}
                }
            }
            // A mark of somebody else's.
            certain += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> (Vec<u8>, Option<Event>) {
        let mut marks = Marks::new("abc");
        let (mut output, mut ended) = (Vec::new(), None);
        for event in pieces.iter().flat_map(|piece| marks.take(piece)) {
            match event {
                Event::Output(_, bytes) => output.extend_from_slice(&bytes),
                end => assert!(ended.replace(end).is_none()),
            }
        }
        (output, ended)
    }

    #[test]
    fn the_mark_is_found_wherever_it_is_cut() {
        let whole = b"some\x1eoutput\x1ehotcell xyz ended 3\x1e\x1ehotcell abc ended 3\x1erubbish";
        let expected = b"some\x1eoutput\x1ehotcell xyz ended 3\x1e";
        for cut in 0..=whole.len() {
            let (output, ended) = all(&[&whole[..cut], &whole[cut..]]);
            assert_eq!(output, expected, "{cut}");
            assert_eq!(ended, Some(Event::Ended(Ended::Exited(3))), "{cut}");
        }
        let single: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(all(&single).0, expected);
    }

    #[test]
    fn what_is_no_mark_is_output() {
        for odd in
            [&b"\x1ehotcell abc ended 300\x1e"[..], b"\x1ehotcell abc ended \x1e", b"\x1e\x1e\x1e", b"\x1ehotcel"]
        {
            let (output, ended) = all(&[odd, b"after\n"]);
            assert_eq!((output, ended), ([odd, b"after\n"].concat(), None));
        }
        let long = [&b"\x1ehotcell abc ended "[..], &[b'1'; 200]].concat();
        assert_eq!(all(&[&long]).0, long);
    }

    #[test]
    fn nothing_but_marks_is_no_more_work_than_anything_else() {
        // With work for each that grows with what follows, this does not come to its end.
        let many = vec![MARK; 4 << 20];
        let (output, ended) = all(&[&many, b"x"]);
        assert!(output.len() == many.len() + 1 && ended.is_none());
        let almost = b"\x1ehotcell abc ended x".repeat(100_000);
        assert!(all(&[&almost, &[b'x'; MARK_MAX]]).0.starts_with(&almost));
    }
}
