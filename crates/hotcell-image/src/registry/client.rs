//! The conversation with a registry, in the words of `oci-client`, and its failures in ours.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};
use oci_client::secrets::RegistryAuth;

use super::PullOptions;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use crate::name::ImageName;

const ACCEPTED: &[&str] = &[OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_INDEX];

/// One image of one registry.
pub(super) struct Registry<'a> {
    client: Client,
    auth: RegistryAuth,
    name: &'a ImageName,
    patience: Duration,
}

/// The content of a blob, as it comes.
pub(super) type Blob<B> = BoxStream<'static, io::Result<B>>;

impl<'a> Registry<'a> {
    pub(super) fn new(name: &'a ImageName, options: &PullOptions) -> Result<Self, ImageError> {
        // Only if nobody chose one: a program has one provider of cryptography, and it may have its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let host = name.registry().to_owned();
        let protocol = match is_this_machine(&host) {
            true => ClientProtocol::HttpsExcept(vec![host]),
            false => ClientProtocol::Https,
        };
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(options.connect_timeout),
            read_timeout: Some(options.idle_timeout),
            user_agent: concat!("hotcell/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| ImageError::Registry {
            name: name.to_string(),
            why: format!("TLS cannot be used: {}", chain(&error)),
            hint: Some("install the certificates of the usual authorities (package ca-certificates)"),
        })?;
        let auth = match options.credentials.of(name.registry()) {
            Some((user, password)) => RegistryAuth::Basic(user, password),
            None => RegistryAuth::Anonymous,
        };
        Ok(Self { client, auth, name, patience: options.idle_timeout })
    }

    /// A manifest or an index: that with the digest, or else that with the name's tag.
    pub(super) async fn manifest(&self, digest: Option<&Digest>, limit: u64) -> Result<Vec<u8>, ImageError> {
        let reference = match digest {
            Some(digest) => self.by_digest(digest),
            None => {
                let tag = self.name.tag().unwrap_or("latest");
                Reference::with_tag(self.name.registry().to_owned(), self.name.path().to_owned(), tag.to_owned())
            }
        };
        let pulled = self.client.pull_manifest_raw(&reference, &self.auth, ACCEPTED);
        let (bytes, _) = self.in_time(pulled).await?.map_err(|error| self.failure(&error, "the manifest"))?;
        if bytes.len() as u64 > limit {
            return Err(crate::store::too_large(&format!("the manifest of {}", self.name), limit));
        }
        match (digest, Digest::of(&bytes)) {
            (Some(digest), found) if *digest != found => {
                Err(ImageError::digest_differs(format!("manifest {digest}"), &found))
            }
            _ => Ok(bytes.to_vec()),
        }
    }

    /// Begins to download a blob.
    pub(super) async fn blob(&self, digest: &Digest) -> Result<Blob<impl AsRef<[u8]> + use<>>, ImageError> {
        let text = digest.to_string();
        // Only the digest: other addresses that a manifest may name for a layer are not asked.
        let pulled = self.in_time(self.client.pull_blob_stream(&self.by_digest(digest), text.as_str())).await?;
        pulled.map(|sized| sized.stream).map_err(|error| self.failure(&error, &text))
    }

    /// The next bytes of a blob.
    pub(super) async fn next<B: AsRef<[u8]>>(
        &self,
        blob: &mut Blob<B>,
        label: &str,
    ) -> Result<Option<Vec<u8>>, ImageError> {
        match self.in_time(blob.next()).await? {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes.as_ref().to_vec())),
            Some(Err(error)) if error.get_ref().is_some_and(|inner| inner.is::<DigestError>()) => {
                Err(ImageError::Corrupt { what: label.to_owned(), why: chain(&error) })
            }
            Some(Err(error)) => Err(self.trouble(
                format!("the connection broke in {label}: {}", chain(&error)),
                Some("try again: layers that are complete are kept"),
            )),
        }
    }

    fn by_digest(&self, digest: &Digest) -> Reference {
        Reference::with_digest(self.name.registry().to_owned(), self.name.path().to_owned(), digest.to_string())
    }

    async fn in_time<T>(&self, future: impl Future<Output = T>) -> Result<T, ImageError> {
        tokio::time::timeout(self.patience, future).await.map_err(|_| {
            let why = format!("the registry {} did not answer for {:?}", self.name.registry(), self.patience);
            self.trouble(why, Some("try again later"))
        })
    }

    fn trouble(&self, why: String, hint: Option<&'static str>) -> ImageError {
        ImageError::Registry { name: self.name.to_string(), why, hint }
    }

    fn failure(&self, error: &OciDistributionError, what: &str) -> ImageError {
        const NOT_THERE: &str = "check the name and the tag";
        const LOGIN: &str = "log in with `docker login`; of its config.json only passwords in the file itself are used";
        const LATER: &str = "try again later";
        let host = self.name.registry();
        let (why, hint) = match error {
            OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
                (format!("the registry {host} wants a login, or there is no such image"), Some(LOGIN))
            }
            OciDistributionError::ServerError { code, .. } => {
                let hint = match code {
                    404 => NOT_THERE,
                    403 => LOGIN,
                    _ => LATER,
                };
                (format!("the registry {host} answered with status {code} when asked for {what}"), Some(hint))
            }
            OciDistributionError::RegistryError { envelope, .. } => {
                let code = envelope.errors.first().map(|error| &error.code);
                let hint = match code {
                    Some(OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown | OciErrorCode::NotFound) => {
                        Some(NOT_THERE)
                    }
                    Some(OciErrorCode::Unauthorized | OciErrorCode::Denied) => Some(LOGIN),
                    Some(OciErrorCode::Toomanyrequests) => Some(LATER),
                    _ => None,
                };
                (format!("the registry {host} refused {what}: {envelope}"), hint)
            }
            OciDistributionError::DigestError(error) => {
                return ImageError::Corrupt { what: format!("{what} of {}", self.name), why: error.to_string() };
            }
            OciDistributionError::RequestError(error) if error.is_timeout() => {
                (format!("the registry {host} did not answer in time"), Some(LATER))
            }
            OciDistributionError::RequestError(error) if error.is_connect() => {
                let hint = "check the name and the network; an image in a file needs none: `hotcell image import`";
                (format!("the registry {host} cannot be reached: {}", chain(error)), Some(hint))
            }
            error => (format!("asked for {what}: {}", chain(error)), None),
        };
        self.trouble(why, hint)
    }
}

/// An error and what caused it, once each.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// Whether a registry is on this machine, where nobody is between it and us.
fn is_this_machine(registry: &str) -> bool {
    let host = match registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => registry.split_once(':').map_or(registry, |(host, _)| host),
    };
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.8.8", "[::1]:5000", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["docker.io", "localhost.example.org", "127.0.0.1.example.org:80", "10.0.0.1:5000", "[::2]"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
