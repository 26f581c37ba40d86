//! Names of images: `[registry/]path[:tag][@digest]`.
//!
//! A short name means the same here as for container engines (`debian` is `docker.io/library/debian:latest`), so that an image is
//! found by whatever way of writing its name somebody uses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::digest::Digest;

const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_FOLDER: &str = "library/";
const DEFAULT_TAG: &str = "latest";

/// A name in full. Displayed in the short form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageName {
    registry: String,
    path: String,
    version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Version {
    Tag(String),
    /// A tag beside a digest says nothing and is dropped.
    Digest(Digest),
}

/// Text that is no name of an image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("an image is named [registry/]path[:tag][@sha256:…]: {0}")]
pub struct BadName(&'static str);

impl ImageName {
    /// The registry's host, and its port if it is not the usual one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path in the registry.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The tag, unless a digest says exactly which image is meant.
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    /// The digest that was asked for.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }

    /// Nothing left out.
    pub fn full(&self) -> String {
        format!("{}/{}{}", self.registry, self.path, self.version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, ":{tag}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_str();
        if self.registry == DEFAULT_REGISTRY {
            write!(f, "{}{}", path.strip_prefix(DEFAULT_FOLDER).unwrap_or(path), self.version)
        } else {
            f.write_str(&self.full())
        }
    }
}

impl FromStr for ImageName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                (rest, Some(digest.parse().map_err(|_| BadName("after `@` comes sha256: and 64 digits"))?))
            }
            None => (text, None),
        };
        let (registry, rest) = match rest.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => (DEFAULT_REGISTRY, rest),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        check_registry(registry)?;
        check_path(path)?;
        tag.map_or(Ok(()), check_tag)?;
        let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
        let folder = if registry == DEFAULT_REGISTRY && !path.contains('/') { DEFAULT_FOLDER } else { "" };
        let version = match digest {
            Some(digest) => Version::Digest(digest),
            None => Version::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned()),
        };
        Ok(Self { registry: registry.to_owned(), path: format!("{folder}{path}"), version })
    }
}

fn check_registry(registry: &str) -> Result<(), BadName> {
    let (host, port) = match registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => {
            host.parse::<std::net::Ipv6Addr>().map_err(|_| BadName("the registry's address is not one"))?;
            ("", port.strip_prefix(':').or((!port.is_empty()).then_some("x")))
        }
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    let good = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
    };
    if registry.len() > 255 || !(host.is_empty() && registry.starts_with('[') || host.split('.').all(good)) {
        return Err(BadName("the registry is a host name"));
    }
    match port.map(str::parse::<u16>) {
        Some(Err(_)) => Err(BadName("the registry's port is a number")),
        _ => Ok(()),
    }
}

fn check_path(path: &str) -> Result<(), BadName> {
    let good = |part: &str| {
        let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        edge(part.bytes().next())
            && edge(part.bytes().last())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-'))
            && !part.contains("..")
    };
    if path.len() > 255 || !path.split('/').all(good) {
        return Err(BadName("the path has lower-case letters, digits and single . _ - between them"));
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<(), BadName> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if tag.is_empty() || tag.len() > 128 || !tag.bytes().all(good) || tag.starts_with(['.', '-']) {
        return Err(BadName("a tag has letters, digits and . _ -, at most 128"));
    }
    Ok(())
}

impl Serialize for ImageName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.full())
    }
}

impl<'de> Deserialize<'de> for ImageName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_mean_what_engines_mean() {
        let full = |text: &str| text.parse::<ImageName>().unwrap().full();
        assert_eq!(full("debian"), "docker.io/library/debian:latest");
        assert_eq!(full("hotcell/code"), "docker.io/hotcell/code:latest");
        assert_eq!(full("index.docker.io/debian:12"), "docker.io/library/debian:12");
        assert_eq!(full("localhost/a:b"), "localhost/a:b");
        assert_eq!(full("localhost:5000/a/b"), "localhost:5000/a/b:latest");
        assert_eq!(full("[::1]:5000/a"), "[::1]:5000/a:latest");
        let digest = Digest::of(b"");
        assert_eq!(full(&format!("ghcr.io/a/b:tag@{digest}")), format!("ghcr.io/a/b@{digest}"));
    }

    #[test]
    fn names_are_shown_short_and_read_back_the_same() {
        for text in ["debian:latest", "hotcell/code:latest", "ghcr.io/a/b:1.2", "localhost:5000/a:x"] {
            let name: ImageName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.full().parse::<ImageName>().unwrap(), name);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(300);
        let texts = [
            "",
            "/",
            ":x",
            "A",
            "a//b",
            "a/../b",
            "../a",
            "a:",
            "a:b:c",
            "a:b/c",
            "a@sha256:1",
            "a b",
            "-a",
            "a\u{1b}[2J",
            "a.",
            "a..b",
            "x.y:port/a",
            "x.y:/a",
            "é",
            "a:é",
            "[::1/a",
            "[::1]x/a",
            "[zz]:1/a",
            ".x/a.b/",
            &long,
        ];
        for text in texts {
            assert!(text.parse::<ImageName>().is_err(), "{text:?}");
        }
    }
}
