//! Reading what Rust's test harness prints.

/// What one or more runs of the harness said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// The names of the tests that failed.
    pub(crate) failed: Vec<String>,
    /// The tests marked `#[ignore]`, each with its reason.
    pub(crate) ignored: Vec<(String, String)>,
    /// Was there a result line at all? A test binary with a harness of its own prints none.
    pub(crate) has_result: bool,
}

impl Report {
    /// A few words for the progress list.
    pub(crate) fn summary(&self) -> String {
        let mut words = format!("{} passed", self.passed);
        if !self.failed.is_empty() {
            words.push_str(&format!(", {} FAILED", self.failed.len()));
        }
        if !self.ignored.is_empty() {
            words.push_str(&format!(", {} ignored", self.ignored.len()));
        }
        words
    }
}

/// Sums up every result line in `output`.
pub(crate) fn parse(output: &str) -> Report {
    let mut report = Report::default();
    let mut failed_by_count = 0;
    for line in output.lines() {
        if let Some(counts) = line.strip_prefix("test result: ") {
            report.has_result = true;
            report.passed += count(counts, "passed");
            failed_by_count += count(counts, "failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            // The result is last, and a doc test's name may itself contain " ... ".
            let Some((name, result)) = test.rsplit_once(" ... ") else {
                continue;
            };
            if result == "FAILED" {
                report.failed.push(name.to_owned());
            } else if result == "ignored" {
                report.ignored.push((name.to_owned(), "marked `ignore`, no reason given".to_owned()));
            } else if let Some(reason) = result.strip_prefix("ignored, ") {
                report.ignored.push((name.to_owned(), reason.to_owned()));
            }
        }
    }
    // Output printed by a test in the middle of its line can hide a name; the count still tells.
    while report.failed.len() < failed_by_count {
        report.failed.push("a test whose name was not seen".to_owned());
    }
    report
}

/// The number before `word` in `ok. 12 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> usize {
    counts
        .split(['.', ';'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let report = parse(
            "running 4 tests\n\
             test a::b ... ok\n\
             test c ... FAILED\n\
             test d ... ignored, needs a cluster\n\
             test e ... ignored\n\
             test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             running 2 tests\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.10s\n",
        );
        assert_eq!(report.passed, 3);
        assert_eq!(report.failed, ["c"]);
        assert_eq!(report.ignored[0], ("d".to_owned(), "needs a cluster".to_owned()));
        assert_eq!(report.ignored[1].0, "e");
        assert!(report.has_result);
        assert_eq!(report.summary(), "3 passed, 1 FAILED, 2 ignored");
    }

    #[test]
    fn a_failure_without_a_name_still_counts() {
        let report = parse("test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured\n");
        assert_eq!(report.failed.len(), 2);
    }

    #[test]
    fn no_result_line_is_seen() {
        assert_eq!(parse("thread panicked\n"), Report::default());
    }
}
