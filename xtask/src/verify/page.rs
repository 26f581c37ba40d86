//! The pages of `docs/verify`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hotcell_verify::knockout::depths;
use hotcell_verify::report::{Report, markdown};
use hotcell_verify::target::Wrapped;
use hotcell_verify::verdict::Verdict;

use super::elsewhere::Elsewhere;

const NOTICE: &str = "<!-- Written by `cargo xtask verify`; do not edit. -->\n\n";

/// The page that people come to first.
pub(super) fn overview(report: &Report, others: &[Elsewhere]) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "# What holds\n{NOTICE}\
         Hotcell {}, {}. `cargo xtask verify` on Linux {} ({}, {}), as {}; security modules: {}.\n\n\
         Every check attacks a box from inside; `hotcell verify` does the same on your machine. The same attack is tried without a box\n\
         first: where it fails there too, nothing was proven, and it counts as **vacuous**. What attacks aim at is planted for them, and a\n\
         success is a planted secret in the output, a changed or contacted object of the host's, a process that outlives its box, or a system\n\
         call that was reached. [latest.html](latest.html) has the evidence for each, [cves.md](cves.md) the known vulnerabilities of this\n\
         kind of product, [latest.json](latest.json) everything.\n\n",
        machine.version,
        machine.date,
        machine.kernel,
        machine.system,
        machine.architecture,
        machine.user,
        if machine.security_modules.is_empty() { "none to be seen" } else { &machine.security_modules },
    );
    text.push_str("| sandbox | kernel | checks | held | BROKEN | vacuous | not applicable | seconds |\n|---|---|--:|--:|--:|--:|--:|--:|\n");
    for run in &report.runs {
        let summary = run.summary();
        let _ = writeln!(
            text,
            "| {} ({}) | {} | {} | {} | {} | {} | {} | {:.0} |",
            run.runtime,
            machine.user,
            machine.kernel,
            summary.checks,
            summary.held,
            summary.broken,
            summary.vacuous,
            summary.not_applicable,
            run.took.as_secs_f64()
        );
    }
    for other in others {
        let _ = writeln!(
            text,
            "| native ({}) | {} | {} | {} | {} | {} | {} | {:.0} |",
            other.place,
            other.kernel(),
            other.count("checks"),
            other.count("held"),
            other.count("broken"),
            other.count("vacuous"),
            other.count("not_applicable"),
            other.json["seconds"].as_f64().unwrap_or(0.0),
        );
    }
    let _ = writeln!(
        text,
        "\nThe references are there to show that the suite finds holes: `{}` and `{}`. Every hole of theirs is in a table of known\n\
         gaps; one that is not found is a failure too.",
        Wrapped::BUBBLEWRAP.command_line(),
        Wrapped::UNSHARE.command_line()
    );
    not_shown(&mut text, report, others);
    let _ = writeln!(
        text,
        "\n## Held by fewer than two layers\n\
         Boxes were made without each layer and with each alone; {} checks are held by at least two layers, each of which\n\
         holds alone. These are not. \"What every box has\" are the pid, IPC and UTS namespaces and the supervisor: a box without them is none,\n\
         so what else would hold cannot be measured.\n\n{}",
        depths(&report.knock_outs).values().filter(|depth| depth.count() >= 2).count(),
        markdown::thin(&report.knock_outs)
    );
    let _ = writeln!(text, "\n## Without one layer\n{}", markdown::knock_outs(&report.knock_outs));
    let _ = writeln!(text, "\n## All checks\n{}", markdown::matrix(&report.runs));
    text
}

/// What native boxes could not show, and where.
fn not_shown(text: &mut String, report: &Report, others: &[Elsewhere]) {
    let mut rows: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut add = |id: &str, why: &str, place: &str| {
        rows.entry((id.to_owned(), why.to_owned())).or_default().push(place.to_owned());
    };
    for finding in report.runs.first().into_iter().flat_map(|run| &run.findings) {
        if matches!(finding.verdict, Verdict::Vacuous | Verdict::NotApplicable) {
            let why = format!("{}: {}", finding.verdict, finding.reason.as_deref().unwrap_or_default());
            add(finding.check.id, &why, &format!("this machine, {}", report.machine.user));
        }
    }
    for other in others {
        for check in other.json["checks"].as_array().into_iter().flatten() {
            let verdict = check["verdict"].as_str().unwrap_or_default();
            if matches!(verdict, "vacuous" | "not applicable") {
                let why = format!("{verdict}: {}", check["reason"].as_str().unwrap_or_default());
                add(check["id"].as_str().unwrap_or_default(), &why, &other.place);
            }
        }
    }
    text.push_str("\n## Not shown\n| check | why | where |\n|---|---|---|\n");
    for ((id, why), places) in rows {
        let _ = writeln!(text, "| `{id}` | {} | {} |", why.replace('|', "\\|").replace('\n', " "), places.join(", "));
    }
}

/// The known vulnerabilities.
pub(super) fn vulnerabilities(report: &Report) -> String {
    format!(
        "# Known vulnerabilities of this kind of product\n{NOTICE}\
         One row for each that sandboxes and agents had, with the check that shows that a native box of Hotcell {} does not have it,\n\
         on Linux {}, {}. \"Held by\" names layers of which each alone holds it.\n\n{}",
        report.machine.version,
        report.machine.kernel,
        report.machine.date,
        markdown::vulnerabilities(report)
    )
}
