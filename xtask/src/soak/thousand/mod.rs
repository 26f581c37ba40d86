//! Very many boxes at the same time: each keeps to itself, and all are gone soon after the order to end them.

pub(super) mod inside;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hotcell::{CaptureLimits, Engine, Policy, Sandbox, SandboxOutput, SandboxedProcess};

use super::random::Random;
use super::report::Found;
use super::snapshot::{Scope, Snapshot, settle};
use super::{Setting, in_words, proc, worker};
use inside::Seen;

/// How soon all have to be gone.
const SOON: Duration = Duration::from_secs(5);
/// Requests at the same time.
const WAYS: usize = 8;

/// A box, with what runs in it and what only it may know.
struct Live {
    uuid: String,
    // Dropped in this order.
    resident: Box<dyn SandboxedProcess>,
    sandbox: Box<dyn Sandbox>,
}

pub(super) fn run(setting: &Setting<'_>) -> Result<Found> {
    let wanted: usize = setting.options.scale(1000, 40);
    let mark = format!("thousand-{}", std::process::id());
    let scope = Scope::new(&setting.scratch).without_zombies();
    setting.runtime.block_on(async {
        let engine = Engine::new().await?;
        let found = in_engine(&engine, setting, wanted, &mark, &scope).await;
        engine.close().await;
        found
    })
}

async fn in_engine(engine: &Engine, setting: &Setting<'_>, wanted: usize, mark: &str, scope: &Scope) -> Result<Found> {
    let mut found = Found::default();
    let policy = Policy::builder().read(worker::program()?).build()?;
    // One box first: what it leaves is what an engine at rest has.
    let mut random = Random::new(setting.seed);
    let first = make(engine, &policy, mark, random.uuid()).await?;
    first.sandbox.destroy().await?;
    drop(first.resident);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = Snapshot::take(scope);

    let started = Instant::now();
    let mut boxes: Vec<Live> = Vec::new();
    while boxes.len() < wanted {
        let uuids: Vec<String> = (0..WAYS.min(wanted - boxes.len())).map(|_| random.uuid()).collect();
        let made = all(uuids.into_iter().map(|uuid| {
            let (engine, policy, mark) = (engine.clone(), policy.clone(), mark.to_owned());
            async move { make(&engine, &policy, &mark, uuid).await }
        }))
        .await?;
        boxes.extend(made);
        if boxes.len().is_multiple_of(200) {
            println!("  {} boxes after {:.1} s", boxes.len(), started.elapsed().as_secs_f64());
        }
    }
    let making = started.elapsed();
    // The control of the search for what is left: all of them are seen.
    let alive = proc::marked(mark).len();

    let started = Instant::now();
    let mut wrong = 0;
    for number in 0..boxes.len() {
        let other = (number + 1 + random.below(boxes.len() as u64 - 1) as usize) % boxes.len();
        let (own, other) = (boxes[number].uuid.clone(), boxes[other].uuid.clone());
        match look(&*boxes[number].sandbox, mark, &own, &other).await {
            Ok(seen) => {
                for line in seen.complaints(&own) {
                    wrong += 1;
                    found.failure(format!("box {number}: {line}"));
                }
            }
            Err(error) => {
                wrong += 1;
                found.failure(format!("box {number}: {error:#}"));
            }
        }
        if (number + 1) % 200 == 0 {
            println!("  {} looked around after {:.1} s", number + 1, started.elapsed().as_secs_f64());
        }
    }

    let count = boxes.len();
    let ordered = Instant::now();
    let ends = boxes.into_iter().map(|live| async move {
        drop(live.resident);
        live.sandbox.destroy().await.context("a box could not be ended")
    });
    let ended = all(ends).await;
    if let Err(error) = ended {
        wrong += 1;
        found.failure(format!("{error:#}"));
    }
    let (scope, mark, patience) = (scope.clone(), mark.to_owned(), setting.patience());
    let (left, marked) = tokio::task::spawn_blocking(move || {
        (settle(&scope, &before, patience, Snapshot::differences).0, proc::marked(&mark))
    })
    .await
    .context("the look at what is left ended early")?;
    let took = ordered.elapsed();
    for line in &left {
        found.failure(format!("after the end: {line}"));
    }

    found.at_least("boxes at once", count as f64, "", wanted as f64);
    found.at_least("processes in them that were seen", alive as f64, "", wanted as f64);
    found.none_of("wrong answers", wrong);
    found.at_most("all gone after", took.as_secs_f64(), "s", SOON.as_secs_f64());
    found.none_of("things left behind", left.len() + marked.len());
    found.tell("made in", making.as_secs_f64(), "s");
    found.note(
        "Every box gives back its own UUID on a later command, and looks for another box's file, process and abstract \
         socket; that it finds its own is the control.",
    );
    Ok(found)
}

/// Makes a box, puts its UUID in it and starts the program that stays.
async fn make(engine: &Engine, policy: &Policy, mark: &str, uuid: String) -> Result<Live> {
    let sandbox = engine.create(policy).await?;
    let files = sandbox.files().context("the box has no files")?;
    files.write(inside::OWN.as_ref(), uuid.as_bytes(), 0o600).await?;
    let mut resident = sandbox.spawn(worker::in_box("resident", &[&uuid], mark)?).await?;
    let mut output = resident.take_io().output.context("the resident has no output")?;
    match output.next().await {
        Some(event) if event.bytes == inside::READY.as_bytes() => Ok(Live { uuid, resident, sandbox }),
        Some(event) => bail!("the resident said {:?}", String::from_utf8_lossy(&event.bytes)),
        None => bail!("the resident ended at once"),
    }
}

/// The later command: what it sees of its own box and of another.
async fn look(sandbox: &dyn Sandbox, mark: &str, own: &str, other: &str) -> Result<Seen> {
    let mut process = sandbox.spawn(worker::in_box("look", &[own, other], mark)?).await?;
    let output = SandboxOutput::collect(&mut *process, CaptureLimits::default()).await?;
    if !output.status().success() {
        bail!("it {}: {}", output.status(), String::from_utf8_lossy(&output.stderr.bytes()).trim());
    }
    serde_json::from_slice(&output.stdout.bytes()).context("cannot understand what it saw").map(Seen)
}

/// Waits for all of these, at the same time.
async fn all<T: Send + 'static>(
    work: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let tasks: Vec<_> = work.map(tokio::spawn).collect();
    let mut results = Vec::new();
    let mut first_error = None;
    for task in tasks {
        match task.await.context("a task of the soak ended early")? {
            Ok(result) => results.push(result),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        None => Ok(results),
        Some(error) => Err(anyhow::anyhow!("{}", in_words(&*error))),
    }
}
