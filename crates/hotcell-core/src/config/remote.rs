//! `[remote]` and its flat names: the server of a remote backend.

use std::path::PathBuf;

use super::keys::Key;
use super::set::{checked, not_in_project, path};
use super::value::Written;
use super::{Config, ConfigError, KeyInfo, Origin, Sourced};
use crate::policy::{Endpoints, check_address, check_api_key, check_domain, check_source_name, without_secrets};
use crate::secret::Secret;

/// `[remote]`: the server of a remote backend.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// The address of the server's API, also written `sandbox_url`.
    pub url: Option<Sourced<String>>,
    /// The key for it, also written `sandbox_api_key`.
    pub api_key: Option<Sourced<Secret<String>>>,
    /// The file with the key. Whoever reads configuration files reads it too, and puts the key in its place.
    pub api_key_file: Option<Sourced<PathBuf>>,
    /// Where sandboxes themselves are reached.
    pub data_url: Option<Sourced<String>>,
    /// The domain beneath which sandboxes are reached.
    pub domain: Option<Sourced<String>>,
    /// The template that a sandbox is made of.
    pub template: Option<Sourced<String>>,
    /// The snapshot that a sandbox is made of.
    pub snapshot: Option<Sourced<String>>,
    /// How sandboxes are reached.
    pub endpoints: Option<Sourced<Endpoints>>,
    /// Whether plain http to another machine will do.
    pub plain_http: Option<Sourced<bool>>,
}

impl RemoteConfig {
    /// This, and of a weaker layer what is not said here. A key and a file with one are two ways to say the same.
    #[must_use]
    pub fn or(self, weaker: Self) -> Self {
        let has_key = self.api_key.is_some() || self.api_key_file.is_some();
        let (weaker_key, weaker_file) = if has_key { (None, None) } else { (weaker.api_key, weaker.api_key_file) };
        Self {
            url: self.url.or(weaker.url),
            api_key: self.api_key.or(weaker_key),
            api_key_file: self.api_key_file.or(weaker_file),
            data_url: self.data_url.or(weaker.data_url),
            domain: self.domain.or(weaker.domain),
            template: self.template.or(weaker.template),
            snapshot: self.snapshot.or(weaker.snapshot),
            endpoints: self.endpoints.or(weaker.endpoints),
            plain_http: self.plain_http.or(weaker.plain_http),
        }
    }
}

const ELSEWHERE: &str = "it decides where files and code are sent";
const KEPT: &str = "a key does not belong in a file that others read";

impl Config {
    /// Sets a key of `[remote]`. None of them is for project files: with somebody else's server or account, files
    /// and code would be somebody else's.
    pub(super) fn set_remote(&mut self, info: &KeyInfo, value: &Written) -> Result<(), ConfigError> {
        let is_key = matches!(info.key, Key::Credential | Key::CredentialFile);
        not_in_project(info, value, if is_key { KEPT } else { ELSEWHERE })?;
        let remote = &mut self.remote;
        match info.key {
            Key::Url => {
                let url = address(value, info)?;
                if let Some(earlier) = remote.url.as_ref().filter(|earlier| earlier.value != url.value) {
                    let detail = format!("one asks for {}, the other for {}", url.value, earlier.value);
                    return Err(contradiction(info, value, &earlier.origin, detail));
                }
                remote.url = Some(url);
            }
            Key::Credential => {
                let key = value.text(info)?;
                check_api_key(key).map_err(|reason| value.bad_value(info, "[secret]", reason))?;
                let key = value.sourced(Secret::new(key.to_owned()));
                if let Some(earlier) = remote.api_key.as_ref().filter(|earlier| earlier.value != key.value) {
                    return Err(contradiction(info, value, &earlier.origin, "the two keys differ".to_owned()));
                }
                if let Some(file) = &remote.api_key_file {
                    return Err(contradiction(info, value, &file.origin, TWO_KEYS.to_owned()));
                }
                remote.api_key = Some(key);
            }
            Key::CredentialFile => {
                if let Some(key) = &remote.api_key {
                    return Err(contradiction(info, value, &key.origin, TWO_KEYS.to_owned()));
                }
                remote.api_key_file = Some(path(value, info)?);
            }
            Key::DataUrl => remote.data_url = Some(address(value, info)?),
            Key::Domain => remote.domain = Some(checked(value, info, check_domain)?),
            Key::Template => remote.template = Some(checked(value, info, check_source_name)?),
            Key::Snapshot => remote.snapshot = Some(checked(value, info, check_source_name)?),
            Key::Endpoints => remote.endpoints = Some(value.parsed(info)?),
            _ => remote.plain_http = Some(value.sourced(value.boolean(info)?)),
        }
        Ok(())
    }
}

const TWO_KEYS: &str = "one has the key, the other names a file with it; keep one";

/// An address; what is wrong about one is told without the passwords that may be in it.
fn address(value: &Written, info: &KeyInfo) -> Result<Sourced<String>, ConfigError> {
    let text = value.text(info)?;
    check_address(text).map_err(|reason| value.bad_value(info, &without_secrets(text), reason))?;
    Ok(value.sourced(text.to_owned()))
}

fn contradiction(info: &KeyInfo, value: &Written, earlier: &Origin, detail: String) -> ConfigError {
    ConfigError::Contradiction {
        at: value.origin.clone().into(),
        key: info.name.to_owned(),
        earlier: earlier.clone().into(),
        detail,
    }
}
