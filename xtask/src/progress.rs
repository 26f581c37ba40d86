//! The list that a person watches: one line per step, its result and how long it took.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Column where results begin.
const RESULT_COLUMN: usize = 46;

/// A step whose name is printed and whose result is not known yet.
#[derive(Debug)]
pub(crate) struct Line {
    started: Instant,
}

/// Prints a heading above the lines that follow.
pub(crate) fn heading(text: &str) {
    println!("\n{text}");
}

/// Prints the name of a step that begins now.
pub(crate) fn begin(name: &str) -> Line {
    begun(name, Instant::now())
}

/// Prints the name of a step that began before, beside others.
pub(crate) fn begun(name: &str, started: Instant) -> Line {
    print!("  {name:<RESULT_COLUMN$} ");
    // A terminal that is gone is no reason to stop testing.
    let _ = io::stdout().flush();
    Line { started }
}

impl Line {
    /// Completes the line.
    pub(crate) fn end(self, result: &str) {
        println!("{result:<24} {:>8}", seconds(self.started.elapsed()));
    }

    /// Completes the line of a step that failed, with everything that it said below it.
    pub(crate) fn end_failed(self, result: &str, output: &str) {
        self.end(result);
        for line in output.trim_end().lines() {
            println!("    | {line}");
        }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
