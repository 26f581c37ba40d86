//! Boxes that a server makes and keeps: what the `opensandbox` and the `e2b` backend have in common.
//!
//! ```text
//! backend ──create──▶ Link (one sandbox of the server) ──prepare, trees up──▶ RemoteSandbox ──spawn──▶ RemoteProcess
//!                                                                                │ trees back, renewal, deletion
//! ```
//!
//! A server starts programs and carries files; everything else is done here. Whatever it says is not trusted with anything of
//! this machine: it can make a box fail, and nothing else.
//!
//! - `link.rs`: what a server's sandbox does for us, the trait that both backends implement;
//! - `scripts/`: what runs in the box to start and end commands, and to pack and unpack trees; plain `sh`;
//! - `inside.rs`: running these scripts, and what a new box is found to be;
//! - `trees/`: the host's trees, up and back;
//! - `sandbox.rs`, `process.rs`, `watch.rs`, `files.rs`, `workspace.rs`: a live box, as the contracts of the core want it;
//! - `lifetime.rs`, `labels.rs`, `prune.rs`: how a box ends although nobody ends it;
//! - `reach.rs`, `holds.rs`: the server at start-up, and what boxes of any server can hold.

mod files;
mod holds;
mod inside;
mod labels;
mod lifetime;
pub(crate) mod link;
mod process;
mod prune;
mod reach;
mod sandbox;
pub(crate) mod start;
#[cfg(test)]
mod tests;
mod trees;
mod upload;
mod watch;
mod workspace;

pub(crate) use holds::capabilities;
pub(crate) use labels::{BOX, HOST, host_name, labels};
pub(crate) use lifetime::LIFETIME;
pub use prune::Pruned;
pub(crate) use prune::{Found, prune};
pub use reach::RemoteError;
pub(crate) use reach::{address, first_call, patience, plain};
pub(crate) use sandbox::{Parts, RemoteSandbox};
#[cfg(fuzzing)]
pub use trees::fuzzing;
pub(crate) use upload::pieces;
