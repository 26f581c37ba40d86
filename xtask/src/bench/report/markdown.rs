//! The page of results.

use std::fmt::Write as _;

use super::table::milliseconds;
use super::{Results, remarks};
use crate::bench::latency::Row;
use crate::bench::targets::{Verdict, targets};

/// How the numbers come about; what does not depend on the run.
const METHOD: &str = "\
## Method
`cargo xtask bench` builds the release `hotcell` and a release program that measures, and runs everything in one go.
Latency is from asking for the command to having its exit status, stdout and stderr, both captured. Every round runs all
variants, each round begins with another one, and there is a pause of 4 ms between two runs. Ratios are of medians.

- **floor** is a small resident C program (`xtask/src/bench/floor.c`) that times one clone with the namespaces, user map and
  mounts of a live box (read from the box's own `/proc`), pivot_root, exec, and the wait for its end. It has no seccomp, Landlock,
  limits, init or protocol.
- **plain** is `std::process::Command`; **bwrap** and **cli** are started the same way. bwrap has the same namespaces, read-only
  trees, private directories, /proc, /dev, no capabilities and an empty environment. It has no seccomp filter, Landlock or limits.
- **one-shot** is `Engine::run`, which makes a box, runs the command and waits until nothing of the box is left. The engine has the
  namespaces of its next box ready ahead, as it does by default; **one-shot-cold** has an engine without that.
- **kept** starts a command in a box that exists. **pooled** takes a ready box and starts a command in it; the box's end is not
  counted, the start of the pool's own refill is.
- **Throughput** is eight one-shots at a time on a tokio runtime with two threads, against eight threads that start bwrap, in slices
  of a second in turn.
- **Memory** is the fall of the machine's available memory per box, with `sleep` running in every box: kernel, helper, command and
  the library's own state together.
- **Flood** is `dd` writing zeros to stdout in a box without an output limit, captured with the default bounds: the growth of the
  measuring process's peak memory.
- **Work** compiles 60 small C files with `gcc -O1 -c` and runs a Python loop, alternately in a kept box and outside: the middle of
  the pairs' ratios.

All numbers are in [latest.json](latest.json). They are of one machine and one run: compare ratios, not milliseconds.
";

pub(super) fn text(results: &Results) -> String {
    let machine = &results.machine;
    let memory = machine.memory.map(|bytes| format!(", {:.0} GiB of memory", bytes as f64 / (1u64 << 30) as f64));
    let mut text = format!(
        "# What a box costs\n\
         <!-- Written by `cargo xtask bench`; do not edit. -->\n\n\
         Linux {} on {}, {}, {} CPUs{}; as {}; {}; {}. A box of the default policy with {} mounts.\n\n\
         ![Time to run one command](latest.svg)\n\n",
        cell(&machine.kernel),
        machine.architecture,
        cell(&machine.cpu),
        machine.cpus,
        memory.unwrap_or_default(),
        machine.user,
        cell(&machine.rustc),
        cell(&machine.bubblewrap),
        results.mounts
    );
    text.push_str(&latencies(&results.latency));
    text.push_str("\n## Targets\n| | measured | bar | aim | |\n|---|--:|--:|--:|---|\n");
    for target in targets(results) {
        let verdict = match target.verdict() {
            Verdict::Missed => format!("**{}**", Verdict::Missed),
            other => other.to_string(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {sign} {} | {sign} {} | {verdict} |",
            target.what,
            cell(&target.shown_value()),
            target.show(target.bar),
            target.show(target.aim),
            sign = target.sign()
        );
    }
    text.push('\n');
    for remark in remarks(results) {
        let _ = writeln!(text, "- {remark}");
    }
    text.push('\n');
    text.push_str(METHOD);
    text
}

/// The table of what was timed.
pub(in crate::bench) fn latencies(rows: &[Row]) -> String {
    let mut text = "| variant | n | p50 | p95 | p99 | |\n|---|--:|--:|--:|--:|---|\n".to_owned();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = match &row.samples {
            Ok(samples) => {
                let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|percent| milliseconds(samples.percentile(percent)));
                writeln!(text, "| {} | {} | {p50} | {p95} | {p99} | {} |", row.name, samples.count(), cell(row.about))
            }
            Err(reason) => writeln!(text, "| {} | | | | | skipped: {} |", row.name, cell(reason)),
        };
    }
    text
}

/// Text that cannot end a cell or a line.
pub(in crate::bench) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn tables_have_a_row_for_everything() {
        let mut results = example();
        results.latency[2].samples = Err("no | bwrap\nhere".into());
        let text = text(&results);
        assert!(text.contains("| one-shot | 4 | 3.000 ms | 3.000 ms | 3.000 ms |"), "{text}");
        assert!(text.contains("skipped: no \\| bwrap here"), "{text}");
        assert!(text.contains("| 1.50 × | ≤ 1.30 × | ≤ 1.10 × | **MISSED** |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with("met |")).count(), 6, "{text}");
    }
}
