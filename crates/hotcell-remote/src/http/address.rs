//! Where a server is.

use std::fmt;

use hotcell_core::text::Printable;
use reqwest::Url;

/// Whether calls may go over plain http to other machines, where everybody on the way can read keys and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    /// Only to this machine.
    #[default]
    LoopbackOnly,
    /// Also to others: somebody said so.
    Allowed,
}

/// An address that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot be used as the address of a server: {reason}", Printable(.address))]
pub struct AddressError {
    /// As it was written, without a password.
    pub address: String,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

/// An http or https address: scheme, host, port and a path under which everything is.
///
/// ```
/// use hotcell_remote::http::{Address, PlainHttp};
/// let address = Address::parse("http://localhost:8080/v1/", PlainHttp::LoopbackOnly)?;
/// assert_eq!(address.to_string(), "http://localhost:8080/v1");
/// assert_eq!(address.join(&["sandboxes", "a/b"]).as_str(), "http://localhost:8080/v1/sandboxes/a%2Fb");
/// assert!(Address::parse("http://example.org", PlainHttp::LoopbackOnly).is_err());
/// # Ok::<(), hotcell_remote::http::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    plain: PlainHttp,
}

impl Address {
    /// Reads an address and checks that it may be used.
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, AddressError> {
        let bad = |reason: &str| AddressError { address: without_password(text), reason: reason.to_owned() };
        let url = Url::parse(text).map_err(|error| bad(&format!("{error}; write http:// or https:// and a host")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it is neither http nor https"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad("it names no host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it contains a name or a password; keys have a setting of their own"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it has a query or a fragment"));
        }
        let address = Self { url, plain };
        if address.is_plain() && plain == PlainHttp::LoopbackOnly && !address.is_loopback() {
            return Err(bad(
                "plain http to another machine can be read on the way; use https, or set `plain_http = true` in [remote]",
            ));
        }
        Ok(address)
    }

    /// The address that a server gave for something of its own, such as `host:port/prefix`: without a scheme it has this
    /// one's.
    pub fn given(&self, text: &str) -> Result<Self, AddressError> {
        let known = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        let whole = if known { text.to_owned() } else { format!("{}://{text}", self.url.scheme()) };
        let given = Self::parse(&whole, self.plain)?;
        let bad = |reason: &str| AddressError { address: without_password(text), reason: reason.to_owned() };
        if given.is_loopback() && !self.is_loopback() {
            return Err(bad("a server elsewhere names an address of this machine"));
        }
        if given.is_plain() && !self.is_plain() {
            return Err(bad("a server that is reached by https names an address without"));
        }
        Ok(given)
    }

    /// Whether calls are not encrypted.
    pub fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.url.host() {
            // Names below `localhost` are this machine's by RFC 6761, but resolvers do not all know.
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// Whether keys for the other may be sent here.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
    }

    /// The host, as it is written in addresses.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(if self.is_plain() { 80 } else { 443 })
    }

    /// This address with more path, one name each: whatever is in a name stays in it.
    pub fn join(&self, names: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            // No address can have these as names. What nobody has is asked for instead.
            path.extend(names.iter().map(|name| match *name {
                "." => "%2E",
                ".." => "%2E%2E",
                other => other,
            }));
        }
        url
    }
}

/// What is said of an address that is wrong: not the part that may be secret.
fn without_password(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}…{}", &text[..scheme + 3], &text[at..]),
        (None, Some(at)) => format!("…{}", &text[at..]),
        _ => text.to_owned(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        Address::parse(text, PlainHttp::LoopbackOnly).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_an_address_is_refused_and_passwords_are_not_repeated() {
        for bad in ["", "localhost:8080", "ftp://localhost", "http://", "http://h?key=1", "https://h#x", "unix:///x"] {
            Address::parse(bad, PlainHttp::Allowed).unwrap_err();
        }
        for secret in ["https://user:hunter2@h", "http://hunter2@h", "hunter2@h", "https://u:hunter2@h?x"] {
            assert!(!reason(secret).contains("hunter2"), "{}", reason(secret));
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_unless_somebody_said_so() {
        for near in ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9:80", "http://[::1]:8080"] {
            Address::parse(near, PlainHttp::LoopbackOnly).unwrap();
        }
        for far in [
            "http://10.0.0.1",
            "http://example.org",
            "http://localhost.example.org",
            "http://127.0.0.1.nip.io",
            "http://[::2]",
        ] {
            assert!(reason(far).contains("plain_http"), "{far}");
            Address::parse(far, PlainHttp::Allowed).unwrap();
        }
        Address::parse("https://example.org", PlainHttp::LoopbackOnly).unwrap();
    }

    #[test]
    fn addresses_that_a_server_gives_are_held_to_the_same_rules() {
        let near = Address::parse("http://127.0.0.1:8080/v1", PlainHttp::LoopbackOnly).unwrap();
        assert_eq!(near.given("localhost:44772/proxy/1").unwrap().to_string(), "http://localhost:44772/proxy/1");
        assert!(near.given("10.0.0.1:44772").is_err());
        assert!(near.given("user:word@localhost:1").is_err());
        assert!(!near.given("localhost:8080").unwrap().is_same_origin(&near));
        let far = Address::parse("https://example.org", PlainHttp::LoopbackOnly).unwrap();
        assert_eq!(far.given("a.example.org").unwrap().to_string(), "https://a.example.org");
        assert!(far.given("http://a.example.org").is_err());
        assert!(far.given("127.0.0.1:1").is_err() && far.given("https://localhost").is_err());
        let open = Address::parse("https://example.org", PlainHttp::Allowed).unwrap();
        assert!(open.given("http://a.example.org").is_err() && open.given("http://127.0.0.1").is_err());
    }

    #[test]
    fn names_stay_names() {
        let address = Address::parse("http://localhost/v1", PlainHttp::LoopbackOnly).unwrap();
        for (name, path) in
            [("..", "/v1/%252E%252E"), ("a/../b", "/v1/a%2F..%2Fb"), ("?x=1#y", "/v1/%3Fx=1%23y"), ("%2F", "/v1/%252F")]
        {
            assert!(address.join(&[name]).path().starts_with("/v1/"), "{}", address.join(&[name]));
            assert_eq!(address.join(&[name]).path(), path);
        }
    }
}
