//! `kill -9` of the program that uses the library, at random moments, while hostile boxes live and are being made.

pub(super) mod victim;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::random::Random;
use super::report::Found;
use super::snapshot::{Scope, Snapshot};
use super::{Setting, proc, worker};

/// How soon nothing may be left.
const SOON: Duration = Duration::from_secs(2);
/// How long we look, to tell what is slow from what stays.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The program that is killed; killed with this value if not before.
struct Victim(Child);

impl Victim {
    fn start(mark: &str, tree: &Path, boxes: u64, seed: u64) -> Result<Self> {
        let child = worker::command("victim")?
            .arg(mark)
            .arg(tree)
            .args([boxes.to_string(), seed.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the program that is to be killed")?;
        Ok(Self(child))
    }

    /// Waits until it has all its boxes.
    fn until_ready(&mut self) -> Result<()> {
        let stdout = self.0.stdout.take().context("the victim has no output")?;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line == victim::READY {
                return Ok(());
            }
        }
        bail!("the program that is to be killed ended by itself")
    }

    fn kill(&mut self) -> Result<()> {
        if let Some(status) = self.0.try_wait()? {
            bail!("the program that is to be killed ended by itself, with {status}");
        }
        self.0.kill().context("cannot kill it")?;
        self.0.wait().context("cannot wait for it")?;
        // Our end of its pipe would count as left behind.
        self.0.stdout = None;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(setting: &Setting<'_>) -> Result<Found> {
    let mut found = Found::default();
    let rounds: usize = setting.options.scale(200, 6);
    let boxes: u64 = setting.options.scale(50, 12);
    let tree = setting.scratch.join("tree");
    fs::create_dir_all(tree.join(".git"))?;
    fs::write(tree.join("kept"), "as it was")?;
    let scope = Scope::new(&setting.scratch).without_zombies();
    let mut random = Random::new(setting.seed);

    let nothing = Snapshot::take(&scope);
    // How long it takes to have all boxes decides between which moments the others are killed.
    let mark = format!("kill9-{}-first", std::process::id());
    let started = Instant::now();
    let mut first = Victim::start(&mark, &tree, boxes, random.next())?;
    first.until_ready()?;
    let span = started.elapsed() * 3 / 2;
    drop(first);
    until_nothing_is_left(&scope, &nothing, &mark);
    println!("  {boxes} boxes after {:.2} s; killed within {:.2} s", (span * 2 / 3).as_secs_f64(), span.as_secs_f64());

    let (mut slowest, mut left_behind, mut late) = (Duration::ZERO, 0, 0);
    let mut alive = Vec::new();
    for round in 0..rounds {
        let before = Snapshot::take(&scope);
        let mark = format!("kill9-{}-{round}-", std::process::id());
        let mut victim = Victim::start(&mark, &tree, boxes, random.next())?;
        let moment = random.moment(span);
        std::thread::sleep(moment);
        alive.push(Snapshot::take(&scope).count("process").saturating_sub(before.count("process")));
        victim.kill()?;
        let (left, took) = until_nothing_is_left(&scope, &before, &mark);
        slowest = slowest.max(took);
        if took > SOON {
            late += 1;
            found.failure(format!("round {round}, killed after {moment:?}: it took {took:?}"));
        }
        left_behind += left.len();
        for line in left {
            found.failure(format!("round {round}, killed after {moment:?}: {line}"));
        }
        if fs::read_to_string(tree.join("kept")).ok().as_deref() != Some("as it was") {
            left_behind += 1;
            found.failure(format!("round {round}: the tree was changed"));
        }
        if (round + 1) % 20 == 0 {
            println!("  {} killed, {slowest:.2?} at most until nothing was left", round + 1);
        }
    }
    alive.sort_unstable();
    let middle = alive.get(alive.len() / 2).copied().unwrap_or_default();
    found.at_least("programs killed", rounds as f64, "", rounds as f64);
    found.none_of("things left behind", left_behind);
    found.none_of("times that took longer than 2 s", late);
    found.at_most("longest until nothing was left", slowest.as_secs_f64(), "s", SOON.as_secs_f64());
    // The control: most were killed while there was much to leave behind.
    found.at_least("processes at the moment of the kill, median", middle as f64, "", boxes as f64 / 2.0);
    found.tell("at most", alive.last().copied().unwrap_or_default() as f64, "processes");
    found.note(format!(
        "Each time {boxes} boxes, at a uniformly random moment in the first {:.2} s; seed {}.",
        span.as_secs_f64(),
        setting.seed
    ));
    Ok(found)
}

/// Looks until nothing is left of what bears `mark` or was not there `before`.
fn until_nothing_is_left(scope: &Scope, before: &Snapshot, mark: &str) -> (Vec<String>, Duration) {
    let started = Instant::now();
    loop {
        let mut left = Snapshot::take(scope).differences(before);
        left.extend(proc::marked(mark).iter().map(|process| format!("process {} ({})", process.name, process.pid)));
        if left.is_empty() || started.elapsed() > PATIENCE {
            return (left, started.elapsed());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
