//! What an attempt proves.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::attempt::Tried;
use crate::check::{Check, Group};
use crate::layer::Layer;
use crate::target::NotRun;

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It got through.
    Broken,
    /// It works without a box and did not in the box.
    Held,
    /// Nothing was proven: it does not work without a box either, or did not come to its end in the box.
    Vacuous,
    /// It makes no sense here.
    NotApplicable,
}

impl Verdict {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "BROKEN",
            Self::Held => "held",
            Self::Vacuous => "vacuous",
            Self::NotApplicable => "not applicable",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What was found out about one check.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The check.
    pub check: &'static Check,
    /// What it came to.
    pub verdict: Verdict,
    /// Why it is vacuous or not applicable.
    pub reason: Option<String>,
    /// The layers that refused: measured, if boxes without layers were tried, else read from the errors.
    pub layers: BTreeSet<Layer>,
    /// What happened in the box.
    pub evidence: Vec<String>,
    /// What happened without a box.
    pub control: Vec<String>,
    /// Why a hole is known to be there, if it is.
    pub known_gap: Option<&'static str>,
}

/// How much of the evidence is kept.
const EVIDENCE: usize = 8;

impl Finding {
    /// Whether this is what was to be expected of this sandbox: no hole but a known one, and each known one found.
    pub fn is_expected(&self) -> bool {
        match self.verdict {
            Verdict::Broken => self.known_gap.is_some(),
            Verdict::Held => self.known_gap.is_none(),
            Verdict::Vacuous | Verdict::NotApplicable => true,
        }
    }

    pub(crate) fn new(check: &'static Check, control: &Result<Tried, NotRun>, tried: &Result<Tried, NotRun>) -> Self {
        let mut finding = Self {
            check,
            verdict: Verdict::Vacuous,
            reason: None,
            layers: BTreeSet::new(),
            evidence: tried.as_ref().map(evidence).unwrap_or_default(),
            control: control.as_ref().map(evidence).unwrap_or_default(),
            known_gap: None,
        };
        (finding.verdict, finding.reason) = judge(check, control, tried);
        if let (Verdict::Held, Ok(tried)) = (finding.verdict, tried) {
            finding.layers = layers(tried);
            if finding.layers.is_empty() && check.group == Group::Supervisor {
                finding.layers.insert(Layer::Supervisor);
            }
        }
        finding
    }
}

fn judge(check: &Check, control: &Result<Tried, NotRun>, tried: &Result<Tried, NotRun>) -> (Verdict, Option<String>) {
    let tried = match tried {
        Ok(tried) => tried,
        Err(NotRun::NotApplicable(reason)) => return (Verdict::NotApplicable, Some(reason.clone())),
        Err(NotRun::Failed(reason)) if check.must_work() => return (Verdict::Broken, Some(reason.clone())),
        Err(NotRun::Failed(reason)) => return (Verdict::Vacuous, Some(format!("it could not be tried: {reason}"))),
    };
    let worked_outside = match control {
        Ok(control) => !control.signs.is_empty(),
        Err(NotRun::NotApplicable(reason)) => return (Verdict::NotApplicable, Some(reason.clone())),
        Err(NotRun::Failed(_)) => false,
    };
    let worked = !tried.signs.is_empty();
    match (check.must_work(), worked_outside, worked) {
        (true, false, _) => (Verdict::NotApplicable, Some("it does not work outside of a box either".into())),
        (true, true, worked) => (if worked { Verdict::Held } else { Verdict::Broken }, None),
        // A sign in the box needs no control to count.
        (false, _, true) => (Verdict::Broken, None),
        (false, false, false) => (Verdict::Vacuous, Some("it does not work outside of a box either".into())),
        (false, true, false) if !tried.finished => {
            (Verdict::Vacuous, Some(format!("the attack did not come to its end: {}", tried.end)))
        }
        (false, true, false) => (Verdict::Held, None),
    }
}

fn evidence(tried: &Tried) -> Vec<String> {
    let mut lines: Vec<String> = tried.signs.iter().chain(&tried.refusals).take(EVIDENCE).cloned().collect();
    let left_out = tried.signs.len() + tried.refusals.len() - lines.len();
    if left_out > 0 {
        lines.push(format!("and {left_out} more"));
    }
    if !tried.refused_calls.is_empty() {
        lines.push(format!("the system call filter refused {}", tried.refused_calls.join(", ")));
    }
    lines.push(tried.end.clone());
    lines
}

/// The layers that refused, as far as the errors tell.
fn layers(tried: &Tried) -> BTreeSet<Layer> {
    let filtered = |refusal: &str| {
        let what = refusal.strip_prefix("refused ").unwrap_or(refusal);
        tried.refused_calls.iter().any(|call| what.starts_with(call.as_str()))
    };
    let mut layers: BTreeSet<Layer> = tried
        .refusals
        .iter()
        .filter_map(|refusal| if filtered(refusal) { Some(Layer::Seccomp) } else { Layer::behind(refusal) })
        .collect();
    if !tried.refused_calls.is_empty() {
        layers.insert(Layer::Seccomp);
    }
    layers
}
