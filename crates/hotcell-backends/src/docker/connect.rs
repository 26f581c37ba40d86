//! Finding the engine: where it listens, and whether it answers.
//!
//! `DOCKER_HOST` wins, then the current Docker context; one that is named is the only one that is tried. Without either the
//! usual sockets are tried in order. An engine on another machine is never used: what a policy shows to a box are files
//! of this one.

use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, Docker};
use hotcell_core::text::Printable;
use serde_json::Value;

/// How long the first answer may take.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// How long it may take to say which versions it speaks: Podman asks all its programs for theirs.
const VERSIONS: Duration = Duration::from_secs(20);
/// How long any other may take, in seconds; pulls and waits stream and are not bound by it.
const ANSWER: u64 = 120;

/// Where an engine may listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// A port on this machine.
    Loopback(String),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", Printable(&path.to_string_lossy())),
            Self::Loopback(address) => write!(f, "tcp://{}", Printable(address)),
        }
    }
}

/// Why there is no engine to talk to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// None was found.
    #[error(
        "no container engine answers ({tried}); install and start Docker (`docker.io`) or Podman (`podman system service`), \
         or use another runtime: `--runtime native` and `--runtime oci` need no engine"
    )]
    NoEngine {
        /// Where one was looked for, and what came of it.
        tried: String,
    },
    /// What names the engine cannot be used.
    #[error("{source_name} names the engine `{}`, which cannot be used: {reason}", Printable(.address))]
    BadAddress {
        /// What named it.
        source_name: String,
        /// The name.
        address: String,
        /// Why not.
        reason: String,
    },
    /// A file of the Docker client cannot be read.
    #[error("`{}` cannot be read: {reason}; correct it, or set DOCKER_HOST", Printable(.file))]
    BadConfig {
        /// Which.
        file: String,
        /// Why.
        reason: String,
    },
}

/// What decides where the engine is: the environment, by name.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// An engine that answers.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) client: Docker,
    pub(super) address: Address,
    /// Whether who listens there is not root. Not every engine says it of itself.
    pub(super) rootless: bool,
}

/// Connects to the engine at `host`, or to the one that the environment names.
pub(super) async fn connect(host: Option<&str>) -> Result<Connection, ConnectError> {
    let addresses = match host {
        Some(host) => vec![parse("the caller", host)?],
        None => addresses_here()?,
    };
    let mut tried = Vec::new();
    for address in addresses {
        match try_address(&address).await {
            Ok(client) => {
                let rootless = is_rootless(&address).await;
                return Ok(Connection { client, address, rootless });
            }
            Err(reason) => tried.push(format!("{address}: {reason}")),
        }
    }
    Err(ConnectError::NoEngine { tried: tried.join("; ") })
}

/// Whether the socket is listened on by somebody who is not root, as the kernel says.
pub(super) async fn is_rootless(address: &Address) -> bool {
    let Address::Unix(path) = address else { return false };
    let connected = tokio::net::UnixStream::connect(path).await;
    connected.and_then(|stream| stream.peer_cred()).is_ok_and(|listener| listener.uid() != 0)
}

/// Where an engine of this process's user may listen, in the order in which they are tried.
pub(super) fn addresses_here() -> Result<Vec<Address>, ConnectError> {
    addresses(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

/// A client for the engine that listens there, if it answers.
pub(super) async fn try_address(address: &Address) -> Result<Docker, String> {
    let client = match address {
        Address::Unix(path) => {
            // The client would say the same for all of these.
            if let Err(error) = fs::metadata(path) {
                return Err(error.to_string());
            }
            Docker::connect_with_unix(&path.to_string_lossy(), ANSWER, API_DEFAULT_VERSION)
        }
        Address::Loopback(address) => Docker::connect_with_http(address, ANSWER, API_DEFAULT_VERSION),
    };
    let client = client.map_err(|error| crate::registry::with_causes(&error))?;
    let late = |time: Duration| format!("no answer within {} s", time.as_secs());
    match tokio::time::timeout(FIRST_ANSWER, client.ping()).await {
        Err(_) => return Err(late(FIRST_ANSWER)),
        // It is there, and does not speak the version that we began with.
        Ok(Ok(_) | Err(Error::DockerResponseServerError { .. })) => {}
        Ok(Err(error)) => return Err(crate::registry::with_causes(&error)),
    }
    match tokio::time::timeout(VERSIONS, client.negotiate_version()).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(crate::registry::with_causes(&error)),
        Err(_) => Err(late(VERSIONS)),
    }
}

/// Where to look, in order.
pub(super) fn addresses(environment: Environment<'_>) -> Result<Vec<Address>, ConnectError> {
    if let Some(host) = environment("DOCKER_HOST") {
        return Ok(vec![parse("DOCKER_HOST", &host.to_string_lossy())?]);
    }
    if let Some(address) = context(environment)? {
        return Ok(vec![address]);
    }
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock")];
    if let Some(runtime) = environment("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        sockets.push(runtime.join("docker.sock"));
        sockets.push(runtime.join("podman/podman.sock"));
    }
    sockets.push("/run/podman/podman.sock".into());
    Ok(sockets.into_iter().map(Address::Unix).collect())
}

/// An address as `DOCKER_HOST` and contexts write it.
fn parse(source_name: &str, text: &str) -> Result<Address, ConnectError> {
    let bad = |reason: &str| ConnectError::BadAddress {
        source_name: source_name.to_owned(),
        address: text.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(path) = text.strip_prefix("unix://") {
        let path = PathBuf::from(path);
        return if path.is_absolute() {
            Ok(Address::Unix(path))
        } else {
            Err(bad("a socket is named by its full path"))
        };
    }
    let Some(rest) = text.strip_prefix("tcp://").or_else(|| text.strip_prefix("http://")) else {
        return Err(bad("only unix:// and, on this machine, tcp:// are spoken; \
                        a box sees files of this machine, so its engine must be here"));
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match (here, port.parse::<u16>()) {
        (true, Ok(port)) if host.contains(':') => Ok(Address::Loopback(format!("[{host}]:{port}"))),
        (true, Ok(port)) => Ok(Address::Loopback(format!("{host}:{port}"))),
        (true, Err(_)) => Err(bad("its port is no number")),
        (false, _) => Err(bad("it is on another machine, and a box sees files of this one; use an engine here")),
    }
}

/// The address of the current context, unless that is the default one.
fn context(environment: Environment<'_>) -> Result<Option<Address>, ConnectError> {
    let directory = environment("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".docker")));
    let Some(directory) = directory else { return Ok(None) };
    let name = match environment("DOCKER_CONTEXT") {
        Some(name) => Some(name.to_string_lossy().into_owned()),
        None => current_context(&directory.join("config.json"))?,
    };
    let Some(name) = name.filter(|name| !name.is_empty() && name != "default") else { return Ok(None) };
    let source_name = format!("the Docker context `{}`", Printable(&name));
    // Their directories are called by the digests of their names; there are few, and each says its name.
    let known = fs::read_dir(directory.join("contexts/meta")).into_iter().flatten().flatten();
    for entry in known {
        let file = entry.path().join("meta.json");
        let Some(meta) = read_json(&file)? else { continue };
        if meta["Name"] == name.as_str() {
            let host = meta["Endpoints"]["docker"]["Host"].as_str().unwrap_or_default();
            return parse(&source_name, host).map(Some);
        }
    }
    Err(ConnectError::BadAddress { source_name, address: String::new(), reason: "there is no such context".into() })
}

fn current_context(file: &Path) -> Result<Option<String>, ConnectError> {
    Ok(read_json(file)?.and_then(|config| config["currentContext"].as_str().map(str::to_owned)))
}

/// What a file says; none if there is no such file.
fn read_json(file: &Path) -> Result<Option<Value>, ConnectError> {
    let bad = |reason: String| ConnectError::BadConfig { file: file.to_string_lossy().into_owned(), reason };
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(bad(error.to_string())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

    use std::collections::BTreeMap;

    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Vec<Address>, ConnectError> {
        let variables: BTreeMap<&str, OsString> =
            variables.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
        addresses(&|name| variables.get(name).cloned())
    }

    fn unix(path: &str) -> Address {
        Address::Unix(path.into())
    }

    #[test]
    fn the_usual_sockets_rootless_ones_included() {
        assert_eq!(find(&[]).unwrap(), [unix("/var/run/docker.sock"), unix("/run/podman/podman.sock")]);
        assert_eq!(
            find(&[("XDG_RUNTIME_DIR", "/run/user/7")]).unwrap(),
            [
                unix("/var/run/docker.sock"),
                unix("/run/user/7/docker.sock"),
                unix("/run/user/7/podman/podman.sock"),
                unix("/run/podman/podman.sock"),
            ]
        );
    }

    #[test]
    fn an_engine_that_is_named_is_the_only_one() {
        assert_eq!(find(&[("DOCKER_HOST", "unix:///a/b.sock")]).unwrap(), [unix("/a/b.sock")]);
        for (text, address) in [
            ("tcp://127.0.0.1:2375", "127.0.0.1:2375"),
            ("tcp://localhost:2375/", "localhost:2375"),
            ("http://[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(find(&[("DOCKER_HOST", text)]).unwrap(), [Address::Loopback(address.into())]);
        }
    }

    #[test]
    fn engines_elsewhere_are_refused() {
        for bad in [
            "tcp://10.0.0.1:2375",
            "tcp://example.org:2375",
            "tcp://127.0.0.1",
            "tcp://localhost:x",
            "tcp://127.0.0.1.example.org:1",
            "ssh://me@host",
            "npipe:////./pipe/docker",
            "unix://relative",
            "",
            "fd://",
        ] {
            assert!(matches!(parse("DOCKER_HOST", bad), Err(ConnectError::BadAddress { .. })), "{bad}");
        }
    }

    #[test]
    fn contexts_are_read() {
        let home = tempfile::tempdir().unwrap();
        let docker = home.path().join(".docker");
        let meta = docker.join("contexts/meta/0123");
        fs::create_dir_all(&meta).unwrap();
        let named = |variables: &[(&str, &str)]| {
            let mut all = vec![("HOME", home.path().to_str().unwrap())];
            all.extend_from_slice(variables);
            find(&all)
        };
        assert_eq!(named(&[]).unwrap().len(), 2, "no configuration");
        fs::write(docker.join("config.json"), r#"{"currentContext":"rootless"}"#).unwrap();
        fs::write(meta.join("meta.json"), r#"{"Name":"rootless","Endpoints":{"docker":{"Host":"unix:///x.sock"}}}"#)
            .unwrap();
        assert_eq!(named(&[]).unwrap(), [unix("/x.sock")]);
        assert_eq!(named(&[("DOCKER_CONTEXT", "default")]).unwrap().len(), 2);
        assert_eq!(named(&[("DOCKER_HOST", "unix:///y.sock")]).unwrap(), [unix("/y.sock")]);
        let error = named(&[("DOCKER_CONTEXT", "missing")]).unwrap_err();
        assert!(error.to_string().contains("`missing`"), "{error}");
        fs::write(docker.join("config.json"), "{").unwrap();
        assert!(matches!(named(&[]), Err(ConnectError::BadConfig { .. })));
    }
}
