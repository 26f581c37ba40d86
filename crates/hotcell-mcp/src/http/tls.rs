//! TLS of the server's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell::text::PrintablePath;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// A certificate and its key, ready for use.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file with the certificate or the key cannot be used.
    #[error("`{}` cannot be used for TLS: {source}; it has to be a PEM file", PrintablePath(path))]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// The two do not fit.
    #[error("the certificate and the key cannot be used together: {0}")]
    Unfit(#[from] rustls::Error),
}

impl Tls {
    /// From PEM files: the certificate with those that lead to its root, and the key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { path, source }
        };
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect).map_err(failed(certificate))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(failed(key))?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, secret)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}
