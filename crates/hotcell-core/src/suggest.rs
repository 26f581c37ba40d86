//! "Did you mean …?"

/// The candidate that is nearest to what was written, if any is near enough to be worth saying.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase();
    let length = written.chars().count();
    let farthest = |candidate: &str| (candidate.len() / 3).max(1);
    candidates
        .into_iter()
        // Comparing takes time and memory by the product of the lengths, and a stranger may have written a megabyte.
        .filter(|candidate| candidate.len().abs_diff(length) <= farthest(candidate))
        .map(|candidate| (strsim::damerau_levenshtein(&written, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= farthest(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The suggestion as the tail of a sentence, or nothing.
pub(crate) fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::nearest;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["memory", "cpus", "cpu_time"];
        assert_eq!(nearest("memroy", names), Some("memory"));
        assert_eq!(nearest("Memory", names), Some("memory"));
        assert_eq!(nearest("colour", names), None);
    }

    #[test]
    fn a_very_long_name_takes_no_time() {
        let started = Instant::now();
        assert_eq!(nearest(&"x".repeat(4 << 20), ["memory", "cpus", "cpu_time"]), None);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
