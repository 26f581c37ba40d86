//! Images from outside: hostile layers, the store under several processes, archives of every kind, and registries that lie.
//! Everything here passes as root and as an ordinary user.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod archives;
mod hostile;
mod import;
mod layers;
mod processes;
#[cfg(feature = "registry")]
mod pulls;
#[cfg(feature = "registry")]
mod server;
mod store;
mod whiteouts;
