//! What the guest says: the command's output, the kernel's console, and one line at a time about how it goes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// How many of the last lines of the console are kept for an explanation.
const CONSOLE_LINES: usize = 60;

/// Why a guest gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// The time was over while the guest was booting.
    SlowBoot,
    /// The time was over while the command ran.
    SlowCommand,
    /// The guest was gone before its command began.
    DiedBooting,
    /// The guest was gone before its command ended.
    DiedRunning,
    /// The guest said what it could not do.
    Failed(String),
}

/// Waits for the command's exit status: lines `ready`, then `exit STATUS`; or `failed WHAT`.
pub(super) fn answer(status: UnixStream, deadline: Instant) -> Result<u8, Silence> {
    let mut lines = Lines { stream: status, kept: Vec::new(), deadline };
    let mut running = false;
    loop {
        let line = match lines.next() {
            Next::Line(line) => line,
            Next::End if running => return Err(Silence::DiedRunning),
            Next::End => return Err(Silence::DiedBooting),
            Next::Late if running => return Err(Silence::SlowCommand),
            Next::Late => return Err(Silence::SlowBoot),
        };
        if line == "ready" {
            running = true;
        } else if let Some(status) = line.strip_prefix("exit ").and_then(|status| status.parse().ok()) {
            return Ok(status);
        } else {
            return Err(Silence::Failed(line.strip_prefix("failed ").unwrap_or(&line).escape_debug().to_string()));
        }
    }
}

/// Lines that are waited for until a deadline.
struct Lines {
    stream: UnixStream,
    kept: Vec<u8>,
    deadline: Instant,
}

enum Next {
    Line(String),
    End,
    Late,
}

impl Lines {
    fn next(&mut self) -> Next {
        loop {
            if let Some(end) = self.kept.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.kept.drain(..=end).collect();
                return Next::Line(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            // A time-out of zero would mean none.
            if left.is_zero() {
                return Next::Late;
            }
            let mut buffer = [0; 512];
            match self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut buffer)) {
                Ok(0) => return Next::End,
                Ok(length) => self.kept.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return Next::End,
            }
        }
    }
}

/// Copies what comes as it comes.
pub(super) fn pass_on(mut from: UnixStream, mut to: impl Write) {
    let mut buffer = [0; 16 * 1024];
    let mut open = true;
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        // Where nobody reads any more, the guest must still be able to write, or it would never end.
        open = open && to.write_all(buffer.get(..length).unwrap_or_default()).and_then(|()| to.flush()).is_ok();
    }
}

/// The last lines of what comes, fit to be printed.
pub(super) fn tail(from: UnixStream) -> Vec<String> {
    let mut lines = VecDeque::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    // An error is an end like another.
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if !text.is_empty() {
            lines.push_back(text);
        }
        if lines.len() > CONSOLE_LINES {
            lines.pop_front();
        }
        line.clear();
    }
    lines.into()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn answer_to(said: &str) -> Result<u8, Silence> {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(said.as_bytes()).unwrap();
        drop(there);
        answer(here, Instant::now() + Duration::from_secs(10))
    }

    #[test]
    fn the_exit_status_is_the_answer() {
        assert_eq!(answer_to("ready\nexit 0\n"), Ok(0));
        assert_eq!(answer_to("ready\nexit 137\nexit 0\n"), Ok(137));
    }

    #[test]
    fn everything_else_is_none() {
        assert_eq!(answer_to(""), Err(Silence::DiedBooting));
        assert_eq!(answer_to("exit 0"), Err(Silence::DiedBooting));
        assert_eq!(answer_to("ready\n"), Err(Silence::DiedRunning));
        assert_eq!(answer_to("failed mount\u{1b} x\n"), Err(Silence::Failed(r"mount\u{1b} x".into())));
        assert_eq!(answer_to("exit 256\n"), Err(Silence::Failed("exit 256".into())));
    }

    #[test]
    fn an_answer_is_waited_for_until_the_deadline() {
        for (said, expected) in [("", Silence::SlowBoot), ("ready\n", Silence::SlowCommand)] {
            let (here, mut there) = UnixStream::pair().unwrap();
            there.write_all(said.as_bytes()).unwrap();
            let started = Instant::now();
            assert_eq!(answer(here, started + Duration::from_millis(50)), Err(expected));
            assert!(started.elapsed() < Duration::from_secs(2));
        }
    }

    #[test]
    fn a_closed_output_does_not_stop_the_guest() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (here, mut there) = UnixStream::pair().unwrap();
        let reader = thread::spawn(|| pass_on(here, Closed));
        // More than a socket holds: it has to be read.
        there.write_all(&vec![0; 4 * 1024 * 1024]).unwrap();
        drop(there);
        reader.join().unwrap();
    }

    #[test]
    fn the_tail_is_the_end_without_control_characters() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let reader = thread::spawn(|| tail(here));
        for number in 0..100 {
            writeln!(there, "\u{1b}[0mline {number}\r\n\r").unwrap();
        }
        drop(there);
        let lines = reader.join().unwrap();
        assert_eq!(lines.len(), CONSOLE_LINES);
        assert_eq!(lines.last().unwrap(), " [0mline 99");
    }
}
