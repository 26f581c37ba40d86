//! The Model Context Protocol: a box and its tools for any agent that speaks it.
//!
//! ```text
//! client ──stdio──▶ stdio::serve ─┐
//!                                 ├─▶ Server, one per connection ──▶ Toolbox ──▶ box
//! client ──HTTP───▶ http::serve ──┘
//! ```
//!
//! A [`Host`] is what all connections share: the engine and what boxes are made of. Each connection has a [`Server`] of its own,
//! and that a box, which is made when it is needed first and removed when the connection ends. What the code in a box prints
//! goes to the client as JSON strings and nowhere else, so it can look like nothing but text.

mod audit;
mod convert;
mod host;
pub mod http;
mod instructions;
mod progress;
mod resources;
mod server;
pub mod stdio;
mod uri;

pub use host::Host;
pub use server::Server;
