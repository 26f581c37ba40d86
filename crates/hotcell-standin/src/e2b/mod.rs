//! later
use std::net::SocketAddr;
#[derive(Debug, clap::Args)]
pub(crate) struct Options { #[arg(long)] listen: SocketAddr }
pub(crate) async fn run(_o: Options) -> anyhow::Result<()> { Ok(()) }
