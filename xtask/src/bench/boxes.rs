//! Hotcell as a library: a box per command, a kept box, a box from a pool.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hotcell::{Engine, Policy, Pool, Sandbox, SandboxOutput, SpawnConfig};
use tokio::runtime::Runtime;

use super::latency::Variant;

/// How many boxes the pool keeps ready.
const POOL: usize = 2;

/// Runs `program` in a box of its own each time.
pub(super) struct OneShot {
    runtime: Rc<Runtime>,
    engine: Engine,
    policy: Policy,
    program: PathBuf,
}

impl OneShot {
    pub(super) fn new(runtime: &Rc<Runtime>, engine: &Engine, policy: Policy, program: &Path) -> Self {
        Self { runtime: Rc::clone(runtime), engine: engine.clone(), policy, program: program.to_owned() }
    }
}

impl Variant for OneShot {
    fn once(&mut self) -> Result<Duration> {
        self.runtime.block_on(async {
            let started = Instant::now();
            let output = self.engine.run_with(&self.policy, SpawnConfig::new(&self.program)).await?;
            let took = started.elapsed();
            check(&output)?;
            Ok(took)
        })
    }
}

/// Runs `program` in the same box each time.
pub(super) struct Kept {
    runtime: Rc<Runtime>,
    /// There until the end.
    sandbox: Option<Box<dyn Sandbox>>,
    program: PathBuf,
}

impl Kept {
    pub(super) fn new(runtime: &Rc<Runtime>, engine: &Engine, policy: &Policy, program: &Path) -> Result<Self> {
        let sandbox = Some(runtime.block_on(engine.create(policy))?);
        Ok(Self { runtime: Rc::clone(runtime), sandbox, program: program.to_owned() })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take()
            && let Err(error) = self.runtime.block_on(sandbox.destroy())
        {
            eprintln!("xtask: a box does not end: {error}");
        }
    }
}

impl Variant for Kept {
    fn once(&mut self) -> Result<Duration> {
        self.runtime.block_on(async {
            let sandbox = self.sandbox.as_deref().context("the box has ended")?;
            let started = Instant::now();
            let output = run_in(sandbox, &self.program).await?;
            let took = started.elapsed();
            check(&output)?;
            Ok(took)
        })
    }
}

/// Takes a box from a pool each time; that the pool fills up again and that the box ends is not counted.
pub(super) struct Pooled {
    runtime: Rc<Runtime>,
    pool: Pool,
    program: PathBuf,
}

impl Pooled {
    pub(super) fn new(runtime: &Rc<Runtime>, engine: &Engine, program: &Path) -> Result<Self> {
        let pool = runtime.block_on(Pool::new(engine, Policy::default(), POOL))?;
        Ok(Self { runtime: Rc::clone(runtime), pool, program: program.to_owned() })
    }

    async fn until_full(&self) -> Result<()> {
        let started = Instant::now();
        while self.pool.ready() < POOL {
            if started.elapsed() > Duration::from_secs(10) {
                bail!("the pool did not fill up again within 10 s");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl Variant for Pooled {
    fn once(&mut self) -> Result<Duration> {
        self.runtime.block_on(async {
            self.until_full().await?;
            let started = Instant::now();
            let sandbox = self.pool.take().await?;
            let output = run_in(&*sandbox, &self.program).await?;
            let took = started.elapsed();
            check(&output)?;
            sandbox.destroy().await?;
            self.until_full().await?;
            Ok(took)
        })
    }
}

async fn run_in(sandbox: &dyn Sandbox, program: &Path) -> Result<SandboxOutput> {
    let config = SpawnConfig::new(program);
    let capture = config.capture;
    let mut process = sandbox.spawn(config).await?;
    Ok(SandboxOutput::collect(&mut *process, capture).await?)
}

fn check(output: &SandboxOutput) -> Result<()> {
    if !output.outcome.status.success() {
        let said = String::from_utf8_lossy(&output.stderr.bytes()).trim().to_owned();
        bail!("the command ended with {:?}: {said}", output.outcome.status);
    }
    Ok(())
}
