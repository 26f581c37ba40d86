//! HTTP with rules.
//!
//! ```no_run
//! use hotcell_core::secret::Secret;
//! use hotcell_remote::http::{Address, PlainHttp, Server};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let address = Address::parse("http://127.0.0.1:8080/v1", PlainHttp::LoopbackOnly)?;
//! let server = Server::new("OpenSandbox", address)?.secret_header("open-sandbox-api-key", &Secret::new("k".to_owned()))?;
//! let list: serde_json::Value = server.get("list sandboxes", &["sandboxes"]).query("pageSize", "1").send().await?.json().await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod answer;
mod call;
mod error;
mod server;
pub(crate) mod tls;

pub use address::{Address, AddressError, PlainHttp};
pub use answer::{Answer, Chunks};
pub use call::{Body, Call};
pub use error::{CallError, Why};
pub use reqwest::Method;
pub use server::Server;
pub use tls::TlsError;
