//! Reaching a server: where it is, and what is said when it cannot be used.

use std::future::Future;
use std::time::Duration;

use hotcell_core::policy::{NoServer, RemotePolicy};
use hotcell_core::runtime::RuntimeKind;
use hotcell_remote::http::{Address, AddressError, CallError, PlainHttp, TlsError};

/// How long a server may take to answer the first call: it is asked while somebody waits for a program to start.
const NEAR: Duration = Duration::from_millis(1800);
const FAR: Duration = Duration::from_secs(5);

/// Why a server cannot be used. Nothing stands in for it, and nothing was run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Nobody said where it is, or what its key is.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// Its address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// What it says could not be verified.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It does not answer as it should.
    #[error("{0}; {hint}; nothing is run here instead", hint = .0.hint())]
    Call(CallError),
    /// It does not answer in time.
    #[error(
        "{server} did not answer within {} s; look at the server and the network between; nothing is run here instead",
        .waited.as_secs_f32()
    )]
    TooSlow {
        /// The product and where it is.
        server: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Its sandboxes are at addresses of their own, and nobody said beneath which domain.
    #[error(
        "sandboxes of {server} are reached beneath a domain, and none is named; write `domain = \"…\"` or `data_url = \"…\"` \
        under [remote], or set HOTCELL_SANDBOX_DOMAIN or CUBE_SANDBOX_DOMAIN"
    )]
    NoDomain {
        /// Where it is.
        server: Address,
    },
    /// What tells this process from others cannot be read.
    #[error("cannot read which process this is; is /proc mounted?")]
    NoOwner(#[source] std::io::Error),
}

impl From<CallError> for RemoteError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// The address of the server that a policy names.
pub(crate) fn address(remote: &RemotePolicy, kind: RuntimeKind) -> Result<Address, RemoteError> {
    Ok(Address::parse(&remote.server(kind)?, plain(remote))?)
}

/// Whether plain http to other machines will do.
pub(crate) fn plain(remote: &RemotePolicy) -> PlainHttp {
    if remote.plain_http { PlainHttp::Allowed } else { PlainHttp::LoopbackOnly }
}

/// How long the first call may take.
pub(crate) fn patience(address: &Address) -> Duration {
    if address.is_loopback() { NEAR } else { FAR }
}

/// Makes the first call, which proves that server and key are good.
pub(crate) async fn first_call<T>(
    server: String,
    patience: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, RemoteError> {
    match tokio::time::timeout(patience, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(RemoteError::TooSlow { server, waited: patience }),
    }
}
