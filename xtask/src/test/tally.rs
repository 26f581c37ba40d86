//! What passed, what failed and what was skipped, over everything that ran.

use std::collections::BTreeSet;

use super::libtest::Report;

/// The counts of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: Vec<String>,
    skipped: BTreeSet<Skip>,
}

/// Something that did not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Skip {
    name: String,
    reason: String,
    /// Would installing something have let it run?
    avoidable: bool,
}

impl Tally {
    /// Counts a step that failed.
    pub(crate) fn fail(&mut self, name: &str) {
        self.failed.push(name.to_owned());
    }

    /// How many failures there are so far.
    pub(crate) fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Has nothing passed or failed? What is missing for a run is counted as skipped, whether or not a test needs it.
    pub(crate) fn nothing_ran(&self) -> bool {
        self.passed == 0 && self.failed.is_empty()
    }

    /// Counts something that could not run. The same skip said twice is one skip.
    pub(crate) fn skip(&mut self, name: &str, reason: &str, avoidable: bool) {
        self.skipped.insert(Skip { name: name.to_owned(), reason: reason.to_owned(), avoidable });
    }

    /// Counts what one test binary reported, with the lines that its tests wrote to the skip log.
    ///
    /// A test that skips itself at run time returns, so libtest calls it passed; it is counted here as skipped.
    pub(crate) fn add(&mut self, name: &str, report: &Report, skip_log: &BTreeSet<String>, ended_well: bool) {
        let mut skipped_at_run_time = BTreeSet::new();
        for line in skip_log {
            let (test, reason) = line.split_once(": ").unwrap_or((line, "no reason given"));
            self.skip(&format!("{name}: {test}"), reason, reason.contains("not installed"));
            skipped_at_run_time.insert(test);
        }
        self.passed += report.passed.saturating_sub(skipped_at_run_time.len());
        for (test, reason) in &report.ignored {
            self.skip(&format!("{name}: {test}"), reason, false);
        }
        for test in &report.failed {
            self.failed.push(format!("{name}: {test}"));
        }
        if !ended_well && report.failed.is_empty() {
            self.failed.push(format!("{name}: ended badly without naming a failed test"));
        }
    }

    /// Prints skips, failures and the summary line; true when nothing failed.
    pub(crate) fn report(&self, under_ci: bool) -> bool {
        let (forbidden, allowed): (Vec<&Skip>, Vec<&Skip>) =
            self.skipped.iter().partition(|skip| under_ci && skip.avoidable);
        list("Skipped", &allowed);
        list("Skipped, though an install would have avoided it", &forbidden);
        if !self.failed.is_empty() {
            println!("\nFailed");
            for name in &self.failed {
                println!("  {name}");
            }
        }
        let failed = self.failed.len() + forbidden.len();
        println!("\n{}", summary(self.passed, failed, allowed.len()));
        failed == 0
    }
}

fn list(heading: &str, skips: &[&Skip]) {
    if skips.is_empty() {
        return;
    }
    println!("\n{heading}");
    for skip in skips {
        println!("  {}: {}", skip.name, skip.reason);
    }
}

fn summary(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn passed(count: usize) -> Report {
        Report { passed: count, ..Report::default() }
    }

    #[test]
    fn a_test_that_skips_itself_is_not_a_pass() {
        let mut tally = Tally::default();
        let lines = log(&["pip: pip is not installed", "pty: no /dev/ptmx", "pty: no tty group"]);
        tally.add("cli", &passed(5), &lines, true);
        assert_eq!(tally.passed, 3);
        assert_eq!(tally.skipped.len(), 3);
        assert!(tally.report(false));
    }

    #[test]
    fn an_avoidable_skip_fails_only_under_ci() {
        let mut tally = Tally::default();
        tally.add("cli", &passed(1), &log(&["node: node is not installed"]), true);
        assert!(tally.report(false));
        assert!(!tally.report(true));

        let mut tally = Tally::default();
        tally.add("cli", &passed(1), &log(&["cgroup: no v2 controllers here"]), true);
        assert!(tally.report(true));
    }

    #[test]
    fn what_was_skipped_did_not_run() {
        let mut tally = Tally::default();
        tally.skip("other kernels", "not installed", true);
        assert!(tally.nothing_ran());
        tally.add("cli", &passed(1), &BTreeSet::new(), true);
        assert!(!tally.nothing_ran());
    }

    #[test]
    fn a_binary_that_dies_is_a_failure() {
        let mut tally = Tally::default();
        tally.add("cli", &passed(0), &BTreeSet::new(), false);
        assert_eq!(tally.failures(), 1);
        assert!(!tally.report(false));
    }

    #[test]
    fn the_last_line_has_a_fixed_form() {
        assert_eq!(summary(12, 0, 3), "12 passed, 0 failed, 3 skipped");
    }
}
