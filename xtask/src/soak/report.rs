//! What a part found, for people and for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{PARTS, mutants};
use crate::bench::machine::Machine;

/// Failures that are kept in words; the rest is counted.
const WORDS_MAX: usize = 30;

/// One number, and what it has to be.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) what: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
}

/// What a number has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// Anything: it is told, not judged.
    None,
}

impl Figure {
    pub(super) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.value <= most,
            Bound::AtLeast(least) => self.value >= least,
            Bound::None => true,
        }
    }
}

/// What one part found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) figures: Vec<Figure>,
    /// What has to be known to understand the numbers.
    pub(super) notes: Vec<String>,
    failures: Vec<String>,
    failure_count: usize,
}

impl Found {
    fn figure(&mut self, what: impl Into<String>, value: f64, unit: &'static str, bound: Bound) {
        self.figures.push(Figure { what: what.into(), value, unit, bound });
    }

    /// Something that must not be there at all.
    pub(super) fn none_of(&mut self, what: impl Into<String>, count: usize) {
        self.figure(what, count as f64, "", Bound::AtMost(0.0));
    }

    pub(super) fn at_most(&mut self, what: impl Into<String>, value: f64, unit: &'static str, most: f64) {
        self.figure(what, value, unit, Bound::AtMost(most));
    }

    pub(super) fn at_least(&mut self, what: impl Into<String>, value: f64, unit: &'static str, least: f64) {
        self.figure(what, value, unit, Bound::AtLeast(least));
    }

    pub(super) fn tell(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.figure(what, value, unit, Bound::None);
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Something went wrong: the words of the first few are kept.
    pub(super) fn failure(&mut self, text: impl Into<String>) {
        self.failure_count += 1;
        if self.failures.len() < WORDS_MAX {
            self.failures.push(text.into());
        }
    }

    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    pub(super) fn failure_count(&self) -> usize {
        self.failure_count
    }

    /// Whether every figure is met. Words alone do not count: each part has a figure for what they are about.
    pub(super) fn holds(&self) -> bool {
        self.figures.iter().all(Figure::is_met)
    }

    /// Everything in one line.
    pub(super) fn line(&self) -> String {
        let shown = self.figures.iter().map(|figure| {
            let missed = if figure.is_met() { "" } else { " (MISSED)" };
            format!("{} {}{missed}", figure.what, shown_value(figure.value, figure.unit))
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn json(&self, time: Duration, quick: bool) -> Value {
        let machine = Machine::look(None);
        let figure = |figure: &Figure| {
            let (least, most) = match figure.bound {
                Bound::AtMost(most) => (None, Some(most)),
                Bound::AtLeast(least) => (Some(least), None),
                Bound::None => (None, None),
            };
            json!({
                "what": figure.what,
                "value": figure.value,
                "unit": figure.unit,
                "at_most": most,
                "at_least": least,
                "met": figure.is_met(),
            })
        };
        json!({
            "hotcell": env!("CARGO_PKG_VERSION"),
            "date": today(),
            "machine": {
                "kernel": machine.kernel,
                "architecture": machine.architecture,
                "cpu": machine.cpu,
                "cpus": machine.cpus,
                "memory_bytes": machine.memory,
            },
            "build": if cfg!(debug_assertions) { "debug" } else { "release" },
            "quick": quick,
            "seconds": (time.as_secs_f64() * 10.0).round() / 10.0,
            "holds": self.holds(),
            "figures": self.figures.iter().map(figure).collect::<Vec<_>>(),
            "notes": self.notes,
            "failures": self.failures,
        })
    }
}

fn shown_value(value: f64, unit: &str) -> String {
    let number = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

fn today() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Puts a part's result beside those of other parts and users, and writes the page anew.
pub(super) fn write(directory: &Path, part: &str, found: &Found, time: Duration, quick: bool) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let path = directory.join("latest.json");
    let mut all: Map<String, Value> = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| format!("cannot understand {}", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Map::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let results = all.entry(part).or_insert_with(|| json!({}));
    if let Some(results) = results.as_object_mut() {
        results.insert(Machine::look(None).user.to_owned(), found.json(time, quick));
    }
    let page = page(&all);
    let mut text = serde_json::to_string_pretty(&Value::Object(all)).context("cannot write the results as JSON")?;
    text.push('\n');
    for (path, text) in [(path, text), (directory.join("README.md"), page)] {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn page(all: &Map<String, Value>) -> String {
    let mut text = "# What boxes leave behind, and what breaks them\n\
                    <!-- Written by `cargo xtask soak`; do not edit. -->\n\n\
                    All numbers are in [latest.json](latest.json). What each part does is in \
                    [its source](../../xtask/src/soak) and, in short, below.\n"
        .to_owned();
    let parts = PARTS.iter().map(|part| (part.name, part.about));
    for (name, about) in parts.chain([(mutants::NAME, mutants::ABOUT)]) {
        let Some(results) = all.get(name).and_then(Value::as_object) else { continue };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## {name}\n{about}\n");
        for (user, result) in results {
            let _ = write!(
                text,
                "\n**As {user}**: {}; {}, Linux {} on {}, {} CPUs, {} build, {} s{}.\n\n\
                 | figure | measured | must be | |\n|---|--:|--:|---|\n",
                if result["holds"] == true { "holds" } else { "DOES NOT HOLD" },
                plain(&result["date"]),
                plain(&result["machine"]["kernel"]),
                plain(&result["machine"]["architecture"]),
                result["machine"]["cpus"],
                plain(&result["build"]),
                result["seconds"],
                if result["quick"] == true { "; a smoke test in small numbers" } else { "" },
            );
            for figure in result["figures"].as_array().into_iter().flatten() {
                let unit = plain(&figure["unit"]);
                let bound = match (figure["at_least"].as_f64(), figure["at_most"].as_f64()) {
                    (Some(least), _) => format!("≥ {}", shown_value(least, &unit)),
                    (_, Some(0.0)) => "0".to_owned(),
                    (_, Some(most)) => format!("≤ {}", shown_value(most, &unit)),
                    _ => String::new(),
                };
                let verdict = match (bound.is_empty(), figure["met"] == true) {
                    (true, _) => "",
                    (_, true) => "met",
                    _ => "**MISSED**",
                };
                let value = shown_value(figure["value"].as_f64().unwrap_or(f64::NAN), &unit);
                let _ = writeln!(text, "| {} | {value} | {bound} | {verdict} |", plain(&figure["what"]));
            }
            text.push('\n');
            for note in result["notes"].as_array().into_iter().flatten() {
                let _ = writeln!(text, "- {}", plain(note));
            }
            for failure in result["failures"].as_array().into_iter().flatten() {
                let _ = writeln!(text, "- **failed**: {}", plain(failure));
            }
        }
    }
    text
}

/// A text on one line that cannot end a cell.
fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Found {
        let mut found = Found::default();
        found.none_of("leaks", 0);
        found.at_most("slope", 12.5, "bytes", 1024.0);
        found.at_least("cycles", 100.0, "", 100.0);
        found.tell("open files", 7.0, "");
        found
    }

    #[test]
    fn a_figure_knows_its_bound() {
        assert!(example().holds());
        let mut found = example();
        found.none_of("orphans", 1);
        assert!(!found.holds());
        assert!(found.line().contains("orphans 1 (MISSED)"), "{}", found.line());
        let mut found = example();
        found.at_most("slope", f64::NAN, "bytes", 1.0);
        assert!(!found.holds(), "what could not be measured meets nothing");
    }

    #[test]
    fn parts_are_written_beside_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let write = |part, found: &Found| super::write(directory.path(), part, found, Duration::from_secs(1), false);
        write("cycles", &example()).unwrap();
        let mut failed = Found::default();
        failed.none_of("or|phans", 2);
        failed.failure("one was left");
        write("kill9", &failed).unwrap();
        write("cycles", &example()).unwrap();
        let json: Value = serde_json::from_slice(&fs::read(directory.path().join("latest.json")).unwrap()).unwrap();
        let user = Machine::look(None).user;
        assert_eq!(json["cycles"][user]["figures"][1]["value"], 12.5);
        assert_eq!((&json["cycles"][user]["holds"], &json["kill9"][user]["holds"]), (&json!(true), &json!(false)));
        let page = fs::read_to_string(directory.path().join("README.md")).unwrap();
        for line in [
            "| slope | 12.50 bytes | ≤ 1024 bytes | met |",
            "| or\\|phans | 2 | 0 | **MISSED** |",
            "| open files | 7 |  |  |",
            "- **failed**: one was left",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        assert_eq!(page.matches("## cycles").count(), 1);
    }
}
