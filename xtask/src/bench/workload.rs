//! Real work: compiling C and computing in Python, inside a kept box against outside.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hotcell::{Engine, Policy, Sandbox, SandboxOutput, SpawnConfig};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::Measured;
use super::samples::median_of;
use super::spawned::system_program;

/// How many C files are compiled.
const UNITS: usize = 60;

/// A directory in memory, as a box's private directories are.
const MEMORY: &str = "/dev/shm";

/// Where the work is done inside.
const INSIDE: &str = "/tmp/work";

/// The same programs on both sides.
const PATH: &str = "/usr/bin:/bin";

/// All the work; `$1` is the directory that the sources are in.
const SCRIPT: &str = r#"set -e
cd "$1"
export TMPDIR="$1"
for unit in unit*.c; do gcc -O1 -c "$unit"; done
python3 work.py
rm -f -- *.o
"#;

const PYTHON: &str = r#"counts = {}
total = 0
for number in range(400_000):
    word = str(number * 7919 % 10_007)
    counts[word] = counts.get(word, 0) + 1
    total += len(word)
print(total, len(counts))
"#;

/// How long the work took, in pairs of neighbouring runs.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) inside: Vec<Duration>,
    pub(super) outside: Vec<Duration>,
    /// What kind of file system the work was done on outside; inside it is a tmpfs.
    pub(super) outside_on: &'static str,
}

impl Workload {
    /// The middle of all pairs' ratios: what drifts during the benchmark drifts for both of a pair.
    pub(super) fn ratio(&self) -> Option<f64> {
        let pairs = self.inside.iter().zip(&self.outside);
        median_of(pairs.map(|(inside, outside)| inside.as_secs_f64() / outside.as_secs_f64()).collect())
    }
}

/// Does the work `pairs` times on each side, in turn.
pub(super) fn measure(runtime: &Runtime, pairs: usize) -> Result<Measured<Workload>> {
    for program in ["sh", "gcc", "python3"] {
        if system_program(program).is_none() {
            return Ok(Err(format!("{program} is not installed")));
        }
    }
    let (outside, outside_on) = match TempDir::new_in(MEMORY) {
        Ok(directory) if is_in_memory(Path::new(MEMORY)) => (directory, "tmpfs"),
        _ => (TempDir::new().context("cannot make a temporary directory")?, "the temporary directory"),
    };
    write_sources(outside.path())?;
    let engine = runtime.block_on(Engine::new())?;
    let result = runtime.block_on(in_turn(&engine, outside.path(), pairs));
    runtime.block_on(engine.close());
    let (inside, outside) = result?;
    Ok(Ok(Workload { inside, outside, outside_on }))
}

async fn in_turn(engine: &Engine, outside: &Path, pairs: usize) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let policy = Policy::builder().read(outside).build()?;
    let sandbox = engine.create(&policy).await?;
    let copy = SpawnConfig::new("cp").arg("-r").arg(outside).arg(INSIDE);
    run_inside(&*sandbox, copy).await?;
    let (mut times_inside, mut times_outside) = (Vec::new(), Vec::new());
    // The first pair fills caches and is not counted.
    for pair in 0..=pairs {
        let (inside, outside) = if pair % 2 == 0 {
            let inside = work_inside(&*sandbox).await?;
            (inside, work_outside(outside)?)
        } else {
            let outside = work_outside(outside)?;
            (work_inside(&*sandbox).await?, outside)
        };
        if pair > 0 {
            times_inside.push(inside);
            times_outside.push(outside);
        }
    }
    sandbox.destroy().await?;
    Ok((times_inside, times_outside))
}

async fn work_inside(sandbox: &dyn Sandbox) -> Result<Duration> {
    let started = Instant::now();
    run_inside(sandbox, SpawnConfig::new("/bin/sh").args(["-c", SCRIPT, "work", INSIDE]).env("PATH", PATH)).await?;
    Ok(started.elapsed())
}

async fn run_inside(sandbox: &dyn Sandbox, config: SpawnConfig) -> Result<()> {
    let capture = config.capture;
    let mut process = sandbox.spawn(config).await?;
    let output = SandboxOutput::collect(&mut *process, capture).await?;
    if !output.outcome.status.success() {
        let said = String::from_utf8_lossy(&output.stderr.bytes()).trim().to_owned();
        bail!("the work inside ended with {:?}: {said}", output.outcome.status);
    }
    Ok(())
}

fn work_outside(directory: &Path) -> Result<Duration> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "work"]).arg(directory).env_clear().env("PATH", PATH).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output().context("cannot start /bin/sh")?;
    let took = started.elapsed();
    if !output.status.success() {
        bail!("the work outside ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(took)
}

fn write_sources(directory: &Path) -> Result<()> {
    let write = |name: String, text: &str| -> Result<()> {
        let path: PathBuf = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for number in 0..UNITS {
        write(format!("unit{number:02}.c"), &unit(number)?)?;
    }
    write("work.py".to_owned(), PYTHON)
}

/// A small C file with the usual headers and some functions.
fn unit(number: usize) -> Result<String> {
    let mut text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n".to_owned();
    for function in 0..8 {
        writeln!(
            text,
            "int unit{number}_{function}(const char *text, int rounds) {{\n    \
                 int sum = {function};\n    \
                 for (int i = 0; i < rounds; i++)\n        \
                     for (size_t at = 0; at < strlen(text); at++)\n            \
                         sum = sum * 31 + (text[at] ^ i);\n    \
                 if (sum == {number})\n        printf(\"%s %d\\n\", text, abs(sum));\n    \
                 return sum;\n}}\n"
        )?;
    }
    Ok(text)
}

fn is_in_memory(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split_once(' ')).any(|(_, rest)| {
        let mut words = rest.split(' ');
        words.next().is_some_and(|place| Path::new(place) == path) && words.next() == Some("tmpfs")
    })
}
