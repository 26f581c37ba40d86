//! What was measured, for people, for programs and as a picture.

pub(super) mod json;
pub(super) mod markdown;
mod svg;
pub(super) mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Measured;
use super::flood::Flood;
use super::latency::Row;
use super::machine::Machine;
use super::memory::Memory;
use super::throughput::Throughput;
use super::workload::Workload;

/// Everything that one run of the benchmark measured.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) machine: Machine,
    /// The share of the machine's CPU time that others used before the benchmark began.
    pub(super) busy: Option<f64>,
    pub(super) quick: bool,
    pub(super) rounds: usize,
    /// How many mounts a box has.
    pub(super) mounts: usize,
    pub(super) latency: Vec<Row>,
    pub(super) throughput: Throughput,
    pub(super) memory: Measured<Memory>,
    pub(super) flood: Measured<Flood>,
    pub(super) workload: Measured<Workload>,
}

/// A machine with less to do than this does not disturb the numbers.
pub(super) const QUIET: f64 = 0.05;

/// Writes `latest.json`, `latest.svg` and `README.md`.
pub(super) fn write(results: &Results, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let files = [
        ("latest.json", json::text(results)?),
        ("latest.svg", svg::text(results)),
        ("README.md", markdown::text(results)),
    ];
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What is neither a latency nor a ratio, one sentence each.
fn remarks(results: &Results) -> Vec<String> {
    let mut remarks = Vec::new();
    let rate = |rate: super::throughput::Rate| format!("{:.0} runs/s ({} runs)", rate.per_second(), rate.runs);
    remarks.push(match &results.throughput.bubblewrap {
        Ok(bubblewrap) => {
            format!("Throughput: Hotcell {}, bwrap {}.", rate(results.throughput.hotcell), rate(*bubblewrap))
        }
        Err(reason) => {
            format!("Throughput: Hotcell {}; bwrap not measured: {reason}.", rate(results.throughput.hotcell))
        }
    });
    remarks.push(match &results.memory {
        Ok(memory) => {
            let shortfall = memory.shortfall.as_ref().map(|why| format!(" More could not be made: {why}."));
            format!(
                "Memory of each of {} boxes: {:.3} MB with `sleep` running in it, of which the box alone {:.3} MB; \
                 `sleep` without a box {:.3} MB.{}",
                memory.boxes,
                memory.running / 1e6,
                memory.idle / 1e6,
                memory.plain / 1e6,
                shortfall.unwrap_or_default()
            )
        }
        Err(reason) => format!("Memory per box: not measured: {reason}."),
    });
    remarks.push(match &results.flood {
        Ok(flood) => format!(
            "Flood: {:.1} GiB of output read at {:.2} GB/s; the supervisor's peak went from {:.1} to {:.1} MiB.",
            flood.bytes as f64 / (1u64 << 30) as f64,
            flood.bytes_per_second() / 1e9,
            flood.peak_before as f64 / (1 << 20) as f64,
            flood.peak_after as f64 / (1 << 20) as f64
        ),
        Err(reason) => format!("Flood: not measured: {reason}."),
    });
    remarks.push(match &results.workload {
        Ok(workload) => {
            let median = |times: &[std::time::Duration]| {
                let seconds = times.iter().map(std::time::Duration::as_secs_f64).collect();
                super::samples::median_of(seconds).unwrap_or_default()
            };
            format!(
                "Work: {:.3} s inside, {:.3} s outside (medians of {}); tmpfs inside, {} outside.",
                median(&workload.inside),
                median(&workload.outside),
                workload.inside.len(),
                workload.outside_on
            )
        }
        Err(reason) => format!("Work inside and outside: not measured: {reason}."),
    });
    if let Some(busy) = results.busy.filter(|busy| *busy > QUIET) {
        remarks.push(format!(
            "The machine was busy with other work ({:.0} % of its CPU time before the start): do not trust these numbers.",
            busy * 100.0
        ));
    }
    if results.quick || results.rounds < 300 {
        remarks.push("This was a short run: its numbers are a smoke test, not a measurement.".to_owned());
    }
    remarks
}

/// Results with numbers that are easy to recognise, and one variant that was not measured.
#[cfg(test)]
fn example() -> Results {
    use std::time::Duration;

    use super::samples::Samples;
    use super::throughput::Rate;

    let row = |name, milliseconds: u64| Row {
        name,
        about: "about <it>",
        samples: Samples::new(vec![Duration::from_millis(milliseconds); 4]).ok_or_else(String::new),
    };
    let rate = |runs| Rate { runs, time: Duration::from_secs(1) };
    Results {
        machine: Machine {
            kernel: "6.1".into(),
            architecture: "x86_64",
            cpu: "a CPU".into(),
            cpus: 2,
            memory: Some(1 << 30),
            user: "root",
            rustc: "rustc 1".into(),
            bubblewrap: "bubblewrap 0".into(),
        },
        busy: Some(0.01),
        quick: false,
        rounds: 300,
        mounts: 30,
        latency: vec![
            row("plain", 1),
            row("floor", 2),
            Row { name: "bwrap", about: "", samples: Err("not installed".into()) },
            row("one-shot", 3),
            row("kept", 1),
            row("pooled", 1),
            row("cli", 5),
        ],
        throughput: Throughput { hotcell: rate(400), bubblewrap: Ok(rate(100)) },
        memory: Ok(Memory { boxes: 1000, shortfall: None, running: 4e5, idle: 3e5, plain: 1e5 }),
        flood: Ok(Flood { bytes: 1 << 30, time: Duration::from_secs(1), peak_before: 8 << 20, peak_after: 12 << 20 }),
        workload: Ok(Workload {
            inside: vec![Duration::from_millis(1010)],
            outside: vec![Duration::from_millis(1000)],
            outside_on: "tmpfs",
        }),
    }
}
