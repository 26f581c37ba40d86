//! Addresses of servers, as far as their text tells: nothing is resolved.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest address.
const LONGEST: usize = 2048;

/// An address that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    /// Whether what is sent there is encrypted.
    pub(crate) encrypted: bool,
    host: &'a str,
}

impl<'a> Address<'a> {
    /// Reads `http://HOST[:PORT][/PATH]` or the same with https, or says why it is not one.
    pub(crate) fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("it is longer than any address");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('\\') {
            return Err("an address has no spaces, backslashes, control characters or characters beyond ASCII");
        }
        let (encrypted, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            _ => return Err("write an address such as https://sandbox.example.org or http://localhost:8080"),
        };
        if rest.contains(['?', '#']) {
            return Err("the address of a server has no query and no fragment; a key is written as `api_key`");
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err("the address of a server has no user and no password in it; a key is written as `api_key`");
        }
        let (host, port) = split_port(authority).ok_or("it has no host, or one that is none")?;
        if port.is_none_or(is_port) { Ok(Self { encrypted, host }) } else { Err("a port is a number from 1 to 65535") }
    }

    /// Whether the host is this machine itself, by its name or number alone. `127.1` and the like are not looked
    /// through: what is not certainly loopback counts as another machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let six = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse().is_ok_and(|four: Ipv4Addr| four.is_loopback())
            || six.is_some_and(|six| six.parse() == Ok(Ipv6Addr::LOCALHOST))
    }
}

/// Host and port; none if the host is none.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.starts_with('[') {
        let (host, rest) = authority.split_at(authority.find(']')? + 1);
        host[1..host.len() - 1].parse::<Ipv6Addr>().ok()?;
        return if rest.is_empty() { Some((host, None)) } else { Some((host, Some(rest.strip_prefix(':')?))) };
    }
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (!host.is_empty() && host.bytes().all(possible) && host != "." && host != "..").then_some((host, port))
}

/// Whether this is the number of a port that something can listen on.
pub(super) fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse().is_ok_and(|port: u16| port > 0)
}

/// Why this is no address of a server.
pub(crate) fn check_address(text: &str) -> Result<(), &'static str> {
    Address::parse(text).map(|_| ())
}

/// A text that was meant as an address, without the places where people put passwords and keys.
pub(crate) fn without_secrets(text: &str) -> String {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let (kept, cut) = text.split_at(end);
    let start = kept.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = kept.split_at(start);
    // The last one: whatever is before it may be part of a password that has one in it, or a slash.
    let rest = rest.rfind('@').map_or(rest.to_owned(), |at| format!("…{}", &rest[at..]));
    let cut = if cut.is_empty() { "" } else { "?…" };
    format!("{scheme}{rest}{cut}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_and_a_host_and_no_secrets() {
        for good in [
            "http://localhost:8080",
            "https://sandbox.example.org",
            "HTTPS://a/b/c/",
            "https://[::1]:1/v1",
            "http://10.0.0.1",
            "https://a_b-c:65535",
        ] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "localhost:8080",
            "ftp://a",
            "http://",
            "http:///x",
            "http://:80",
            "https://a b",
            "https://a\n",
            "https://ä.de",
            "https://a\\b",
            "https://u:p@a",
            "https://u@a",
            "https://a?k=1",
            "https://a/#x",
            "https://a:0",
            "https://a:65536",
            "https://a:+1",
            "https://a:1:2",
            "https://[::1",
            "https://[::1]x",
            "https://[x]",
            "https://..",
            "https://a%00b",
            &format!("https://{}", "a".repeat(2048)),
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_is_certainly_this_machine_is_loopback() {
        let is_loopback = |text: &str| Address::parse(text).unwrap().is_loopback();
        for near in [
            "http://localhost",
            "http://LOCALHOST:1/",
            "http://127.0.0.1:8080/v1",
            "http://127.255.0.9",
            "http://[::1]:1",
        ] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "http://localhost.example.org",
            "http://127.0.0.1.example.org",
            "http://128.0.0.1",
            "http://10.0.0.1",
            "http://127.1",
            "http://2130706433",
            "http://0x7f.0.0.1",
            "http://0.0.0.0",
            "http://[::]",
            "http://[::ffff:127.0.0.1]",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }

    #[test]
    fn a_text_is_shown_without_what_may_be_secret() {
        for (text, shown) in [
            ("https://user:hunter2@host/x", "https://…@host/x"),
            ("user:hunter2@host", "…@host"),
            ("https://user:hun/ter2@host", "https://…@host"),
            ("https://host/x?key=hunter2#y", "https://host/x?…"),
            ("https://host#hunter2", "https://host?…"),
            ("ftp://host", "ftp://host"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}
