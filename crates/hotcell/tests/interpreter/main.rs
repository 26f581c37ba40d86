//! Code in real boxes: what it gives back, what contexts remember, and what hostile code cannot do to whoever runs it.
#![cfg(all(target_os = "linux", feature = "tools"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests assert by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod bash;
mod hostile;
mod lifetime;
mod node;
mod once;
mod place;
mod python;
