//! The protocol over HTTP, spoken by hand, with real boxes behind it. As root and as an ordinary user.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod client;
mod connections;
mod secure;
mod server;
mod sessions;
mod strangers;
