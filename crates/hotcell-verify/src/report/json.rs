//! The report for programs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Report, Run, Summary};
use crate::knockout::{Boxes, Depth, KnockOut, depths};
use crate::layer::Layer;
use crate::verdict::Finding;

/// One object: the first run, with the others and the boxes without layers beside it.
pub(super) fn render(report: &Report) -> Value {
    let measured = depths(&report.knock_outs);
    let mut runs = report.runs.iter().enumerate().map(|(number, run)| {
        // Layers are measured on native boxes.
        let measured = if number == 0 && run.runtime == "native" { &measured } else { &BTreeMap::new() };
        render_run(run, measured)
    });
    let mut object = runs.next().unwrap_or_else(|| json!({}));
    object["machine"] = json!(report.machine);
    object["compared"] = Value::Array(runs.collect());
    object["knock_outs"] = report.knock_outs.iter().map(render_knock_out).collect();
    object
}

fn render_run(run: &Run, measured: &BTreeMap<&str, Depth>) -> Value {
    let checks: Vec<Value> =
        run.findings.iter().map(|finding| render_finding(finding, measured.get(finding.check.id))).collect();
    json!({
        "runtime": run.runtime,
        "checks": checks,
        "summary": run.summary(),
        "seconds": run.took.as_secs_f64(),
    })
}

fn render_finding(finding: &Finding, depth: Option<&Depth>) -> Value {
    let check = finding.check;
    let layers: BTreeSet<Layer> = match depth {
        Some(depth) if depth.structural => [Layer::Namespaces].into(),
        Some(depth) if depth.alone.is_empty() => depth.needed.clone(),
        Some(depth) => depth.alone.clone(),
        None => finding.layers.clone(),
    };
    json!({
        "id": check.id,
        "group": check.group,
        "verdict": finding.verdict,
        "reason": finding.reason,
        "expected": finding.is_expected(),
        "known_gap": finding.known_gap,
        "layers": layers,
        "layers_measured": depth.is_some(),
        "evidence": finding.evidence,
        "control": finding.control,
        "tries": check.tries,
        "safe": check.safe,
        "impact": check.impact,
        "cves": check.cves,
    })
}

fn render_knock_out(run: &KnockOut) -> Value {
    let (kind, layer) = match run.boxes {
        Boxes::Without(layer) => ("without", Some(layer)),
        Boxes::Only(layer) => ("only", Some(layer)),
        Boxes::Bare => ("bare", None),
    };
    let verdicts: BTreeMap<&str, &str> =
        run.findings.iter().map(|finding| (finding.check.id, finding.verdict.as_str())).collect();
    json!({ "boxes": kind, "layer": layer, "verdicts": verdicts, "summary": Summary::of(&run.findings) })
}
