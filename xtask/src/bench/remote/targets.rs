//! What the numbers should be.

use super::candidates as name;
use crate::bench::latency::Row;
use crate::bench::targets::{Better, Target, over};

/// Every target, with what was measured.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let beyond = |what, ours, raw| Target {
        what,
        unit: "ms",
        value: over(rows, ours, raw),
        bar: 5.0,
        aim: 5.0,
        better: Better::Lower,
    };
    vec![
        beyond("a command in a kept E2B box, beyond its calls", name::E2B, name::E2B_RAW),
        beyond("a command in a kept OpenSandbox box, beyond its calls", name::OPENSANDBOX, name::OPENSANDBOX_RAW),
    ]
}
