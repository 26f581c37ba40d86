//! Code in real boxes: what it gives back, what contexts remember, and what hostile code cannot do to whoever runs it.
#![cfg(all(target_os = "linux", feature = "tools", feature = "remote"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests assert by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod bash;
mod hostile;
mod kinds;
mod libraries;
mod lifetime;
#[path = "../boxes/kinds.rs"]
#[allow(dead_code, reason = "for more than is tried here")]
mod local;
mod node;
mod once;
mod place;
mod python;
#[path = "../remote/kinds.rs"]
#[allow(dead_code, reason = "for more than is tried here")]
mod servers;
