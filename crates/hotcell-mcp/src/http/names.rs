//! What a server is called: the hosts and ports that requests may be for.

use std::net::{Ipv6Addr, SocketAddr};

/// The names of one server.
#[derive(Debug)]
pub(super) struct Names {
    names: Vec<Name>,
    /// What a client can mean that says no port.
    usual_ports: &'static [u16],
}

#[derive(Debug)]
struct Name {
    host: String,
    /// None is any: what clients say behind a proxy is the proxy's.
    port: Option<u16>,
}

impl Names {
    /// Those of a server at this address, with its port, and those that it was given. The error is one that is no name.
    pub(super) fn new(address: SocketAddr, given: &[String], tls: bool) -> Result<Self, String> {
        let own = |host: &str| Name { host: host.to_owned(), port: Some(address.port()) };
        let mut names = vec![match address.ip().is_ipv6() {
            true => own(&format!("[{}]", address.ip())),
            false => own(&address.ip().to_string()),
        }];
        if address.ip().is_loopback() {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(own));
        }
        for name in given {
            let (host, port) = parse(name).ok_or_else(|| name.clone())?;
            names.push(Name { host: host.to_owned(), port });
        }
        // Without TLS of its own, a proxy in front may have it.
        Ok(Self { names, usual_ports: if tls { &[443] } else { &[80, 443] } })
    }

    /// Whether a request for this host and port is for this server.
    pub(super) fn know(&self, authority: &str) -> bool {
        let Some((host, port)) = parse(authority) else { return false };
        let is_meant = |known: u16| port.map_or(self.usual_ports.contains(&known), |port| port == known);
        self.names.iter().any(|name| name.host.eq_ignore_ascii_case(host) && name.port.is_none_or(is_meant))
    }
}

/// A host, as it is in an address, and its port, if there is one.
fn parse(authority: &str) -> Option<(&str, Option<u16>)> {
    let end_of_host = authority.find(']').map_or(0, |end| end + 1);
    let (host, port) = match authority.get(end_of_host..)?.rsplit_once(':') {
        Some((before, port)) => (authority.get(..end_of_host + before.len())?, Some(port)),
        None => (authority, None),
    };
    let is_host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    let port = match port {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
        None => None,
    };
    is_host.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(given: &[&str]) -> Names {
        let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
        Names::new("127.0.0.1:7000".parse().unwrap(), &given, false).unwrap()
    }

    #[track_caller]
    fn check(names: &Names, known: &[&str], unknown: &[&str]) {
        for name in known {
            assert!(names.know(name), "{name}");
        }
        for name in unknown {
            assert!(!names.know(name), "{name}");
        }
    }

    #[test]
    fn a_server_has_the_names_of_its_address_with_its_port() {
        let own = ["127.0.0.1:7000", "localhost:7000", "LOCALHOST:7000", "[::1]:7000"];
        let others = ["evil.test", "evil.test:7000", "localhost", "localhost:7001", "127.0.0.1", "[::1]", "::1:7000"];
        check(&names(&[]), &own, &others);
        let odd =
            ["", ":7000", "127.0.0.1:7000.evil.test", "localhost:7000:7000", "me@localhost:7000", "localhost:+7000"];
        check(&names(&[]), &[], &odd);
        check(
            &names(&[]),
            &[],
            &["localhost.:7000", "localhost:", "localhost:72536", "[::1]evil.test:7000", "[::1:7000"],
        );
        let public = Names::new("[2001:db8::1]:443".parse().unwrap(), &[], true).unwrap();
        check(&public, &["[2001:db8::1]", "[2001:DB8::1]:443"], &["[2001:db8::1]:80", "localhost:443"]);
    }

    #[test]
    fn a_name_without_a_port_is_known_with_any() {
        let names = names(&["box.example", "[2001:db8::2]"]);
        let known = ["box.example", "BOX.example:443", "box.example:7000", "box.example:1", "[2001:db8::2]:8443"];
        let rebound =
            ["evil.test", "evil.test:7000", "box.example.evil.test", "evil.box.example", "box.example@evil.test"];
        check(&names, &known, &rebound);
    }

    #[test]
    fn a_name_with_a_port_is_known_with_that_one() {
        let names = names(&["box.example:8443", "plain.example:80"]);
        check(&names, &["box.example:8443"], &["box.example", "box.example:7000", "box.example:443", "evil.test:8443"]);
        // No port is the usual one.
        check(&names, &["plain.example:80", "plain.example"], &["plain.example:7000"]);
    }

    #[test]
    fn the_usual_port_behind_a_proxy_is_the_proxys() {
        let given = ["secure.example:443".to_owned(), "plain.example:80".to_owned()];
        let behind = Names::new("0.0.0.0:7000".parse().unwrap(), &given, false).unwrap();
        check(&behind, &["secure.example", "secure.example:443", "plain.example"], &["secure.example:80"]);
        let itself = Names::new("0.0.0.0:443".parse().unwrap(), &given, true).unwrap();
        check(&itself, &["secure.example", "plain.example:80"], &["plain.example"]);
    }

    #[test]
    fn what_no_client_could_say_is_no_name() {
        let address = "127.0.0.1:7000".parse().unwrap();
        for odd in ["", "*", "*.example", "https://box.example", "box.example/mcp", "box.example:https", "::1", "a b"] {
            assert_eq!(Names::new(address, &[odd.to_owned()], false).unwrap_err(), odd);
        }
    }
}
