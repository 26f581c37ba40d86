//! E2B: the control plane, and the way to what is in a sandbox.
//!
//! One listener serves everything: what names a sandbox, by the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port` or by the
//! host `PORT-ID.DOMAIN`, goes to that sandbox, everything else is the API.

mod api;
mod proxy;
mod sandbox;
mod state;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::listen;
use state::Cloud;

/// How to run it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen: a loopback address; with port 0 any free one. Standard output says which.
    #[arg(long)]
    listen: SocketAddr,
    /// The key that callers have to show.
    #[arg(long)]
    api_key: String,
    /// Knows no second version of creating and connecting, as CubeSandbox.
    #[arg(long)]
    v1_only: bool,
    /// Sends an event every so many milliseconds in a stream that has nothing else to say.
    #[arg(long)]
    keepalive_ms: Option<u64>,
    /// Ends when standard input does.
    #[arg(long)]
    lifeline: bool,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let listener = listen::on_loopback(options.listen).await?;
    let cloud = Arc::new(Cloud::new(options.api_key, options.v1_only, options.keepalive_ms.map(Duration::from_millis)));
    let served = listen::serve(listener, api::router(&cloud), options.lifeline).await;
    cloud.end().await;
    served
}
