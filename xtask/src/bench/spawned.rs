//! Programs that are started from here and waited for: the plain command, and sandboxes that are commands themselves.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::anatomy::Anatomy;
use super::latency::Variant;
use crate::workspace::forget_hotcell_settings;

/// Where system programs are; a box sees them at the same place.
const SYSTEM_PROGRAMS: &[&str] = &["/usr/bin", "/bin"];

/// The path of a program of the system, if it is there.
pub(super) fn system_program(name: &str) -> Option<PathBuf> {
    SYSTEM_PROGRAMS.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.is_file())
}

/// A command that is started anew each time, its output captured.
#[derive(Debug)]
pub(super) struct Spawned(Command);

impl Spawned {
    /// The program alone, as any program would start it.
    pub(super) fn plain(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.env_clear();
        Self(command)
    }

    /// bubblewrap with the policy of a default box, as far as it has words for it.
    pub(super) fn bubblewrap(bwrap: &Path, anatomy: &Anatomy, program: &Path) -> Self {
        let mut command = Command::new(bwrap);
        command.args(["--unshare-all", "--new-session", "--die-with-parent", "--clearenv", "--cap-drop", "ALL"]);
        for tree in anatomy.read_only_trees() {
            command.arg("--ro-bind").args([tree, tree]);
        }
        for (link, target) in &anatomy.links {
            command.arg("--symlink").args([target, link]);
        }
        command.args(["--proc", "/proc", "--dev", "/dev"]);
        for place in anatomy.private_places().filter(|place| !place.starts_with("/dev")) {
            command.arg("--tmpfs").arg(place);
        }
        command.args(["--chdir", "/", "--"]).arg(program);
        Self(command)
    }

    /// The `hotcell` command, with nothing but its defaults.
    pub(super) fn hotcell(hotcell: &Path, directory: &Path, program: &Path) -> Self {
        let mut command = Command::new(hotcell);
        command.args(["run", "--"]).arg(program).current_dir(directory);
        forget_hotcell_settings(&mut command);
        Self(command)
    }

    /// Any other command.
    pub(super) fn command(command: Command) -> Self {
        Self(command)
    }

    /// Runs it to its end.
    pub(super) fn run(&mut self) -> Result<()> {
        let output = self.0.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {:?}", self.0.get_program()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("{:?} ended with {}: {said}", self.0.get_program(), output.status);
        }
        Ok(())
    }
}

impl Variant for Spawned {
    fn once(&mut self) -> Result<Duration> {
        let started = Instant::now();
        self.run()?;
        Ok(started.elapsed())
    }
}

/// Where bubblewrap is, if it is.
pub(super) fn find_bubblewrap() -> Result<PathBuf, String> {
    let searched = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&searched).map(|directory| directory.join("bwrap")).find(|path| path.is_file());
    found.ok_or_else(|| "bubblewrap is not installed; `apt-get install bubblewrap` brings it".to_owned())
}
