//! Where the engines run: namespaces and cgroups that end with us.
//!
//! ```text
//! xtask ──pipe──▶ janitor (sh, realm.sh) ──unshare──▶ pid 1 of the realm (sh, inside.sh)
//!   │                                                   ├─ dockerd ─ containerd ─ shims ─ containers
//!   └──nsenter───────────────────────────────────────▶  ├─ podman ─ conmon ─ containers
//!                                                        └─ tests
//! ```
//! The realm has process, mount, network, IPC and cgroup namespaces of its own: no bridge, route, mount or cgroup of the
//! machine is touched, whatever other engine runs there, and everything ends with pid 1. That waits for the end of the
//! pipe, so it ends with xtask, even one that is killed; the janitor then removes cgroups and files.
//!
//! Tests of engines run in the realm too, but for the network: an engine names processes by numbers, and paths, that
//! mean something there only. Tests of what listens among the engines have the network as well.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::wait::until_readable;

const JANITOR: &str = include_str!("realm.sh");
const INSIDE: &str = include_str!("inside.sh");

/// Moves itself to a cgroup of the realm and becomes the command. Arguments: the cgroup, the directory and the command.
const ENTER: &str = r#"
while read -r _ point kind _; do
    case $kind:$point in
    cgroup:/sys/fs/cgroup/* | cgroup2:/sys/fs/cgroup*) echo 0 > "$point/$1/cgroup.procs" || exit 99 ;;
    esac
done < /proc/mounts
cd "$2" || exit 99
shift 2
exec "$@"
"#;

/// Where realms have their directories: on disk, and open to every user's eyes.
const BASE: &str = "/var/tmp";
const PREFIX: &str = "hotcell-engines-";
/// What the realm's own scripts complain of.
const LOG: &str = "realm.log";

/// Longer than any machine takes to make namespaces, or to remove an engine's files.
const LIMIT: Duration = Duration::from_secs(60);

/// The part of the realm in which a process is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Group {
    Daemons,
    Tests,
    /// Tests that have the engines' network, too.
    Network,
}

impl Group {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Daemons => "daemons",
            Self::Tests | Self::Network => "tests",
        }
    }
}

/// Namespaces, cgroups and a directory. Dropping it ends everything inside.
#[derive(Debug)]
pub(crate) struct Realm {
    directory: PathBuf,
    name: String,
    /// What the host calls pid 1 of the realm. It cannot become another's: pid 1 lives as long as `lifeline` does.
    pid: u32,
    janitor: Child,
    /// Whose end is the realm's end.
    lifeline: Option<ChildStdin>,
    said: ChildStdout,
}

impl Realm {
    pub(crate) fn create() -> Result<Self> {
        sweep();
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(BASE)
            .with_context(|| format!("cannot make a directory in {BASE}"))?
            .keep();
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Locked before it has its name, and for as long as something in the realm can write to it.
        let log = File::create(directory.join("new.log"))?;
        log.lock()?;
        fs::rename(directory.join("new.log"), directory.join(LOG))?;
        // A session of its own, so that a Ctrl-C does not reach it: it has work to do then.
        let mut janitor = Command::new("setsid")
            .args(["sh", "-c", JANITOR, "janitor"])
            .arg(&directory)
            .args([&name, INSIDE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start `setsid`")?;
        let (Some(lifeline), Some(said)) = (janitor.stdin.take(), janitor.stdout.take()) else {
            bail!("a pipe that was asked for is not there");
        };
        let mut realm = Self { directory, name, pid: 0, janitor, lifeline: Some(lifeline), said };
        match realm.read_ready() {
            Ok(pid) => realm.pid = pid,
            Err(error) => {
                let log = fs::read_to_string(realm.directory.join(LOG)).unwrap_or_default();
                return Err(error.context(format!("cannot make namespaces for the engines: {}", log.trim())));
            }
        }
        Ok(realm)
    }

    fn read_ready(&mut self) -> Result<u32> {
        let deadline = Instant::now() + LIMIT;
        let mut text = String::new();
        loop {
            if let Some(line) = text.strip_suffix('\n') {
                let pid = line.strip_prefix("ready ").and_then(|pid| pid.parse().ok());
                return pid.with_context(|| format!("their first process said `{line}`"));
            }
            if !until_readable(self.said.as_fd(), deadline)? {
                bail!("their first process said nothing in {} s", LIMIT.as_secs());
            }
            let mut byte = [0];
            if self.said.read(&mut byte)? == 0 {
                bail!("their first process ended");
            }
            text.push(char::from(byte[0]));
        }
    }

    /// The realm's own directory. Everything in it is removed in the end.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A directory in memory, which is there in the realm only.
    pub(super) fn memory(&self) -> PathBuf {
        self.directory.join("memory")
    }

    /// What the realm's cgroups are called on the host.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What the host calls the realm's first process.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// What runs the command that is appended to it in the realm, in the cgroup `group` and in `directory`. The command is
    /// killed when whoever starts it ends.
    pub(crate) fn command(&self, group: Group, directory: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "nsenter"]).arg(format!("--target={}", self.pid));
        command.args(["--mount", "--pid", "--ipc", "--cgroup"]);
        if matches!(group, Group::Daemons | Group::Network) {
            command.arg("--net");
        }
        // `nsenter` waits for its child, and being killed is not handed down by itself.
        command.args(["--", "setpriv", "--pdeathsig=KILL", "sh", "-c", ENTER, "enter", group.name()]).arg(directory);
        command
    }

    /// Ends everything that is still inside and removes cgroups and files; what could not be removed.
    pub(crate) fn end(mut self) -> Result<Vec<String>> {
        self.lifeline = None;
        let deadline = Instant::now() + LIMIT;
        let mut text = Vec::new();
        let mut part = [0; 4096];
        loop {
            if !until_readable(self.said.as_fd(), deadline)? {
                bail!("the engines' files were not removed in {} s", LIMIT.as_secs());
            }
            match self.said.read(&mut part)? {
                0 => break,
                count => text.extend_from_slice(part.get(..count).unwrap_or_default()),
            }
        }
        self.janitor.wait()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_prefix("left ")).map(str::to_owned).collect())
    }
}

/// Removes the directories of realms whose machine was switched off under them; a realm that ends removes its own.
fn sweep() {
    for entry in fs::read_dir(BASE).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(log) = File::open(entry.path().join(LOG))
            && log.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::leftovers;
    use super::*;
    use crate::test::is_root;
    use crate::test::runner::note_skip;
    use crate::test::setup::program;

    /// A realm, or a note why `test` has none.
    fn realm(test: &str) -> Option<Realm> {
        let reason = if !is_root() {
            "only root can make namespaces for engines"
        } else if program("nsenter").is_none() || program("ip").is_none() {
            "nsenter or ip is not installed"
        } else {
            return Some(Realm::create().unwrap());
        };
        note_skip(test, reason);
        None
    }

    #[test]
    fn a_realm_has_everything_of_its_own_and_leaves_nothing() {
        let Some(realm) = realm("a_realm_has_everything_of_its_own_and_leaves_nothing") else { return };
        let name = realm.name().to_owned();
        let directory = realm.directory().to_owned();
        let script = "ip -o link | wc -l; cat /proc/self/cgroup; touch /run/hotcell-realm-test; exit 7";
        let output = realm.command(Group::Daemons, Path::new("/")).args(["sh", "-c", script]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(7), "{text} {}", String::from_utf8_lossy(&output.stderr));
        let mut lines = text.lines();
        assert_eq!(lines.next().map(str::trim), Some("1"), "only the loopback: {text}");
        assert!(lines.all(|line| line.ends_with(":/daemons")), "{text}");
        assert!(!Path::new("/run/hotcell-realm-test").exists());

        assert_eq!(leftovers::in_realm(&realm), Vec::<String>::new());
        assert_eq!(realm.end().unwrap(), Vec::<String>::new());
        assert_eq!(leftovers::on_host(&name), Vec::<String>::new());
        assert!(!directory.exists());
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let points = mounts.lines().filter(|line| line.contains(" cgroup")).filter_map(|line| line.split(' ').nth(1));
        assert!(points.map(|point| Path::new(point).join(&name)).all(|group| !group.exists()));
    }

    #[test]
    fn only_what_no_realm_holds_is_swept() {
        let Some(realm) = realm("only_what_no_realm_holds_is_swept") else { return };
        let dead = Path::new(BASE).join(format!("{PREFIX}test-{}", realm.pid()));
        fs::create_dir(&dead).unwrap();
        sweep();
        assert!(dead.exists(), "a realm that is being made has no log yet");
        fs::write(dead.join(LOG), "").unwrap();
        sweep();
        assert!(!dead.exists());
        assert!(realm.directory().exists());
        realm.end().unwrap();
    }

    #[test]
    fn what_is_left_in_a_realm_is_named_and_ended() {
        let Some(realm) = realm("what_is_left_in_a_realm_is_named_and_ended") else { return };
        let place = realm.directory().join("mounted");
        fs::create_dir(&place).unwrap();
        let script = r#"mount -t tmpfs tmpfs "$1"; setsid sleep 4322 > /dev/null &
            while read -r _ point kind _; do
                case $kind:$point in cgroup:/sys/* | cgroup2:/sys/*) mkdir "$point/tests/left" ;; esac
            done < /proc/mounts"#;
        let mut command = realm.command(Group::Tests, Path::new("/"));
        assert!(command.args(["sh", "-c", script, "leave"]).arg(&place).status().unwrap().success());

        let left = leftovers::in_realm(&realm).join("\n");
        for expected in ["sleep 4322", "cgroup tests/left", "/mounted"] {
            assert!(left.contains(expected), "{expected} in {left}");
        }
        assert_eq!(realm.end().unwrap(), Vec::<String>::new());
        let runs = |name: &str| {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            entries
                .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
                .any(|line| String::from_utf8_lossy(&line).replace('\0', " ").starts_with(name))
        };
        assert!(!runs("sleep 4322"));
    }
}
