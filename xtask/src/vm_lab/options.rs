//! What `cargo xtask vm-lab` is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

pub(super) const USAGE: &str = "usage: cargo xtask vm-lab --suite bullseye|bookworm|trixie [--user] [--mem MB] \
                                [--timeout SECONDS] [--out DIR] -- COMMAND [ARGUMENT…]";

/// A Debian release, for the kernel that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    /// Linux 5.10: no Landlock.
    Bullseye,
    /// Linux 6.1: Landlock ABI 2.
    Bookworm,
    /// Linux 6.12: Landlock ABI 6.
    Trixie,
}

impl Suite {
    const ALL: [Self; 3] = [Self::Bullseye, Self::Bookworm, Self::Trixie];

    /// Its name on a Debian mirror.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bullseye => "bullseye",
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }

    fn parse(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|suite| suite.name() == text) {
            Some(suite) => Ok(suite),
            None => bail!("there is no suite `{text}` here; {USAGE}"),
        }
    }
}

/// One command under one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) suite: Suite,
    /// As an ordinary user, not as root.
    pub(super) user: bool,
    /// The guest's memory; half of it can hold files.
    pub(super) megabytes: u32,
    /// For the boot and the command together.
    pub(super) limit: Duration,
    /// Where files of the command that are to stay go; none means that nothing stays.
    pub(super) out: Option<PathBuf>,
    /// The program and its arguments; never empty.
    pub(super) command: Vec<String>,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let (mut suite, mut user, mut megabytes, mut seconds, mut out) = (None, false, 2048, 300, None);
        let mut words = arguments.iter();
        loop {
            let Some(word) = words.next() else {
                bail!("a command belongs after `--`; {USAGE}");
            };
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            match (flag, &joined) {
                ("--", None) => break,
                ("--user", None) => {
                    user = true;
                    continue;
                }
                ("--suite" | "--mem" | "--timeout" | "--out", _) => {}
                _ => bail!("unknown argument `{word}`; {USAGE}"),
            }
            let value = joined.or_else(|| words.next().cloned()).filter(|value| !value.is_empty());
            let value = value.with_context(|| format!("`{flag}` needs a value; {USAGE}"))?;
            match flag {
                "--suite" => suite = Some(Suite::parse(&value)?),
                "--mem" => megabytes = number(flag, &value, 256, 1_048_576)?,
                "--timeout" => seconds = number(flag, &value, 1, 86_400)?,
                _ => out = Some(PathBuf::from(value)),
            }
        }
        let suite = suite.with_context(|| format!("`--suite` says which kernel; {USAGE}"))?;
        let command: Vec<String> = words.cloned().collect();
        if command.first().is_none_or(String::is_empty) {
            bail!("a command belongs after `--`; {USAGE}");
        }
        Ok(Self { suite, user, megabytes, limit: Duration::from_secs(seconds.into()), out, command })
    }
}

fn number(flag: &str, text: &str, least: u32, most: u32) -> Result<u32> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => bail!("`{flag}` is a number between {least} and {most}, not `{text}`"),
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
        let plain = parse(&["--suite", "bullseye", "--", "true"]).unwrap();
        assert_eq!((plain.suite, plain.user, plain.megabytes, plain.out), (Suite::Bullseye, false, 2048, None));
        assert_eq!(plain.limit, Duration::from_secs(300));
        let all =
            parse(&["--user", "--suite=trixie", "--mem", "512", "--timeout=9", "--out", "there", "--", "x"]).unwrap();
        assert_eq!((all.suite, all.user, all.megabytes), (Suite::Trixie, true, 512));
        assert_eq!((all.limit, all.out), (Duration::from_secs(9), Some("there".into())));
    }

    #[test]
    fn what_comes_after_the_dashes_is_the_command_s() {
        let options = parse(&["--suite=bookworm", "--", "sh", "--user", "--", "--mem=1"]).unwrap();
        assert_eq!(options.command, ["sh", "--user", "--", "--mem=1"]);
        assert!(!options.user);
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [
            &["--suite", "bookworm"][..],
            &["--suite", "bookworm", "--"],
            &["--suite", "bookworm", "--", ""],
            &["--suite", "bookworm", "true"],
            &["--suite", "buster", "--", "true"],
            &["--suite"],
            &["--", "true"],
            &["--suite=bookworm", "--user=yes", "--", "true"],
            &["--suite=bookworm", "--mem=64", "--", "true"],
            &["--suite=bookworm", "--timeout=0", "--", "true"],
            &["--suite=bookworm", "--timeout=ten", "--", "true"],
            &["--suite=bookworm", "--out=", "--", "true"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
