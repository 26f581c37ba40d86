//! The report for a terminal.

use std::fmt::Write;

use super::{Report, Run, Summary};
use crate::check::Group;
use crate::knockout::{KnockOut, depths};
use crate::verdict::{Finding, Verdict};

pub(super) fn render(report: &Report, verbose: bool) -> String {
    let machine = &report.machine;
    let mut text =
        format!("Hotcell {} on {}, Linux {}, as {}\n", machine.version, machine.system, machine.kernel, machine.user);
    for run in &report.runs {
        render_run(&mut text, run, verbose);
    }
    for run in &report.knock_outs {
        render_knock_out(&mut text, run);
    }
    render_thin(&mut text, report);
    text
}

fn render_run(text: &mut String, run: &Run, verbose: bool) {
    let _ = writeln!(text, "\n{}", run.runtime);
    for group in Group::ALL {
        let summary = Summary::of(run.group(*group));
        if summary.checks == 0 {
            continue;
        }
        let held = if *group == Group::Work { "work" } else { "held" };
        let _ = write!(text, "  {group:<12} {:>3} {held}", summary.held);
        for (count, word) in
            [(summary.broken, "BROKEN"), (summary.vacuous, "vacuous"), (summary.not_applicable, "not applicable")]
        {
            if count > 0 {
                let _ = write!(text, ", {count} {word}");
            }
        }
        text.push('\n');
        if verbose {
            run.group(*group).for_each(|finding| line(text, finding));
        }
    }
    if !verbose {
        for verdict in [Verdict::Vacuous, Verdict::NotApplicable, Verdict::Broken] {
            let mut findings = run.with_verdict(verdict).peekable();
            if findings.peek().is_some() {
                let _ = writeln!(text, "\n  {}", heading(verdict));
                findings.for_each(|finding| line(text, finding));
            }
        }
    }
    if let Some(first) = run.with_verdict(Verdict::Broken).find(|finding| finding.known_gap.is_none()) {
        explain(text, first);
    }
    let gaps: Vec<&str> = run
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Held && finding.known_gap.is_some())
        .map(|finding| finding.check.id)
        .collect();
    if !gaps.is_empty() {
        let _ = writeln!(text, "\n  known gaps that held, so the table of gaps is wrong: {}", gaps.join(", "));
    }
    let summary = run.summary();
    let _ = writeln!(
        text,
        "\n  {} checks: {} held, {} BROKEN, {} vacuous, {} not applicable, in {:.1} s",
        summary.checks,
        summary.held,
        summary.broken,
        summary.vacuous,
        summary.not_applicable,
        run.took.as_secs_f64()
    );
}

fn heading(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Broken => "BROKEN",
        Verdict::Vacuous => "vacuous: nothing was proven",
        Verdict::Held => "held",
        Verdict::NotApplicable => "not applicable",
    }
}

fn line(text: &mut String, finding: &Finding) {
    let why = match (finding.verdict, finding.known_gap, &finding.reason) {
        (Verdict::Broken, Some(gap), _) => format!("known gap: {gap}"),
        (_, _, Some(reason)) => reason.clone(),
        (Verdict::Held, ..) if finding.check.group == Group::Work => String::new(),
        _ => finding.check.tries.to_owned(),
    };
    let _ = writeln!(text, "    {:<15} {:<34} {why}", finding.verdict.as_str(), finding.check.id);
}

fn explain(text: &mut String, finding: &Finding) {
    let check = finding.check;
    let _ = writeln!(text, "\n  {} got through:", check.id);
    let _ = writeln!(text, "    tried    {}", check.tries);
    if !check.safe.is_empty() {
        let _ = writeln!(text, "    safe     {}", check.safe);
    }
    let _ = writeln!(text, "    impact   {:?}", check.impact);
    finding.evidence.iter().for_each(|line| text.push_str(&format!("    in it    {line}\n")));
    finding.control.iter().for_each(|line| text.push_str(&format!("    outside  {line}\n")));
}

fn render_knock_out(text: &mut String, run: &KnockOut) {
    let summary = Summary::of(&run.findings);
    let _ = writeln!(
        text,
        "\n{}: {} get through, {} held, {} vacuous, {} not applicable",
        run.boxes.name(),
        summary.broken,
        summary.held,
        summary.vacuous,
        summary.not_applicable
    );
    for finding in run.findings.iter().filter(|finding| finding.verdict == Verdict::Broken) {
        let _ = writeln!(text, "    {:<34} {}", finding.check.id, finding.check.tries);
    }
}

/// What is held by fewer than two layers, if that was found out.
fn render_thin(text: &mut String, report: &Report) {
    let depths = depths(&report.knock_outs);
    if depths.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nHeld by fewer than two layers:");
    for (id, depth) in depths.iter().filter(|(_, depth)| depth.count() < 2) {
        let _ = writeln!(text, "    {id:<34} {}", super::markdown::layers(depth));
    }
}
