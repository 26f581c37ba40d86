//! Races against what the host does for a box by itself: carrying over the changes of an overlay, and cleaning up.

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Instant;

use anyhow::{Context, Result};
use hotcell::{Engine, Policy};

use super::ground::{CANARY, Ground, INSIDE};
use super::swapper::{self, OnHost, Pace};
use super::{Least, Outcome, PATIENCE, Race, end};

type Racing = Pin<Box<dyn Future<Output = Result<Race>>>>;

/// A race and its control.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The name of what is swapped with a link.
    pub(super) spot: &'static str,
    pub(super) pace: Pace,
    pub(super) race: fn(Engine, PathBuf, Least) -> Racing,
    pub(super) by_name: fn(&Ground, u64) -> Outcome,
}

/// Every case there is.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "diff and commit of a layer that changes",
        spot: "spot",
        pace: Pace::Flat,
        race: |engine, place, least| Box::pin(from_layer(engine, place, least)),
        by_name: copy_by_name,
    },
    Case {
        name: "commit to a tree that changes",
        spot: "spot",
        pace: Pace::Bursts,
        race: |engine, place, least| Box::pin(to_tree(engine, place, least)),
        by_name: write_by_name,
    },
    Case {
        name: "placeholders and their removal",
        spot: ".git",
        pace: Pace::Flat,
        race: |engine, place, least| Box::pin(placeholders(engine, place, least)),
        by_name: hold_by_name,
    },
];

/// How many commits one box is used for.
const COMMITS: u64 = 25;

/// A daemon in the box swaps in the upper layer, while the host compares and copies from there.
async fn from_layer(engine: Engine, place: PathBuf, least: Least) -> Result<Race> {
    let (mut race, started) = (Race::default(), Instant::now());
    let mut round = 0;
    while !least.is_over(&race, least.boxes, started) {
        round += 1;
        // The canary is there; the directory, the link and what they change places for is the box's own doing.
        let ground = Ground::new(&place.join(format!("round-{round}")), "unused")?;
        let before = ground.canary_state();
        let (spot, link) = (ground.tree.join("spot"), ground.tree.join("way"));
        let policy = swapper::policy()?.overlay(&ground.tree).cwd(&ground.tree).build()?;
        let sandbox = engine.create(&policy).await?;
        let prepare = format!("mkdir spot && echo inside > spot/file && ln -s {} way", ground.canary.display());
        swapper::start_in_box(&*sandbox, &prepare, &spot, &link).await?;
        let files = sandbox.files().context("the box has no files")?;
        let workspace = sandbox.workspace().context("the box has no workspace")?;
        let mut swaps = 0;
        // Not before it swaps.
        while swaps == 0 && started.elapsed() < PATIENCE {
            swaps = swapper::swaps_in_box(files).await;
        }
        for _ in 0..COMMITS {
            let listed = workspace.diff().await;
            let names_outside = |change: &hotcell::Change| change.path.ends_with(super::OUTSIDE_ONLY);
            if listed.is_ok_and(|changes| changes.iter().any(names_outside)) {
                race.count(Outcome::Escaped);
            }
            race.count(match workspace.commit().await {
                _ if has_canary(&ground) => Outcome::Escaped,
                Ok(_) => Outcome::Inside,
                Err(_) => Outcome::Refused,
            });
            swaps = swapper::swaps_in_box(files).await;
        }
        race.swaps += swaps;
        end(sandbox).await?;
        if ground.canary_state() != before {
            race.escaped += 1;
        }
    }
    Ok(race)
}

/// Whether the tree has got what is in the canary (not only a link to it).
fn has_canary(ground: &Ground) -> bool {
    ["spot", "way"].iter().any(|name| {
        let path = ground.tree.join(name);
        fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir())
            && fs::read(path.join("file")).is_ok_and(|bytes| bytes == CANARY)
    })
}

fn copy_by_name(ground: &Ground, _: u64) -> Outcome {
    let source = ground.spot().join("file");
    if !ground.seems_inside(&source) {
        return Outcome::Refused;
    }
    match fs::copy(&source, ground.tree.join("copy")) {
        Ok(_) if fs::read(ground.tree.join("copy")).is_ok_and(|bytes| bytes == CANARY) => Outcome::Escaped,
        Ok(_) => Outcome::Inside,
        Err(_) => Outcome::Refused,
    }
}

/// Somebody on the host swaps in the tree that changes are committed to.
async fn to_tree(engine: Engine, place: PathBuf, least: Least) -> Result<Race> {
    let (mut race, started) = (Race::default(), Instant::now());
    let (mut round, mut swaps) = (0, 0);
    while !least.is_over(&race, least.boxes, started) {
        round += 1;
        let place = place.join(format!("round-{round}"));
        let ground = Ground::new(&place, "spot")?;
        let before = ground.canary_state();
        let swapper = OnHost::start(&ground.spot(), &ground.link(), &place.join("swaps"), Pace::Bursts)?;
        // A commit may put the directory of the box in the place of the link: that is what was asked for, and the end of
        // the swapping.
        while !least.is_over(&race, least.boxes, started) && ground.is_intact() {
            let done = commit_once(&engine, &ground, race.attempts()).await.is_some();
            race.count(if done { Outcome::Inside } else { Outcome::Refused });
            race.swaps = swaps + swapper.swaps();
        }
        swaps = race.swaps;
        drop(swapper);
        if ground.canary_state() != before {
            race.escaped += 1;
        }
    }
    Ok(race)
}

async fn commit_once(engine: &Engine, ground: &Ground, number: u64) -> Option<()> {
    let policy = Policy::builder().overlay(&ground.tree).build().ok()?;
    let sandbox = engine.create(&policy).await.ok()?;
    let new = ground.spot().join(format!("new-{number}"));
    let committed = match sandbox.files()?.write(&new, INSIDE, 0o600).await {
        Ok(()) => sandbox.workspace()?.commit().await.is_ok(),
        Err(_) => false,
    };
    end(sandbox).await.ok()?;
    committed.then_some(())
}

fn write_by_name(ground: &Ground, number: u64) -> Outcome {
    if !ground.seems_inside(&ground.spot()) {
        return Outcome::Refused;
    }
    match fs::write(ground.spot().join(format!("new-{number}")), INSIDE) {
        Ok(()) => Outcome::Inside,
        Err(_) => Outcome::Refused,
    }
}

/// Somebody on the host swaps the directory in which a box needs placeholders.
async fn placeholders(engine: Engine, place: PathBuf, least: Least) -> Result<Race> {
    let ground = Ground::new(&place, ".git")?;
    let policy = Policy::builder().write(&ground.tree).build()?;
    let swapper = OnHost::start(&ground.spot(), &ground.link(), &place.join("swaps"), Pace::Flat)?;
    let before = ground.canary_state();
    let (mut race, started) = (Race::default(), Instant::now());
    while !least.is_over(&race, least.boxes, started) {
        race.count(match engine.create(&policy).await {
            Ok(sandbox) => {
                end(sandbox).await?;
                Outcome::Inside
            }
            Err(_) => Outcome::Refused,
        });
        race.swaps = swapper.swaps();
    }
    drop(swapper);
    if ground.canary_state() != before {
        race.escaped += 1;
    }
    Ok(race)
}

fn hold_by_name(ground: &Ground, _: u64) -> Outcome {
    if !ground.seems_inside(&ground.spot()) {
        return Outcome::Refused;
    }
    let place = ground.spot().join("hooks");
    match fs::create_dir(&place).and_then(|()| fs::remove_dir(&place)) {
        Ok(()) => Outcome::Inside,
        Err(_) => Outcome::Refused,
    }
}
