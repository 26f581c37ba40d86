//! Getting what the tests need, where this may be done without asking: as root on Debian and its kin.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::is_root;
use super::tally::Tally;
use crate::workspace::cargo;
use crate::{process, progress};

/// Longer than any honest download.
const INSTALL_LIMIT: Duration = Duration::from_secs(1200);

/// Where programs are that a box can see too; a shim in somebody's home directory would not do.
const SYSTEM_PROGRAMS: &[&str] = &["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];

/// How to know that a package is there.
pub(crate) enum Sign {
    Program(&'static str),
    File(&'static str),
    /// A file in the directory whose name begins so.
    FileLike(&'static str, &'static str),
}

/// A package, what shows that it is there, and what it is for.
pub(crate) struct Need {
    pub(crate) package: &'static str,
    sign: Sign,
    pub(crate) purpose: &'static str,
}

/// The C compiler for the other architecture: cryptography is partly C.
pub(crate) const OTHER_COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Everything that tests use beyond Rust.
const NEEDS: &[Need] = &[
    need("bubblewrap", Sign::Program("bwrap"), "the comparison in benchmarks"),
    need("gcc", Sign::Program("cc"), "compiling C inside a box"),
    need("libc6-dev", Sign::File("/usr/include/stdio.h"), "compiling C inside a box"),
    need("python3", Sign::Program("python3"), "Python inside a box"),
    need("python3-pip", Sign::Program("pip3"), "pip inside a box"),
    need("python3-venv", Sign::FileLike("/usr/share/python-wheels", "pip-"), "installing a wheel without a network"),
    need("git", Sign::Program("git"), "git inside a box"),
    need("nodejs", Sign::Program("node"), "Node.js inside a box"),
    need("util-linux", Sign::Program("setpriv"), "tests as an ordinary user"),
    need("bsdutils", Sign::Program("script"), "tests of terminals"),
    need("strace", Sign::Program("strace"), "tests that count system calls"),
    need("mmdebstrap", Sign::Program("mmdebstrap"), "making images"),
    need("squashfs-tools", Sign::Program("mksquashfs"), "images as squashfs"),
    need("gcc-aarch64-linux-gnu", Sign::Program(OTHER_COMPILER), "the type check for the other architecture"),
    need(
        "libc6-dev-arm64-cross",
        Sign::File("/usr/aarch64-linux-gnu/include/stdio.h"),
        "the type check for the other architecture",
    ),
    need("e2fsprogs", Sign::Program("mkfs.ext4"), "images as ext4"),
];

/// A row of such a list.
pub(crate) const fn need(package: &'static str, sign: Sign, purpose: &'static str) -> Need {
    Need { package, sign, purpose }
}

impl Need {
    fn is_met(&self) -> bool {
        match self.sign {
            Sign::Program(name) => has_program(name),
            Sign::File(path) => Path::new(path).exists(),
            Sign::FileLike(directory, prefix) => fs::read_dir(directory).is_ok_and(|entries| {
                entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            }),
        }
    }
}

/// Is there a Python that a box can see?
pub(crate) fn has_python() -> bool {
    has_program("python3")
}

/// Is this Debian, or of its kind?
pub(crate) fn is_debian() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

fn has_program(name: &str) -> bool {
    program(name).is_some()
}

/// Where a program of the system is.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    SYSTEM_PROGRAMS.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())
}

/// Something that is not there and was not to be had.
pub(crate) struct Missing {
    pub(crate) reason: String,
    pub(crate) avoidable: bool,
}

/// What stays missing, and why.
pub(crate) struct Shortage<'a> {
    pub(crate) needs: Vec<&'a Need>,
    pub(crate) hint: String,
}

/// Installs what is missing where it can, and counts what stays missing.
pub(crate) fn programs(tally: &mut Tally) -> Result<()> {
    let line = progress::begin("programs that tests use");
    if NEEDS.iter().all(Need::is_met) {
        line.end("all there");
        return Ok(());
    }
    let Some(shortage) = bring(NEEDS)? else {
        line.end("installed");
        return Ok(());
    };
    line.end(&format!("{} missing", shortage.needs.len()));
    for need in shortage.needs {
        tally.skip(&format!("{} ({})", need.package, need.purpose), &shortage.hint, true);
    }
    Ok(())
}

/// Sees to it that `needs` are met, by installing what is missing where that may be done without asking.
pub(crate) fn bring(needs: &[Need]) -> Result<Option<Shortage<'_>>> {
    let mut missing: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let hint = if !is_debian() {
        "not installed, and this is not a Debian kind of system: install it by hand".to_owned()
    } else if !is_root() {
        let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
        format!("not installed; `sudo apt-get install {}` brings it", packages.join(" "))
    } else {
        let trouble = install(&missing)?;
        missing.retain(|need| !need.is_met());
        format!("not installed, and apt-get could not bring it: {trouble}")
    };
    Ok((!missing.is_empty()).then_some(Shortage { needs: missing, hint }))
}

/// Installs packages one by one, so that one that cannot be had does not cost the others. Returns the last trouble.
fn install(needs: &[&Need]) -> Result<String> {
    let mut trouble = String::new();
    let updated = process::run(apt_get().arg("update"), INSTALL_LIMIT)?;
    if !updated.success() {
        trouble = last_line(&updated.output);
    }
    for need in needs {
        // An earlier package may have brought this one along.
        if need.is_met() {
            continue;
        }
        let mut command = apt_get();
        command.args(["install", "--yes", "--no-install-recommends", need.package]);
        let installed = process::run(&mut command, INSTALL_LIMIT)?;
        if !installed.success() {
            trouble = last_line(&installed.output);
        }
    }
    Ok(trouble)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Another apt may be at work on a fresh machine; it ends.
        .args(["--quiet", "--option", "DPkg::Lock::Timeout=120"]);
    command
}

fn last_line(output: &str) -> String {
    output.trim_end().lines().next_back().unwrap_or_default().to_owned()
}

/// Sees to the parts of the Rust toolchain that a minimal installation leaves out.
pub(crate) fn toolchain(tally: &mut Tally) -> Result<()> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        let name = format!("{component} of the Rust toolchain");
        let line = progress::begin(&name);
        let is_there =
            |limit| -> Result<bool> { Ok(process::run(cargo()?.args([subcommand, "--version"]), limit)?.success()) };
        let limit = Duration::from_secs(60);
        if is_there(limit)? {
            line.end("there");
            continue;
        }
        let trouble = rustup(&["component", "add", component])?;
        if is_there(limit)? {
            line.end("installed");
        } else {
            // The lint that needs it fails below and says so; a missing lint must not look like a clean one.
            line.end(trouble.as_deref().unwrap_or("missing"));
            tally.fail(&name);
        }
    }
    Ok(())
}

/// Sees to the standard library for `target`.
pub(crate) fn target(target: &str) -> Result<Result<(), Missing>> {
    if has_target(target)? {
        return Ok(Ok(()));
    }
    let trouble = rustup(&["target", "add", target])?;
    if has_target(target)? {
        return Ok(Ok(()));
    }
    Ok(Err(match trouble {
        Some(trouble) => Missing {
            reason: format!("its standard library is not installed, and rustup could not bring it: {trouble}"),
            avoidable: true,
        },
        None => Missing {
            reason: "its standard library is not part of this Rust, and there is no rustup to ask".to_owned(),
            avoidable: false,
        },
    }))
}

fn has_target(target: &str) -> Result<bool> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]);
    let finished = process::run(&mut command, Duration::from_secs(60))?;
    Ok(finished.success() && Path::new(finished.output.trim()).is_dir())
}

/// Runs rustup; returns what went wrong, or nothing when it went well or there is no rustup.
fn rustup(arguments: &[&str]) -> Result<Option<String>> {
    let mut version = Command::new("rustup");
    version.arg("--version");
    if process::run(&mut version, Duration::from_secs(60)).is_err() {
        return Ok(None);
    }
    let mut command = Command::new("rustup");
    command.args(arguments);
    let finished = process::run(&mut command, INSTALL_LIMIT)?;
    Ok((!finished.success()).then(|| last_line(&finished.output)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_read() {
        assert!(need("x", Sign::Program("sh"), "").is_met());
        assert!(!need("x", Sign::Program("hotcell-no-such-program"), "").is_met());
        assert!(need("x", Sign::File("/proc/self/status"), "").is_met());
        assert!(need("x", Sign::FileLike("/proc/self", "stat"), "").is_met());
        assert!(!need("x", Sign::FileLike("/hotcell-no-such-directory", ""), "").is_met());
    }

    #[test]
    fn no_package_is_named_twice() {
        let names: std::collections::BTreeSet<&str> = NEEDS.iter().map(|need| need.package).collect();
        assert_eq!(names.len(), NEEDS.len());
    }
}
