//! The program that is killed: makes hostile boxes, and goes on ending and making them.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use hotcell::{Engine, EngineOptions, Policy, Sandbox, SandboxedProcess, SpawnConfig};

use crate::soak::proc::MARK;
use crate::soak::random::Random;

/// What it says when it has all its boxes.
pub(super) const READY: &str = "ready";

/// Boxes that are made at the same time.
const WAYS: u64 = 4;

/// What the boxes run. `MARK` stands for the word by which everything is searched for.
const HOSTILE: &[&str] = &[
    // Ignores every signal that can be ignored.
    "trap '' TERM INT HUP QUIT USR1 USR2 ALRM PIPE; while :; do sleep 1; done",
    // Two forks, a session of its own, and no more parent.
    "(setsid sh -c 'trap \"\" TERM HUP; (setsid sleep 600 &) ; sleep 600' x MARK &) ; sleep 600",
    // Stops itself, and something else.
    "sh -c 'kill -STOP $$' x MARK & kill -STOP $$",
    // Starts processes as fast as it may.
    "while :; do (sleep 0.2; :) & sleep 0.01; done",
    // Ends, and leaves somebody who holds its pipes.
    "sh -c 'exec sleep 600' x MARK & exit 0",
    // Leaves shared memory and files behind.
    "echo x > /dev/shm/MARK; echo x > /tmp/MARK; exec sleep 600",
];

struct Hostile {
    // Dropped in this order.
    process: Box<dyn SandboxedProcess>,
    sandbox: Box<dyn Sandbox>,
}

pub(in crate::soak) fn run(arguments: &[String]) -> Result<()> {
    let [mark, tree, boxes, seed] = arguments else { anyhow::bail!("usage: victim MARK TREE BOXES SEED") };
    let (boxes, seed): (u64, u64) = (boxes.parse()?, seed.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(live(mark, Path::new(tree), boxes, Random::new(seed)))
}

async fn live(mark: &str, tree: &Path, wanted: u64, mut random: Random) -> Result<()> {
    let engine = Engine::with_options(EngineOptions::default().warm(2)).await?;
    let plain = Policy::builder().processes(24).build()?;
    let written = Policy::builder().processes(24).write(tree).build()?;
    let overlay = Policy::builder().processes(24).overlay(tree).build()?;
    // An ordinary user may have no process limit that counts exactly; then the usual one does.
    let policies: Vec<Policy> = match engine.plan(&plain).await {
        Ok(_) => vec![plain, written, overlay],
        Err(_) => {
            vec![Policy::default(), Policy::builder().write(tree).build()?, Policy::builder().overlay(tree).build()?]
        }
    };
    let make = |number: u64| {
        let script = HOSTILE[number as usize % HOSTILE.len()].replace("MARK", mark);
        let policy = policies[(number / HOSTILE.len() as u64) as usize % policies.len()].clone();
        let (engine, mark) = (engine.clone(), mark.to_owned());
        tokio::spawn(async move { hostile(&engine, &policy, &script, &mark).await })
    };
    let mut boxes = Vec::new();
    let mut number = 0;
    while (boxes.len() as u64) < wanted {
        let tasks: Vec<_> = (0..WAYS.min(wanted - boxes.len() as u64)).map(|more| make(number + more)).collect();
        number += tasks.len() as u64;
        for task in tasks {
            boxes.push(task.await.context("a task ended early")??);
        }
    }
    writeln!(std::io::stdout(), "{READY}")?;
    // From here on one is always being ended and another being made.
    loop {
        let old = boxes.swap_remove(random.below(boxes.len() as u64) as usize);
        let next = make(number);
        number += 1;
        if random.below(2) == 0 {
            drop(old.process);
            old.sandbox.destroy().await?;
        } else {
            drop(old);
        }
        boxes.push(next.await.context("a task ended early")??);
        tokio::time::sleep(Duration::from_millis(random.below(5))).await;
    }
}

async fn hostile(engine: &Engine, policy: &Policy, script: &str, mark: &str) -> Result<Hostile> {
    let sandbox = engine.create(policy).await?;
    let config = SpawnConfig::new("/bin/sh").args(["-c", script, "hostile", mark]).env(MARK, mark);
    let process = sandbox.spawn(config).await?;
    Ok(Hostile { process, sandbox })
}
