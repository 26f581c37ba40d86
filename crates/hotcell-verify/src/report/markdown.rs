//! Tables for documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{Report, Run};
use crate::check::Group;
use crate::cve;
use crate::knockout::{Boxes, Depth, KnockOut, depths, switchable, verdict};
use crate::verdict::Verdict;

/// The checks × sandboxes.
pub fn matrix(runs: &[Run]) -> String {
    let mut text = String::from("| check | tries |");
    runs.iter().for_each(|run| text.push_str(&format!(" {} |", run.runtime)));
    text.push_str("\n|---|---|");
    runs.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    let Some(first) = runs.first() else { return text };
    for group in Group::ALL {
        for finding in first.group(*group) {
            let _ = write!(text, "| `{}` | {} |", finding.check.id, cell(finding.check.tries));
            for run in runs {
                let verdict = run.find(finding.check.id).map_or("", |finding| finding.verdict.as_str());
                let _ = write!(text, " {verdict} |");
            }
            text.push('\n');
        }
    }
    text
}

/// The checks × boxes without one layer, and what holds each.
pub fn knock_outs(runs: &[KnockOut]) -> String {
    let depths = depths(runs);
    let columns: Vec<_> = switchable().collect();
    let mut text = String::from("| check | held by |");
    columns.iter().for_each(|layer| text.push_str(&format!(" without {layer} |")));
    text.push_str("\n|---|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    let Some(first) = runs.first() else { return text };
    for finding in &first.findings {
        let id = finding.check.id;
        let held_by = depths.get(id).map_or_else(String::new, layers);
        let _ = write!(text, "| `{id}` | {held_by} |");
        for layer in &columns {
            let word = verdict(runs, Boxes::Without(*layer), id).map_or("", Verdict::as_str);
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    text
}

/// The checks that fewer than two layers hold.
pub fn thin(runs: &[KnockOut]) -> String {
    let mut text = String::from("| check | held by |\n|---|---|\n");
    for (id, depth) in depths(runs).iter().filter(|(_, depth)| depth.count() < 2) {
        let _ = writeln!(text, "| `{id}` | {} |", layers(depth));
    }
    text
}

/// The known vulnerabilities of sandboxes like this one, and what became of each.
pub fn vulnerabilities(report: &Report) -> String {
    let depths = depths(&report.knock_outs);
    let native = report.runs.iter().find(|run| run.runtime == "native");
    let mut text = String::from(
        "| vulnerability | in | what happened | here | held by | proven by |\n|---|---|---|---|---|---|\n",
    );
    for record in cve::RECORDS {
        let verdicts = record.checks.iter().filter_map(|id| native?.find(id).map(|finding| finding.verdict));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            record.id,
            cell(record.product),
            cell(record.what),
            state(record, &verdicts.collect::<Vec<_>>()),
            held_by(record, &depths, native),
            record.checks.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "),
        );
    }
    text
}

fn state(record: &cve::Record, verdicts: &[Verdict]) -> String {
    match record.absent {
        Some(why) => format!("not applicable: {why}"),
        None if verdicts.contains(&Verdict::Broken) => "**BROKEN**".to_owned(),
        None if verdicts.contains(&Verdict::Held) => "held".to_owned(),
        None => "not shown on this machine".to_owned(),
    }
}

/// What holds the checks of a record: measured, or else as far as the errors tell.
fn held_by(record: &cve::Record, depths: &BTreeMap<&str, Depth>, native: Option<&Run>) -> String {
    let by_errors = |id: &str| {
        let finding = native?.find(id)?;
        let seen: Vec<&str> = finding.layers.iter().map(|layer| layer.as_str()).collect();
        (!seen.is_empty()).then(|| format!("{} (not measured)", seen.join(", ")))
    };
    let words = record.checks.iter().filter_map(|id| depths.get(id).map(layers).or_else(|| by_errors(id)));
    words.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join("; ")
}

/// What holds a check, in words.
pub(super) fn layers(depth: &Depth) -> String {
    let join = |layers: &BTreeSet<crate::Layer>, word: &str| {
        layers.iter().map(|layer| layer.as_str()).collect::<Vec<_>>().join(word)
    };
    match depth {
        Depth { structural: true, .. } => "what every box has".to_owned(),
        Depth { alone, needed, .. } if alone.is_empty() => join(needed, " with "),
        Depth { alone, .. } => join(alone, ", "),
    }
}

/// Text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
