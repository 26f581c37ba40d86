//! Verified connections: rustls, ring, and the system's roots of trust.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;

/// Connections cannot be verified here.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "https cannot be used: {reason}; install the system's certificates (`apt install ca-certificates`) or name a file with SSL_CERT_FILE"
)]
pub struct TlsError {
    /// Why.
    pub reason: String,
}

/// How https connections are made. Reading the system's certificates takes milliseconds, so it is done once, and only where
/// something speaks https.
pub(crate) fn config() -> Result<Arc<ClientConfig>, TlsError> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, TlsError>> = OnceLock::new();
    CONFIG.get_or_init(|| build().map(Arc::new)).clone()
}

fn build() -> Result<ClientConfig, TlsError> {
    let failed = |error: rustls::Error| TlsError { reason: error.to_string() };
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_platform_verifier()
        .map_err(failed)?
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// For clients that never speak https: trusts nobody, and costs nothing.
pub(super) fn none() -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| TlsError { reason: error.to_string() })?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}
