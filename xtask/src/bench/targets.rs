//! What the numbers should be: the bar that has to be met and the aim behind it.

use std::fmt;

use super::Measured;
use super::latency::Row;
use super::report::Results;
use super::variants as name;

const MEGABYTE: f64 = 1e6;
const MEBIBYTE: f64 = (1 << 20) as f64;

/// One number that has a bar and an aim.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) value: Measured<f64>,
    pub(super) bar: f64,
    pub(super) aim: f64,
    pub(super) better: Better,
}

/// Which way a number improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

/// How a number stands to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Aim,
    Bar,
    Missed,
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aim => "aim met",
            Self::Bar => "bar met",
            Self::Missed => "MISSED",
            Self::NotMeasured => "not measured",
        })
    }
}

impl Target {
    pub(super) fn verdict(&self) -> Verdict {
        let Ok(value) = self.value else { return Verdict::NotMeasured };
        let reaches = |wanted: f64| match self.better {
            Better::Lower => value <= wanted,
            Better::Higher => value >= wanted,
        };
        match (reaches(self.aim), reaches(self.bar)) {
            (true, _) => Verdict::Aim,
            (false, true) => Verdict::Bar,
            (false, false) => Verdict::Missed,
        }
    }

    /// The sign between a value and its bar.
    pub(super) fn sign(&self) -> &'static str {
        match self.better {
            Better::Lower => "≤",
            Better::Higher => "≥",
        }
    }

    pub(super) fn show(&self, number: f64) -> String {
        match self.unit {
            "×" => format!("{number:.2} ×"),
            unit => format!("{number:.2} {unit}"),
        }
    }

    pub(super) fn shown_value(&self) -> String {
        match &self.value {
            Ok(value) => self.show(*value),
            Err(reason) => format!("– ({reason})"),
        }
    }
}

/// Every target, with what was measured.
pub(super) fn targets(results: &Results) -> Vec<Target> {
    let lower = |what, unit, value, bar, aim| Target { what, unit, value, bar, aim, better: Better::Lower };
    let of_medians = |ours, theirs| ratio(&results.latency, ours, theirs);
    let throughput = match &results.throughput.bubblewrap {
        Ok(bubblewrap) => Ok(results.throughput.hotcell.per_second() / bubblewrap.per_second()),
        Err(reason) => Err(reason.clone()),
    };
    let memory = results.memory.as_ref().map(|memory| memory.running / MEGABYTE);
    let flood = results.flood.as_ref().map(|flood| flood.growth() as f64 / MEBIBYTE);
    let workload = match &results.workload {
        Ok(workload) => workload.ratio().ok_or_else(|| "no run was counted".to_owned()),
        Err(reason) => Err(reason.clone()),
    };
    vec![
        lower("one-shot against the kernel's floor", "×", of_medians(name::ONE_SHOT, name::FLOOR), 1.3, 1.1),
        lower("kept box against plain spawn", "×", of_medians(name::KEPT, name::PLAIN), 1.2, 1.05),
        lower("pooled box against plain spawn", "×", of_medians(name::POOLED, name::PLAIN), 1.2, 1.05),
        lower("the command against bwrap", "×", of_medians(name::CLI, name::BWRAP), 0.6, 0.4),
        Target {
            what: "throughput, 8 at a time, against bwrap",
            unit: "×",
            value: throughput,
            bar: 3.0,
            aim: 5.0,
            better: Better::Higher,
        },
        lower("memory per live box", "MB", memory.map_err(Clone::clone), 0.5, 0.2),
        lower("supervisor's growth in a flood of output", "MiB", flood.map_err(Clone::clone), 32.0, 8.0),
        lower("work inside against outside", "×", workload, 1.03, 1.01),
    ]
}

/// By how many milliseconds one row's median is over another's.
pub(super) fn over(rows: &[Row], ours: &str, theirs: &str) -> Measured<f64> {
    Ok((median(rows, ours)? - median(rows, theirs)?) * 1e3)
}

/// One row's median over another's.
pub(super) fn ratio(rows: &[Row], ours: &str, theirs: &str) -> Measured<f64> {
    Ok(median(rows, ours)? / median(rows, theirs)?)
}

/// A row's median, in seconds.
pub(super) fn median(rows: &[Row], name: &str) -> Measured<f64> {
    let row = rows.iter().find(|row| row.name == name).ok_or_else(|| format!("there is no `{name}`"))?;
    match &row.samples {
        Ok(samples) => Ok(samples.median().as_secs_f64()),
        Err(reason) => Err(reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::samples::Samples;
    use super::*;

    fn target(value: Measured<f64>, better: Better) -> Verdict {
        let (bar, aim) = if better == Better::Lower { (1.3, 1.1) } else { (3.0, 5.0) };
        Target { what: "", unit: "×", value, bar, aim, better }.verdict()
    }

    #[test]
    fn verdicts_know_their_direction() {
        for (value, verdict) in [(1.1, Verdict::Aim), (1.3, Verdict::Bar), (1.31, Verdict::Missed)] {
            assert_eq!(target(Ok(value), Better::Lower), verdict, "{value}");
        }
        for (value, verdict) in [(5.0, Verdict::Aim), (3.0, Verdict::Bar), (2.9, Verdict::Missed)] {
            assert_eq!(target(Ok(value), Better::Higher), verdict, "{value}");
        }
    }

    #[test]
    fn what_is_not_measured_meets_nothing() {
        assert_eq!(target(Err("no bwrap".into()), Better::Lower), Verdict::NotMeasured);
        assert_eq!(target(Ok(f64::NAN), Better::Lower), Verdict::Missed);
    }

    #[test]
    fn a_ratio_needs_both_rows() {
        let row = |name, milliseconds: Option<u64>| Row {
            name,
            about: "",
            samples: milliseconds
                .and_then(|milliseconds| Samples::new(vec![Duration::from_millis(milliseconds)]))
                .ok_or_else(|| "not installed".to_owned()),
        };
        let rows = [row("a", Some(3)), row("b", Some(2)), row("c", None)];
        assert_eq!(ratio(&rows, "a", "b"), Ok(1.5));
        assert_eq!(ratio(&rows, "a", "c"), Err("not installed".to_owned()));
        assert!(ratio(&rows, "a", "d").is_err());
    }
}
