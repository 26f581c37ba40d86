//! Why there are no settings.

use std::io;
use std::path::PathBuf;

use hotcell_core::config::{ConfigError, MAX_CONFIG_BYTES, Origin};
use hotcell_core::layers::PolicyError;
use hotcell_core::policy::NoServer;
use hotcell_core::text::PrintablePath;

/// Why the configuration of this machine, project and command line does not make a policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The current directory is gone or cannot be reached.
    #[error("cannot find out the current directory: {source}; change into a directory that exists")]
    CurrentDirectory {
        /// What the kernel said.
        source: io::Error,
    },
    /// `--policy` or `HOTCELL_POLICY` without a file's name.
    #[error("{at}: the file's name is empty; name a policy file or leave it out")]
    NoPolicyFile {
        /// Which of them.
        at: Box<Origin>,
    },
    /// A file that cannot be read.
    #[error("cannot read the policy file `{}`: {source}", PrintablePath(.file))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A directory, a pipe or a device where a file is expected.
    #[error("the policy file `{}` is {what}, not a file", PrintablePath(.file))]
    NotAFile {
        /// The path.
        file: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file that somebody else may have written.
    #[error("the policy file `{}` is not obeyed: {reason}; {hint}", PrintablePath(.file))]
    Untrusted {
        /// The file.
        file: PathBuf,
        /// Who can write it.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// A file that is larger than any policy.
    #[error("the policy file `{}` is larger than {MAX_CONFIG_BYTES} bytes", PrintablePath(.file))]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// A file that is not text.
    #[error("the policy file `{}` is not UTF-8 text", PrintablePath(.file))]
    NotText {
        /// The file.
        file: PathBuf,
    },
    /// A path that a rule names and that cannot be shown.
    #[error("{at}: `{}` {reason}", PrintablePath(.path))]
    Path {
        /// Where it was written.
        at: Box<Origin>,
        /// The path.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A file with a key that cannot be used. The key itself is not shown.
    #[error("{at}: the key file `{}` {reason}", PrintablePath(.file))]
    KeyFile {
        /// Where it was named.
        at: Box<Origin>,
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A remote runtime, and nothing that says where its server is.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// The current directory is one that is not shown by default, and nothing else was named.
    #[error("`{}` is {what}, and is not shown to the box unless you say so; \
        name what the command needs and where it starts, for example --read DIR --cwd DIR", PrintablePath(.cwd))]
    NothingToShow {
        /// The current directory.
        cwd: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file, variable or flag is wrong in itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The layers do not fit together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}
