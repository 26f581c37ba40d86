//! later
pub(crate) async fn run() -> anyhow::Result<()> { Ok(()) }
