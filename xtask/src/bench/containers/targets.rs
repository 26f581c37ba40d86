//! What the numbers should be.

use super::candidates as name;
use crate::bench::latency::Row;
use crate::bench::targets::{Better, Target, over, ratio};

/// Every target, with what was measured.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let target = |what, unit, value, bar, better| Target { what, unit, value, bar, aim: bar, better };
    let at_most = |what, ours, theirs, bar| target(what, "×", ratio(rows, ours, theirs), bar, Better::Lower);
    vec![
        at_most("one-shot against the same calls", name::ONE_SHOT, name::RAW, 1.1),
        at_most("the command against `docker run`", name::CLI, name::RUN, 0.9),
        target(
            "exec in a kept box, beyond a native one's",
            "ms",
            over(rows, name::KEPT, name::NATIVE_KEPT),
            3.0,
            Better::Lower,
        ),
        target(
            "exec in a kept box, faster than `docker exec`",
            "×",
            ratio(rows, name::EXEC, name::KEPT),
            10.0,
            Better::Higher,
        ),
        at_most("gVisor against `docker run --runtime=runsc`", name::GVISOR, name::RUN_RUNSC, 0.6),
        at_most("runc against `docker run`", name::OCI, name::RUN, 0.4),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::samples::Samples;
    use crate::bench::targets::Verdict;

    #[test]
    fn every_target_is_between_rows_that_there_are() {
        let row = |name, milliseconds| Row {
            name,
            about: "",
            samples: Samples::new(vec![Duration::from_millis(milliseconds)]).ok_or_else(String::new),
        };
        let rows = [
            (name::ONE_SHOT, 110),
            (name::CLI, 181),
            (name::RAW, 100),
            (name::RUN, 200),
            (name::KEPT, 4),
            (name::NATIVE_KEPT, 1),
            (name::EXEC, 40),
            (name::OCI, 80),
            (name::GVISOR, 121),
            (name::RUN_RUNSC, 200),
        ]
        .map(|(name, milliseconds)| row(name, milliseconds));
        let verdicts: Vec<Verdict> = targets(&rows).iter().map(Target::verdict).collect();
        let (met, missed) = (Verdict::Aim, Verdict::Missed);
        assert_eq!(verdicts, [met, missed, met, met, missed, met]);
    }
}
