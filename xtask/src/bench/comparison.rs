//! What a comparison of several ways to do the same measured, for people and for programs: `NAME.md` and `NAME.json`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::latency::Row;
use super::machine::Machine;
use super::report::markdown::cell;
use super::report::{QUIET, json as in_json, markdown, table};
use super::targets::{Target, Verdict};
use crate::workspace::root;

/// Everything that one run measured.
#[derive(Debug)]
pub(super) struct Comparison {
    /// What it is called: `cargo xtask bench NAME`, `NAME.md`, `NAME.json`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// How the numbers come about; what does not depend on the run.
    pub(super) method: &'static str,
    pub(super) machine: Machine,
    /// What programs there are: name and version.
    pub(super) versions: Vec<(String, String)>,
    /// The share of the machine's CPU time that others used before the benchmark began.
    pub(super) busy: Option<f64>,
    pub(super) quick: bool,
    /// What else has to be known about this run, one sentence each.
    pub(super) notes: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) targets: Vec<Target>,
}

impl Comparison {
    /// Everything, as a person reads it on a terminal.
    fn table(&self) -> String {
        let mut text = table::latencies(&self.rows);
        text.push('\n');
        for remark in self.remarks() {
            text.push_str(&remark);
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{:<48} {:>12} {:>12}  verdict", "target", "measured", "target");
        for target in &self.targets {
            let value = target.value.as_ref().map_or_else(|_| "–".to_owned(), |value| target.show(*value));
            let reason = target.value.as_ref().err().map(|reason| format!(": {reason}")).unwrap_or_default();
            let wanted = format!("{} {}", target.sign(), target.show(target.bar));
            let _ = writeln!(text, "{:<48} {value:>12} {wanted:>12}  {}{reason}", target.what, verdict(target));
        }
        text
    }

    /// Prints it and writes both files: into `out`, or to where the others are.
    pub(super) fn publish(&self, out: Option<&Path>) -> Result<()> {
        print!("\n{}", self.table());
        let directory = match out {
            Some(directory) => directory.to_owned(),
            None => root()?.join("docs/bench"),
        };
        self.write(&directory)?;
        println!("\nwritten to {}", directory.display());
        Ok(())
    }

    fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
        for (kind, text) in [("md", self.page()), ("json", self.object()?)] {
            let path = directory.join(format!("{}.{kind}", self.name));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn page(&self) -> String {
        let machine = &self.machine;
        let versions: Vec<String> =
            self.versions.iter().map(|(name, version)| format!("{} {}", cell(name), cell(version))).collect();
        let mut text = format!(
            "# {}\n\
         <!-- Written by `cargo xtask bench {}`; do not edit. -->\n\n\
         Linux {} on {}, {}, {} CPUs; as {}; {}. {}.\n\n",
            self.title,
            self.name,
            cell(&machine.kernel),
            machine.architecture,
            cell(&machine.cpu),
            machine.cpus,
            machine.user,
            cell(&machine.rustc),
            versions.join(", ")
        );
        text.push_str(&markdown::latencies(&self.rows));
        text.push_str("\n## Targets\n| | measured | target | |\n|---|--:|--:|---|\n");
        for target in &self.targets {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} {} | {} |",
                target.what,
                cell(&target.shown_value()),
                target.sign(),
                target.show(target.bar),
                match target.verdict() {
                    Verdict::Missed => format!("**{}**", verdict(target)),
                    _ => verdict(target).to_owned(),
                }
            );
        }
        text.push('\n');
        for remark in self.remarks() {
            let _ = writeln!(text, "- {remark}");
        }
        text.push('\n');
        text.push_str(self.method);
        text
    }

    fn object(&self) -> Result<String> {
        let machine = &self.machine;
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
            },
            "versions": self.versions.iter().map(|(name, version)| (name.clone(), json!(version))).collect::<Map<_, _>>(),
            "busy_before": self.busy,
            "quick": self.quick,
            "notes": self.notes,
            "latency": self.rows.iter().map(in_json::row).collect::<Map<_, _>>(),
            "targets": self.targets.iter().map(target_object).collect::<Vec<_>>(),
        });
        let mut text = serde_json::to_string_pretty(&object).context("cannot write the results as JSON")?;
        text.push('\n');
        Ok(text)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.notes.clone();
        if let Some(busy) = self.busy.filter(|busy| *busy > QUIET) {
            remarks.push(format!(
            "The machine was busy with other work ({:.0} % of its CPU time before the start): do not trust these numbers.",
            busy * 100.0
        ));
        }
        if self.quick || self.rows.iter().any(|row| row.samples.as_ref().is_ok_and(|samples| samples.count() < 20)) {
            remarks.push("This was a short run: its numbers are a smoke test, not a measurement.".to_owned());
        }
        remarks
    }
}

fn target_object(target: &Target) -> Value {
    let mut value = in_json::target(target);
    if let Some(object) = value.as_object_mut() {
        // There is one number to reach here, not two.
        object.remove("aim");
        object.insert("verdict".to_owned(), json!(verdict(target)));
    }
    value
}

fn verdict(target: &Target) -> &'static str {
    match target.verdict() {
        Verdict::Aim | Verdict::Bar => "met",
        Verdict::Missed => "MISSED",
        Verdict::NotMeasured => "not measured",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::samples::Samples;
    use crate::bench::targets::{Better, ratio};

    fn example() -> Comparison {
        let row = |name, milliseconds: Option<u64>| Row {
            name,
            about: "about",
            samples: milliseconds
                .and_then(|milliseconds| Samples::new(vec![Duration::from_millis(milliseconds); 20]))
                .ok_or_else(|| "not | built".to_owned()),
        };
        let rows = vec![row("ours", Some(100)), row("raw", Some(50)), row("other", None)];
        let target = |what, ours, theirs, bar| Target {
            what,
            unit: "×",
            value: ratio(&rows, ours, theirs),
            bar,
            aim: bar,
            better: Better::Lower,
        };
        let targets = vec![
            target("ours against raw", "ours", "raw", 1.1),
            target("raw against ours", "raw", "ours", 1.0),
            target("ours against another", "ours", "other", 1.0),
        ];
        Comparison {
            name: "things",
            title: "What a thing costs",
            method: "## Method\n",
            machine: Machine::look(None),
            versions: vec![("Engine".into(), "1.2".into())],
            busy: Some(0.5),
            quick: false,
            notes: vec!["Of a test.".to_owned()],
            rows,
            targets,
        }
    }

    #[test]
    fn what_is_missed_or_missing_is_plain_to_see() {
        let results = example();
        let page = results.page();
        assert!(page.starts_with("# What a thing costs\n<!-- Written by `cargo xtask bench things`"), "{page}");
        assert!(page.contains("| ours against raw | 2.00 × | ≤ 1.10 × | **MISSED** |"), "{page}");
        assert!(page.contains("| other | | | | | skipped: not \\| built |"), "{page}");
        assert!(page.contains("| raw against ours | 0.50 × | ≤ 1.00 × | met |"), "{page}");
        assert!(page.contains("Engine 1.2") && page.contains("do not trust"), "{page}");
        let table = results.table();
        let line = |what: &str| table.lines().find(|line| line.starts_with(what)).unwrap().to_owned();
        assert!(line("ours against raw").ends_with("MISSED"), "{table}");
        assert!(line("ours against another").ends_with("not measured: not | built"), "{table}");
    }

    #[test]
    fn programs_can_read_it() {
        let value: Value = serde_json::from_str(&example().object().unwrap()).unwrap();
        assert_eq!(value["latency"]["raw"]["p50"], 50_000_000);
        assert_eq!(value["targets"][0]["verdict"], "MISSED");
        assert_eq!(value["targets"][1]["verdict"], "met");
        assert_eq!(value["versions"]["Engine"], "1.2");
    }
}
