//! What can go wrong while an image is built.

use std::io;
use std::path::PathBuf;

use hotcell_core::text::{Printable, PrintablePath};

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A program that does part of the work is not installed.
    #[error("`{program}` is not installed: it is in the package {package} (`apt-get install {package}`)")]
    MissingProgram {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },

    /// A file of the system that the build relies on is not there.
    #[error("{} is missing: it is in the package {package} (`apt-get install {package}`)", PrintablePath(.path))]
    MissingFile {
        /// The file.
        path: PathBuf,
        /// The Debian package that has it.
        package: &'static str,
    },

    /// A program failed.
    #[error("cannot {step}: `{program}` {how}:\n{output}")]
    Program {
        /// What was being done.
        step: String,
        /// The program.
        program: &'static str,
        /// How it ended.
        how: String,
        /// The end of what it said.
        output: String,
    },

    /// A file could not be read, written or moved.
    #[error("cannot {action} {}: {source}", PrintablePath(.path))]
    File {
        /// What was being done to it.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },

    /// The recipe or the lock file is not as it should be.
    #[error("{what} cannot be used: {why}")]
    Text {
        /// Which of them.
        what: String,
        /// What is wrong with it.
        why: String,
    },

    /// The lock file does not go with the recipe.
    #[error(
        "the lock file has no package `{}`, which the recipe asks for: renew the lock file with `--update-lock`",
        Printable(.package)
    )]
    LockBehindRecipe {
        /// The package.
        package: String,
    },

    /// The lock file is for another kind of processor.
    #[error(
        "the lock file is for {}, and this machine is {machine}: make a lock file for it with `--lock FILE --update-lock`",
        Printable(.locked)
    )]
    OtherArchitecture {
        /// What the lock file is for.
        locked: String,
        /// What this machine is.
        machine: &'static str,
    },

    /// The mirror does not have the files that the lock file names.
    #[error(
        "{} no longer has {} of the {total} locked packages ({}): Debian's mirrors drop a version when a newer one \
         replaces it. Build from the archive of old versions with `--mirror {snapshot}`, or renew the lock file with \
         `--update-lock`, which gives an image with other versions",
        Printable(.mirror), .missing.len(), first_names(.missing)
    )]
    MirrorLacks {
        /// The mirror.
        mirror: String,
        /// The files, as the mirror would name them.
        missing: Vec<String>,
        /// How many files the lock file names.
        total: usize,
        /// A mirror that has them.
        snapshot: String,
    },

    /// What came from the network is not what was asked for.
    #[error(
        "{} is not the locked file: its {algorithm} is {found}, and {expected} was asked for; the mirror is damaged or \
         somebody changed it on the way",
        Printable(.name)
    )]
    WrongHash {
        /// The file.
        name: String,
        /// How it was summed.
        algorithm: &'static str,
        /// The sum that was asked for.
        expected: String,
        /// The sum that was found.
        found: String,
    },

    /// A downloaded package is another one than its place in the lock file says.
    #[error("{} holds `{}`, and the lock file says `{}`", Printable(.file), Printable(.found), Printable(.expected))]
    WrongPackage {
        /// The file.
        file: String,
        /// What is in it.
        found: String,
        /// What should be in it.
        expected: String,
    },

    /// The root file system has other packages than the lock file.
    #[error("the root file system was not made from the locked packages alone: {why}")]
    WrongPackages {
        /// The difference.
        why: String,
    },

    /// An archive has an entry that no image of ours may have.
    #[error("the archive {} has an entry that cannot be used: {why}", PrintablePath(.archive))]
    Archive {
        /// The archive.
        archive: PathBuf,
        /// What is wrong.
        why: String,
    },

    /// There is no place to keep downloads and results.
    #[error("neither XDG_CACHE_HOME nor HOME is set: name a directory with `--cache`")]
    NoCache,
}

impl BuildError {
    /// For `map_err` on a file operation.
    pub(super) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

/// A few names stand for all of a long list.
fn first_names(files: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = files
        .iter()
        .take(SHOWN)
        .map(|file| Printable(file.rsplit('/').next().unwrap_or(file)).to_string())
        .collect::<Vec<_>>()
        .join(", ");
    if files.len() > SHOWN {
        text.push_str(", …");
    }
    text
}
