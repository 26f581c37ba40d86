//! "Did you mean …?"

/// The candidate that is nearest to what was written, if any is near enough to be worth saying.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The suggestion as the tail of a sentence, or nothing.
pub(crate) fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["memory", "cpus", "cpu_time"];
        assert_eq!(nearest("memroy", names), Some("memory"));
        assert_eq!(nearest("Memory", names), Some("memory"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("x".repeat(100_000).as_str(), names), None);
    }
}
