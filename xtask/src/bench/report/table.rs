//! The table on the terminal.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Results, remarks};
use crate::bench::latency::Row;
use crate::bench::targets::targets;

/// Everything, as a person reads it.
pub(in crate::bench) fn text(results: &Results) -> String {
    let mut text = latencies(&results.latency);
    text.push('\n');
    for remark in remarks(results) {
        text.push_str(&remark);
        text.push('\n');
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{:<42} {:>12} {:>12} {:>12}  verdict", "target", "measured", "bar", "aim");
    for target in targets(results) {
        let value = target.value.as_ref().map_or_else(|_| "–".to_owned(), |value| target.show(*value));
        let wanted = |number| format!("{} {}", target.sign(), target.show(number));
        let reason = target.value.as_ref().err().map(|reason| format!(": {reason}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<42} {value:>12} {:>12} {:>12}  {}{reason}",
            target.what,
            wanted(target.bar),
            wanted(target.aim),
            target.verdict()
        );
    }
    text
}

/// What was timed.
pub(in crate::bench) fn latencies(rows: &[Row]) -> String {
    let mut text = format!("{:<15} {:>6} {:>10} {:>10} {:>10}  what\n", "", "n", "p50", "p95", "p99");
    for row in rows {
        let line = match &row.samples {
            Ok(samples) => {
                let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|percent| milliseconds(samples.percentile(percent)));
                format!("{:<15} {:>6} {p50:>10} {p95:>10} {p99:>10}  {}", row.name, samples.count(), row.about)
            }
            Err(reason) => format!("{:<15} skipped: {reason}", row.name),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn what_is_missed_or_missing_is_plain_to_see() {
        let text = text(&example());
        assert!(text.contains("bwrap           skipped: not installed"), "{text}");
        let line = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap().to_owned();
        assert!(line("one-shot against").ends_with("MISSED"), "{text}");
        assert!(line("the command against").ends_with("not measured: not installed"), "{text}");
        assert!(line("throughput, 8").ends_with("bar met"), "{text}");
        assert!(line("supervisor's growth").ends_with("aim met"), "{text}");
    }
}
