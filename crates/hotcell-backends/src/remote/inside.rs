//! Our own scripts in a box, and what a new box is found to be.

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_core::backend::CreateError;
use hotcell_core::policy::Limits;
use hotcell_core::text::Printable;
use hotcell_remote::http::CallError;

use super::link::{Link, OwnProgram, Ran};

const PREPARE: &str = include_str!("scripts/prepare.sh");
const END: &str = include_str!("scripts/end.sh");
const ALIVE: &str = include_str!("scripts/alive.sh");
const SIGNAL: &str = include_str!("scripts/signal.sh");

/// How long a script may take that does little.
pub(super) const SHORT: Duration = Duration::from_secs(20);

/// How long the script that ends a command waits before it looks again whether one that was asked to end has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How often it looks at most, with longer waits: looking takes time too.
const MOST_LOOKS: u32 = 100;
/// The longest that it waits for that: a server does not run a script for ever.
const LONGEST_GRACE: Duration = Duration::from_secs(60);

/// The words of a script, before its arguments.
pub(super) fn script_words(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script, "hotcell"].map(str::to_owned).to_vec()
}

/// Runs one of our scripts as the box's user.
pub(super) async fn run(
    link: &dyn Link,
    script: &str,
    arguments: &[String],
    deadline: Duration,
) -> Result<Ran, CallError> {
    let words = [script_words(script), arguments.to_vec()].concat();
    link.run(OwnProgram { words: &words, as_root: false, deadline }).await
}

/// What a box is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// A directory of our own in it.
    pub(super) directory: String,
    pub(super) home: String,
    /// Where it looks for programs, and its user's name.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) uid: u32,
    /// How its shell calls the limit of processes.
    pub(super) process_option: Option<char>,
    /// When it was prepared, by its own clock.
    pub(super) started: u64,
}

/// Looks at a new box, and refuses one in which commands could not be started and ended as they must be.
pub(super) async fn prepare(link: &dyn Link, box_name: &str, limits: &Limits) -> Result<Facts, CreateError> {
    let processes = limits.processes.value.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
    let arguments = [box_name.to_owned(), processes];
    let ran = run(link, PREPARE, &arguments, SHORT).await.map_err(|error| failed("looking at the new box", &error))?;
    if ran.code != 0 {
        return Err(CreateError::Setup {
            step: "looking at the new box".to_owned(),
            reason: format!("/bin/sh ended with {}: {}", ran.code, said(&ran.error)),
            hint: "the image needs a POSIX shell as /bin/sh".to_owned(),
        });
    }
    read_facts(&ran.output, limits)
}

fn read_facts(output: &str, limits: &Limits) -> Result<Facts, CreateError> {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut missing, mut options) = (Vec::new(), Vec::new());
    for line in output.lines() {
        match line.split_once(' ') {
            Some(("missing", what)) => missing.push(what),
            Some(("limit", option)) => options.extend(option.chars()),
            Some((name, value)) => drop(values.insert(name, value)),
            None => {}
        }
    }
    let asked = [('n', limits.open_files.value.is_some()), ('t', limits.cpu_time.value.is_some())];
    let unlimited = asked.iter().filter(|(option, asked)| *asked && !options.contains(option));
    let unlimited: Vec<String> = unlimited.map(|(option, _)| format!("`ulimit -{option}`")).collect();
    let process_option = options.iter().copied().find(|option| matches!(option, 'u' | 'p'));
    let mut lacks: Vec<String> = missing.iter().map(|what| format!("`{}`", Printable(what))).chain(unlimited).collect();
    if limits.processes.value.is_some() && process_option.is_none() {
        lacks.push("`ulimit -u`".to_owned());
    }
    if !lacks.is_empty() {
        return Err(CreateError::Setup {
            step: "looking at the new box".to_owned(),
            reason: format!("it lacks {}", lacks.join(", ")),
            hint: "use an image or template that has what a minimal Debian or Alpine has".to_owned(),
        });
    }
    let absolute =
        |name: &str| values.get(name).filter(|value| value.starts_with('/')).map(|value| (*value).to_owned());
    let number = |name: &str| values.get(name).and_then(|value| value.parse::<u64>().ok());
    let uid = number("uid").and_then(|uid| u32::try_from(uid).ok());
    let (Some(directory), Some(home), Some(uid), Some(started)) =
        (absolute("directory"), absolute("home"), uid, number("started"))
    else {
        return Err(CreateError::Setup {
            step: "looking at the new box".to_owned(),
            reason: format!("its answer makes no sense: {}", said(output)),
            hint: "check what the image's /bin/sh is".to_owned(),
        });
    };
    let user = values.get("user").copied().unwrap_or("user");
    let path = values.get("path").copied().unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let environment = [("PATH", path), ("HOME", &home), ("USER", user), ("LOGNAME", user)];
    let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Facts { directory, home, environment, uid, process_option, started })
}

/// Which command in a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) number: u32,
    /// When it was started, by the box's clock: numbers are used again.
    pub(super) started: u64,
}

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It was asked to end and did; nothing of it is left.
    ByItself,
    /// It was killed; nothing of it is left.
    Killed,
    /// It is not certain that nothing of it is left.
    Left,
}

/// Ends a command and all that descends from it. With a `grace` it is first asked to end.
pub(super) async fn end(link: &dyn Link, process: Process, grace: Duration) -> Result<End, CallError> {
    let grace = grace.min(LONGEST_GRACE);
    let (looks, pause) = looks(grace);
    let pause = format!("{:.3}", pause.as_secs_f64());
    let arguments = [process.number.to_string(), process.started.to_string(), looks.to_string(), pause];
    Ok(match run(link, END, &arguments, SHORT + grace).await?.output.trim() {
        "ended gone" => End::ByItself,
        "gone" => End::Killed,
        _ => End::Left,
    })
}

/// How often to look within this time, and how long to wait in between.
fn looks(grace: Duration) -> (u32, Duration) {
    let looks = grace.as_millis().div_ceil(LOOK_INTERVAL.as_millis());
    let looks = u32::try_from(looks).unwrap_or(MOST_LOOKS).min(MOST_LOOKS);
    (looks, grace.checked_div(looks).unwrap_or_default())
}

/// Whether something that was started in the box since it was made still runs.
pub(super) async fn is_alive(link: &dyn Link, facts: &Facts) -> Result<bool, CallError> {
    Ok(run(link, ALIVE, &[facts.started.to_string()], SHORT).await?.output.trim() != "quiet")
}

/// Sends a signal to a command's group; false if it has none any more.
pub(super) async fn signal(link: &dyn Link, process: Process, signal: i32) -> Result<bool, CallError> {
    let arguments = [signal.to_string(), process.number.to_string()];
    Ok(run(link, SIGNAL, &arguments, SHORT).await?.output.trim() == "sent")
}

/// A call that failed while a box was made.
pub(super) fn failed(step: &str, error: &CallError) -> CreateError {
    CreateError::Setup { step: step.to_owned(), reason: error.to_string(), hint: error.hint().to_owned() }
}

/// What a program in the box said, for messages: not much, and nothing that a terminal would obey.
pub(super) fn said(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    if lines.is_empty() { "it said nothing".to_owned() } else { format!("`{}`", Printable(&lines.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "has setsid\nlimit n\nlimit t\nlimit f\nlimit p\ndirectory /tmp/.hotcell-x\nhome /root\npath /bin:/usr/bin\nuser root\nuid 0\nstarted 77\n";

    #[test]
    fn a_box_is_what_it_says() {
        let facts = read_facts(GOOD, &Limits::default()).unwrap();
        assert_eq!((facts.directory.as_str(), facts.home.as_str(), facts.uid), ("/tmp/.hotcell-x", "/root", 0));
        assert_eq!((facts.process_option, facts.environment["PATH"].as_str()), (Some('p'), "/bin:/usr/bin"));
    }

    #[test]
    fn whoever_ends_soon_is_not_waited_for_long() {
        let milliseconds = Duration::from_millis;
        assert_eq!(looks(Duration::ZERO), (0, Duration::ZERO));
        assert_eq!(looks(milliseconds(1)), (1, milliseconds(1)));
        assert_eq!(looks(milliseconds(150)), (2, milliseconds(75)));
        assert_eq!(looks(milliseconds(2000)), (20, milliseconds(100)));
        assert_eq!(looks(LONGEST_GRACE), (100, milliseconds(600)));
    }

    #[test]
    fn a_box_that_lacks_something_is_refused_by_name() {
        for (without, named) in [
            (GOOD.replace("limit n\n", ""), "ulimit -n"),
            (GOOD.replace("limit t\n", ""), "ulimit -t"),
            (GOOD.replace("limit p\n", ""), "ulimit -u"),
            (format!("{GOOD}missing tar\n"), "`tar`"),
        ] {
            let error = read_facts(&without, &Limits::default()).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        for garbled in ["", "directory tmp\n", "directory /tmp/x\nhome /root\nuid -1\n"] {
            assert!(read_facts(&format!("limit n\nlimit t\nlimit f\nlimit p\n{garbled}"), &Limits::default()).is_err());
        }
    }
}
