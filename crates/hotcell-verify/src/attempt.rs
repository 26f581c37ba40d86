//! One attack, tried once: set up, run, and looked at afterwards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use hotcell_linux::seccomp::{Arch, rules};
use rustix::process::{Signal, kill_process_group};

use crate::arena::Arena;
use crate::check::{Attempt, Call, Check, Seen, Supervised};
use crate::target::{Job, NotRun, REFUSED, Ran, Target};

/// What became of an attack.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    /// Signs that it worked; none means that it did not.
    pub(crate) signs: Vec<String>,
    /// Whether it came to its end, so that having seen no sign means something.
    pub(crate) finished: bool,
    /// What refused it, in its own words.
    pub(crate) refusals: Vec<String>,
    /// System calls that the supervisor saw being refused.
    pub(crate) refused_calls: Vec<String>,
    /// How the program ended, with the last that it said.
    pub(crate) end: String,
}

/// Tries `check` in `target`.
pub(crate) async fn attempt(check: &Check, target: &dyn Target) -> Result<Tried, NotRun> {
    let arena = Arena::new().map_err(|error| not_planted(&error))?;
    match check.attempt {
        Attempt::Supervisor(supervised) => attempt_on_supervisor(check, &supervised, target, &arena).await,
        attempt => {
            let command = command(attempt, &arena)?;
            let before = arena.snapshot();
            let ran = target.run(&Job { check, command, arena: &arena }).await?;
            let tried = look(check, &arena, &before, &ran);
            if let Some(group) = ran.group {
                // What is still there was seen; most often nothing is.
                let _ = kill_process_group(group, Signal::KILL);
            }
            Ok(tried)
        }
    }
}

fn not_planted(error: &io::Error) -> NotRun {
    NotRun::Failed(format!("cannot plant what the attack is aimed at: {error}"))
}

fn command(attempt: Attempt, arena: &Arena) -> Result<Vec<OsString>, NotRun> {
    let intruder = |words: &mut dyn Iterator<Item = &str>| {
        let mut command = vec![arena.intruder().into_os_string()];
        for word in words {
            command.push(arena.expand(word).map_err(|error| not_planted(&error))?);
        }
        Ok(command)
    };
    match attempt {
        Attempt::Intruder(words) => intruder(&mut words.iter().copied()),
        Attempt::Calls(calls) => intruder(&mut system_calls(false, calls)?.iter().map(String::as_str)),
        Attempt::NestedCalls(calls) => intruder(&mut system_calls(true, calls)?.iter().map(String::as_str)),
        Attempt::Shell(script) => {
            let script = arena.expand(script).map_err(|error| not_planted(&error))?;
            Ok(vec!["/bin/sh".into(), "-c".into(), script])
        }
        Attempt::Supervisor(_) => Err(NotRun::Failed("host-side attacks have no command".into())),
    }
}

/// The words by which the intruder makes these calls.
fn system_calls(nested: bool, calls: &[Call]) -> Result<Vec<String>, NotRun> {
    let mut words: Vec<String> = if nested { vec!["nested".into(), "calls".into()] } else { vec!["calls".into()] };
    let before = words.len();
    for call in calls {
        let Some(number) = number(call.name) else { continue };
        if words.len() > before {
            words.push(",".into());
        }
        words.extend([call.name.to_owned(), number.to_string()]);
        words.extend(call.arguments.iter().map(|argument| (*argument).to_owned()));
    }
    if words.len() == before {
        return Err(NotRun::NotApplicable("this architecture has no such system call".into()));
    }
    Ok(words)
}

/// The number of a system call on this architecture.
fn number(name: &str) -> Option<u32> {
    let arch = Arch::native()?;
    rules::rules().find(|rule| rule.name == name).and_then(|rule| rule.number(arch))
}

/// Looks for signs that an attack worked.
fn look(check: &Check, arena: &Arena, before: &BTreeMap<String, String>, ran: &Ran) -> Tried {
    let mut signs = Vec::new();
    if ran.output.contains(arena.token()) {
        signs.push("the planted secret is in the output".to_owned());
    }
    signs.extend(ran.output.lines().filter(|line| line.starts_with("reached ")).map(str::to_owned));
    signs.extend(ran.output.lines().filter_map(host_variable).map(|name| format!("the host's variable {name} leaked")));
    signs.extend(changes(before, &arena.snapshot()));
    signs.extend(arena.contacts().iter().map(|name| format!("the host's {name} listener was contacted")));
    signs.extend(arena.end_survivors().iter().map(|process| format!("{process} is still running")));
    if check.must_work() {
        signs = works(&ran.output);
    }
    let last = ran.output.lines().next_back().unwrap_or_default();
    Tried {
        signs,
        finished: ran.ended_by_box || ran.output.lines().any(|line| line == "done"),
        refusals: ran.output.lines().filter(|line| line.starts_with("refused ")).map(str::to_owned).collect(),
        refused_calls: ran.refused_calls.clone(),
        end: if last.is_empty() { ran.end.clone() } else { format!("{}, after {last:?}", ran.end) },
    }
}

/// The sign of what must work.
fn works(output: &str) -> Vec<String> {
    output.lines().filter(|line| *line == "works").map(str::to_owned).collect()
}

/// Variables that tell nothing about whose they are.
const HARMLESS_VARIABLES: &[&str] = &["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "SHLVL", "_"];

/// The home of everybody's root, an image's too.
const HOME_OF_ROOT: (&str, &str) = ("HOME", "/root");

/// The name of a variable of this process that a line `variable NAME=VALUE` shows, which boxes are not given. Its value may
/// be a secret, and reports are passed on.
fn host_variable(line: &str) -> Option<&str> {
    let (name, value) = line.strip_prefix("variable ")?.split_once('=')?;
    let known = std::env::var(name).is_ok_and(|own| own == value);
    let harmless = HARMLESS_VARIABLES.contains(&name) || (name, value) == HOME_OF_ROOT;
    (known && value.len() > 1 && !harmless).then_some(name)
}

fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, was) in before {
        match after.get(name) {
            None => changes.push(format!("{name} is gone")),
            Some(is) if is != was => changes.push(format!("{name} changed: it was {was}, it is {is}")),
            Some(_) => {}
        }
    }
    changes.extend(after.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("{name} is new")));
    changes
}

async fn attempt_on_supervisor(
    check: &Check,
    supervised: &Supervised,
    target: &dyn Target,
    arena: &Arena,
) -> Result<Tried, NotRun> {
    let before = arena.snapshot();
    let seen: Seen = match target.boxed() {
        Some(boxed) => (supervised.hotcell)(boxed, arena).await,
        None if target.name() == "host" => (supervised.naive)(arena),
        None => {
            let reason = format!("{} has no host side of its own", target.name());
            return Err(NotRun::NotApplicable(reason));
        }
    };
    let output = seen.map_err(|reason| match reason.starts_with(REFUSED) {
        true => NotRun::NotApplicable(reason),
        false => NotRun::Failed(reason),
    })?;
    let mut signs = Vec::new();
    if output.contains(arena.token()) {
        signs.push("the planted secret was read".to_owned());
    }
    signs.extend(output.lines().filter(|line| line.starts_with("reached ")).map(str::to_owned));
    signs.extend(changes(&before, &arena.snapshot()));
    signs.extend(arena.end_survivors().iter().map(|process| format!("{process} is still running")));
    if check.must_work() {
        signs = works(&output);
    }
    let refusals = output.lines().filter(|line| line.starts_with("refused ")).map(str::to_owned).collect();
    Ok(Tried { signs, finished: true, refusals, refused_calls: Vec::new(), end: returned(&output) })
}

/// How a piece of host-side code ended, with the last that it said.
fn returned(output: &str) -> String {
    match output.lines().next_back() {
        Some(last) => format!("returned, after {last:?}"),
        None => "returned".to_owned(),
    }
}
