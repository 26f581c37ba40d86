//! Reports, for people and for programs.

mod html;
mod json;
mod machine;
pub mod markdown;
mod text;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::check::{Check, Group};
use crate::knockout::{Boxes, KnockOut, knock_out};
use crate::suite::Suite;
use crate::target::Target;
use crate::verdict::{Finding, Verdict};

pub use machine::Machine;

/// Everything that was found out.
#[derive(Debug, Clone)]
pub struct Report {
    /// Where and as whom.
    pub machine: Machine,
    /// One for each sandbox that was tried; the first is the one that was asked for first.
    pub runs: Vec<Run>,
    /// Boxes without layers, if they were asked for.
    pub knock_outs: Vec<KnockOut>,
}

/// All checks in one sandbox.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its name.
    pub runtime: String,
    /// What the checks came to.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

/// How many checks came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Checks in all.
    pub checks: usize,
    /// Held.
    pub held: usize,
    /// Got through.
    pub broken: usize,
    /// Proved nothing.
    pub vacuous: usize,
    /// Made no sense.
    pub not_applicable: usize,
    /// Were not what the table of known gaps says.
    pub unexpected: usize,
}

impl Summary {
    /// Counts findings.
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut summary = Self::default();
        for finding in findings {
            summary.checks += 1;
            match finding.verdict {
                Verdict::Held => summary.held += 1,
                Verdict::Broken => summary.broken += 1,
                Verdict::Vacuous => summary.vacuous += 1,
                Verdict::NotApplicable => summary.not_applicable += 1,
            }
            summary.unexpected += usize::from(!finding.is_expected());
        }
        summary
    }
}

impl Run {
    /// How many checks came to what.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.findings)
    }

    /// Findings with this verdict.
    pub fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.verdict == verdict)
    }

    fn group(&self, group: Group) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.check.group == group)
    }

    fn find(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check.id == id)
    }
}

impl Report {
    /// Tries the checks of `suite` in each of `targets`, and in native boxes that lack layers. `progress` hears of each
    /// check before it is tried, and where.
    pub async fn examine(
        suite: &mut Suite,
        targets: &[Box<dyn Target>],
        boxes: &[Boxes],
        mut progress: impl FnMut(&str, &Check),
    ) -> Self {
        let mut report = Self { machine: Machine::this(), runs: Vec::new(), knock_outs: Vec::new() };
        for target in targets {
            let start = Instant::now();
            let findings = suite.run(&**target, |check| progress(target.name(), check)).await;
            report.runs.push(Run { runtime: target.name().to_owned(), findings, took: start.elapsed() });
        }
        for boxes in boxes {
            let name = boxes.name();
            report.knock_outs.push(knock_out(suite, *boxes, |check| progress(&name, check)).await);
        }
        report
    }

    /// Whether nothing got through, every known gap was found, and something was proven at all.
    pub fn is_good(&self) -> bool {
        let good = |findings: &[Finding]| {
            findings.iter().all(|finding| finding.verdict != Verdict::Broken && finding.is_expected())
        };
        self.runs.iter().all(|run| good(&run.findings) && run.summary().held > 0)
            && self.knock_outs.iter().all(|run| good(&run.findings))
    }

    /// For programs: `{"runtime", "checks": […], "summary", …}`.
    pub fn to_json(&self) -> serde_json::Value {
        json::render(self)
    }

    /// For a terminal; `verbose` lists every check.
    pub fn to_text(&self, verbose: bool) -> String {
        text::render(self, verbose)
    }

    /// A page that needs nothing else.
    pub fn to_html(&self) -> String {
        html::render(self)
    }
}
