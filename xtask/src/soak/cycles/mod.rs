//! Very many boxes, one after the other and eight at a time, and nothing left of them.

mod kinds;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hotcell::{Engine, Policy, RuntimeKind};

use super::report::Found;
use super::slope::slope;
use super::snapshot::{Scope, Snapshot, settle};
use super::{Setting, in_words, proc};
use kinds::{KINDS, Kinds};

/// Boxes at the same time.
const WAYS: u64 = 8;
/// The memory of a program that was just started grows until its allocator has seen everything once.
const WARM_UP_SHARE: f64 = 0.2;
/// Fewer cycles than this say nothing about growth.
const LEAST_FOR_SLOPE: u64 = 2000;
/// The most that memory may grow per cycle, in bytes.
const SLOPE_MAX: f64 = 1024.0;

/// Memory of a process over the cycles.
#[derive(Debug, Default)]
struct Growth {
    engine: Vec<(f64, f64)>,
    helper: Vec<(f64, f64)>,
}

pub(super) fn run(setting: &Setting<'_>) -> Result<Found> {
    let mut found = Found::default();
    let total: u64 = setting.options.scale(10_000, 160);
    let every: u64 = setting.options.scale(1_000, 80);
    let kinds = Arc::new(Kinds::new(setting.scratch.clone(), WAYS)?);
    let scope = Scope::new(&setting.scratch);
    // What a program that uses the library has open from its first box on, once and for good, is there before the first
    // count.
    setting.runtime.block_on(async {
        let engine = Engine::new().await?;
        let first = kinds.run(&engine, 0, 0).await;
        engine.close().await;
        first.map_err(anyhow::Error::msg)
    })?;
    let before = Snapshot::take(&scope);

    let engine = setting.runtime.block_on(Engine::new())?;
    let helper = proc::helper_of(std::process::id());
    setting.runtime.block_on(cycle(&engine, &kinds, 0..every.min(200), &mut found, &mut Growth::default(), helper))?;
    let live = scope.clone().with_helper(helper);
    let patience = setting.patience();
    let Some(resting) = at_rest(&live, patience) else {
        found.failure("the engine does not come to rest before the first cycle");
        found.none_of("cycles that could not begin", 1);
        return Ok(found);
    };

    let started = Instant::now();
    let (mut growth, mut worst) = (Growth::default(), Duration::ZERO);
    let (mut done, mut leaks) = (0, 0);
    while done < total {
        let next = total.min(done + every);
        setting.runtime.block_on(cycle(&engine, &kinds, done..next, &mut found, &mut growth, helper))?;
        done = next;
        let (left, took) = settle(&live, &resting, patience, Snapshot::differences);
        worst = worst.max(took);
        leaks += left.len();
        for line in left {
            found.failure(format!("after {done} cycles: {line}"));
        }
        println!("  {done} cycles, at rest after {:.2} s", took.as_secs_f64());
    }
    let rate = total as f64 / started.elapsed().as_secs_f64();
    let failed = found.failure_count() - leaks;
    let kept = helper.and_then(proc::descriptors).unwrap_or_default();
    let owner_maps = kept.iter().filter(|target| target.starts_with("user:")).count();
    let open_files = std::fs::read_to_string("/proc/sys/fs/file-nr").unwrap_or_default();

    setting.runtime.block_on(engine.close());
    let (left, took) = settle(&scope, &before, patience, Snapshot::differences);
    leaks += left.len();
    for line in left {
        found.failure(format!("after the end of the engine: {line}"));
    }

    found.at_least("cycles", done as f64, "", total as f64);
    found.none_of("cycles that went wrong", failed);
    found.none_of("things left behind", leaks);
    found.at_most("longest wait for rest", worst.max(took).as_secs_f64(), "s", patience.as_secs_f64());
    // One for each place that a box had at the same time as others, and the one that is made ahead.
    found.at_most("namespaces that the helper keeps", owner_maps as f64, "", (2 * WAYS + 2) as f64);
    growth_figures(&mut found, &growth, total);
    found.tell("rate", rate, "cycles/s");
    found.note(format!(
        "{} kinds of boxes in turn: {}.",
        KINDS.len(),
        KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    ));
    found.note(format!("Open files of the machine at the end (for information): {}.", open_files.trim()));
    if let Some(reason) = limits_note(setting)? {
        found.note(reason);
    }
    Ok(found)
}

/// What is not as on a full machine.
fn limits_note(setting: &Setting<'_>) -> Result<Option<String>> {
    let engine = setting.runtime.block_on(Engine::new())?;
    let limited =
        Policy::builder().runtime(RuntimeKind::Native).memory(64 << 20).build().context("a plain policy is refused")?;
    let refused = setting
        .runtime
        .block_on(engine.plan(&limited))
        .err()
        .map(|error| format!("The memory limit was approximated: {}", in_words(&error).replace('\n', " ")));
    setting.runtime.block_on(engine.close());
    Ok(refused)
}

/// The count of a live engine in which nothing happens: the first that is the same twice.
fn at_rest(scope: &Scope, patience: Duration) -> Option<Snapshot> {
    let started = Instant::now();
    let mut last = Snapshot::take(scope);
    let mut same = 0;
    while started.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(100));
        let next = Snapshot::take(scope);
        same = if next == last { same + 1 } else { 0 };
        if same == 5 {
            return Some(next);
        }
        last = next;
    }
    None
}

/// Runs the cycles with these numbers, several at a time.
async fn cycle(
    engine: &Engine,
    kinds: &Arc<Kinds>,
    numbers: std::ops::Range<u64>,
    found: &mut Found,
    growth: &mut Growth,
    helper: Option<u32>,
) -> Result<()> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    let sampled: Arc<Mutex<Growth>> = Arc::default();
    let mut tasks = Vec::new();
    for way in 0..WAYS {
        let (engine, kinds, next) = (engine.clone(), Arc::clone(kinds), Arc::clone(&next));
        let (failures, sampled, end) = (Arc::clone(&failures), Arc::clone(&sampled), numbers.end);
        tasks.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return;
                }
                if let Err(wrong) = kinds.run(&engine, number, way).await {
                    failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("cycle {number}: {wrong}"));
                }
                if number % 50 == 0 {
                    sample(&sampled, number, helper);
                }
            }
        }));
    }
    for task in tasks {
        task.await.context("a task of the soak ended early")?;
    }
    for wrong in failures.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        found.failure(wrong);
    }
    let mut sampled = sampled.lock().unwrap_or_else(PoisonError::into_inner);
    growth.engine.append(&mut sampled.engine);
    growth.helper.append(&mut sampled.helper);
    Ok(())
}

fn sample(growth: &Mutex<Growth>, number: u64, helper: Option<u32>) {
    let mut growth = growth.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = proc::resident(std::process::id()) {
        growth.engine.push((number as f64, bytes as f64));
    }
    if let Some(bytes) = helper.and_then(proc::resident) {
        growth.helper.push((number as f64, bytes as f64));
    }
}

fn growth_figures(found: &mut Found, growth: &Growth, total: u64) {
    if total < LEAST_FOR_SLOPE {
        found.note("Too few cycles to say whether memory grows.");
        return;
    }
    for (what, points) in [("engine's memory", &growth.engine), ("helper's memory", &growth.helper)] {
        let warm = total as f64 * WARM_UP_SHARE;
        let points: Vec<_> = points.iter().copied().filter(|(number, _)| *number >= warm).collect();
        // What could not be measured is not met.
        let slope = slope(&points).unwrap_or(f64::NAN);
        found.at_most(format!("growth of the {what}"), slope, "bytes/cycle", SLOPE_MAX);
        if let Some((_, last)) = points.last() {
            found.tell(what, last / f64::from(1 << 20), "MiB");
        }
    }
}
