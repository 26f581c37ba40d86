//! How many commands a second eight at a time give: a box each, against bubblewrap.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hotcell::{Engine, SpawnConfig};
use tokio::runtime::Runtime;

use super::Measured;
use super::anatomy::Anatomy;
use super::spawned::Spawned;

/// Commands at the same time.
pub(super) const WAYS: usize = 8;

/// Runs and the time that they took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    pub(super) runs: u64,
    pub(super) time: Duration,
}

impl Rate {
    pub(super) fn per_second(self) -> f64 {
        self.runs as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.time += other.time;
    }
}

/// Both rates, measured in turn.
#[derive(Debug)]
pub(super) struct Throughput {
    pub(super) hotcell: Rate,
    pub(super) bubblewrap: Measured<Rate>,
}

/// What is compared, and for how long.
pub(super) struct Contest<'a> {
    pub(super) program: &'a Path,
    pub(super) anatomy: &'a Anatomy,
    pub(super) bubblewrap: Measured<&'a Path>,
    pub(super) slices: u32,
    pub(super) slice: Duration,
}

/// Gives each side one slice of time after the other.
pub(super) fn measure(runtime: &Runtime, contest: &Contest<'_>) -> Result<Throughput> {
    let engine = runtime.block_on(Engine::new())?;
    let mut throughput = Throughput { hotcell: Rate::default(), bubblewrap: Ok(Rate::default()) };
    for _ in 0..contest.slices {
        throughput.hotcell.add(runtime.block_on(boxes(&engine, contest))?);
        let slice = match &contest.bubblewrap {
            Ok(bwrap) => bubblewraps(bwrap, contest).map_err(|error| format!("{error:#}")),
            Err(reason) => Err(reason.clone()),
        };
        match (&mut throughput.bubblewrap, slice) {
            (Ok(rate), Ok(slice)) => rate.add(slice),
            (_, Err(reason)) => throughput.bubblewrap = Err(reason),
            (Err(_), Ok(_)) => {}
        }
    }
    runtime.block_on(engine.close());
    Ok(throughput)
}

async fn boxes(engine: &Engine, contest: &Contest<'_>) -> Result<Rate> {
    let started = Instant::now();
    let end = started + contest.slice;
    let mut tasks = Vec::new();
    for _ in 0..WAYS {
        let (engine, config) = (engine.clone(), SpawnConfig::new(contest.program));
        tasks.push(tokio::spawn(async move {
            let mut runs = 0;
            while Instant::now() < end {
                let output = engine.run(config.clone()).await?;
                if !output.outcome.status.success() {
                    bail!("a command ended with {:?}", output.outcome.status);
                }
                runs += 1;
            }
            Ok(runs)
        }));
    }
    let mut runs = 0;
    for task in tasks {
        runs += task.await.context("a task of the benchmark ended early")??;
    }
    Ok(Rate { runs, time: started.elapsed() })
}

fn bubblewraps(bwrap: &Path, contest: &Contest<'_>) -> Result<Rate> {
    let started = Instant::now();
    let end = started + contest.slice;
    let failed = AtomicBool::new(false);
    let work = || -> Result<u64> {
        let mut command = Spawned::bubblewrap(bwrap, contest.anatomy, contest.program);
        let mut runs = 0;
        while Instant::now() < end && !failed.load(Ordering::Relaxed) {
            command.run().inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            runs += 1;
        }
        Ok(runs)
    };
    let mut runs = 0;
    thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..WAYS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            runs += thread.join().map_err(|_| anyhow!("a thread of the benchmark ended early"))??;
        }
        Ok(())
    })?;
    Ok(Rate { runs, time: started.elapsed() })
}
