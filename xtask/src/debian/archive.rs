//! One suite of Debian's archive, through apt, which checks everything against Debian's keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{KEYRING, mirror, only_entry, run};

/// A suite as an apt sees it that knows this one source and nothing of the system's packages.
#[derive(Debug)]
pub(crate) struct Archive {
    directory: PathBuf,
    architecture: &'static str,
}

impl Archive {
    /// Fetches the list of what is in `suite`, into `directory`, which is the caller's to remove.
    pub(crate) fn open(suite: &str, architecture: &'static str, directory: &Path) -> Result<Self> {
        let mirror = mirror::find()?;
        for place in ["lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(directory.join(place))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(directory.join("sources.list"), source)?;
        let archive = Self { directory: directory.to_owned(), architecture };
        run(archive.apt("apt-get").args(["--quiet", "update"]))?;
        Ok(archive)
    }

    /// What `apt-cache` says.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String> {
        run(self.apt("apt-cache").args(arguments))
    }

    /// Fetches `package` and unpacks it to `tree`, without installing it.
    pub(crate) fn unpack(&self, package: &str, tree: &Path) -> Result<()> {
        let place = self.directory.join("packages").join(package);
        fs::create_dir(&place).with_context(|| format!("cannot make the directory {}", place.display()))?;
        run(self.apt("apt-get").args(["--quiet", "download", package]).current_dir(&place))?;
        run(Command::new("dpkg-deb").arg("--extract").arg(only_entry(&place)?).arg(tree))?;
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let directory = &self.directory;
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        for (option, value) in [
            ("Dir::Etc::SourceList", directory.join("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::Etc::Preferences", "/dev/null".into()),
            ("Dir::Etc::PreferencesParts", "/dev/null".into()),
            ("Dir::State", directory.clone()),
            ("Dir::State::status", "/dev/null".into()),
            ("Dir::Cache", directory.join("cache")),
            ("APT::Architecture", self.architecture.into()),
            ("APT::Architectures", self.architecture.into()),
            // A list that could not be fetched is an error, not a warning.
            ("APT::Update::Error-Mode", "any".into()),
            ("Acquire::Languages", "none".into()),
        ] {
            command.arg("--option").arg(format!("{option}={}", value.display()));
        }
        command
    }
}
