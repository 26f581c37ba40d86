//! Where a stand-in listens, and for how long.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::serve::ListenerExt;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Listens at `address`, which must be this machine's own.
pub(crate) async fn on_loopback(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        bail!(
            "{address} is not a loopback address; this is a test tool without any protection and listens nowhere else"
        );
    }
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Listens at `address`, whatever it is: in a container that OpenSandbox made, whose network is that server's business. It
/// is known by the variable `given`.
pub(crate) async fn in_container(address: SocketAddr, given: &str) -> Result<TcpListener> {
    let is_container = ["/.dockerenv", "/run/.containerenv"].into_iter().any(|sign| Path::new(sign).exists());
    if !is_container || std::env::var_os(given).is_none() {
        bail!("this is not a sandbox of OpenSandbox, and only there anything but a loopback address is listened on");
    }
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// What `execd` listens on in a container.
pub(crate) const EVERYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Says where `listener` is, on one line, so that whoever asked for port 0 knows.
pub(crate) fn announce(listener: &TcpListener) -> Result<()> {
    let address = listener.local_addr()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on http://{address}")?;
    out.flush()?;
    Ok(())
}

/// Says what went wrong.
pub(crate) fn complain(what: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr().lock(), "hotcell-standin: {what}");
}

/// Serves until a signal to end comes or, with `lifeline`, until standard input ends: then it ends with whoever started
/// it, even one that is killed.
pub(crate) async fn serve(listener: TcpListener, router: Router, lifeline: bool) -> Result<()> {
    announce(&listener)?;
    // As servers written in Go do: a small piece does not wait until the one before it was acknowledged.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::select! {
        served = axum::serve(listener, router) => served.context("cannot serve"),
        ended = until_told(lifeline) => ended,
    }
}

/// Waits for the end of standard input, if that matters, or for a signal to end.
pub(crate) async fn until_told(lifeline: bool) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = until_input_ends(), if lifeline => {}
    }
    Ok(())
}

async fn until_input_ends() {
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    while !matches!(input.read(&mut ignored).await, Ok(0) | Err(_)) {}
}
