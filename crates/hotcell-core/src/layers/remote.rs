//! Merging the `[remote]` tables. Project files have none.

use super::resolve::Said;
use super::{Layers, PolicyError};
use crate::config::{Config, Sourced};
use crate::policy::{Address, RemotePolicy, check_api_key, check_domain, check_source_name, without_secrets};
use crate::secret::Secret;
use crate::text::Printable;

/// The server that the layers name, as [`super::resolve`] does it with everything else. A key file must have been read.
pub fn resolve_remote(layers: &Layers) -> Result<RemotePolicy, PolicyError> {
    for config in super::resolve::own_layers(layers) {
        if let Some(file) = &config.remote.api_key_file {
            // A key that is asked for and not there would be a request without one.
            return Err(bad(file, "remote.api_key_file", "names a file that nobody has read; give the key itself"));
        }
    }
    let plain_http = said(layers, |config| &config.remote.plain_http).is_some_and(|said| said.value);
    let address = |key, pick: fn(&Config) -> &Option<Sourced<String>>| {
        let said = said(layers, pick);
        said.map(|said| check_address(said, key, plain_http)).transpose()
    };
    let name = |key, check: Check, pick: fn(&Config) -> &Option<Sourced<String>>| {
        let said = said(layers, pick);
        said.map(|said| check_name(said, key, check)).transpose()
    };
    Ok(RemotePolicy {
        url: address("remote.url", |config| &config.remote.url)?,
        api_key: said(layers, |config| &config.remote.api_key).map(check_key).transpose()?,
        data_url: address("remote.data_url", |config| &config.remote.data_url)?,
        domain: name("remote.domain", check_domain, |config| &config.remote.domain)?,
        template: name("remote.template", check_source_name, |config| &config.remote.template)?,
        snapshot: name("remote.snapshot", check_source_name, |config| &config.remote.snapshot)?,
        endpoints: said(layers, |config| &config.remote.endpoints).map(|said| said.value).unwrap_or_default(),
        plain_http,
    })
}

type Check = fn(&str) -> Result<(), &'static str>;

/// What the strongest layer says that says anything. A project's word does not count, however it came to be there.
fn said<T>(layers: &Layers, pick: impl Fn(&Config) -> &Option<Sourced<T>>) -> Option<&Sourced<T>> {
    let said = Said::by(layers, pick);
    said.last.or(said.base)
}

fn check_address(said: &Sourced<String>, key: &str, plain_http: bool) -> Result<String, PolicyError> {
    let shown = || Printable(&without_secrets(&said.value)).to_string();
    let address =
        Address::parse(&said.value).map_err(|reason| bad(said, key, format!("cannot be `{}`: {reason}", shown())))?;
    if !address.encrypted && !address.is_loopback() && !plain_http {
        let reason = format!(
            "cannot be `{}`: over plain http everybody on the way could read the key and change files and code; \
            use https, or accept that with `plain_http = true` in [remote] or --plain-http",
            shown()
        );
        return Err(bad(said, key, reason));
    }
    Ok(said.value.clone())
}

fn check_key(said: &Sourced<Secret<String>>) -> Result<Secret<String>, PolicyError> {
    check_api_key(said.value.expose())
        .map_err(|reason| bad(said, "remote.api_key", format!("cannot be used: {reason}")))?;
    Ok(said.value.clone())
}

fn check_name(said: &Sourced<String>, key: &str, check: Check) -> Result<String, PolicyError> {
    check(&said.value).map_err(|reason| bad(said, key, format!("cannot be `{}`: {reason}", Printable(&said.value))))?;
    Ok(said.value.clone())
}

fn bad<T>(said: &Sourced<T>, key: &str, reason: impl Into<String>) -> PolicyError {
    PolicyError::BadValue { at: said.origin.clone().into(), key: key.to_owned(), reason: reason.into() }
}
