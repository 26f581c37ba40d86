//! later
pub(crate) async fn run(_l: std::net::SocketAddr, _t: std::net::SocketAddr, _o: std::path::PathBuf, _b: bool) -> anyhow::Result<()> { Ok(()) }
