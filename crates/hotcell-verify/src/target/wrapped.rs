//! Somebody else's sandbox: a command that is put in front of the attack.

use std::ffi::OsString;

use async_trait::async_trait;
use tokio::process::Command;

use super::{Job, NotRun, Ran, Target, host};
use crate::arena::Arena;

/// A sandbox that is a command line. These are references: their holes are known, and a suite that does not find them
/// is not worth much.
#[derive(Debug, Clone, Copy)]
pub struct Wrapped {
    name: &'static str,
    program: &'static str,
    arguments: fn(&Arena) -> Vec<OsString>,
}

impl Wrapped {
    /// `bwrap --unshare-all --ro-bind / /`, with the workspace writable.
    pub const BUBBLEWRAP: Self = Self { name: "bwrap", program: "bwrap", arguments: bubblewrap };

    /// `unshare` with every namespace, and nothing else.
    pub const UNSHARE: Self = Self { name: "unshare", program: "unshare", arguments: unshare };

    /// All of them.
    pub const ALL: &'static [Self] = &[Self::BUBBLEWRAP, Self::UNSHARE];

    /// The program.
    pub fn program(&self) -> &'static str {
        self.program
    }

    /// Whether the program is there.
    pub fn is_installed(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(self.program).is_file())
    }

    /// The command line without the attack, for reports.
    pub fn command_line(&self) -> &'static str {
        match self.name {
            "bwrap" => "bwrap --unshare-all --ro-bind / / --bind WORKSPACE WORKSPACE",
            _ => "unshare --user --map-root-user --mount --pid --fork --net --ipc --uts --cgroup",
        }
    }
}

fn bubblewrap(arena: &Arena) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["--unshare-all", "--ro-bind", "/", "/", "--bind"].map(OsString::from).into();
    arguments.extend([arena.workspace().into_os_string(), arena.workspace().into_os_string()]);
    arguments
}

fn unshare(_: &Arena) -> Vec<OsString> {
    ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--cgroup"]
        .map(OsString::from)
        .into()
}

#[async_trait]
impl Target for Wrapped {
    fn name(&self) -> &str {
        self.name
    }

    async fn run(&self, job: &Job<'_>) -> Result<Ran, NotRun> {
        let mut command = Command::new(self.program);
        command.args((self.arguments)(job.arena)).arg("--").args(&job.command).current_dir("/");
        host::run(command, job.timeout()).await
    }
}
