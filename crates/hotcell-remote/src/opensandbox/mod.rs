//! OpenSandbox: the lifecycle API of its server, and the `execd` in each of its sandboxes.
//!
//! # What a command's output loses
//!
//! Execd sends the output of [`Execd::run`] as lines of text, one event each. Bytes that are not UTF-8 come as U+FFFD; a
//! line's end is not sent, so `\r\n` and `\r` come as `\n`, and a last line without an end gets one; the order between
//! the two streams is only roughly kept, because execd looks at each of them every 100 ms. [`Execd::run_exact`] loses
//! nothing but the order between the streams, and takes input.

mod client;
mod endpoint;
mod execd;
mod network;
mod ready;
mod sandbox;
mod sse;
mod timestamp;
mod wire;

pub use client::Client;
pub use endpoint::{Endpoint, Via};
pub use execd::*;
pub use network::{Action, NetworkPolicy, NetworkStatus, Rule};
pub use sandbox::{Filter, ImageAuth, NewSandbox, Sandbox, Snapshot, Source, State, Status, Volume, VolumeSource};
