//! What `cargo xtask fuzz` is asked to do.

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [TARGET…]";

/// How long, and which targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// For each target.
    pub(super) seconds: u32,
    /// None means all.
    pub(super) targets: Vec<String>,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { seconds: 60, targets: Vec::new() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = match word.as_str() {
                "--seconds" => {
                    Some(words.next().with_context(|| format!("`--seconds` needs a number; {USAGE}"))?.as_str())
                }
                joined => joined.strip_prefix("--seconds="),
            };
            match value {
                Some(value) => options.seconds = parse_seconds(value)?,
                None if word.starts_with('-') => bail!("unknown argument `{word}`; {USAGE}"),
                None => options.targets.push(word.clone()),
            }
        }
        Ok(options)
    }
}

fn parse_seconds(text: &str) -> Result<u32> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => bail!("`--seconds` is a number between 1 and 86400, not `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn targets_and_seconds_come_in_any_order() {
        assert_eq!(parse(&[]).unwrap(), Options { seconds: 60, targets: vec![] });
        let expected = Options { seconds: 5, targets: vec!["wire".to_owned(), "config".to_owned()] };
        assert_eq!(parse(&["wire", "--seconds", "5", "config"]).unwrap(), expected);
        assert_eq!(parse(&["--seconds=5", "wire", "config"]).unwrap(), expected);
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [&["--seconds"][..], &["--seconds", "0"], &["--seconds=x"], &["--seconds=90000"], &["--all"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
