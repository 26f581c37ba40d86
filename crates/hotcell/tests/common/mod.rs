//! What the tests of real boxes share. Everything passes as root and as an ordinary user; what this machine cannot show
//! is listed as skipped, by name and with the reason, in the file that `HOTCELL_TEST_SKIP_LOG` names.

#![allow(dead_code, reason = "no test uses all of it")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hotcell::{CaptureLimits, CapturedStream, Engine, Policy, Sandbox, SandboxBackend, SandboxOutput, SpawnConfig};
use hotcell_backends::native::{Layers, NativeBackend};
use hotcell_backends::registry::StartOptions;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// The Python of the system: the one that boxes see, so that a probe is the same inside and outside.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Notes that a test, or a part of it, could not run here.
pub(crate) fn skip(test: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        // One write, so that tests that run at the same time do not mix their lines.
        log.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
    }
}

/// Whether a program is on this machine, by its full path; if not, the test is listed as skipped.
pub(crate) fn has_program(test: &str, path: &str) -> bool {
    let there = Path::new(path).exists();
    if !there {
        skip(test, &format!("{path} is not installed"));
    }
    there
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A native engine without boxes made ahead; none, after listing the test as skipped, where no box can be made.
pub(crate) async fn engine(test: &str) -> Option<Engine> {
    let engine = engine_with(Layers::ALL).await;
    match engine.plan(&Policy::default()).await {
        Ok(_) => Some(engine),
        Err(refusal) => {
            skip(test, &refusal.to_string());
            None
        }
    }
}

/// An engine whose boxes have only these layers. The policy has to accept what is missing.
pub(crate) async fn engine_with(layers: Layers) -> Engine {
    let backend = NativeBackend::start_with(StartOptions::warm(0), layers).await.unwrap();
    let backend: Arc<dyn SandboxBackend> = Arc::new(backend);
    Engine::with_backends(vec![backend]).await.unwrap()
}

/// A shell script as a command.
pub(crate) fn sh(script: &str) -> SpawnConfig {
    SpawnConfig::new("/bin/sh").args(["-c", script])
}

/// A Python program as a command; it ignores what is around it.
pub(crate) fn python(program: &str) -> SpawnConfig {
    SpawnConfig::new(PYTHON).args(["-I", "-c", program])
}

/// Runs a command in a kept box and captures its output.
pub(crate) async fn run_in(sandbox: &dyn Sandbox, config: SpawnConfig) -> SandboxOutput {
    let mut process = sandbox.spawn(config).await.unwrap();
    SandboxOutput::collect(&mut *process, CaptureLimits::default()).await.unwrap()
}

/// Runs the same Python program outside of any box: the positive control. Its stdout.
pub(crate) fn python_outside(program: &str) -> String {
    let output = Command::new(PYTHON).args(["-I", "-c", program]).output().unwrap();
    assert!(output.status.success(), "outside the box: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a stream holds, as text.
pub(crate) fn text(stream: &CapturedStream) -> String {
    String::from_utf8_lossy(&stream.bytes()).into_owned()
}

/// The stdout of a command that must have succeeded.
#[track_caller]
pub(crate) fn stdout(output: &SandboxOutput) -> String {
    assert!(output.status().success(), "{:?}: {}", output.status(), text(&output.stderr));
    text(&output.stdout)
}

/// A directory of the test's own on the host, by its real path, searchable by everybody. Removed with the value.
#[derive(Debug)]
pub(crate) struct Place {
    directory: TempDir,
    path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().canonicalize().unwrap();
        Self { directory, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a directory, with all above it.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Makes a file, with all directories above it.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Every path below it, relative and sorted. What vanishes meanwhile may be among them or not.
    pub(crate) fn listing(&self) -> Vec<String> {
        fn walk(directory: &Path, top: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(top).unwrap().to_string_lossy().into_owned());
                if path.symlink_metadata().is_ok_and(|data| data.is_dir()) {
                    walk(&path, top, found);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path, &self.path, &mut found);
        found.sort();
        found
    }
}

/// A word that no other test, process or run has: a number, so that `sleep` takes it too.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("6{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The host's numbers of all processes that have `word` as an argument.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let has_word = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    all_processes().into_iter().filter(has_word).collect()
}

fn all_processes() -> Vec<u32> {
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The value of a line of a process's status, on the host; none when it is gone.
pub(crate) fn status_of(pid: u32, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
}

/// The helper processes whose parent is `pid`.
pub(crate) fn spawners_of(pid: u32) -> Vec<u32> {
    children_of(pid)
        .into_iter()
        .filter(|child| status_of(*child, "Name").as_deref() == Some("hotcell-spawner"))
        .collect()
}

/// The direct children of a process, zombies left out.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let parent = pid.to_string();
    let is_child = |child: &u32| {
        status_of(*child, "PPid").as_deref() == Some(&parent)
            && status_of(*child, "State").is_some_and(|state| !state.starts_with('Z'))
    };
    all_processes().into_iter().filter(is_child).collect()
}

/// What is left on the machine of a helper process: itself, its boxes, their cgroups. Empty when nothing is.
pub(crate) fn remains_of(spawner: u32) -> Vec<String> {
    let mut found: Vec<String> = children_of(spawner).iter().map(|pid| format!("box process {pid}")).collect();
    // One that has ended and waits for the machine's own init to take notice is gone.
    let ended = status_of(spawner, "State").is_none_or(|state| state.starts_with('Z'));
    if !ended && status_of(spawner, "Name").as_deref() == Some("hotcell-spawner") {
        found.push(format!("helper process {spawner}"));
    }
    let prefix = format!("hotcell-{spawner}");
    cgroups_named(Path::new("/sys/fs/cgroup"), 6, &prefix, &mut found);
    found
}

fn cgroups_named(directory: &Path, depth: u32, prefix: &str, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = name.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()));
        if ours {
            found.push(format!("cgroup {}", entry.path().display()));
        } else if depth > 0 {
            cgroups_named(&entry.path(), depth - 1, prefix, found);
        }
    }
}

/// How many mounts this process sees.
pub(crate) fn mount_count() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

/// Waits until `done` says so, for at most [`LONG`]; how long it took.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// Like [`until`], for tests in which something else has to go on meanwhile.
pub(crate) async fn eventually(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "not within {LONG:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}
