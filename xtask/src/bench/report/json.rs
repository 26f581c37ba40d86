//! The results for programs.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Results;
use crate::bench::latency::Row;
use crate::bench::targets::{Target, targets};
use crate::bench::{Measured, throughput::Rate};

const PERCENTILES: &[f64] = &[0.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0];

/// One object; times in nanoseconds, sizes in bytes. What was not measured has a `not_measured` with the reason.
pub(super) fn text(results: &Results) -> Result<String> {
    let machine = &results.machine;
    let object = json!({
        "hotcell": env!("CARGO_PKG_VERSION"),
        "machine": {
            "kernel": machine.kernel,
            "architecture": machine.architecture,
            "cpu": machine.cpu,
            "cpus": machine.cpus,
            "memory_bytes": machine.memory,
            "user": machine.user,
            "rustc": machine.rustc,
            "bubblewrap": machine.bubblewrap,
        },
        "busy_before": results.busy,
        "quick": results.quick,
        "rounds": results.rounds,
        "mounts_of_a_box": results.mounts,
        "latency": results.latency.iter().map(row).collect::<Map<_, _>>(),
        "throughput": {
            "hotcell": rate(&results.throughput.hotcell),
            "bwrap": measured(&results.throughput.bubblewrap, rate),
        },
        "memory": measured(&results.memory, |memory| json!({
            "boxes": memory.boxes,
            "shortfall": memory.shortfall,
            "running_bytes": memory.running,
            "idle_bytes": memory.idle,
            "plain_process_bytes": memory.plain,
        })),
        "flood": measured(&results.flood, |flood| json!({
            "bytes": flood.bytes,
            "nanoseconds": nanoseconds(flood.time),
            "peak_before_bytes": flood.peak_before,
            "peak_after_bytes": flood.peak_after,
            "bytes_per_second": flood.bytes_per_second(),
        })),
        "workload": measured(&results.workload, |workload| json!({
            "inside": workload.inside.iter().copied().map(nanoseconds).collect::<Vec<_>>(),
            "outside": workload.outside.iter().copied().map(nanoseconds).collect::<Vec<_>>(),
            "outside_on": workload.outside_on,
            "ratio": workload.ratio(),
        })),
        "targets": targets(results).iter().map(target).collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_string_pretty(&object).context("cannot write the results as JSON")?;
    text.push('\n');
    Ok(text)
}

pub(in crate::bench) fn row(row: &Row) -> (String, Value) {
    let value = measured(&row.samples, |samples| {
        let mut object = Map::new();
        object.insert("n".to_owned(), json!(samples.count()));
        object.insert("mean".to_owned(), json!(nanoseconds(samples.mean())));
        for percent in PERCENTILES {
            object.insert(format!("p{percent}"), json!(nanoseconds(samples.percentile(*percent))));
        }
        Value::Object(object)
    });
    (row.name.to_owned(), value)
}

fn rate(rate: &Rate) -> Value {
    json!({ "runs": rate.runs, "nanoseconds": nanoseconds(rate.time), "runs_per_second": rate.per_second() })
}

pub(in crate::bench) fn target(target: &Target) -> Value {
    json!({
        "what": target.what,
        "unit": target.unit,
        "value": target.value.as_ref().ok(),
        "not_measured": target.value.as_ref().err(),
        "bar": target.bar,
        "aim": target.aim,
        "verdict": target.verdict().to_string(),
    })
}

fn measured<T>(value: &Measured<T>, show: impl FnOnce(&T) -> Value) -> Value {
    match value {
        Ok(value) => show(value),
        Err(reason) => json!({ "not_measured": reason }),
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn programs_can_read_it() {
        let value: Value = serde_json::from_str(&text(&example()).unwrap()).unwrap();
        assert_eq!(value["latency"]["one-shot"]["p95"], 3_000_000);
        assert_eq!(value["latency"]["bwrap"]["not_measured"], "not installed");
        assert_eq!(value["targets"][0]["value"], 1.5);
        assert_eq!(value["targets"][0]["verdict"], "MISSED");
        assert_eq!(value["targets"][3]["value"], Value::Null);
    }
}
