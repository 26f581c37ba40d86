//! Every way to run a command that is compared, in the order of the table.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use hotcell::{Engine, EngineOptions, Policy};
use tokio::runtime::Runtime;

use super::Measured;
use super::anatomy::Anatomy;
use super::boxes::{Kept, OneShot, Pooled};
use super::floor::Floor;
use super::latency::{self, Candidate, Pace, Row, Variant};
use super::spawned::Spawned;

pub(super) const PLAIN: &str = "plain";
pub(super) const FLOOR: &str = "floor";
pub(super) const BWRAP: &str = "bwrap";
pub(super) const ONE_SHOT: &str = "one-shot";
pub(super) const ONE_SHOT_COLD: &str = "one-shot-cold";
pub(super) const KEPT: &str = "kept";
pub(super) const POOLED: &str = "pooled";
pub(super) const CLI: &str = "cli";

/// The variants that are Hotcell's, and have to work.
const OURS: &[&str] = &[ONE_SHOT, ONE_SHOT_COLD, KEPT, POOLED, CLI];

/// What the variants are made from.
pub(super) struct Ingredients<'a> {
    pub(super) anatomy: &'a Anatomy,
    pub(super) program: &'a Path,
    pub(super) bubblewrap: Measured<&'a Path>,
    /// The released `hotcell` command.
    pub(super) command: &'a Path,
    pub(super) scratch: &'a Path,
}

/// Measures every variant, interleaved.
pub(super) fn measure(ingredients: &Ingredients<'_>, rounds: usize) -> Result<Vec<Row>> {
    // A runtime of one thread, as the `hotcell` command has: no variant pays for threads that wake each other.
    let runtime = Rc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
    let engine = runtime.block_on(Engine::new())?;
    let cold = runtime.block_on(Engine::with_options(EngineOptions::default().warm(0)))?;
    let pace = Pace { rounds, warm_up: 20, pause: Duration::from_millis(4) };
    let rows = latency::measure(candidates(ingredients, &runtime, &engine, &cold)?, pace, OURS);
    runtime.block_on(cold.close());
    runtime.block_on(engine.close());
    rows
}

fn candidates(
    ingredients: &Ingredients<'_>,
    runtime: &Rc<Runtime>,
    engine: &Engine,
    cold: &Engine,
) -> Result<Vec<Candidate>> {
    let Ingredients { anatomy, program, bubblewrap, command, scratch } = ingredients;
    let floor = Floor::start(scratch, anatomy, program).map_err(|error| format!("{error:#}"));
    let bubblewrap =
        bubblewrap.as_ref().map(|bwrap| Spawned::bubblewrap(bwrap, anatomy, program)).map_err(Clone::clone);
    let ours = |name, about, variant: Box<dyn Variant>| Candidate { name, about, variant: Ok(variant) };
    Ok(vec![
        ours(PLAIN, "plain spawn, no box", Box::new(Spawned::plain(program))),
        Candidate { name: FLOOR, about: "bare clone, a box's namespaces and mounts, exec", variant: boxed(floor) },
        Candidate { name: BWRAP, about: "bubblewrap with an equal policy", variant: boxed(bubblewrap) },
        ours(
            ONE_SHOT,
            "library: a box per command",
            Box::new(OneShot::new(runtime, engine, Policy::default(), program)),
        ),
        ours(
            ONE_SHOT_COLD,
            "the same, nothing made ahead",
            Box::new(OneShot::new(runtime, cold, Policy::default(), program)),
        ),
        ours(KEPT, "library: exec in a kept box", Box::new(Kept::new(runtime, engine, &Policy::default(), program)?)),
        ours(POOLED, "library: a box from a pool", Box::new(Pooled::new(runtime, engine, program)?)),
        ours(CLI, "`hotcell run -- true`", Box::new(Spawned::hotcell(command, scratch, program))),
    ])
}

pub(super) fn boxed<V: Variant + 'static>(variant: Measured<V>) -> Measured<Box<dyn Variant>> {
    variant.map(|variant| Box::new(variant) as Box<dyn Variant>)
}
