//! What a flood of output costs the supervisor, which is this process: time, and memory that it should not need.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hotcell::{Control, Engine, Policy, SandboxOutput, SpawnConfig};
use tokio::runtime::Runtime;

use super::Measured;

const MEBIBYTE: u64 = 1 << 20;

/// A flood that was read to its end.
#[derive(Debug)]
pub(super) struct Flood {
    pub(super) bytes: u64,
    pub(super) time: Duration,
    /// The most memory that this process ever had resident, before the flood and after it.
    pub(super) peak_before: u64,
    pub(super) peak_after: u64,
}

impl Flood {
    pub(super) fn growth(&self) -> u64 {
        self.peak_after.saturating_sub(self.peak_before)
    }

    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Lets a box write `bytes` (in whole mebibytes) of output and captures it within the usual bounds.
///
/// Measure this first: a peak that an earlier part of the benchmark reached would hide this one.
pub(super) fn measure(runtime: &Runtime, bytes: u64) -> Result<Measured<Flood>> {
    if peak_memory().is_none() {
        return Ok(Err("/proc/self/status does not tell the peak of our memory".to_owned()));
    }
    let engine = runtime.block_on(Engine::new())?;
    let flood = runtime.block_on(flood(&engine, bytes));
    runtime.block_on(engine.close());
    flood.map(Ok)
}

async fn flood(engine: &Engine, bytes: u64) -> Result<Flood> {
    let policy =
        Policy::builder().unlimited(Control::Output).unlimited(Control::Timeout).unlimited(Control::CpuTime).build()?;
    // The first run brings in code and buffers that every run needs.
    write_zeros(engine, &policy, 1).await?;
    let peak_before = peak_memory().context("cannot read our own peak of memory")?;
    let started = Instant::now();
    let output = write_zeros(engine, &policy, bytes / MEBIBYTE).await?;
    let time = started.elapsed();
    let peak_after = peak_memory().context("cannot read our own peak of memory")?;
    Ok(Flood { bytes: output.stdout.total, time, peak_before, peak_after })
}

async fn write_zeros(engine: &Engine, policy: &Policy, mebibytes: u64) -> Result<SandboxOutput> {
    let count = format!("count={mebibytes}");
    let config = SpawnConfig::new("dd").args(["if=/dev/zero", "bs=1M", &count, "status=none"]);
    let output = engine.run_with(policy, config).await?;
    if !output.outcome.status.success() || output.stdout.total != mebibytes * MEBIBYTE {
        let said = String::from_utf8_lossy(&output.stderr.bytes()).trim().to_owned();
        bail!("the flood ended with {:?} after {} bytes: {said}", output.outcome.status, output.stdout.total);
    }
    Ok(output)
}

fn peak_memory() -> Option<u64> {
    super::machine::kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}
