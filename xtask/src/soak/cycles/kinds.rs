//! The kinds of boxes: what each does, and what has to come of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use hotcell::{CaptureLimits, Control, Engine, EngineError, Policy, SandboxOutput, SpawnConfig, Status};

use crate::soak::in_words;
use crate::soak::proc::MARK;

/// A kind of box. What went wrong is said in words.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// How often it comes in a round of all.
    often: u64,
}

/// Every kind there is.
pub(super) const KINDS: &[Kind] = &[
    Kind { name: "a command that does nothing", often: 3 },
    Kind { name: "output", often: 2 },
    Kind { name: "a timeout", often: 1 },
    Kind { name: "the memory limit", often: 1 },
    Kind { name: "canceled", often: 2 },
    Kind { name: "an overlay", often: 1 },
    Kind { name: "a tree written directly, with protected names", often: 1 },
    Kind { name: "a kept box with two commands", often: 1 },
    Kind { name: "a daemon left behind", often: 1 },
];

const OUTPUT: u64 = 300_000;

/// What the kinds need: a tree for each of the boxes that run at the same time.
pub(super) struct Kinds {
    trees: Vec<PathBuf>,
    mark: String,
    policies: Policies,
}

struct Policies {
    limited: Policy,
    overlays: Vec<Policy>,
    written: Vec<Policy>,
}

type Wrong = String;

impl Kinds {
    pub(super) fn new(scratch: PathBuf, ways: u64) -> Result<Self> {
        let mut trees = Vec::new();
        for way in 0..ways {
            let tree = scratch.join(format!("tree-{way}"));
            fs::create_dir_all(tree.join(".git")).with_context(|| format!("cannot make {}", tree.display()))?;
            fs::write(tree.join("old"), "old")?;
            trees.push(tree);
        }
        let overlay = |tree: &PathBuf| Policy::builder().overlay(tree).cwd(tree).build();
        let written = |tree: &PathBuf| Policy::builder().write(tree).cwd(tree).build();
        let policies = Policies {
            // Where the kernel cannot hold it, it is sampled; the outcome is the same.
            limited: Policy::builder().memory(24 << 20).approximate(Control::Memory).build()?,
            overlays: trees.iter().map(overlay).collect::<std::result::Result<_, _>>()?,
            written: trees.iter().map(written).collect::<std::result::Result<_, _>>()?,
        };
        Ok(Self { trees, mark: format!("cycles-{}", std::process::id()), policies })
    }

    /// Does one cycle; `way` is one of those that run at the same time.
    pub(super) async fn run(&self, engine: &Engine, number: u64, way: u64) -> std::result::Result<(), Wrong> {
        let round: u64 = KINDS.iter().map(|kind| kind.often).sum();
        let mut rest = number % round;
        let mut chosen = 0;
        for (index, kind) in KINDS.iter().enumerate() {
            chosen = index;
            match rest.checked_sub(kind.often) {
                Some(left) => rest = left,
                None => break,
            }
        }
        let way = way as usize % self.trees.len();
        let done = match chosen {
            0 => self.nothing(engine).await,
            1 => self.output(engine).await,
            2 => self.timeout(engine).await,
            3 => self.memory(engine).await,
            4 => self.canceled(engine, number).await,
            5 => self.overlay(engine, way).await,
            6 => self.written(engine, way).await,
            7 => self.kept(engine).await,
            _ => self.daemon(engine).await,
        };
        done.map_err(|wrong| format!("{}: {wrong}", KINDS.get(chosen).map_or("", |kind| kind.name)))
    }

    fn sh(&self, script: &str) -> SpawnConfig {
        SpawnConfig::new("/bin/sh").args(["-c", script]).env(MARK, &self.mark)
    }

    async fn nothing(&self, engine: &Engine) -> std::result::Result<(), Wrong> {
        expect(engine.run(SpawnConfig::new("true").env(MARK, &self.mark)).await, Status::Exited(0)).map(|_| ())
    }

    async fn output(&self, engine: &Engine) -> std::result::Result<(), Wrong> {
        let output = engine.run(self.sh(&format!("head -c {OUTPUT} /dev/zero; echo end >&2"))).await;
        let output = expect(output, Status::Exited(0))?;
        let seen = (output.stdout.total, output.stderr.bytes());
        if seen == (OUTPUT, b"end\n".to_vec()) { Ok(()) } else { Err(format!("{} bytes came", seen.0)) }
    }

    async fn timeout(&self, engine: &Engine) -> std::result::Result<(), Wrong> {
        let config = self.sh("trap '' TERM; sleep 600; sleep 600").timeout(Duration::from_millis(40));
        expect(engine.run(config).await, Status::TimedOut).map(|_| ())
    }

    async fn memory(&self, engine: &Engine) -> std::result::Result<(), Wrong> {
        // It looks for the last line of something without lines and without an end.
        let config = SpawnConfig::new("tail").arg("/dev/zero").env(MARK, &self.mark);
        expect(engine.run_with(&self.policies.limited, config).await, Status::OutOfMemory).map(|_| ())
    }

    /// Ended by the caller, or let go of at some moment while it is being made or runs.
    async fn canceled(&self, engine: &Engine, number: u64) -> std::result::Result<(), Wrong> {
        let config = self.sh("sleep 600 & sleep 600");
        if number.is_multiple_of(2) {
            let moment = Duration::from_micros(number * 37 % 20_000);
            return match tokio::time::timeout(moment, engine.run(config)).await {
                Err(_) => Ok(()),
                Ok(output) => Err(format!("it ended by itself: {:?}", output.map(|output| output.status()))),
            };
        }
        let command = engine.start(&Policy::default(), config).await.map_err(|error| in_words(&error))?;
        command.kill().await.map_err(|error| in_words(&error))?;
        match command.finish().await {
            Ok(outcome) if outcome.status == Status::Canceled => Ok(()),
            Ok(outcome) => Err(format!("it ended with {}", outcome.status)),
            Err(error) => Err(in_words(&error)),
        }
    }

    async fn overlay(&self, engine: &Engine, way: usize) -> std::result::Result<(), Wrong> {
        let sandbox = engine.create(&self.policies.overlays[way]).await.map_err(|error| in_words(&error))?;
        run_in(&*sandbox, self.sh("echo new > new; rm old")).await?;
        let workspace = sandbox.workspace().ok_or("there is no workspace")?;
        let changes = workspace.diff().await.map_err(|error| in_words(&error))?;
        workspace.discard().await.map_err(|error| in_words(&error))?;
        sandbox.destroy().await.map_err(|error| in_words(&error))?;
        if changes.len() != 2 || !self.trees[way].join("old").exists() {
            return Err(format!("the changes are {changes:?}"));
        }
        Ok(())
    }

    async fn written(&self, engine: &Engine, way: usize) -> std::result::Result<(), Wrong> {
        let output = engine
            .run_with(&self.policies.written[way], self.sh("echo written > out; echo evil > .git/config; ls .git"))
            .await;
        let output = expect(output, Status::Exited(0))?;
        let tree = &self.trees[way];
        let written = fs::read_to_string(tree.join("out")).map_err(|error| error.to_string())?;
        fs::remove_file(tree.join("out")).map_err(|error| error.to_string())?;
        if written != "written\n" || output.stdout.total == 0 {
            return Err("the tree was not written".to_owned());
        }
        // Nothing of the box is left when it returns: not even for a moment.
        match names(tree) {
            found if found == [".git", "old"] => Ok(()),
            found => Err(format!("the tree has {found:?}")),
        }
    }

    async fn kept(&self, engine: &Engine) -> std::result::Result<(), Wrong> {
        let sandbox = engine.create(&Policy::default()).await.map_err(|error| in_words(&error))?;
        run_in(&*sandbox, self.sh("echo remembered > here")).await?;
        let output = run_in(&*sandbox, self.sh("cat here")).await?;
        sandbox.destroy().await.map_err(|error| in_words(&error))?;
        if output.stdout.bytes() == b"remembered\n" { Ok(()) } else { Err("the second command saw nothing".into()) }
    }

    async fn daemon(&self, engine: &Engine) -> std::result::Result<(), Wrong> {
        let script = "(setsid sleep 600 >/dev/null 2>&1 &) ; (trap '' TERM; setsid sleep 600 >/dev/null 2>&1 &)";
        expect(engine.run(self.sh(script)).await, Status::Exited(0)).map(|_| ())
    }
}

fn names(tree: &Path) -> Vec<String> {
    let entries = fs::read_dir(tree).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn expect(
    output: std::result::Result<SandboxOutput, EngineError>,
    status: Status,
) -> std::result::Result<SandboxOutput, Wrong> {
    let output = output.map_err(|error| in_words(&error))?;
    if output.status() == status {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr.bytes()).trim().to_owned();
    Err(format!("it {} instead of: {status}: {said}", output.status()))
}

async fn run_in(sandbox: &dyn hotcell::Sandbox, config: SpawnConfig) -> std::result::Result<SandboxOutput, Wrong> {
    let mut process = sandbox.spawn(config).await.map_err(|error| in_words(&error))?;
    let output = SandboxOutput::collect(&mut *process, CaptureLimits::default()).await;
    expect(output.map_err(EngineError::from), Status::Exited(0))
}
