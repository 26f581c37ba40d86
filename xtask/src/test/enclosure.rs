//! Surroundings that end with the test binary.
//!
//! As root, a test binary runs in a process namespace of its own. Whatever it starts is gone when it ends, however
//! it ends, because the kernel kills the rest of the namespace; and what is still there two seconds after the
//! tests returned is seen first, named, and counted as a failure.
//!
//! Tests that use container engines run in the engines' [realm](super::containers::realm) instead, with the same look at
//! what is left.
//!
//! For an ordinary user a mount namespace also puts the user's copy of the checkout at the checkout's own path, so
//! that the paths compiled into the tests hold even where the real checkout is closed to everybody else.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::binaries::TestBinary;
use super::containers::Engines;
use super::containers::realm::Group;
use super::is_root;
use super::ordinary_user::Checkout;
use crate::process;

/// Exit status of an enclosure whose tests passed but left processes behind.
pub(crate) const LEFT_BEHIND: i32 = 98;
/// Exit status of an enclosure that could not be made.
pub(crate) const NOT_READY: i32 = 99;

/// Runs as pid 1 of the namespace, or among the engines. Arguments: directories to cover, `--`, pairs of staged copy
/// and place, `--`, the directory to start in, and the command. Nothing in the search for survivors may start a
/// process, or it would find itself.
const SCRIPT: &str = r#"
umask 022
before=" "
for entry in /proc/[0-9]*; do before="$before$entry "; done
while [ "$1" != -- ]; do
    mount -n -t tmpfs -o mode=755 tmpfs "$1" || exit 99
    shift
done
shift
while [ "$1" != -- ]; do
    mkdir -p "$2" && mount -n --bind "$1" "$2" || exit 99
    shift 2
done
shift
cd "$1" || exit 99
shift
"$@"
status=$?
tries=0
while :; do
    survivors=
    for entry in /proc/[0-9]*; do
        case $before in *" $entry "*) continue ;; esac
        { read -r name < "$entry/comm"; } 2>/dev/null || continue
        survivors="$survivors $name(${entry#/proc/})"
    done
    [ -z "$survivors" ] && exit "$status"
    # Engines and servers end what they were told to remove in their own time.
    [ "$tries" -ge 100 ] && break
    tries=$((tries + 1))
    sleep 0.1
done
echo "left behind:$survivors"
[ "$status" -eq 0 ] && exit 98
exit "$status"
"#;

/// The ability to make such surroundings.
#[derive(Debug)]
pub(crate) struct Enclosure(());

impl Enclosure {
    /// Tries it out; the error says in words why it cannot be had.
    pub(crate) fn available() -> Result<Self, String> {
        if !is_root() {
            return Err("this is not root; `sudo cargo xtask test` runs both".to_owned());
        }
        let mut trial = Self(()).bare(&[], &[], Path::new("/"));
        trial.arg("true");
        match process::run(&mut trial, Duration::from_secs(30)) {
            Ok(finished) if finished.success() => Ok(Self(())),
            Ok(finished) => {
                Err(format!("root cannot make process and mount namespaces here: {}", finished.output.trim()))
            }
            Err(error) => Err(format!("{error:#}")),
        }
    }

    /// `binary` run as root.
    pub(crate) fn command(&self, binary: &TestBinary) -> Command {
        let mut command = self.bare(&[], &[], &binary.directory);
        command.arg(&binary.executable);
        command
    }

    /// `binary` run as root among `engines`, whose processes it sees and may leave alone, as a part of `group`.
    pub(crate) fn command_among(engines: &Engines, group: Group, binary: &TestBinary) -> Command {
        let mut command = engines.realm().command(group, &binary.directory);
        command.args(["sh", "-c", SCRIPT, "enclosure", "--", "--"]).arg(&binary.directory);
        command.args(["setpriv", "--pdeathsig=KILL"]).arg(&binary.executable);
        command
    }

    /// `binary` run as the ordinary user who owns `checkout`.
    pub(crate) fn command_as(&self, binary: &TestBinary, checkout: &Checkout) -> Command {
        let covers: Vec<&Path> = checkout.covers.iter().map(AsRef::as_ref).collect();
        let places: Vec<(&Path, &Path)> =
            checkout.places.iter().map(|(staged, place)| (staged.as_path(), place.as_path())).collect();
        let mut command = self.bare(&covers, &places, &binary.directory);
        command
            .args(["setpriv", "--clear-groups", "--inh-caps=-all"])
            .arg(format!("--reuid={}", checkout.uid))
            .arg(format!("--regid={}", checkout.uid))
            .arg("--")
            .arg(&binary.executable);
        command.env_clear().envs(checkout.environment());
        command
    }

    fn bare(&self, covers: &[&Path], places: &[(&Path, &Path)], directory: &Path) -> Command {
        // Should we be killed, `unshare` is killed with us, and its child and all of the namespace with it.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork"])
            .args(["--kill-child=KILL", "--mount-proc", "--", "sh", "-c", SCRIPT, "enclosure"])
            .args(covers)
            .arg("--");
        for (staged, place) in places {
            command.args([staged, place]);
        }
        command.arg("--").arg(directory);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::super::runner::note_skip;
    use super::*;

    /// Runs `script` enclosed; where that cannot be had, `test` is noted as skipped.
    fn run(test: &str, script: &str) -> Option<process::Finished> {
        let enclosure = match Enclosure::available() {
            Ok(enclosure) => enclosure,
            Err(reason) => {
                note_skip(test, &reason);
                return None;
            }
        };
        let mut command = enclosure.bare(&[], &[], Path::new("/"));
        command.args(["sh", "-c", script]);
        Some(process::run(&mut command, Duration::from_secs(30)).unwrap())
    }

    #[test]
    fn the_status_passes_through() {
        if let Some(finished) = run("the_status_passes_through", "exit 7") {
            assert_eq!(finished.status.code(), Some(7), "{}", finished.output);
        }
    }

    #[test]
    fn survivors_are_named_and_ended() {
        if let Some(finished) = run("survivors_are_named_and_ended", "setsid sleep 4321 & exit 0") {
            assert_eq!(finished.status.code(), Some(LEFT_BEHIND));
            assert!(finished.output.contains("left behind: sleep("), "{}", finished.output);
        }
    }

    #[test]
    fn orphans_that_end_soon_are_no_survivors() {
        if let Some(finished) = run("orphans_that_end_soon_are_no_survivors", "setsid sleep 0.3 & exit 0") {
            assert_eq!(finished.status.code(), Some(0), "{}", finished.output);
        }
    }
}
