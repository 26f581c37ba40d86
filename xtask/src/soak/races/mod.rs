//! Races for what is at a path: somebody lets a directory and a link that leads elsewhere change places, as fast as the
//! machine can, while files are read, written, listed, made, removed, committed and cleaned up there.

mod by_name;
mod ground;
mod overlays;
pub(super) mod swapper;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hotcell::{Engine, Files, Sandbox};

use super::Setting;
use super::report::Found;
use by_name::Operation;
use ground::{CANARY, Ground, OUTSIDE_ONLY};
use swapper::{OnHost, Pace};

/// How many swaps the control of a race may need at most, in a smoke test too.
const CONTROL_SWAPS: u64 = 100_000;
/// Attempts of a control between two looks at the canary.
const LOOK_EVERY: u64 = 16;
/// How long one race may take: what is not done by then is missing in the figures.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was done in the tree.
    Inside,
    /// It was not done.
    Refused,
    /// The canary was reached.
    Escaped,
}

/// One race: how often each thing came of it.
#[derive(Debug, Default)]
struct Race {
    swaps: u64,
    inside: u64,
    refused: u64,
    escaped: u64,
}

impl Race {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Inside => self.inside += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Escaped => self.escaped += 1,
        }
    }

    fn attempts(&self) -> u64 {
        self.inside + self.refused + self.escaped
    }
}

/// How much is done in each race.
#[derive(Debug, Clone, Copy)]
struct Least {
    swaps: u64,
    attempts: u64,
    /// Attempts that need a box of their own.
    boxes: u64,
}

impl Least {
    /// Whether a race can end: it is lost, or there was enough of it, or enough time.
    fn is_over(self, race: &Race, attempts: u64, started: Instant) -> bool {
        race.escaped > 0 || race.swaps >= self.swaps && race.attempts() >= attempts || started.elapsed() > PATIENCE
    }
}

pub(super) fn run(setting: &Setting<'_>) -> Result<Found> {
    let mut found = Found::default();
    let least = Least {
        swaps: setting.options.scale(100_000, 25_000),
        attempts: setting.options.scale(2_000, 200),
        boxes: setting.options.scale(300, 20),
    };
    let engine = setting.runtime.block_on(Engine::new())?;
    let mut table = Table { found: &mut found, least_swaps: u64::MAX, escaped: 0, vacuous: 0 };
    for operation in Operation::ALL {
        let place = make_place(&setting.scratch, operation.name())?;
        let race = setting.runtime.block_on(files_race(&engine, operation, &place.join("box"), least))?;
        let control = control(&place.join("control"), "spot", Pace::Flat, |ground, number| {
            by_name::attempt(operation, ground, number)
        })?;
        table.row(&format!("files: {}", operation.name()), &race, &control);
    }
    for case in overlays::CASES {
        let place = make_place(&setting.scratch, case.name)?;
        let race = setting.runtime.block_on((case.race)(engine.clone(), place.join("box"), least))?;
        let control = control(&place.join("control"), case.spot, case.pace, case.by_name)?;
        table.row(case.name, &race, &control);
    }
    let (swaps, escaped, vacuous) = (table.least_swaps, table.escaped, table.vacuous);
    setting.runtime.block_on(engine.close());
    found.at_least("swaps in each race", swaps as f64, "", least.swaps as f64);
    found.none_of("escapes", escaped as usize);
    found.none_of("races that the control does not lose", vacuous);
    found.note(
        "The control of each race does the same by name, after a check of where the name leads; it has to reach the canary \
         within 100,000 swaps, or the race would show nothing.",
    );
    Ok(found)
}

fn make_place(scratch: &Path, name: &str) -> Result<std::path::PathBuf> {
    let place = scratch.join(name.replace([' ', ':'], "-"));
    for side in ["box", "control"] {
        fs::create_dir_all(place.join(side))?;
    }
    Ok(place)
}

/// Collects the races.
struct Table<'a> {
    found: &'a mut Found,
    least_swaps: u64,
    escaped: u64,
    vacuous: usize,
}

impl Table<'_> {
    fn row(&mut self, name: &str, race: &Race, control: &Race) {
        self.least_swaps = self.least_swaps.min(race.swaps);
        self.escaped += race.escaped;
        if race.escaped > 0 {
            self.found.failure(format!("{name}: the canary was reached {} times", race.escaped));
        }
        if control.escaped == 0 {
            self.vacuous += 1;
            self.found.failure(format!(
                "{name}: vacuous: the control did not lose in {} attempts and {} swaps",
                control.attempts(),
                control.swaps
            ));
        }
        let line = format!(
            "{name}: {} swaps, {} attempts, {} done, {} refused, {} escaped; the control: {} attempts, {} swaps, {}.",
            race.swaps,
            race.attempts(),
            race.inside,
            race.refused,
            race.escaped,
            control.attempts(),
            control.swaps,
            if control.escaped > 0 { "lost" } else { "did not lose" }
        );
        println!("  {line}");
        self.found.note(line);
    }
}

/// Uses the files of a box in which somebody swaps.
async fn files_race(engine: &Engine, operation: Operation, place: &Path, least: Least) -> Result<Race> {
    let ground = Ground::new(place, "spot")?;
    let policy = swapper::policy()?.write(&ground.tree).build()?;
    let sandbox = engine.create(&policy).await?;
    swapper::start_in_box(&*sandbox, "", &ground.spot(), &ground.link()).await?;
    let files = sandbox.files().context("the box has no files")?;
    let before = ground.canary_state();
    let (mut race, started) = (Race::default(), Instant::now());
    while !least.is_over(&race, least.attempts, started) {
        let number = race.attempts();
        race.count(attempt(operation, files, &ground, number).await);
        if number.is_multiple_of(50) {
            race.swaps = swapper::swaps_in_box(files).await;
        }
    }
    let trouble = swapper::trouble_in_box(files).await;
    if !trouble.is_empty() {
        bail!("the swapper ended: {trouble}");
    }
    end(sandbox).await?;
    if ground.canary_state() != before {
        race.escaped += 1;
    }
    Ok(race)
}

async fn end(sandbox: Box<dyn Sandbox>) -> Result<()> {
    Ok(sandbox.destroy().await?)
}

/// Does it through the box, once. That the canary was changed is for the caller to see.
async fn attempt(operation: Operation, files: &dyn Files, ground: &Ground, number: u64) -> Outcome {
    let spot = ground.spot();
    let done = match operation {
        Operation::Read => match files.read(&spot.join("file"), 1000).await {
            Ok(bytes) if bytes == CANARY => return Outcome::Escaped,
            other => other.map(|_| ()),
        },
        Operation::Write => files.write(&spot.join("file"), ground::INSIDE, 0o600).await,
        Operation::List => match files.list(&spot, 1_000_000).await {
            Ok(entries) if entries.iter().any(|entry| entry.path.ends_with(OUTSIDE_ONLY)) => return Outcome::Escaped,
            other => other.map(|_| ()),
        },
        Operation::MakeDirectory => files.make_directory(&spot.join(format!("made-{number}/deep"))).await,
        Operation::Remove => match files.make_directory(&spot.join("victim/inner")).await {
            Ok(()) => files.remove(&spot.join("victim")).await,
            Err(error) => Err(error),
        },
    };
    if done.is_ok() { Outcome::Inside } else { Outcome::Refused }
}

/// Does something by name while somebody on the host swaps, until the canary is reached or there were enough swaps.
fn control(place: &Path, spot: &'static str, pace: Pace, by_name: impl Fn(&Ground, u64) -> Outcome) -> Result<Race> {
    let ground = Ground::new(place, spot)?;
    let swapper = OnHost::start(&ground.spot(), &ground.link(), &place.join("swaps"), pace)?;
    let before = ground.canary_state();
    let (mut race, started) = (Race::default(), Instant::now());
    while race.swaps < CONTROL_SWAPS && race.escaped == 0 && started.elapsed() < PATIENCE {
        for _ in 0..LOOK_EVERY {
            race.count(by_name(&ground, race.attempts()));
        }
        race.swaps = swapper.swaps();
        if ground.canary_state() != before {
            race.escaped = race.escaped.max(1);
        }
    }
    Ok(race)
}
