//! What was measured, for people and for programs: `containers.md` and `containers.json`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Surroundings;
use super::targets::targets;
use crate::bench::latency::Row;
use crate::bench::machine::Machine;
use crate::bench::report::markdown::cell;
use crate::bench::report::{QUIET, json as in_json, markdown, table};
use crate::bench::targets::{Target, Verdict};

/// Everything that one run measured.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) machine: Machine,
    /// What programs there are: name and version.
    pub(super) versions: Vec<(String, String)>,
    /// The share of the machine's CPU time that others used before the benchmark began.
    pub(super) busy: Option<f64>,
    pub(super) quick: bool,
    /// Where the hardening of what is compared is from.
    pub(super) spec: &'static str,
    pub(super) rows: Vec<Row>,
}

/// How the numbers come about; what does not depend on the run.
const METHOD: &str = "\
## Method
`cargo xtask bench containers` builds the release `hotcell` and a release program that measures, starts a Docker Engine of its own
in namespaces of its own, and runs everything in one go. Every variant runs `true` in a container of the same image, a small
Debian. Time is from asking for the command to having its exit status and output and, but for `docker exec` and kept boxes, to the
container being gone. Every round runs all variants, each round begins with another one, and there is a pause of 30 ms between two runs.
Ratios are of medians.

- **docker-one-shot** is `Engine::run_with`; **docker-cli**, **runc-cli** and **gvisor-cli** are the `hotcell` command, started anew
  each time. runc and runsc are used without a daemon.
- **raw** makes the same calls to the engine by hand, over the same socket: create, attach, start, wait, remove. Its container is
  created as Hotcell's is, but runs `true` by itself.
- **run-hardened** and **run-runsc** are `docker run --rm` with the same hardening, as flags; **run-plain** has none and a network.
- **docker-exec** executes in a container with the same hardening that sleeps.

All numbers are in [containers.json](containers.json). They are of one machine and one run: compare ratios, not milliseconds.
";

/// The versions of everything that takes part.
pub(super) fn versions(around: &Surroundings) -> Result<Vec<(String, String)>> {
    let mut versions = Vec::new();
    let told = around.connect()?.get("/version")?;
    for component in told["Components"].as_array().map(Vec::as_slice).unwrap_or_default() {
        if let (Some(name), Some(version)) = (component["Name"].as_str(), component["Version"].as_str()) {
            versions.push((name.to_owned(), version.to_owned()));
        }
    }
    let programs = [("docker", Some(&around.docker)), ("runsc", around.runsc.as_ref())];
    for (name, program) in programs {
        let output = program.and_then(|program| Command::new(program).arg("--version").output().ok());
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let version = text.lines().next().and_then(|line| line.split("version ").nth(1)).unwrap_or("unknown");
        versions.push((format!("{name} command"), version.trim().to_owned()));
    }
    Ok(versions)
}

/// Everything, as a person reads it on a terminal.
pub(super) fn table(results: &Results) -> String {
    let mut text = table::latencies(&results.rows);
    text.push('\n');
    for remark in remarks(results) {
        text.push_str(&remark);
        text.push('\n');
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{:<48} {:>12} {:>12}  verdict", "target", "measured", "target");
    for target in targets(&results.rows) {
        let value = target.value.as_ref().map_or_else(|_| "–".to_owned(), |value| target.show(*value));
        let reason = target.value.as_ref().err().map(|reason| format!(": {reason}")).unwrap_or_default();
        let wanted = format!("{} {}", target.sign(), target.show(target.bar));
        let _ = writeln!(text, "{:<48} {value:>12} {wanted:>12}  {}{reason}", target.what, verdict(&target));
    }
    text
}

/// Writes both files.
pub(super) fn write(results: &Results, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for (name, text) in [("containers.md", page(results)), ("containers.json", object(results)?)] {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn page(results: &Results) -> String {
    let machine = &results.machine;
    let versions: Vec<String> =
        results.versions.iter().map(|(name, version)| format!("{} {}", cell(name), cell(version))).collect();
    let mut text = format!(
        "# What a container costs\n\
         <!-- Written by `cargo xtask bench containers`; do not edit. -->\n\n\
         Linux {} on {}, {}, {} CPUs; as {}; {}. {}.\n\n",
        cell(&machine.kernel),
        machine.architecture,
        cell(&machine.cpu),
        machine.cpus,
        machine.user,
        cell(&machine.rustc),
        versions.join(", ")
    );
    text.push_str(&markdown::latencies(&results.rows));
    text.push_str("\n## Targets\n| | measured | target | |\n|---|--:|--:|---|\n");
    for target in targets(&results.rows) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} {} | {} |",
            target.what,
            cell(&target.shown_value()),
            target.sign(),
            target.show(target.bar),
            match target.verdict() {
                Verdict::Missed => format!("**{}**", verdict(&target)),
                _ => verdict(&target).to_owned(),
            }
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

fn object(results: &Results) -> Result<String> {
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
        },
        "versions": results.versions.iter().map(|(name, version)| (name.clone(), json!(version))).collect::<Map<_, _>>(),
        "busy_before": results.busy,
        "quick": results.quick,
        "hardening": results.spec,
        "latency": results.rows.iter().map(in_json::row).collect::<Map<_, _>>(),
        "targets": targets(&results.rows).iter().map(target_object).collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_string_pretty(&object).context("cannot write the results as JSON")?;
    text.push('\n');
    Ok(text)
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

fn remarks(results: &Results) -> Vec<String> {
    let mut remarks = vec![format!("The hardening of what is compared: {}.", results.spec)];
    if let Some(busy) = results.busy.filter(|busy| *busy > QUIET) {
        remarks.push(format!(
            "The machine was busy with other work ({:.0} % of its CPU time before the start): do not trust these numbers.",
            busy * 100.0
        ));
    }
    if results.quick || results.rows.iter().any(|row| row.samples.as_ref().is_ok_and(|samples| samples.count() < 20)) {
        remarks.push("This was a short run: its numbers are a smoke test, not a measurement.".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::candidates as name;
    use super::*;
    use crate::bench::samples::Samples;

    fn example() -> Results {
        let row = |name, milliseconds: Option<u64>| Row {
            name,
            about: "about",
            samples: milliseconds
                .and_then(|milliseconds| Samples::new(vec![Duration::from_millis(milliseconds); 20]))
                .ok_or_else(|| "not | built".to_owned()),
        };
        Results {
            machine: Machine::look(None),
            versions: vec![("Engine".into(), "1.2".into())],
            busy: Some(0.5),
            quick: false,
            spec: "of a test",
            rows: vec![
                row(name::ONE_SHOT, Some(100)),
                row(name::RAW, Some(50)),
                row(name::CLI, None),
                row(name::RUN, Some(200)),
                row(name::KEPT, Some(3)),
                row(name::NATIVE_KEPT, Some(1)),
            ],
        }
    }

    #[test]
    fn what_is_missed_or_missing_is_plain_to_see() {
        let results = example();
        let page = page(&results);
        assert!(page.contains("| one-shot against the same calls | 2.00 × | ≤ 1.10 × | **MISSED** |"), "{page}");
        assert!(page.contains("| docker-cli | | | | | skipped: not \\| built |"), "{page}");
        assert!(page.contains("| exec in a kept box, beyond a native one's | 2.00 ms | ≤ 3.00 ms | met |"), "{page}");
        assert!(page.contains("Engine 1.2") && page.contains("do not trust"), "{page}");
        let table = table(&results);
        let line = |what: &str| table.lines().find(|line| line.starts_with(what)).unwrap().to_owned();
        assert!(line("one-shot against").ends_with("MISSED"), "{table}");
        assert!(line("the command against").ends_with("not measured: not | built"), "{table}");
    }

    #[test]
    fn programs_can_read_it() {
        let value: Value = serde_json::from_str(&object(&example()).unwrap()).unwrap();
        assert_eq!(value["latency"][name::RAW]["p50"], 50_000_000);
        assert_eq!(value["targets"][0]["verdict"], "MISSED");
        assert_eq!(value["targets"][2]["verdict"], "met");
        assert_eq!(value["versions"]["Engine"], "1.2");
    }
}
