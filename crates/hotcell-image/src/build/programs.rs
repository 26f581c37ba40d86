//! The programs of the machine that do part of the work.

use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use hotcell_core::text::Printable;

use super::error::BuildError;

/// How much of what a program said goes into an error.
const SHOWN_LINES: usize = 20;

/// How the network is reached changes no result, and is the one thing that only the user's environment may know.
const PROXIES: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// A program, and the Debian package that has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
}

pub(super) const APT_GET: Program = Program { name: "apt-get", package: "apt" };
pub(super) const APT_CACHE: Program = Program { name: "apt-cache", package: "apt" };
pub(super) const APT_HELPER: Program = Program { name: "apt-helper", package: "apt" };
pub(super) const DPKG_DEB: Program = Program { name: "dpkg-deb", package: "dpkg" };
/// Starts a program that ends with us.
pub(super) const SETPRIV: Program = Program { name: "setpriv", package: "util-linux" };
pub(super) const UNSHARE: Program = Program { name: "unshare", package: "util-linux" };
pub(super) const MMDEBSTRAP: Program = Program { name: "mmdebstrap", package: "mmdebstrap" };
/// Ordinary users need it to have more than one user id in a namespace.
pub(super) const NEWUIDMAP: Program = Program { name: "newuidmap", package: "uidmap" };
pub(super) const MKE2FS: Program = Program { name: "mke2fs", package: "e2fsprogs" };
pub(super) const DEBUGFS: Program = Program { name: "debugfs", package: "e2fsprogs" };
pub(super) const E2FSCK: Program = Program { name: "e2fsck", package: "e2fsprogs" };
pub(super) const TAR2SQFS: Program = Program { name: "tar2sqfs", package: "squashfs-tools-ng" };

/// What a program said, and how it ended.
pub(super) struct Finished {
    status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Program {
    /// Where it is. An ordinary user's PATH has no `sbin`, and apt keeps its helper apart.
    pub(super) fn find(self) -> Result<PathBuf, BuildError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/bin", "/usr/sbin", "/sbin", "/usr/lib/apt"].map(PathBuf::from);
        env::split_paths(&path)
            .filter(|directory| directory.is_absolute())
            .chain(more)
            .map(|directory| directory.join(self.name))
            .find(|file| file.is_file())
            .ok_or(BuildError::MissingProgram { program: self.name, package: self.package })
    }

    /// A command with an environment of its own: what the user has set must not change the result.
    pub(super) fn command(self) -> Result<Command, BuildError> {
        let mut command = Command::new(self.find()?);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        for name in PROXIES {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }

    /// Runs a command to its end and takes what it said, whether it succeeded or not.
    pub(super) fn run_any(self, step: &str, command: &mut Command) -> Result<Finished, BuildError> {
        let output = command.output().map_err(|error| self.not_run(step, &error))?;
        Ok(Finished {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a command that has to succeed.
    pub(super) fn run(self, step: &str, command: &mut Command) -> Result<Finished, BuildError> {
        let finished = self.run_any(step, command)?;
        if finished.success() { Ok(finished) } else { Err(self.failed(step, &finished)) }
    }

    /// Runs a command that has to succeed, writes what it prints to `output` and tells each line of its standard error.
    pub(super) fn run_into(
        self,
        step: &str,
        command: &mut Command,
        output: &mut (dyn io::Write + Send),
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), BuildError> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.not_run(step, &error))?;
        let streams = child.stdout.take().zip(child.stderr.take());
        let copied = match streams {
            Some((stdout, stderr)) => copy_and_tell(stdout, stderr, output, tell),
            None => Err(io::Error::other("it has no output")),
        };
        if copied.is_err() {
            stop(&mut child);
        }
        let status = child.wait().map_err(|error| self.not_run(step, &error))?;
        let stderr = copied.map_err(|error| self.not_run(step, &error))?;
        let finished = Finished { status, stdout: String::new(), stderr };
        if finished.success() { Ok(()) } else { Err(self.failed(step, &finished)) }
    }

    /// The error for a program that ended badly.
    pub(super) fn failed(self, step: &str, finished: &Finished) -> BuildError {
        let said = if finished.stderr.trim().is_empty() { &finished.stdout } else { &finished.stderr };
        BuildError::Program {
            step: step.to_owned(),
            program: self.name,
            how: if finished.success() { "reported problems".into() } else { format!("failed ({})", finished.status) },
            output: last_lines(said),
        }
    }

    fn not_run(self, step: &str, error: &io::Error) -> BuildError {
        BuildError::Program {
            step: step.to_owned(),
            program: self.name,
            how: "could not be run".into(),
            output: error.to_string(),
        }
    }
}

impl Finished {
    pub(super) fn success(&self) -> bool {
        self.status.success()
    }
}

/// The child is ours and not yet waited for, so this reaches no other process. If it is gone already, all is well.
fn stop(child: &mut Child) {
    let _ = child.kill();
}

/// Both streams are read at once: a program that waits for one of them to be read must not wait for ever.
fn copy_and_tell(
    mut stdout: impl Read + Send,
    stderr: impl Read,
    output: &mut (dyn io::Write + Send),
    tell: &mut dyn FnMut(&str),
) -> io::Result<String> {
    thread::scope(|scope| {
        let copier = scope.spawn(move || io::copy(&mut stdout, output));
        let mut said = String::new();
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            tell(&line);
            said.push_str(&line);
            said.push('\n');
        }
        copier.join().map_err(|_| io::Error::other("its output could not be read"))??;
        Ok(said)
    })
}

/// What a program said last, safe to show.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    let shown = lines.get(from..).unwrap_or_default();
    shown.iter().map(|line| format!("  {}", Printable(line))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: Program = Program { name: "sh", package: "dash" };

    fn shell(script: &str) -> Command {
        let mut command = SHELL.command().unwrap();
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let missing = Program { name: "hotcell-no-such-program", package: "some-package" };
        let error = missing.command().unwrap_err().to_string();
        assert!(error.contains("hotcell-no-such-program") && error.contains("apt-get install some-package"), "{error}");
    }

    #[test]
    fn a_failure_says_what_was_tried_and_what_the_program_said() {
        let error = SHELL.run("try it", &mut shell("echo no >&2; exit 3")).err().unwrap().to_string();
        assert!(
            error.contains("cannot try it") && error.contains("exit status: 3") && error.contains("  no"),
            "{error}"
        );
    }

    #[test]
    fn the_users_environment_is_not_passed_on() {
        let finished = SHELL.run("print", &mut shell("env | cut -d= -f1")).unwrap();
        let mut names: Vec<&str> = finished
            .stdout
            .lines()
            .filter(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name) && !PROXIES.contains(name))
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["LC_ALL", "PATH", "TZ"]);
    }

    #[test]
    fn output_and_messages_do_not_wait_for_each_other() {
        let script = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; \
                      echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done";
        let (mut output, mut lines) = (Vec::new(), 0);
        SHELL.run_into("print", &mut shell(script), &mut output, &mut |_| lines += 1).unwrap();
        assert_eq!((output.len(), lines), (3000 * 41, 3000));
    }
}
