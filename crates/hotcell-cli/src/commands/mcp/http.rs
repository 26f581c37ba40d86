//! The flags of `--http` in the server's terms.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hotcell::config::quantity::parse_duration;
use hotcell_mcp::http::{HttpError, HttpOptions, HttpServer, SessionLimits, Tls};

use super::arguments::HttpFlags;
use super::token_file;
use crate::failure::Failure;
use crate::output;

/// A server that listens at this address.
pub(super) async fn bind(address: SocketAddr, flags: &HttpFlags) -> Result<HttpServer, Failure> {
    let (options, made) = options(flags, flags.token_file.as_deref())?;
    let server = HttpServer::bind(address, options).await.map_err(failed)?;
    output::message(&format!("serving at {}", server.url()));
    if let Some(made) = made {
        output::message(&made);
    }
    Ok(server)
}

/// Whether there could be such a server. Nobody listens, and no file is made.
pub(super) fn check(address: SocketAddr, flags: &HttpFlags) -> Result<(), Failure> {
    let token_file = flags.token_file.as_deref().filter(|file| file.symlink_metadata().is_ok());
    options(flags, token_file)?.0.check(address).map_err(failed)
}

/// The server's options, and what to tell the user if a token had to be made.
fn options(flags: &HttpFlags, token_file: Option<&Path>) -> Result<(HttpOptions, Option<String>), Failure> {
    let limits = limits(flags)?;
    let tls = match (&flags.tls_cert, &flags.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Tls::load(certificate, key).map_err(|error| Failure::new("tls", error))?)
        }
        _ => None,
    };
    let (tokens, made) = token_file::tokens(token_file)?;
    let mut options = HttpOptions::new(tokens);
    options.names.clone_from(&flags.allow_host);
    options.origins.clone_from(&flags.allow_origin);
    options.tls = tls;
    options.insecure = flags.insecure_bind;
    options.sessions = limits;
    Ok((options, made))
}

fn failed(error: HttpError) -> Failure {
    let hint = match error {
        HttpError::Public(_) => Some("listen on 127.0.0.1, give it --tls-cert and --tls-key, or add --insecure-bind"),
        _ => None,
    };
    let failure = Failure::new("http", error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn limits(flags: &HttpFlags) -> Result<SessionLimits, Failure> {
    let mut limits = SessionLimits::default();
    if let Some(sessions) = flags.max_sessions {
        if !(1..=10_000).contains(&sessions) {
            return Err(Failure::usage("--max-sessions takes a number from 1 to 10000"));
        }
        limits.sessions = sessions;
    }
    if let Some(idle) = duration("--idle-timeout", flags.idle_timeout.as_deref())? {
        limits.idle = idle;
    }
    if let Some(total) = duration("--session-timeout", flags.session_timeout.as_deref())? {
        limits.total = total;
    }
    Ok(limits)
}

fn duration(flag: &str, text: Option<&str>) -> Result<Option<Duration>, Failure> {
    text.map(|text| parse_duration(text).map_err(|error| Failure::usage(&format!("{flag}: {error}")))).transpose()
}
