//! What a live box takes of the machine's memory, with very many of them at once.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hotcell::{Engine, Policy, Sandbox, SandboxedProcess, SpawnConfig};
use tokio::runtime::Runtime;

use super::Measured;

/// Two looks at the machine's memory that differ by less than this agree.
const NEAR: u64 = 2 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOKS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for the boxes to be looked at, and no nuisance if something goes wrong.
const SLEEP: &str = "600";

/// Memory that the machine has less of, per box, in bytes.
#[derive(Debug)]
pub(super) struct Memory {
    /// How many boxes there were.
    pub(super) boxes: usize,
    /// Why there were not more, if more were asked for.
    pub(super) shortfall: Option<String>,
    /// A box in which `sleep` runs.
    pub(super) running: f64,
    /// A box in which nothing runs yet.
    pub(super) idle: f64,
    /// `sleep` alone, without a box.
    pub(super) plain: f64,
}

/// Makes `count` boxes, starts `sleep` in each, and looks at the machine's memory before and after.
pub(super) fn measure(runtime: &Runtime, count: usize, sleep: &Path) -> Result<Measured<Memory>> {
    if available().is_none() {
        return Ok(Err("/proc/meminfo does not tell the available memory".to_owned()));
    }
    // First, because the kernel frees what boxes had at its leisure.
    let plain = plain(count, sleep)?;
    let engine = runtime.block_on(Engine::new())?;
    let boxes = runtime.block_on(boxes(&engine, count, sleep));
    runtime.block_on(engine.close());
    boxes.map(|boxes| Ok(Memory { plain, ..boxes }))
}

async fn boxes(engine: &Engine, count: usize, sleep: &Path) -> Result<Memory> {
    engine.run(SpawnConfig::new("true")).await?;
    let before = settled().await?;
    let mut shortfall = None;
    let mut sandboxes: Vec<Box<dyn Sandbox>> = Vec::new();
    while sandboxes.len() < count {
        match engine.create(&Policy::default()).await {
            Ok(sandbox) => sandboxes.push(sandbox),
            // The first has to work; a machine may have room for fewer than were asked for.
            Err(error) if sandboxes.is_empty() => return Err(error.into()),
            Err(error) => {
                shortfall = Some(describe(&error));
                break;
            }
        }
    }
    let idle = settled().await?;
    let mut processes: Vec<Box<dyn SandboxedProcess>> = Vec::new();
    for sandbox in &sandboxes {
        processes.push(sandbox.spawn(SpawnConfig::new(sleep).arg(SLEEP)).await?);
    }
    let running = settled().await?;
    let boxes = sandboxes.len();
    let each = |after: u64| before.saturating_sub(after) as f64 / boxes as f64;
    drop(processes);
    Ok(Memory { boxes, shortfall, running: each(running), idle: each(idle), plain: 0.0 })
}

fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The same command as often, without boxes.
fn plain(count: usize, sleep: &Path) -> Result<f64> {
    let before = settle()?;
    let mut children: Vec<Child> = Vec::new();
    let started = (0..count).try_for_each(|_| -> Result<()> {
        let mut command = Command::new(sleep);
        command.arg(SLEEP).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        children.push(command.spawn().with_context(|| format!("cannot start {}", sleep.display()))?);
        Ok(())
    });
    let after = settle();
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    started?;
    Ok(before.saturating_sub(after?) as f64 / count as f64)
}

async fn settled() -> Result<u64> {
    tokio::task::spawn_blocking(settle).await.context("the look at the machine's memory ended early")?
}

/// The available memory, once it has stopped moving, or after long enough.
fn settle() -> Result<u64> {
    let started = Instant::now();
    let mut looks: Vec<u64> = Vec::new();
    loop {
        thread::sleep(LOOK_EVERY);
        looks.push(available().context("/proc/meminfo does not tell the available memory")?);
        let last = &looks[looks.len().saturating_sub(LOOKS)..];
        let (least, most) = (last.iter().min().copied(), last.iter().max().copied());
        let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
        if last.len() == LOOKS && most - least < NEAR || started.elapsed() > PATIENCE {
            return Ok(last.iter().sum::<u64>() / last.len() as u64);
        }
    }
}

fn available() -> Option<u64> {
    super::machine::kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}
