//! A directory to run in, and what came of it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use hotcell::config::vendor_variables;
use hotcell::runtime::RuntimeKind;
use serde_json::Value;

use super::unique_keys::UniqueKeys;

/// A project directory and an empty home of the test's own, removed with it.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hotcell-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        fs::create_dir_all(place.join("home")).unwrap();
        fs::create_dir_all(place.join("project")).unwrap();
        Self(place.canonicalize().unwrap())
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.0.join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    /// A file in the project.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `hotcell` in the project, without anything of the surroundings that could change what it does.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotcell"));
        command.args(arguments).current_dir(self.project()).env("HOME", self.home()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HOTCELL_")) {
            command.env_remove(name);
        }
        for name in ["XDG_CONFIG_HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"] {
            command.env_remove(name);
        }
        for name in RuntimeKind::ALL.iter().flat_map(|kind| vendor_variables(*kind)) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C.UTF-8").env("HOTCELL_IMAGE_STORE", self.home().join("store"));
        command
    }

    pub(crate) fn hotcell(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    pub(crate) fn hotcell_with_stdin(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command that does not read its input is no failure of the test's.
        let writer = thread::spawn(move || drop(stdin.write_all(&input)));
        let ran = Ran::of(child.wait_with_output().unwrap());
        writer.join().unwrap();
        ran
    }

    /// Whether this machine can hold a policy with these flags.
    pub(crate) fn can_hold(&self, flags: &[&str]) -> bool {
        self.hotcell(&[&["plan"], flags].concat()).code == 0
    }

    /// Whether boxes can be made here at all; if not, the test is listed as skipped.
    pub(crate) fn has_boxes(&self, test: &str) -> bool {
        let works = self.can_hold(&[]);
        if !works {
            skip(test, "no box can be made here, see `hotcell doctor`");
        }
        works
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code().unwrap(), stdout: output.stdout, stderr }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// The one object on stdout, in which no key is there twice.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.text().lines().count(), 1, "{self:?}");
        serde_json::from_str::<UniqueKeys>(self.text()).unwrap();
        serde_json::from_str(self.text()).unwrap()
    }

    /// Hotcell refused, in these words, and nothing ran.
    pub(crate) fn assert_refused(&self, words: &[&str]) {
        assert_eq!(self.code, 125, "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        assert!(self.stderr.starts_with("hotcell: "), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in {}", self.stderr);
        }
    }
}

/// Notes that a test could not run here.
pub(crate) fn skip(test: &str, reason: &str) {
    if let Some(log) = std::env::var_os("HOTCELL_TEST_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}

/// What a variable that says where something for tests is says; if it is not set, the test is listed as skipped.
pub(crate) fn setting(test: &str, name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        skip(test, &format!("{name} is not set; `cargo xtask engines` sets it"));
    }
    value
}

/// Held by tests that start boxes in an engine or look for what is left in it: every start also cleans up.
pub(crate) fn turn_at_engines() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a program is on this machine; if not, the test is listed as skipped.
pub(crate) fn has_program(test: &str, path: &str) -> bool {
    let there = Path::new(path).exists();
    if !there {
        skip(test, &format!("{path} is not installed"));
    }
    there
}
