//! OCI runtimes: which there are, where, and how each is told to run a bundle without a daemon.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hotcell_core::runtime::Isolation;

/// What a runtime is, as far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// runc, and whatever takes the same options.
    Runc,
    /// crun.
    Crun,
    /// youki.
    Youki,
    /// gVisor's runsc.
    Runsc,
}

impl Flavour {
    /// By the name of the program.
    fn of(program: &Path) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        match name.as_ref() {
            name if name.starts_with("crun") => Self::Crun,
            name if name.starts_with("youki") => Self::Youki,
            name if name.starts_with("runsc") => Self::Runsc,
            _ => Self::Runc,
        }
    }

    /// Whether code runs on the host's kernel, so that descriptors can be handed to it.
    pub fn shares_kernel(self) -> bool {
        self != Self::Runsc
    }

    /// How strongly its containers are isolated.
    pub fn isolation(self) -> Isolation {
        if self.shares_kernel() { Isolation::Container } else { Isolation::UserKernel }
    }

    /// Whether, without privileges, it can show the code as another user than root.
    pub(super) fn maps_any_user(self) -> bool {
        self == Self::Crun
    }
}

/// A runtime that is on this machine.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// What it is.
    pub flavour: Flavour,
    /// Its program.
    pub program: PathBuf,
}

/// No such runtime, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {hint}")]
pub struct NoRuntime {
    /// What is missing.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

/// No network but its own; limits are those of the stage's cgroup; writes go where the bundle says, and nowhere else. Files
/// are handled by the process that has the stage's mounts: for any other, a name that something is mounted on could be moved.
const RUNSC: &[&str] = &["--network=none", "--ignore-cgroups", "--overlay2=none", "--directfs=false"];
const RUNSC_ROOTLESS: &[&str] =
    &["--network=none", "--ignore-cgroups", "--overlay2=none", "--directfs=false", "--rootless"];

/// What is tried where nobody names a runtime.
const USUAL: &[&str] = &["runc", "crun", "youki"];
/// Where programs of administrators are, which an ordinary user's `PATH` may lack.
const MORE_PLACES: &[&str] = &["/usr/sbin", "/sbin", "/usr/local/sbin"];

impl Runtime {
    /// The runtime of this name or path; without one, the first of the usual ones.
    pub fn find(asked: Option<&str>) -> Result<Self, NoRuntime> {
        let names: Vec<&str> = asked.map_or_else(|| USUAL.to_vec(), |asked| vec![asked]);
        if let Some(kata) = names.iter().find(|name| name.contains("kata")) {
            return Err(NoRuntime {
                reason: format!("{kata} has no command line for bundles since Kata 2.0"),
                hint: "register it with a Docker engine and use `--runtime docker --oci-runtime kata`".to_owned(),
            });
        }
        let program = names.iter().find_map(|name| look_up(name));
        match program {
            Some(program) => Ok(Self { flavour: Flavour::of(&program), program }),
            None => Err(missing(&names)),
        }
    }

    /// The command that makes and runs the container of a bundle, and ends with it.
    pub(super) fn command(&self, bundle: &Path, id: &str, privileged: bool) -> Vec<OsString> {
        let state = bundle.join("state");
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "--root".into(), state.into()];
        let more: &[&str] = match self.flavour {
            // It finds a cgroup that it cannot change, and is to be content with that: the box's own holds the limits.
            Flavour::Runc => &["--rootless=true"],
            Flavour::Crun => &["--cgroup-manager=disabled"],
            Flavour::Youki => &[],
            Flavour::Runsc if privileged => RUNSC,
            Flavour::Runsc => RUNSC_ROOTLESS,
        };
        words.extend(more.iter().map(OsString::from));
        words.push("run".into());
        if self.flavour.shares_kernel() {
            // The conversation with the first process.
            words.push("--preserve-fds=1".into());
        }
        words.push("--bundle".into());
        words.push(bundle.into());
        words.push(id.into());
        words
    }
}

fn look_up(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|program| is_program(program));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(MORE_PLACES.iter().map(PathBuf::from));
    // A relative place would be somebody else's choice.
    places.filter(|place| place.is_absolute()).map(|place| place.join(name)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn missing(names: &[&str]) -> NoRuntime {
    let hint = match names {
        [name] if name.contains("runsc") => {
            "install gVisor (`apt install runsc`, or gvisor.dev/docs), or name its path with --oci-runtime; \
             without it, `--isolation process` is what the native box has"
        }
        _ => {
            "install one (`apt install runc` or `apt install crun`), name its path with --oci-runtime, or use --runtime native"
        }
    };
    NoRuntime { reason: format!("there is no {} on this machine", names.join(", no ")), hint: hint.to_owned() }
}

/// The place where a stage mounts its bundle: any directory of the host's that is not on the way to the runtime.
pub(super) fn stage_place(program: &Path) -> Option<&'static Path> {
    let real = fs::canonicalize(program).ok()?;
    ["/mnt", "/media", "/srv", "/opt"].into_iter().map(Path::new).find(|place| {
        fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_dir())
            && !real.starts_with(place)
            && !program.starts_with(place)
    })
}

/// The environment of a runtime: none of the caller's.
pub(super) const ENVIRONMENT: &[&str] =
    &["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"];

/// Words and variables as a stage takes them.
pub(super) fn words(words: &[OsString]) -> impl ExactSizeIterator<Item = &OsStr> {
    words.iter().map(OsString::as_os_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_says_how_to_get_it() {
        let error = Runtime::find(Some("/nonexistent/runsc")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/runsc") && error.contains("install gVisor"), "{error}");
        let error = Runtime::find(Some("no-such-runtime")).unwrap_err().to_string();
        assert!(error.contains("apt install runc"), "{error}");
        assert!(Runtime::find(Some("kata-runtime")).unwrap_err().to_string().contains("since Kata 2.0"));
    }

    #[test]
    fn a_runtime_is_known_by_its_name() {
        assert_eq!(Flavour::of(Path::new("/usr/bin/runsc-2024")), Flavour::Runsc);
        assert_eq!(Flavour::of(Path::new("/usr/sbin/runc")), Flavour::Runc);
        assert_eq!(Flavour::of(Path::new("/opt/crun")), Flavour::Crun);
        assert!(!Flavour::Runsc.shares_kernel());
    }

    #[test]
    fn a_stage_does_not_cover_its_runtime() {
        let place = stage_place(Path::new("/bin/sh"));
        assert!(place.is_some_and(|place| !Path::new("/bin/sh").starts_with(place)));
    }
}
