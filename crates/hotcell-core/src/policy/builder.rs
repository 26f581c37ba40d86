//! Policies from a program instead of a file.

use std::path::PathBuf;
use std::time::Duration;

use super::{BoxUser, Cpus, Endpoints, NetworkMode, Policy, PullPolicy};
use crate::capability::Control;
use crate::config::{Bound, Config, Layer, Origin, Sourced};
use crate::layers::{Context, Layers, PolicyError, resolve};
use crate::presets::Preset;
use crate::runtime::{Isolation, RuntimeChoice, RuntimeKind};
use crate::secret::Secret;

/// Builds a [`Policy`] from the default one. Mistakes are reported by [`PolicyBuilder::build`].
///
/// ```
/// use std::time::Duration;
/// use hotcell_core::policy::Policy;
/// let policy = Policy::builder()
///     .root("/srv/project")
///     .read(".")
///     .overlay("build")
///     .pass_env("RUST_LOG")
///     .memory(256 << 20)
///     .timeout(Duration::from_secs(10))
///     .build()?;
/// assert_eq!(policy.filesystem.rules.len(), 2);
/// assert!(Policy::builder().memory(0).build().is_err());
/// # Ok::<(), hotcell_core::layers::PolicyError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PolicyBuilder {
    config: Config,
    context: Context,
    mistake: Option<PolicyError>,
}

fn here<T>(value: T) -> Sourced<T> {
    Sourced::new(value, Origin::layer(Layer::Api))
}

fn at_most<T>(value: T) -> Option<Sourced<Bound<T>>> {
    Some(here(Bound::At(value)))
}

impl PolicyBuilder {
    /// The directory that relative paths start from; without it, paths are absolute.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.context.root = root.into();
        self
    }

    /// The directory that `~` stands for.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.context.home = Some(home.into());
        self
    }

    /// Starts from a preset in place of the default policy; the root is its workspace.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.config.sandbox.preset = Some(here(preset));
        self
    }

    /// This backend or none.
    pub fn runtime(mut self, kind: RuntimeKind) -> Self {
        self.config.sandbox.mode = Some(here(RuntimeChoice::Kind(kind)));
        self
    }

    /// The weakest isolation that is acceptable.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.config.sandbox.isolation = Some(here(isolation));
        self
    }

    /// Accepts an approximation of this control.
    pub fn approximate(mut self, control: Control) -> Self {
        self.config.sandbox.approximate.push(here(control));
        self
    }

    /// Makes a path visible, not writable.
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.filesystem.read.push(here(path.into()));
        self
    }

    /// Lets a path be written directly.
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.filesystem.write.push(here(path.into()));
        self
    }

    /// Lets a path be written in an overlay.
    pub fn overlay(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.filesystem.overlay.push(here(path.into()));
        self
    }

    /// Puts a path out of reach.
    pub fn deny(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.filesystem.deny.push(here(path.into()));
        self
    }

    /// Protects a name in writable trees.
    pub fn protect(mut self, name: impl Into<PathBuf>) -> Self {
        self.config.filesystem.protect.push(here(name.into()));
        self
    }

    /// Does not protect a name.
    pub fn unprotect(mut self, name: impl Into<PathBuf>) -> Self {
        self.config.filesystem.unprotect.push(here(name.into()));
        self
    }

    /// Whether there is a network.
    pub fn network(mut self, mode: NetworkMode) -> Self {
        self.config.network.mode = Some(here(mode));
        self
    }

    /// Passes a variable from the host.
    pub fn pass_env(mut self, name: impl Into<String>) -> Self {
        self.config.env.pass.push(here(name.into()));
        self
    }

    /// Sets a variable.
    pub fn set_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.env.set.insert(name.into(), here(value.into()));
        self
    }

    /// Bytes of memory.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.limits.memory = at_most(bytes);
        self
    }

    /// CPUs used at the same time.
    pub fn cpus(mut self, cpus: f64) -> Self {
        match Cpus::from_f64(cpus) {
            Ok(cpus) => self.config.limits.cpus = at_most(cpus),
            Err(error) => self.mistake("limits.cpus", format!("cannot be {cpus}: {error}")),
        }
        self
    }

    /// CPU time over all processes.
    pub fn cpu_time(mut self, time: Duration) -> Self {
        self.config.limits.cpu_time = at_most(time);
        self
    }

    /// Processes and threads.
    pub fn processes(mut self, count: u64) -> Self {
        self.config.limits.processes = at_most(count);
        self
    }

    /// Open files per process.
    pub fn open_files(mut self, count: u64) -> Self {
        self.config.limits.open_files = at_most(count);
        self
    }

    /// Bytes on disk.
    pub fn disk(mut self, bytes: u64) -> Self {
        self.config.limits.disk = at_most(bytes);
        self
    }

    /// Bytes of output.
    pub fn output(mut self, bytes: u64) -> Self {
        self.config.limits.output = at_most(bytes);
        self
    }

    /// Wall-clock time of one command.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.config.limits.timeout = at_most(time);
        self
    }

    /// Lifts a limit, named by its control.
    pub fn unlimited(mut self, control: Control) -> Self {
        let limits = &mut self.config.limits;
        match control {
            Control::Memory => limits.memory = Some(here(Bound::Unlimited)),
            Control::Cpus => limits.cpus = Some(here(Bound::Unlimited)),
            Control::CpuTime => limits.cpu_time = Some(here(Bound::Unlimited)),
            Control::ProcessCount => limits.processes = Some(here(Bound::Unlimited)),
            Control::OpenFiles => limits.open_files = Some(here(Bound::Unlimited)),
            Control::Disk => limits.disk = Some(here(Bound::Unlimited)),
            Control::Output => limits.output = Some(here(Bound::Unlimited)),
            Control::Timeout => limits.timeout = Some(here(Bound::Unlimited)),
            other => self.mistake("limits", format!("has no `{other}`, so it cannot be unlimited")),
        }
        self
    }

    /// The working directory.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.process.cwd = Some(here(path.into()));
        self
    }

    /// The user inside the box.
    pub fn user(mut self, user: BoxUser) -> Self {
        self.config.process.user = Some(here(user));
        self
    }

    /// Whether commands may have a terminal.
    pub fn tty(mut self, tty: bool) -> Self {
        self.config.process.tty = Some(here(tty));
        self
    }

    /// The image that containers and virtual machines are made of.
    pub fn image(mut self, name: impl Into<String>) -> Self {
        self.config.container.image = Some(here(name.into()));
        self
    }

    /// The OCI runtime, as a name or an absolute path.
    pub fn oci_runtime(mut self, name: impl Into<String>) -> Self {
        self.config.container.runtime = Some(here(name.into()));
        self
    }

    /// Whether an image may be fetched.
    pub fn pull(mut self, pull: PullPolicy) -> Self {
        self.config.container.pull = Some(here(pull));
        self
    }

    /// The address of a remote backend's server.
    pub fn sandbox_url(mut self, url: impl Into<String>) -> Self {
        self.config.remote.url = Some(here(url.into()));
        self
    }

    /// The key for that server.
    pub fn sandbox_api_key(mut self, key: impl Into<String>) -> Self {
        self.config.remote.api_key = Some(here(Secret::new(key.into())));
        self
    }

    /// Where sandboxes themselves are reached, where that is not `<port>-<id>.<domain>`.
    pub fn sandbox_data_url(mut self, url: impl Into<String>) -> Self {
        self.config.remote.data_url = Some(here(url.into()));
        self
    }

    /// The domain beneath which sandboxes are reached.
    pub fn sandbox_domain(mut self, domain: impl Into<String>) -> Self {
        self.config.remote.domain = Some(here(domain.into()));
        self
    }

    /// The template that a sandbox of E2B or CubeSandbox is made of.
    pub fn template(mut self, name: impl Into<String>) -> Self {
        self.config.remote.template = Some(here(name.into()));
        self
    }

    /// The snapshot that a sandbox of OpenSandbox is made of.
    pub fn snapshot(mut self, name: impl Into<String>) -> Self {
        self.config.remote.snapshot = Some(here(name.into()));
        self
    }

    /// How sandboxes of an OpenSandbox server are reached.
    pub fn endpoints(mut self, endpoints: Endpoints) -> Self {
        self.config.remote.endpoints = Some(here(endpoints));
        self
    }

    /// Whether keys, files and code may go to another machine unencrypted.
    pub fn plain_http(mut self, allowed: bool) -> Self {
        self.config.remote.plain_http = Some(here(allowed));
        self
    }

    /// The policy, or the first mistake.
    pub fn build(self) -> Result<Policy, PolicyError> {
        match self.mistake {
            Some(mistake) => Err(mistake),
            None => resolve(&Layers { flags: self.config, ..Layers::default() }, &self.context),
        }
    }

    fn mistake(&mut self, key: &str, reason: String) {
        let at = Origin::layer(Layer::Api);
        self.mistake.get_or_insert(PolicyError::BadValue { at: at.into(), key: key.to_owned(), reason });
    }
}
