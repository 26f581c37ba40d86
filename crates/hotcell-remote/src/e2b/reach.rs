//! Where a sandbox is reached, and what is told there with every call.

use hotcell_core::text::Printable;

use super::client::Client;
use super::{Data, Flavour, Sandbox};
use crate::http::{Address, CallError, Server, Why};

/// The longest domain, so that a label before it makes no host name that is too long.
const LONGEST: usize = 190;

impl Client {
    /// A port of a sandbox.
    pub(super) fn inside(&self, sandbox: &Sandbox, port: u16) -> Result<Server, CallError> {
        let impossible = |reason: String| self.api.failed("talk to the sandbox", Why::Impossible { reason });
        let (address, configured) = match (&self.data, &sandbox.domain) {
            (Data::Url(address), _) => (address.clone(), true),
            (Data::Domain(domain), Some(named)) if named != domain => {
                (self.below("", named, sandbox, port).map_err(impossible)?, false)
            }
            (Data::Domain(domain), _) => {
                let scheme = ["https://", "http://"].into_iter().find(|scheme| domain.starts_with(scheme));
                let scheme = scheme.unwrap_or_default();
                let domain = domain.strip_prefix(scheme).unwrap_or(domain);
                (self.below(scheme, domain, sandbox, port).map_err(impossible)?, true)
            }
        };
        let mut server = self.api.elsewhere(address).map_err(|error| impossible(error.to_string()))?;
        server = server.header("e2b-sandbox-id", sandbox.id.as_str())?;
        server = server.header("e2b-sandbox-port", &port.to_string())?;
        if let Some(token) = &sandbox.traffic_token {
            server = server.secret_header("e2b-traffic-access-token", token)?;
        }
        // CubeSandbox's proxy asks for it as well. It goes where the user said, never where the server did.
        match &self.key {
            Some(key) if self.flavour == Flavour::Cube && configured => server.secret_header("x-api-key", key),
            _ => Ok(server),
        }
    }

    /// `<port>-<id>.<domain>`, with the scheme of the API if none is given.
    fn below(&self, scheme: &str, domain: &str, sandbox: &Sandbox, port: u16) -> Result<Address, String> {
        let (host, own_port) = match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        };
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let is_host = !host.is_empty() && host.len() <= LONGEST && !host.starts_with('.') && host.bytes().all(known);
        if !is_host || own_port.is_some_and(|port| port.parse::<u16>().is_err()) {
            let shown: String = domain.chars().take(LONGEST).collect();
            return Err(format!("`{}` is no domain", Printable(&shown)));
        }
        let whole = format!("{scheme}{port}-{}.{domain}", sandbox.id);
        self.api.address().given(&whole).map_err(|error| error.to_string())
    }
}
