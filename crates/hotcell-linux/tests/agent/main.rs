//! The helper as the first process of a box that somebody else made, run here as a plain process: as an agent on a stream,
//! behind a bridge, and as an init on a socket. And the bridge with an agent that means harm.
#![allow(unsafe_code, reason = "sockets and memory files of the tests' own")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
mod files;
mod hostile;
mod input;
mod life;
mod output;
mod programs;
mod protection;
mod setup;
mod terminal;
