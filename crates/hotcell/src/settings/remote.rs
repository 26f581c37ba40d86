//! What a run on a remote box needs beyond the layers: the variables of the server's own clients, and the key's file.

use std::mem;
use std::path::{Path, PathBuf};

use hotcell_core::config::{Config, vendor_config};
use hotcell_core::layers::{Layers, resolve_remote, resolve_runtime};
use hotcell_core::policy::{NoServer, RemotePolicy};
use hotcell_core::runtime::{RuntimeChoice, RuntimeKind};

use super::paths::Start;
use super::{Read, Request, SettingsError, key_file};

/// What the name of a key file is relative to: a file's own directory, not that of the project, which is a stranger's.
pub(super) struct KeyPlaces<'a> {
    pub(super) cwd: &'a Path,
    pub(super) own_file: Option<PathBuf>,
    pub(super) home: Option<&'a Path>,
}

/// Completes the layers, if the run is to be on a remote box; otherwise no key is read.
pub(super) fn complete(layers: &mut Layers, request: &Request, places: &KeyPlaces<'_>) -> Result<(), SettingsError> {
    let RuntimeChoice::Kind(kind) = resolve_runtime(layers)? else { return forget_key_files(layers) };
    if !kind.is_remote() {
        return forget_key_files(layers);
    }
    let vendors = vendor_config(kind, request.environment.iter().cloned())?;
    layers.defaults.remote = mem::take(&mut layers.defaults.remote).or(vendors);

    let own_directory = places.own_file.as_deref().and_then(Path::parent).unwrap_or(places.cwd);
    let from = |directory| Start { directory, may_leave: true, home: places.home };
    let mut has_key = false;
    for (config, start) in strongest_first(layers).zip([places.cwd, places.cwd, own_directory, places.cwd].map(from)) {
        let Some(config) = config else { continue };
        if has_key {
            // What a stronger layer overrides need not even be there.
            (config.remote.api_key, config.remote.api_key_file) = (None, None);
        }
        if let Some(file) = &mut config.remote.api_key_file {
            key_file::at(start.meant(&file.value), file)?;
        }
        key_file::read_into(&mut config.remote)?;
        has_key |= config.remote.api_key.is_some();
    }
    Ok(())
}

/// Flags, environment, the user's file, defaults. A project's file has nothing of this.
fn strongest_first(layers: &mut Layers) -> impl Iterator<Item = Option<&mut Config>> {
    [Some(&mut layers.flags), Some(&mut layers.environment), layers.user.as_mut(), Some(&mut layers.defaults)]
        .into_iter()
}

fn forget_key_files(layers: &mut Layers) -> Result<(), SettingsError> {
    strongest_first(layers).flatten().for_each(|config| config.remote.api_key_file = None);
    Ok(())
}

/// A remote runtime without a server says so now, not at the first box.
pub(super) fn check_server(runtime: RuntimeChoice, remote: &RemotePolicy) -> Result<(), NoServer> {
    let RuntimeChoice::Kind(kind) = runtime else { return Ok(()) };
    match remote.server(kind) {
        Ok(_) | Err(NoServer::Local { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A remote runtime that the settings choose, and its server: for those who look at the server and make no box.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteRuntime {
    /// The kind of its boxes.
    pub kind: RuntimeKind,
    /// Where it is, and the key for it. It may be missing: see [`RemotePolicy::server`].
    pub remote: RemotePolicy,
}

impl RemoteRuntime {
    /// The remote runtime that the settings choose; none if they choose a local one. What boxes would be shown does not
    /// matter, so this works in every directory.
    pub fn load(request: &Request) -> Result<Option<Self>, SettingsError> {
        let layers = Read::all(request)?.layers;
        match resolve_runtime(&layers)? {
            RuntimeChoice::Kind(kind) if kind.is_remote() => Ok(Some(Self { kind, remote: resolve_remote(&layers)? })),
            _ => Ok(None),
        }
    }
}

/// The server that one layer names, for a program that has no others. The name of a key file is relative to the file that
/// the layer was read from.
pub(crate) fn server_of(config: &Config, kind: RuntimeKind) -> Result<RemotePolicy, SettingsError> {
    let mut config = config.clone();
    if let Some(file) = &mut config.remote.api_key_file {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let directory = file.origin.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let start = Start { directory: &directory, may_leave: true, home: home.as_deref() };
        key_file::at(start.meant(&file.value), file)?;
        key_file::read_into(&mut config.remote)?;
    }
    let remote = resolve_remote(&Layers { user: Some(config), ..Layers::default() })?;
    check_server(RuntimeChoice::Kind(kind), &remote)?;
    Ok(remote)
}
