//! The report as one page that needs nothing else: no script, no font, no other file.

use std::fmt::Write;

use super::{Report, Run, Summary};
use crate::check::Group;
use crate::knockout::{Boxes, depths, switchable, verdict};
use crate::verdict::{Finding, Verdict};

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; padding: 0.3rem 0; opacity: 0.75; }
th, td { border-bottom: 1px solid #8884; padding: 0.25rem 0.5rem; text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: Canvas; } td.v { white-space: nowrap; font-weight: 600; }
tr.group th { padding-top: 1rem; font-size: 1rem; } code { font-size: 0.9em; }
.held { color: #1a7f37; } .broken { color: #cf222e; } .vacuous { color: #9a6700; } .na { color: #6e7781; font-weight: 400; }
details summary { cursor: pointer; } .lines { font: 12px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.3rem 0; }
@media (prefers-color-scheme: dark) { .held { color: #3fb950; } .broken { color: #ff7b72; } .vacuous { color: #d29922; } }
";

pub(super) fn render(report: &Report) -> String {
    let machine = &report.machine;
    let names: Vec<&str> = report.runs.iter().map(|run| run.runtime.as_str()).collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Hotcell verification: {}</title>\n<style>{STYLE}</style>\n<h1>Hotcell verification</h1>\n",
        escape(&names.join(", "))
    );
    let _ = writeln!(
        page,
        "<p>Hotcell {} · Linux {} · {} · {} · as {} · {}</p>",
        escape(machine.version),
        escape(&machine.kernel),
        escape(&machine.system),
        machine.architecture,
        escape(&machine.user),
        machine.date,
    );
    summaries(&mut page, report);
    matrix(&mut page, &report.runs);
    if !report.knock_outs.is_empty() {
        knock_outs(&mut page, report);
    }
    page
}

fn summaries(page: &mut String, report: &Report) {
    page.push_str(
        "<table>\n<thead><tr><th>sandbox<th>checks<th>held<th>BROKEN<th>vacuous<th>not applicable<th>seconds</thead>\n",
    );
    for run in &report.runs {
        let Summary { checks, held, broken, vacuous, not_applicable, .. } = run.summary();
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{checks}<td>{held}<td>{broken}<td>{vacuous}<td>{not_applicable}<td>{:.1}",
            escape(&run.runtime),
            run.took.as_secs_f64()
        );
    }
    page.push_str("</table>\n");
}

fn matrix(page: &mut String, runs: &[Run]) {
    page.push_str(
        "<h2>Checks and sandboxes</h2>\n<table>\n<caption>Every check was tried without a box first; where it \
         does not work there either, it is vacuous.</caption>\n<thead><tr><th>check",
    );
    runs.iter().for_each(|run| page.push_str(&format!("<th>{}", escape(&run.runtime))));
    page.push_str("</thead>\n");
    let Some(first) = runs.first() else { return };
    for group in Group::ALL {
        let mut findings = first.group(*group).peekable();
        if findings.peek().is_some() {
            let _ = writeln!(page, "<tr class=\"group\"><th colspan=\"{}\">{group}", runs.len() + 1);
        }
        for finding in findings {
            row(page, finding, runs);
        }
    }
    page.push_str("</table>\n");
}

fn row(page: &mut String, finding: &Finding, runs: &[Run]) {
    let check = finding.check;
    let _ =
        write!(page, "<tr><td><details><summary><code>{}</code> {}</summary>", escape(check.id), escape(check.tries));
    if !check.safe.is_empty() {
        let _ = write!(page, "<div>Safe: {}. Impact: {:?}.</div>", escape(check.safe), check.impact);
    }
    if !check.cves.is_empty() {
        let _ = write!(page, "<div>{}</div>", escape(&check.cves.join(", ")));
    }
    lines(page, "without a box", &finding.control);
    for run in runs {
        if let Some(finding) = run.find(check.id) {
            lines(page, &run.runtime, &finding.evidence);
        }
    }
    page.push_str("</details>");
    for run in runs {
        cell(page, run.find(check.id).map(|finding| finding.verdict), run.find(check.id).and_then(hint));
    }
    page.push('\n');
}

/// What to say about a verdict on hovering.
fn hint(finding: &Finding) -> Option<&str> {
    finding.known_gap.or(finding.reason.as_deref())
}

fn lines(page: &mut String, title: &str, lines: &[String]) {
    let _ = write!(page, "<div class=\"lines\"><b>{}</b>\n{}</div>", escape(title), escape(&lines.join("\n")));
}

fn cell(page: &mut String, verdict: Option<Verdict>, hint: Option<&str>) {
    let class = match verdict {
        Some(Verdict::Held) => "held",
        Some(Verdict::Broken) => "broken",
        Some(Verdict::Vacuous) => "vacuous",
        Some(Verdict::NotApplicable) | None => "na",
    };
    let title = hint.map(|hint| format!(" title=\"{}\"", escape(hint))).unwrap_or_default();
    let _ = write!(page, "<td class=\"v {class}\"{title}>{}", verdict.map_or("", Verdict::as_str));
}

fn knock_outs(page: &mut String, report: &Report) {
    let runs = &report.knock_outs;
    let depths = depths(runs);
    let columns: Vec<Boxes> =
        switchable().map(Boxes::Without).filter(|boxes| runs.iter().any(|run| run.boxes == *boxes)).collect();
    page.push_str(
        "<h2>Native boxes without one layer</h2>\n<table>\n<caption>What gets through without a layer is held by nothing \
         else. “Held by” names the layers that hold it alone.</caption>\n<thead><tr><th>check<th>held by",
    );
    columns.iter().for_each(|boxes| page.push_str(&format!("<th>{}", escape(&boxes.name().replace("native ", "")))));
    page.push_str("</thead>\n");
    for finding in runs.first().map(|run| run.findings.as_slice()).unwrap_or_default() {
        let id = finding.check.id;
        let held_by = depths.get(id).map(super::markdown::layers).unwrap_or_default();
        let _ = write!(page, "<tr><td><code>{}</code><td>{}", escape(id), escape(&held_by));
        columns.iter().for_each(|boxes| cell(page, verdict(runs, *boxes, id), None));
        page.push('\n');
    }
    page.push_str("</table>\n");
}

/// Text for a page: what a box printed is among it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn what_a_box_prints_is_text() {
        assert_eq!(escape("<script>'\"&\u{1b}[2J"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}[2J");
    }
}
