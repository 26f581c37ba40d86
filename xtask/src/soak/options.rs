//! What `cargo xtask soak` is asked to do.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::PARTS;

pub(super) const USAGE: &str = "usage: cargo xtask soak [--quick] [--only NAME] [--seed N] [--out DIR] [--mutants]";

/// Says that the surroundings of the soak have been made: only xtask itself says it.
pub(super) const INSIDE: &str = "--inside";

/// How much is done, and where the result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// A smoke test: everything runs, in small numbers.
    pub(super) quick: bool,
    /// This part alone.
    pub(super) only: Option<String>,
    /// Where the result goes; none means `docs/soak`, or `target/soak` for a smoke test.
    pub(super) out: Option<PathBuf>,
    /// Where random numbers begin; none means anywhere.
    pub(super) seed: Option<u64>,
    /// Break the code on purpose, and see each part notice.
    pub(super) mutants: bool,
    /// The surroundings are there.
    pub(super) inside: bool,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { quick: false, only: None, out: None, seed: None, mutants: false, inside: false };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            match (flag, &joined) {
                ("--quick", None) => options.quick = true,
                ("--mutants", None) => options.mutants = true,
                (INSIDE, None) => options.inside = true,
                ("--only" | "--out" | "--seed", _) => {
                    let value = joined.or_else(|| words.next().cloned()).filter(|value| !value.is_empty());
                    options.set(flag, value.with_context(|| format!("`{flag}` needs a value; {USAGE}"))?)?;
                }
                _ => bail!("unknown argument `{word}`; {USAGE}"),
            }
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: String) -> Result<()> {
        match flag {
            "--out" => self.out = Some(PathBuf::from(value)),
            "--seed" => match value.parse() {
                Ok(seed) => self.seed = Some(seed),
                Err(_) => bail!("`--seed` is a number, not `{value}`"),
            },
            _ => {
                if !PARTS.iter().any(|part| part.name == value) {
                    let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
                    bail!("there is no part `{value}`; the parts are {}", names.join(", "));
                }
                self.only = Some(value);
            }
        }
        Ok(())
    }

    /// `full`, or `quick` in a smoke test.
    pub(super) fn scale<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_have_two_spellings() {
        let options = parse(&["--quick", "--only", "races", "--out=somewhere", "--seed=7"]).unwrap();
        assert_eq!((options.quick, options.only.as_deref()), (true, Some("races")));
        assert_eq!((options.out, options.seed), (Some("somewhere".into()), Some(7)));
        assert!(!parse(&[]).unwrap().quick && parse(&["--mutants"]).unwrap().mutants);
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [&["--only"][..], &["--only", "nothing"], &["--seed=-1"], &["--out="], &["--fast"], &["--quick=1"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
