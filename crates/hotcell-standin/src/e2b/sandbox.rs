//! One sandbox: files and processes of its own, and an envd that serves them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::envd::Orders;

/// The home directory in every sandbox.
const HOME: &str = "/home/user";

/// What is the machine's own in a sandbox, to be read.
const SHARED: &[&str] = &["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt"];

/// What was asked for, and what is answered about it.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) id: String,
    pub(super) template: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) token: Option<String>,
    pub(super) started: SystemTime,
    pub(super) ends: SystemTime,
    pub(super) auto_pause: bool,
    pub(super) paused: bool,
}

/// Files and processes. Dropping it ends both.
#[derive(Debug)]
pub(super) struct Sandbox {
    envd: Child,
    /// Where its envd listens.
    pub(super) address: SocketAddr,
    /// Whose end is its end.
    lifeline: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _files: TempDir,
}

impl Sandbox {
    /// Makes one, and waits until its envd listens.
    pub(super) async fn start(
        token: Option<String>,
        variables: BTreeMap<String, String>,
        keepalive: Option<Duration>,
    ) -> Result<Self> {
        let files = tempfile::Builder::new().prefix("hotcell-standin-").tempdir().context("cannot make a directory")?;
        let root = files.path().join("root");
        for directory in ["home/user", "tmp", "var/tmp", "run", "root"] {
            std::fs::create_dir_all(root.join(directory)).context("cannot make a directory")?;
        }
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = enclosed(&root, &program);
        command.arg(Path::new("/.hotcell-standin")).arg("envd");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut envd =
            command.spawn().context("cannot start `bwrap`, which keeps sandboxes apart; install bubblewrap")?;
        let (Some(mut lifeline), Some(output)) = (envd.stdin.take(), envd.stdout.take()) else {
            bail!("a pipe that was asked for is not there");
        };
        let orders = Orders { token, variables, keepalive, home: PathBuf::from(HOME) };
        lifeline.write_all(format!("{}\n", serde_json::to_string(&orders)?).as_bytes()).await?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).await?;
        let address = line.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.with_context(|| format!("a sandbox does not start: {}", line.trim()))?;
        Ok(Self { envd, address, lifeline: Some(lifeline), output, _files: files })
    }

    /// Ends everything in it, and waits until that is done.
    pub(super) async fn end(mut self) {
        self.lifeline = None;
        let _ = self.envd.kill().await;
        // Its envd, and with it everything else, has been killed when nobody can write here any more.
        let _ = self.output.read_to_end(&mut Vec::new()).await;
    }
}

/// What runs the command that is appended to it among files and processes of its own.
fn enclosed(root: &Path, program: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.arg("--bind").arg(root).arg("/");
    for place in SHARED.iter().map(Path::new) {
        match std::fs::read_link(place) {
            Ok(target) => command.arg("--symlink").arg(target).arg(place),
            Err(_) if place.exists() => command.arg("--ro-bind").arg(place).arg(place),
            Err(_) => continue,
        };
    }
    command.args(["--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp"]);
    command.arg("--ro-bind").arg(program).arg("/.hotcell-standin");
    command.args(["--unshare-pid", "--die-with-parent", "--chdir", HOME]);
    if rustix::process::geteuid().is_root() {
        command.args(["--cap-add", "ALL"]);
    }
    command.args(["--clearenv", "--setenv", "HOME", HOME, "--setenv", "PATH"]);
    command.args(["/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--setenv", "LANG", "C.UTF-8"]);
    command.arg("--");
    command
}
