//! The guest's first file system: a shell, the modules, and the scripts that lead to the command.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::cpio::Archive;
use super::kernel::Kernel;
use super::modules;

/// A shell and its tools in one program without libraries.
pub(super) const BUSYBOX: &str = "/bin/busybox";

const FIRST: &[u8] = include_bytes!("first.sh");
const SECOND: &[u8] = include_bytes!("second.sh");

/// What the command runs as, and where.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    /// The user in the guest; 0 is root.
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: &'a str,
    pub(super) directory: &'a str,
    /// Its whole environment but for the home directory.
    pub(super) environment: &'a [(&'static str, String)],
    pub(super) command: &'a [String],
    /// Is there a directory for files that stay?
    pub(super) keeps: bool,
}

/// The archive that the kernel unpacks.
pub(super) fn build(kernel: &Kernel, launch: &Launch<'_>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "host", "layer", "modules", "new", "proc", "sys", "vm-lab"] {
        archive.directory(directory)?;
    }
    let busybox = fs::read(BUSYBOX).with_context(|| format!("cannot read {BUSYBOX}"))?;
    archive.file("bin/busybox", &busybox)?;
    for (number, contents) in modules::contents(&kernel.modules)?.iter().enumerate() {
        archive.file(&format!("modules/{number:03}"), contents)?;
    }
    archive.file("init", FIRST)?;
    archive.file("vm-lab/second.sh", SECOND)?;
    archive.file("vm-lab/settings", settings(kernel, launch)?.as_bytes())?;
    archive.file("vm-lab/launch.sh", launch_script(launch).as_bytes())?;
    archive.finish()
}

/// What the scripts have to know, as assignments.
fn settings(kernel: &Kernel, launch: &Launch<'_>) -> Result<String> {
    Ok(format!(
        "uid={}\ngid={}\nhome={}\nrelease={}\nmodules={}\nkeeps={}\n",
        launch.uid,
        launch.gid,
        quoted(launch.home),
        quoted(&kernel.release),
        quoted(utf8(&kernel.modules)?),
        if launch.keeps { "yes" } else { "no" },
    ))
}

/// The script that becomes the command.
fn launch_script(launch: &Launch<'_>) -> String {
    let mut script = String::from("umask 022\n");
    for (name, value) in launch.environment {
        script.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    script.push_str(&format!("export HOME={}\n", quoted(launch.home)));
    script.push_str(&format!("cd -- {} || exit 126\nexec", quoted(launch.directory)));
    for word in launch.command {
        script.push(' ');
        script.push_str(&quoted(word));
    }
    script.push('\n');
    script
}

/// One word for a shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Paths end up in scripts, which are text.
pub(super) fn utf8(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not UTF-8: use another directory", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn script(directory: &str, command: &[&str], variable: &str) -> String {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        launch_script(&Launch {
            uid: 0,
            gid: 0,
            home: "/root",
            directory,
            environment: &[("ODD", variable.to_owned())],
            command: &command,
            keeps: false,
        })
    }

    #[test]
    fn odd_arguments_arrive_as_they_were() {
        let odd =
            ["", " ", "a b", "'", "''", r"\'", "\"$HOME\"", "`id`", "$(id)", "two\nlines", "*", "-n", "é", "#", "!;&|"];
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("it's $HOME");
        fs::create_dir(&directory).unwrap();
        let mut command = vec!["/usr/bin/printf", r"%s\0"];
        command.extend(odd);
        let script = script(directory.to_str().unwrap(), &command, "");
        let output = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
        let arrived: Vec<String> =
            String::from_utf8(output.stdout).unwrap().split_terminator('\0').map(str::to_owned).collect();
        assert_eq!(arrived, odd, "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn the_directory_and_the_environment_are_kept() {
        let script = script("/usr", &["sh", "-c", r#"printf '%s|%s|%s' "$PWD" "$HOME" "$ODD""#], "it's; $(odd)");
        let output = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "/usr|/root|it's; $(odd)");
    }

    #[test]
    fn a_directory_that_cannot_be_entered_stops_the_command() {
        let script = script("/hotcell-no-such-directory", &["echo", "ran"], "");
        let output = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(126), &b""[..]));
    }
}
