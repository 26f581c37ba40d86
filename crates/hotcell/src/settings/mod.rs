//! Where configuration comes from: the only code that reads `hotcell.toml` files and `HOTCELL_*` variables.
//!
//! | layer | where |
//! |---|---|
//! | user file | the file of `--policy` or `HOTCELL_POLICY`, else `$XDG_CONFIG_HOME/hotcell/hotcell.toml`, else `~/.config/hotcell/hotcell.toml` |
//! | project file | `hotcell.toml` in the current directory or the nearest directory above it that has one |
//! | environment | `HOTCELL_*` variables; for a remote box also those of its server's own clients, weaker than everything |
//! | flags | the command line |
//!
//! The search for a project file ends with the top of a git repository, and never looks into a home directory or
//! above one. A project file can only tighten, also beside `--policy`: whoever wants one to be obeyed entirely names
//! it with `--policy`, and then it is not read a second time.
//!
//! Where the box may write one of the files, or where the user's own would be, that is protected, with the links that lead to it: it
//! is the policy of the next run.
//!
//! A user file must belong to the user or to root. No file with somebody else's word in it is obeyed: one that
//! others may write is an error.
//!
//! Relative paths in files start from the project file's directory, or from the current one if there is none; relative
//! paths in flags start from the current one. Links are resolved here, once, because the box shows everything at
//! its real place; what a project file names is judged by where it really is.
//!
//! A preset takes the place of the defaults, for the current directory. In a home directory or above one, or in one of the
//! system's own, it shows nothing: like everything else, that has to be named.
//!
//! A file with a key is read only if the run is to be on a remote box, and only if nobody else may read it. Its name is
//! relative to the file that it is written in.

mod error;
mod file;
mod key_file;
mod locate;
mod paths;
mod remote;
mod sources;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use hotcell_core::config::{Config, Origin, Sourced, environment_config};
use hotcell_core::layers::{Context, Layers, Workspace, resolve, resolve_languages, resolve_preset};
use hotcell_core::policy::{Access, Policy};
use hotcell_core::presets::Preset;

pub use error::SettingsError;
pub use remote::RemoteRuntime;
pub(crate) use remote::server_of;
pub use view::default_view;

/// What the settings of a run are made from.
///
/// ```no_run
/// use hotcell::config::Origin;
/// use hotcell::settings::{Request, Settings};
///
/// let mut request = Request::of_this_process()?;
/// request.flags.set("limits.memory", "64m", Origin::flag("--memory"))?;
/// let settings = Settings::load(&request)?;
/// assert_eq!(settings.policy.limits.memory.value, Some(64 << 20));
/// # Ok::<(), hotcell::settings::SettingsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Request {
    /// The current directory.
    pub cwd: PathBuf,
    /// The file of `--policy`; it takes the place of the user's own file.
    pub policy_file: Option<PathBuf>,
    /// What the caller grants where nobody says anything, beyond the current directory. Its `sandbox.preset` is the preset
    /// where nobody names another.
    pub defaults: Config,
    /// What was written on the command line.
    pub flags: Config,
    /// The variables of the process, as from `std::env::vars_os`: `HOTCELL_*`, `HOME`, `XDG_CONFIG_HOME`, and for a remote box
    /// those of its server's own clients, such as `E2B_API_KEY`.
    pub environment: Vec<(OsString, OsString)>,
}

/// Variables are shown by name: people keep keys in them.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cwd, policy_file, defaults, flags, environment } = self;
        let environment: Vec<&OsString> = environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("Request")
            .field("cwd", cwd)
            .field("policy_file", policy_file)
            .field("defaults", defaults)
            .field("flags", flags)
            .field("environment", &environment)
            .finish()
    }
}

impl Request {
    /// The current directory and the variables of this process; no flags.
    pub fn of_this_process() -> Result<Self, SettingsError> {
        let cwd = std::env::current_dir().map_err(|source| SettingsError::CurrentDirectory { source })?;
        Ok(Self { cwd, environment: std::env::vars_os().collect(), ..Self::default() })
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// The home directory, at its real place where it exists.
    fn home(&self) -> Option<PathBuf> {
        let home = Path::new(self.variable("HOME")?);
        home.is_absolute().then(|| home.canonicalize().unwrap_or_else(|_| home.to_owned()))
    }
}

/// One policy, and the files that it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the code in the box may do.
    pub policy: Policy,
    /// The files that were read, weakest first.
    pub sources: Vec<PathBuf>,
    /// The preset that was chosen, and where.
    pub preset: Option<Sourced<Preset>>,
    /// The languages that the user added, and the command that runs a file in each.
    pub languages: BTreeMap<String, Vec<String>>,
}

impl Settings {
    /// Reads all layers and makes one policy of them.
    pub fn load(request: &Request) -> Result<Self, SettingsError> {
        let Read { layers, sources, own_place, cwd, root, home } = Read::all(request)?;
        let not_shown = view::why_not_shown(&cwd, home.as_deref());
        let (preset, languages) = (resolve_preset(&layers).cloned(), resolve_languages(&layers));
        let mut policy = resolve(&layers, &Context { root, home })?;
        sources::protect(&mut policy.filesystem, sources.iter().chain(&own_place), &layers);
        remote::check_server(policy.runtime, &policy.remote)?;
        start_in_view(&mut policy, &cwd, not_shown)?;
        Ok(Self { policy, sources, preset, languages })
    }
}

/// The layers as they were read, and what their paths mean.
struct Read {
    layers: Layers,
    sources: Vec<PathBuf>,
    /// Where the user's own file is or would be, also where another was read.
    own_place: Option<PathBuf>,
    cwd: PathBuf,
    root: PathBuf,
    home: Option<PathBuf>,
}

impl Read {
    fn all(request: &Request) -> Result<Self, SettingsError> {
        let cwd = request.cwd.canonicalize().map_err(|source| SettingsError::CurrentDirectory { source })?;
        let home = request.home();
        let environment = environment_config(request.environment.iter().cloned())?;

        let own_place = locate::user_file(request, home.as_deref());
        let own = match named_policy_file(request)? {
            Some(file) => Some(file::read_named(&file)?),
            None => own_place.as_deref().map(file::read_own).transpose()?.flatten(),
        };
        let project = match locate::project_file(&cwd, home.as_deref())? {
            Some(file) => Some(file::read_project(&file, &cwd)?)
                .filter(|project| own.as_ref().is_none_or(|own| own.identity != project.identity)),
            None => None,
        };
        let sources = [&own, &project].into_iter().flatten().map(|read| read.path.clone()).collect();

        let root = project.as_ref().and_then(|read| read.path.parent()).unwrap_or(&cwd).to_owned();
        let from_files = paths::Start { directory: &root, may_leave: false, home: home.as_deref() };
        let from_flags = paths::Start { directory: &cwd, may_leave: true, home: home.as_deref() };
        let own_file = own.as_ref().map(|read| read.path.clone());
        let mut layers = Layers {
            defaults: request.defaults.clone(),
            user: own.map(|read| from_files.real_paths(read.config)).transpose()?,
            project: project.map(|read| from_files.real_paths(read.config)).transpose()?,
            environment,
            flags: from_flags.real_paths(request.flags.clone())?,
            workspace: Workspace::Hidden,
        };
        if let Some(view) = default_view(&cwd, home.as_deref()) {
            // A preset says what may be done with the current directory; otherwise it can be read.
            layers.workspace = Workspace::At(cwd.clone());
            if resolve_preset(&layers).is_none() {
                layers.defaults.filesystem.read.extend(view.filesystem.read);
            }
        }
        remote::complete(&mut layers, request, &remote::KeyPlaces { cwd: &cwd, own_file, home: home.as_deref() })?;
        Ok(Self { layers, sources, own_place, cwd, root, home })
    }
}

/// The file of `--policy`, else that of `HOTCELL_POLICY`.
fn named_policy_file(request: &Request) -> Result<Option<PathBuf>, SettingsError> {
    let (file, at) = match (&request.policy_file, request.variable("HOTCELL_POLICY")) {
        (Some(file), _) => (file.as_path(), Origin::flag("--policy")),
        (None, Some(file)) => (Path::new(file), Origin::variable("HOTCELL_POLICY")),
        (None, None) => return Ok(None),
    };
    if file.as_os_str().is_empty() {
        return Err(SettingsError::NoPolicyFile { at: at.into() });
    }
    Ok(Some(request.cwd.join(file)))
}

/// The command starts where the user is, if the box shows that. From a place that is not shown by default, the user
/// has to say what to show.
fn start_in_view(policy: &mut Policy, cwd: &Path, not_shown: Option<&'static str>) -> Result<(), SettingsError> {
    match &policy.process.cwd {
        Some(named) => {
            // A path that the box has of its own, such as /tmp, is left as it was written.
            if let Ok(real) = named.canonicalize()
                && policy.filesystem.access(&real) > Access::Deny
            {
                policy.process.cwd = Some(real);
            }
        }
        None if policy.filesystem.access(cwd) > Access::Deny => policy.process.cwd = Some(cwd.to_owned()),
        None => {
            if let Some(what) = not_shown {
                return Err(SettingsError::NothingToShow { cwd: cwd.to_owned(), what });
            }
        }
    }
    Ok(())
}
