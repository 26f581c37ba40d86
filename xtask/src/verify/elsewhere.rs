//! The same checks as somebody else, and on other kernels.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::test::ordinary_user::User;
use crate::vm_lab::kernel::cache_directory;
use crate::workspace::forget_hotcell_settings;
use crate::{process, progress};

/// Longer than the checks take on an emulated processor.
const LIMIT: Duration = Duration::from_secs(900);

/// What `hotcell verify --json` said somewhere else.
pub(crate) struct Elsewhere {
    /// Where, and as whom.
    pub(crate) place: String,
    pub(crate) json: Value,
}

impl Elsewhere {
    /// Nothing got through, and something was proven.
    pub(crate) fn is_good(&self) -> bool {
        self.count("broken") == 0 && self.count("unexpected") == 0 && self.count("held") > 0
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.json["summary"][what].as_u64().unwrap_or(0)
    }

    pub(crate) fn kernel(&self) -> &str {
        self.json["machine"]["kernel"].as_str().unwrap_or("unknown")
    }
}

/// The checks as a user who owns nothing.
pub(crate) fn as_ordinary_user(binary: &Path) -> Result<Elsewhere> {
    let user = User::unused()?;
    let scratch = tempfile::Builder::new().prefix("hotcell-xtask-").tempdir()?;
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755))?;
    let (program, home) = (scratch.path().join("hotcell"), scratch.path().join("home"));
    fs::copy(binary, &program)?;
    fs::create_dir(&home)?;
    std::os::unix::fs::chown(&home, Some(user.uid()), Some(user.uid()))
        .context("only root can test as somebody else")?;
    let uid = user.uid().to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]).arg(&program).args(["verify", "--json"]);
    command.env("HOME", &home).env_remove("XDG_CACHE_HOME").current_dir(&home);
    forget_hotcell_settings(&mut command);
    collect("this machine, ordinary user", &mut command)
}

/// The checks on another kernel.
pub(crate) fn on_kernel(suite: &str, binary: &Path) -> Result<Elsewhere> {
    let mut command = kernel_command(suite, binary)?;
    command.arg("--json");
    collect(&format!("Debian {suite}, root"), &mut command)
}

/// A copy of the program where other kernels see it, wherever this checkout is.
pub(crate) fn stage(binary: &Path) -> Result<Staged> {
    let cache = cache_directory()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let directory = tempfile::Builder::new().prefix("program-").tempdir_in(&cache)?;
    let program = directory.path().join("hotcell");
    fs::copy(binary, &program).with_context(|| format!("cannot copy {}", binary.display()))?;
    Ok(Staged { program, _directory: directory })
}

/// The copy; it goes with this.
pub(crate) struct Staged {
    pub(crate) program: PathBuf,
    _directory: TempDir,
}

/// `hotcell verify` as root on another kernel; more flags can follow.
pub(crate) fn kernel_command(suite: &str, binary: &Path) -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("cannot find xtask itself")?);
    command.args(["vm-lab", "--suite", suite, "--timeout", &LIMIT.as_secs().to_string()]);
    // Root's boxes want a file system that knows id-mapped mounts, which the guest's own is not.
    command.args(["--", "sh", "-c", WITH_FILE_SYSTEM, "sh"]).arg(binary).arg("verify").current_dir("/");
    Ok(command)
}

/// Runs its arguments where the planted files of a verification are on a file system of their own.
const WITH_FILE_SYSTEM: &str =
    "truncate -s 256M /run/disk && mkfs.ext4 -q /run/disk && mount /run/disk /var/cache && exec \"$@\"";

fn collect(place: &str, command: &mut Command) -> Result<Elsewhere> {
    let line = progress::begin(place);
    let finished = process::run(command, LIMIT)?;
    // Whatever the machine said before and after is not ours.
    let json =
        finished.output.lines().find_map(|line| serde_json::from_str(line.strip_prefix('{').and(Some(line))?).ok());
    let Some(json) = json else {
        line.end_failed("FAILED", &finished.output);
        bail!("{place}: no report came back");
    };
    let place = Elsewhere { place: place.to_owned(), json };
    line.end(&format!(
        "{} held, {} BROKEN, {} vacuous",
        place.count("held"),
        place.count("broken"),
        place.count("vacuous")
    ));
    for check in place.json["checks"].as_array().into_iter().flatten() {
        if check["verdict"] == "BROKEN" || check["expected"] == false {
            println!("    {}: {} {}", check["id"], check["verdict"], check["evidence"]);
        }
    }
    Ok(place)
}
