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
//! - `lifetime.rs`, `labels.rs`, `prune.rs`: how a box ends although nobody ends it.

mod files;
mod inside;
mod labels;
mod lifetime;
pub(crate) mod link;
mod process;
mod prune;
mod sandbox;
pub(crate) mod start;
#[cfg(test)]
mod tests;
mod trees;
mod watch;
mod workspace;

pub(crate) use labels::{host_name, labels};
pub(crate) use lifetime::LIFETIME;
pub use prune::Pruned;
pub(crate) use prune::{Found, prune};
pub(crate) use sandbox::{Parts, RemoteSandbox};
