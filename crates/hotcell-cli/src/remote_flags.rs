//! The server of remote boxes, for commands that look at it and make no box.

use hotcell::config::{Config, ConfigError, Origin, RemoteConfig, Sourced};
use hotcell::runtime::RuntimeKind;
use hotcell::settings::{RemoteRuntime, Request, SettingsError};

use crate::arguments::{RemoteRuntimeFlags, ServerFlags};
use crate::failure::Failure;

impl ServerFlags {
    pub(crate) fn add_to(&self, config: &mut Config) -> Result<(), ConfigError> {
        if let Some(url) = &self.sandbox_url {
            config.set("remote.url", url, Origin::flag("--sandbox-url"))?;
        }
        if let Some(file) = &self.sandbox_key_file {
            config.remote.api_key_file = Some(Sourced::new(file.clone(), Origin::flag("--sandbox-key-file")));
        }
        if self.plain_http {
            config.set("remote.plain_http", "true", Origin::flag("--plain-http"))?;
        }
        Ok(())
    }
}

impl RemoteRuntimeFlags {
    /// The remote runtime that is named or configured; none if a local one is. Settings that cannot be read are an error of
    /// their own, unless a flag was to be added to them: these commands have more to look at.
    pub(crate) fn load(&self) -> Result<Result<Option<RemoteRuntime>, SettingsError>, Failure> {
        let mut request = Request::of_this_process()?;
        let Some(name) = &self.runtime else {
            self.server.add_to(&mut request.flags)?;
            let flags_given = request.flags.remote != RemoteConfig::default();
            return match RemoteRuntime::load(&request) {
                Ok(None) if flags_given => Err(Failure::usage(NOT_REMOTE)),
                Err(error) if flags_given => Err(error.into()),
                loaded => Ok(loaded),
            };
        };
        let kind: RuntimeKind = name.parse().map_err(|error| Failure::usage(&format!("--runtime: {error}")))?;
        if !kind.is_remote() {
            return Err(Failure::usage(NAMED_LOCAL));
        }
        request.flags.set("sandbox.mode", name, Origin::flag("--runtime"))?;
        self.server.add_to(&mut request.flags)?;
        Ok(Ok(RemoteRuntime::load(&request)?))
    }
}

const NOT_REMOTE: &str = "--sandbox-url, --sandbox-key-file and --plain-http have no meaning here, because no remote runtime is \
                          configured; add --runtime opensandbox, e2b or cube";
const NAMED_LOCAL: &str =
    "--runtime names a remote runtime here: opensandbox, e2b or cube; this machine itself is always looked at";
