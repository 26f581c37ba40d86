//! Who lets a directory and a link change places, as fast as it can: in a box, or on the host.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hotcell::{Files, Policy, Sandbox, SandboxOutput, SpawnConfig};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::soak::worker;

/// Where a swapper in a box counts.
const COUNT_IN_BOX: &str = "/tmp/swaps";
/// How many swaps are done between two notes of the count.
const NOTE_EVERY: u64 = 100;

/// How a swapper goes about it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// Without a pause.
    Flat,
    /// A few at a time: for what notices every change, and so never gets anywhere if they do not pause.
    Bursts,
}

/// `swap ONE OTHER COUNT PACE`: exchanges the two until it is killed, and notes how often it did.
pub(in crate::soak) fn run(arguments: &[String]) -> Result<()> {
    let [one, other, count, pace] = arguments else { bail!("usage: swap ONE OTHER COUNT PACE") };
    let count = File::options().create(true).truncate(true).write(true).open(count)?;
    let mut swaps = 0u64;
    loop {
        for _ in 0..NOTE_EVERY {
            renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).context("cannot exchange")?;
            swaps += 1;
        }
        count.write_all_at(&swaps.to_le_bytes(), 0)?;
        if pace == "bursts" {
            // Not always as long, so that nothing goes in step with it.
            thread::sleep(Duration::from_micros(500 + swaps % 3000));
        }
    }
}

fn words(one: &Path, other: &Path, count: &Path, pace: Pace) -> Result<Vec<String>> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("the path is not UTF-8");
    let pace = match pace {
        Pace::Flat => "flat",
        Pace::Bursts => "bursts",
    };
    Ok(vec![text(one)?, text(other)?, text(count)?, pace.to_owned()])
}

fn number(bytes: &[u8]) -> u64 {
    <[u8; 8]>::try_from(bytes).map_or(0, u64::from_le_bytes)
}

/// A swapper on the host, killed with this value.
#[derive(Debug)]
pub(super) struct OnHost {
    child: Child,
    count: PathBuf,
}

impl OnHost {
    pub(super) fn start(one: &Path, other: &Path, count: &Path, pace: Pace) -> Result<Self> {
        let child = worker::command("swap")?
            .args(words(one, other, count, pace)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // It says so when there is nothing left to swap, which is for others to judge.
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a swapper")?;
        Ok(Self { child, count: count.to_owned() })
    }

    pub(super) fn swaps(&self) -> u64 {
        fs::read(&self.count).map_or(0, |bytes| number(&bytes))
    }
}

impl Drop for OnHost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a box needs so that a swapper can run in it for long.
pub(super) fn policy() -> Result<hotcell::policy::PolicyBuilder> {
    use hotcell::Control::{CpuTime, Timeout};
    Ok(Policy::builder().read(worker::program()?).unlimited(CpuTime).unlimited(Timeout))
}

/// Starts a swapper that stays in the box as a daemon: the command that started it has ended.
pub(super) async fn start_in_box(sandbox: &dyn Sandbox, prepare: &str, one: &Path, other: &Path) -> Result<()> {
    let words = words(one, other, Path::new(COUNT_IN_BOX), Pace::Flat)?;
    let script = format!("{prepare}\nsetsid \"$@\" >/dev/null 2>/tmp/trouble </dev/null &");
    let config = SpawnConfig::new("/bin/sh")
        .args(["-c", &script, "sh"])
        .arg(worker::program()?)
        .args(["soak", worker::WORKER, "swap"])
        .args(words);
    let mut process = sandbox.spawn(config).await?;
    let output = SandboxOutput::collect(&mut *process, hotcell::CaptureLimits::default()).await?;
    if !output.status().success() {
        bail!("the swapper could not be started: {}", String::from_utf8_lossy(&output.stderr.bytes()));
    }
    Ok(())
}

/// How often the swapper in a box has swapped.
pub(super) async fn swaps_in_box(files: &dyn Files) -> u64 {
    files.read(COUNT_IN_BOX.as_ref(), 8).await.map_or(0, |bytes| number(&bytes))
}

/// What the swapper in a box complained of, if it ended.
pub(super) async fn trouble_in_box(files: &dyn Files) -> String {
    let bytes = files.read("/tmp/trouble".as_ref(), 10_000).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
