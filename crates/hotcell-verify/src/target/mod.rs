//! Where an attack is tried: on the bare host, in a box of Hotcell's, or in somebody else's sandbox.

mod boxed;
mod host;
mod wrapped;

use std::ffi::OsString;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use hotcell::layers::PolicyError;
use hotcell::policy::RemotePolicy;
use hotcell::runtime::UnknownRuntime;
use hotcell::{Policy, RuntimeKind};
use hotcell_backends::registry;
use rustix::process::Pid;

pub use boxed::Boxed;
pub(crate) use boxed::REFUSED;
pub(crate) use boxed::in_full;
pub use host::Host;
pub use wrapped::Wrapped;

use crate::arena::Arena;
use crate::check::Check;

/// Longer than any attack takes; one that has not ended by then is hanging.
const LONGEST: Duration = Duration::from_secs(20);

/// An attack that is ready to be tried.
#[derive(Debug)]
pub struct Job<'a> {
    /// The check that it belongs to.
    pub check: &'a Check,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What was planted for it.
    pub arena: &'a Arena,
}

impl Job<'_> {
    /// The policy that the check is about. Sandboxes that know no policy keep to its timeout.
    pub(crate) fn policy(&self) -> Result<Policy, PolicyError> {
        let base = Policy::builder().read(self.arena.program()).cwd("/").timeout(LONGEST);
        (self.check.grant)(base, self.arena).build()
    }

    /// How long a sandbox that knows no policy lets it run.
    fn timeout(&self) -> Duration {
        self.policy().ok().and_then(|policy| policy.limits.timeout.value).unwrap_or(LONGEST)
    }
}

/// What became of a program.
#[derive(Debug, Clone)]
pub struct Ran {
    /// What it printed, on both streams.
    pub output: String,
    /// How it ended, in words.
    pub end: String,
    /// Whether a limit or a system call filter ended it: then it need not have come to its end.
    pub ended_by_box: bool,
    /// System calls that were seen being refused.
    pub refused_calls: Vec<String>,
    /// The process group that it was started in, where nobody else ends what is left in it.
    pub group: Option<Pid>,
}

/// Why an attack was not tried.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotRun {
    /// It makes no sense here.
    #[error("{0}")]
    NotApplicable(String),
    /// It could not be started.
    #[error("{0}")]
    Failed(String),
}

/// A name that no sandbox has.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownTarget {
    /// Nobody has heard of it.
    #[error("{0}; to compare with there are also bwrap and unshare")]
    Unknown(#[from] UnknownRuntime),
    /// This build does not have it.
    #[error("the `{0}` backend is not part of this build")]
    NotBuilt(RuntimeKind),
    /// Its program is not there.
    #[error("{0} is not installed")]
    NotInstalled(&'static str),
}

/// What boxes are made of, and where, as far as that is not the backend's choice.
#[derive(Debug, Clone, Default)]
pub struct MadeOf {
    /// The image of containers, and of boxes of OpenSandbox.
    pub image: Option<String>,
    /// The OCI runtime of containers, as a name or a path.
    pub oci_runtime: Option<String>,
    /// The server of remote boxes.
    pub remote: RemotePolicy,
    /// Whether remote boxes get their server's network: for servers that cannot keep boxes off it. What they reach is not
    /// looked at either way.
    pub open_network: bool,
}

/// The sandbox of this name: a backend of Hotcell's, `bwrap` or `unshare`.
pub fn named(name: &str, made_of: &MadeOf) -> Result<Box<dyn Target>, UnknownTarget> {
    if let Some(reference) = Wrapped::ALL.iter().find(|reference| reference.name() == name) {
        return match reference.is_installed() {
            true => Ok(Box::new(*reference)),
            false => Err(UnknownTarget::NotInstalled(reference.program())),
        };
    }
    let kind: RuntimeKind = name.parse()?;
    if !registry::KINDS.contains(&kind) {
        return Err(UnknownTarget::NotBuilt(kind));
    }
    Ok(Box::new(Boxed::new(kind).made_of(made_of.clone())))
}

/// Something that runs programs.
#[async_trait]
pub trait Target: Debug + Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Runs the attack to its end.
    async fn run(&self, job: &Job<'_>) -> Result<Ran, NotRun>;

    /// Whether its system directories are those of an image. Most sandboxes show the host's own.
    fn has_image(&self) -> bool {
        false
    }

    /// Whether it is on another machine, as far as anybody can tell.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Why a check says nothing about this sandbox, if so.
    fn beyond(&self, _check: &Check) -> Option<String> {
        None
    }

    /// Whether a shell in it succeeds with this script, where that is not a matter of course.
    async fn answers(&self, _script: &str) -> bool {
        true
    }

    /// Hotcell's own box, if it is one: for attacks on the host's side of it.
    fn boxed(&self) -> Option<&Boxed> {
        None
    }
}
