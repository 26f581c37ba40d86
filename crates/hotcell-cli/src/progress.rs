//! How far something is: one line on a terminal that is written over, and nothing elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell::{Progress, PullProgress};

use crate::output;

/// The line.
#[derive(Debug)]
pub(crate) struct Line {
    possible: bool,
    last: Option<Instant>,
}

impl Line {
    /// More often than this nobody can read it.
    const OFTEN: Duration = Duration::from_millis(100);

    pub(crate) fn new() -> Self {
        Self { possible: io::stderr().is_terminal(), last: None }
    }

    /// Whether there is a terminal to show it on.
    pub(crate) fn is_possible(&self) -> bool {
        self.possible
    }

    /// Shows the text in place of the last one, unless that is too new.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.possible && self.last.is_none_or(|last| last.elapsed() >= Self::OFTEN) {
            self.replace(&text());
        }
    }

    /// Shows the text in place of the last one, however new that is: for steps, of which each may be the last for long.
    pub(crate) fn replace(&mut self, text: &str) {
        if self.possible {
            self.last = Some(Instant::now());
            output::status(&fitting(text));
        }
    }

    /// Takes the line away.
    pub(crate) fn end(&mut self) {
        if self.last.take().is_some() {
            output::status("");
            // What is left of a line in a buffer would appear after the result.
            let _ = io::stderr().flush();
        }
    }
}

/// How far the fetching of a box's image is.
#[derive(Debug, Clone)]
pub(crate) struct Pulls(Arc<Mutex<Line>>);

impl Pulls {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Line::new())))
    }

    /// Who is told; nobody where there is no terminal.
    pub(crate) fn listener(&self) -> Option<Progress> {
        let line = Arc::clone(&self.0);
        self.line().is_possible().then(|| Progress::new(move |step| lock(&line).show(|| pull_text(step))))
    }

    /// Takes the line away: from now on the terminal is the command's.
    pub(crate) fn end(&self) {
        self.line().end();
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.0)
    }
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    // Nothing panics while it is held; and a line is a line.
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pull_text(step: &PullProgress) -> String {
    let layer = step.layer.as_deref().map(|layer| format!(" {layer}")).unwrap_or_default();
    let bytes = step.bytes.map(|(done, total)| format!(" {} of {}", size(done), size(total))).unwrap_or_default();
    format!("{}: {}{layer}{bytes}", step.image, step.status)
}

/// Cut, so that it stays one line where terminals are as wide as they usually are.
fn fitting(text: &str) -> String {
    const WIDTH: usize = 79;
    text.chars().map(|letter| if letter == '\n' { ' ' } else { letter }).take(WIDTH).collect()
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10);
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let fraction = if unit > 0 && tenths < 1000 { format!(".{}", tenths % 10) } else { String::new() };
    format!("{}{fraction} {}", tenths / 10, UNITS.get(unit).unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let known = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (100 << 20, "100 MiB"),
            (3 << 30, "3.0 GiB"),
        ];
        for (bytes, text) in known {
            assert_eq!(size(bytes), text);
        }
        assert!(size(u64::MAX).ends_with("TiB"));
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(fitting("a\nb"), "a b");
        assert_eq!(fitting(&"x".repeat(500)).len(), 79);
    }
}
