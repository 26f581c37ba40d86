//! The server of a remote box: where it is, and what to show it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::address::is_port;
use crate::runtime::RuntimeKind;
use crate::secret::Secret;

/// The server of a remote backend. Local backends have no use for it.
///
/// ```
/// use hotcell_core::policy::Policy;
/// use hotcell_core::runtime::RuntimeKind;
///
/// let policy = Policy::builder()
///     .runtime(RuntimeKind::Opensandbox)
///     .sandbox_url("https://sandbox.example.org")
///     .sandbox_api_key("hunter2")
///     .build()?;
/// assert!(!format!("{policy:?}").contains("hunter2"));
///
/// let plain = Policy::builder().sandbox_url("http://sandbox.example.org").build();
/// assert!(plain.unwrap_err().to_string().contains("plain_http"));
/// # Ok::<(), hotcell_core::layers::PolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct RemotePolicy {
    /// The address of the server's API, checked; none means that of the runtime, see [`RemotePolicy::server`].
    pub url: Option<String>,
    /// The key for it.
    pub api_key: Option<Secret<String>>,
    /// Where sandboxes themselves are reached, where that is not `<port>-<id>.<domain>` (E2B).
    pub data_url: Option<String>,
    /// The domain beneath which sandboxes are reached (E2B, CubeSandbox).
    pub domain: Option<String>,
    /// The template that a sandbox is made of (E2B, CubeSandbox).
    pub template: Option<String>,
    /// The snapshot that a sandbox is made of (OpenSandbox).
    pub snapshot: Option<String>,
    /// How sandboxes are reached (OpenSandbox).
    pub endpoints: Endpoints,
    /// Whether keys, files and code may go over a network unencrypted.
    pub plain_http: bool,
}

/// Where OpenSandbox's own clients look for a server.
const OPENSANDBOX_SERVER: &str = "http://localhost:8080";
/// The domain of E2B's own service; its API is at `api.` beneath it.
const E2B_DOMAIN: &str = "e2b.app";

impl RemotePolicy {
    /// The address of the server that a box of this kind is made by.
    ///
    /// ```
    /// use hotcell_core::policy::Policy;
    /// use hotcell_core::runtime::RuntimeKind;
    ///
    /// let remote = Policy::default().remote;
    /// assert_eq!(remote.server(RuntimeKind::Opensandbox).unwrap(), "http://localhost:8080");
    /// assert!(remote.server(RuntimeKind::E2b).unwrap_err().to_string().contains("E2B_API_KEY"));
    /// assert!(remote.server(RuntimeKind::Cube).unwrap_err().to_string().contains("--sandbox-url"));
    /// ```
    pub fn server(&self, kind: RuntimeKind) -> Result<String, NoServer> {
        match (&self.url, kind) {
            (Some(url), RuntimeKind::Opensandbox | RuntimeKind::E2b | RuntimeKind::Cube) => Ok(url.clone()),
            (None, RuntimeKind::Opensandbox) => Ok(OPENSANDBOX_SERVER.to_owned()),
            // A server of one's own may want no key; that of E2B always does.
            (None, RuntimeKind::E2b) if self.api_key.is_none() => Err(NoServer::Key),
            (None, RuntimeKind::E2b) => Ok(format!("https://api.{}", self.domain.as_deref().unwrap_or(E2B_DOMAIN))),
            (None, RuntimeKind::Cube) => Err(NoServer::Url),
            (_, kind) => Err(NoServer::Local { kind }),
        }
    }

    /// Whether both mean the same server, reached in the same way with the same key. What a sandbox is made of is not
    /// the server's: it can differ from box to box.
    pub fn same_server(&self, other: &Self) -> bool {
        let server = |policy: &Self| Self { template: None, snapshot: None, ..policy.clone() };
        server(self) == server(other)
    }
}

/// Why a policy names no server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoServer {
    /// E2B's service without a key.
    #[error(
        "E2B's service needs a key, and there is none; set HOTCELL_SANDBOX_API_KEY or E2B_API_KEY, write \
        `api_key_file = \"…\"` under [remote] into your own file, or name a server of your own with --sandbox-url"
    )]
    Key,
    /// CubeSandbox without an address.
    #[error(
        "the `cube` runtime needs the address of a CubeSandbox server, and there is none; pass --sandbox-url, \
        set HOTCELL_SANDBOX_URL or CUBE_API_URL, or write `sandbox_url = \"…\"` into your own file"
    )]
    Url,
    /// Boxes of this kind are not made by such a server.
    #[error("boxes of the `{kind}` runtime are not made by a sandbox server")]
    Local {
        /// The runtime.
        kind: RuntimeKind,
    },
}

/// How sandboxes of an OpenSandbox server are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Endpoints {
    /// At addresses of their own.
    #[default]
    Direct,
    /// Through the server.
    Proxy,
}

impl Endpoints {
    /// The name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxy => "proxy",
        }
    }
}

/// A way to reach sandboxes that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sandboxes are reached \"direct\", or through the server's \"proxy\"")]
pub struct UnknownEndpoints;

impl FromStr for Endpoints {
    type Err = UnknownEndpoints;

    fn from_str(name: &str) -> Result<Self, UnknownEndpoints> {
        [Self::Direct, Self::Proxy].into_iter().find(|known| known.as_str() == name).ok_or(UnknownEndpoints)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Endpoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The longest key, name of a template or of a snapshot, and domain.
const LONGEST_KEY: usize = 64 << 10;
const LONGEST_NAME: usize = 256;
const LONGEST_DOMAIN: usize = 260;

/// Why this cannot be a key: it becomes a line of a request.
pub(crate) fn check_api_key(key: &str) -> Result<(), &'static str> {
    if key.is_empty() || key.len() > LONGEST_KEY {
        Err("a key has 1 to 65536 characters")
    } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Err("a key has no spaces, control characters or characters beyond ASCII")
    } else {
        Ok(())
    }
}

/// Why this cannot name a template or a snapshot. Whether it exists is not looked at.
pub(crate) fn check_source_name(name: &str) -> Result<(), &'static str> {
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME {
        Err("such a name has 1 to 256 characters")
    } else if !name.bytes().all(possible) || !name.as_bytes()[0].is_ascii_alphanumeric() {
        Err("such a name begins with a letter or a digit and has only those and `._-/:@`")
    } else {
        Ok(())
    }
}

/// Why this cannot be a domain.
pub(crate) fn check_domain(domain: &str) -> Result<(), &'static str> {
    let (name, port) = domain.split_once(':').map_or((domain, None), |(name, port)| (name, Some(port)));
    let labels = name.split('.').all(|label| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    });
    if domain.len() <= LONGEST_DOMAIN && labels && port.is_none_or(is_port) {
        Ok(())
    } else {
        Err("write a domain such as e2b.app, without a scheme; a port may follow after a colon")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_a_line_of_a_request_and_nothing_else() {
        for good in ["x", "e2b_0123", "a+b/c=="] {
            assert_eq!(check_api_key(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a\n", "a\r\nHost: x", "a\0", "ä", &"a".repeat(LONGEST_KEY + 1)] {
            assert!(check_api_key(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_and_domains() {
        for good in ["base", "code-interpreter-v1", "team/alias:v2", "0f3c"] {
            assert_eq!(check_source_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a b", "a\n", "../x", &"a".repeat(257)] {
            assert!(check_source_name(bad).is_err(), "{bad:?}");
        }
        for good in ["e2b.app", "cube.app:8443", "localhost"] {
            assert_eq!(check_domain(good), Ok(()), "{good}");
        }
        for bad in ["", "https://e2b.app", "a..b", ".a", "a b", "a/b", "a:0", "a:", "a:65536", "a:+1", "u@a", "ä.de"] {
            assert!(check_domain(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_a_box_is_made_of_is_not_the_server() {
        let base = RemotePolicy { url: Some("https://a".to_owned()), ..RemotePolicy::default() };
        let template = RemotePolicy { template: Some("t".to_owned()), snapshot: Some("s".to_owned()), ..base.clone() };
        assert!(base.same_server(&template));
        for other in [
            RemotePolicy { url: Some("https://b".to_owned()), ..base.clone() },
            RemotePolicy { api_key: Some(Secret::new("k".to_owned())), ..base.clone() },
            RemotePolicy { data_url: Some("https://b".to_owned()), ..base.clone() },
            RemotePolicy { domain: Some("b".to_owned()), ..base.clone() },
            RemotePolicy { endpoints: Endpoints::Proxy, ..base.clone() },
            RemotePolicy { plain_http: true, ..base.clone() },
        ] {
            assert!(!base.same_server(&other), "{other:?}");
        }
    }
}
