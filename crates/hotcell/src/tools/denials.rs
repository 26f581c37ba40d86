//! What a command was denied, as far as that can be known: by how it ended, by what the box saw, and by what it wrote.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_core::capability::Control;
use hotcell_core::outcome::{Outcome, Status, Violation};
use hotcell_core::policy::{NetworkMode, Policy};
use schemars::JsonSchema;
use serde::Serialize;

use super::access::Shared;
use super::rules::{self, Wish};
use super::text;

/// As many are told of; more say nothing new.
const MOST: usize = 8;
/// As many lines of output are looked at, from the end: that is where programs complain.
const MOST_LINES: usize = 400;

/// How much of a path is shown that the output names.
const SHOWN_PATH: usize = 200;

/// What programs say when there is no network.
const NO_NETWORK: [&str; 9] = [
    "network is unreachable",
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "temporary failure resolving",
    "unable to resolve host",
    "getaddrinfo",
    "enetunreach",
    "no route to host",
];

/// Something that the policy did not let a command do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Denial {
    /// The rule, as it is written in a configuration.
    pub rule: String,
    /// What was denied.
    pub what: String,
    /// What may be done instead.
    pub instead: String,
    /// How this is known.
    pub evidence: Evidence,
}

/// How a denial is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Evidence {
    /// The box ended the command, or saw the denial itself.
    Box,
    /// The command's own words: likely, not certain.
    Output,
}

/// What an ended command was denied. `output` is what it wrote, as bytes that nobody trusts.
/// `time` is how long it was given.
pub(super) fn of_command(shared: &Shared, outcome: &Outcome, time: Duration, cwd: &Path, output: &[u8]) -> Vec<Denial> {
    let policy = &shared.options.policy;
    let mut denials = Vec::new();
    of_end(shared, outcome.status, time, &mut denials);
    for violation in &outcome.violations {
        let new = match violation.control {
            // These are counted from the start of the box on.
            Control::Syscalls => shared.newly_reported(&violation.what, violation.count),
            _ => violation.count,
        };
        // Programs try what they can do without; only one that failed may have failed by it.
        if new > 0 && !outcome.status.success() {
            add(&mut denials, of_violation(policy, violation, new));
        }
    }
    if !outcome.status.success() {
        of_words(policy, cwd, &String::from_utf8_lossy(output), &mut denials);
    }
    denials
}

/// The same for code, of which less is known.
pub(super) fn of_code(
    shared: &Shared,
    status: Option<Status>,
    time: Duration,
    failed: bool,
    output: &[u8],
) -> Vec<Denial> {
    let mut denials = Vec::new();
    if let Some(status) = status {
        of_end(shared, status, time, &mut denials);
    }
    if failed {
        of_words(&shared.options.policy, &shared.options.workspace, &String::from_utf8_lossy(output), &mut denials);
    }
    denials
}

fn of_end(shared: &Shared, status: Status, time: Duration, denials: &mut Vec<Denial>) {
    let policy = &shared.options.policy;
    if status == Status::TimedOut && policy.limits.timeout.value.is_none_or(|most| time < most) {
        // The policy would have given it more.
        let longest = shared.longest().as_millis();
        let (rule, what) = (format!("timeout_ms = {}", time.as_millis()), format!("the command was {status}"));
        let instead = format!("ask for more with `timeout_ms` (at most {longest}), or run it in the background");
        return add(denials, Denial { rule, what, instead, evidence: Evidence::Box });
    }
    if let Some(rule) = rules::of_limit(&policy.limits, status) {
        let what = format!("the command was {status}");
        add(denials, Denial { rule: rule.name, what, instead: rule.instead, evidence: Evidence::Box });
    }
}

fn add(denials: &mut Vec<Denial>, denial: Denial) {
    if denials.len() < MOST && !denials.iter().any(|known| known.rule == denial.rule && known.what == denial.what) {
        denials.push(denial);
    }
}

fn of_violation(policy: &Policy, violation: &Violation, count: u64) -> Denial {
    let what = format!("{} ({count} times)", text::line(&violation.what));
    let of_limit = |status| rules::of_limit(&policy.limits, status);
    let limit = match violation.control {
        Control::Memory => of_limit(Status::OutOfMemory),
        Control::ProcessCount => of_limit(Status::Processes),
        Control::Disk | Control::DiskDirect => of_limit(Status::Disk),
        _ => None,
    };
    let (rule, instead) = match limit {
        Some(rule) => (rule.name, rule.instead),
        None if violation.control == Control::Syscalls => (
            "syscalls: the filter that every box has".to_owned(),
            "do without it; programs that need it do not work in the box".to_owned(),
        ),
        None => (violation.control.as_str().to_owned(), "do without it".to_owned()),
    };
    Denial { rule, what, instead, evidence: Evidence::Box }
}

/// What the command's own words tell.
fn of_words(policy: &Policy, cwd: &Path, output: &str, denials: &mut Vec<Denial>) {
    for line in output.lines().rev().take(MOST_LINES) {
        let words = line.to_lowercase();
        if policy.network == NetworkMode::Deny && NO_NETWORK.iter().any(|phrase| words.contains(phrase)) {
            add(denials, no_network(policy));
        }
        let (wishes, seen): (&[Wish], _) = if words.contains("read-only file system") {
            (&[Wish::Write], true)
        } else {
            (
                &[Wish::Read, Wish::Write],
                words.contains("permission denied") || words.contains("operation not permitted"),
            )
        };
        if !seen {
            continue;
        }
        let paths = paths_in(line, cwd);
        let hits = wishes.iter().flat_map(|wish| {
            paths.iter().filter_map(|path| Some((rules::of_path(policy, path, *wish)?, path.clone(), *wish)))
        });
        // A rule that names the path tells more than that none does; and the path that a line is about comes last in it.
        let hit = hits.max_by_key(|(rule, _, _)| rule.names_path);
        if let Some((rule, path, wish)) = hit {
            let verb = if wish == Wish::Read { "reading" } else { "writing" };
            // Words of the command's, in a sentence of ours: quoted, so that they cannot go on with it.
            let what = format!("{verb} {:?}", text::cut(&text::path(&path), SHOWN_PATH));
            add(denials, Denial { rule: rule.name, what, instead: rule.instead, evidence: Evidence::Output });
        }
    }
}

fn no_network(policy: &Policy) -> Denial {
    Denial {
        rule: rules::of_network(policy),
        what: "reaching the network".to_owned(),
        instead: "work with what is in the box; only the person who set the policy can open the network".to_owned(),
        evidence: Evidence::Output,
    }
}

/// What looks like a path in a line such as `cat: /x/y: Permission denied`.
fn paths_in(line: &str, cwd: &Path) -> Vec<PathBuf> {
    let quoted = line.split(['\'', '"', '‘', '’', '`']);
    let pieces = line.split([':', ' ']).chain(line.split(": ")).chain(quoted);
    pieces
        .map(|piece| piece.trim().trim_matches(['\'', '"', '‘', '’', '`', ',', ';']))
        .filter(|piece| !piece.is_empty() && piece.len() < 4096 && !piece.contains('\0'))
        // A bare word is a path only where it has the shape of one: words of a sentence are not files.
        .filter(|piece| piece.contains('/') || piece.contains('.'))
        .take(64)
        .map(|piece| rules::normal(&cwd.join(piece)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(policy: &Policy, output: &str) -> Vec<Denial> {
        let mut denials = Vec::new();
        of_words(policy, Path::new("/w"), output, &mut denials);
        denials
    }

    fn policy() -> Policy {
        Policy::builder().write("/w").deny("/w/secret").read("/w/lib").build().unwrap()
    }

    #[test]
    fn rules_are_found_by_what_programs_say() {
        for (words, rule) in [
            ("cat: /w/secret/key: Permission denied", "filesystem.deny = [\"/w/secret\"]"),
            ("cat: secret/key: Permission denied", "filesystem.deny = [\"/w/secret\"]"),
            ("PermissionError: [Errno 13] Permission denied: '/w/secret/a b'", "filesystem.deny = [\"/w/secret\"]"),
            ("sh: 1: cannot create ./lib/x: Read-only file system", "filesystem.read = [\"/w/lib\"]"),
            ("touch: cannot touch 'lib/x': Read-only file system", "filesystem.read = [\"/w/lib\"]"),
            ("bash: line 1: .git/hooks/pre-commit: Permission denied", "filesystem.protect = [\".git/hooks\"]"),
            ("curl: (6) Could not resolve host: example.com", "network.mode = \"deny\""),
            ("OSError: [Errno 101] Network is unreachable", "network.mode = \"deny\""),
        ] {
            let denials = said(&policy(), words);
            assert_eq!(denials.iter().map(|denial| denial.rule.as_str()).collect::<Vec<_>>(), [rule], "{words}");
            assert_eq!(denials[0].evidence, Evidence::Output);
        }
    }

    #[test]
    fn what_no_rule_is_the_reason_of_is_no_denial() {
        for words in
            ["cat: /w/x: No such file or directory", "cat: /w/x: Permission denied", "all is well", "secret denied"]
        {
            assert_eq!(said(&policy(), words), [], "{words}");
        }
        let open = Policy::builder().network(NetworkMode::Open).build().unwrap();
        assert_eq!(said(&open, "curl: (6) Could not resolve host: example.com"), []);
    }

    #[test]
    fn words_of_the_command_are_quoted_and_cut() {
        let forged = "cat: secret/a\"; run x: Permission denied";
        assert_eq!(said(&policy(), forged)[0].what, r#"writing "/w/secret/a\"; run x""#);
        let long = format!("cat: /w/secret/{}: Permission denied", "x".repeat(3000));
        let what = &said(&policy(), &long)[0].what;
        assert!(what.starts_with("writing \"/w/secret/xxx") && what.ends_with("x…\"") && what.len() < 230, "{what}");
    }

    #[test]
    fn the_same_denial_is_told_once_and_many_are_bounded() {
        let many: String = (0..1000).map(|n| format!("cat: /w/secret/{n}: Permission denied\n")).collect();
        assert_eq!(said(&policy(), &many).len(), MOST);
        let same = "cat: /w/secret/1: Permission denied\n".repeat(50);
        assert_eq!(said(&policy(), &same).len(), 1);
    }
}
