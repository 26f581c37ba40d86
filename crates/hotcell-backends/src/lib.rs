//! The backends: one folder each, with the same file names in every folder.
//!
//! - `mod.rs`: the backend itself, and what it is made of;
//! - `probe.rs`: what it can hold on this machine, now;
//! - `lower.rs`: a plan in the backend's own terms;
//! - `sandbox.rs`: a live box;
//! - `process.rs`: a command in it.
//!
//! [`registry`] lists them all.

#[cfg(target_os = "linux")]
pub mod native;
pub mod registry;
