//! The backends: one folder each, with the same file names in every folder.
//!
//! - `mod.rs`: the backend itself, and what it is made of;
//! - `probe.rs`: what it can hold on this machine, now;
//! - `lower.rs`: a plan in the backend's own terms;
//!
//! A live box (`sandbox.rs`) and a command in it (`process.rs`) are in a backend's folder where they are its own, in `cell/` where
//! our own init serves the box, and in `remote/` where a server does. [`registry`] lists all backends.

#[cfg(target_os = "linux")]
mod cell;
#[cfg(all(target_os = "linux", feature = "docker"))]
pub mod docker;
#[cfg(all(target_os = "linux", feature = "remote"))]
pub mod e2b;
#[cfg(target_os = "linux")]
pub mod native;
#[cfg(target_os = "linux")]
pub mod oci;
#[cfg(all(target_os = "linux", feature = "remote"))]
pub mod opensandbox;
#[cfg(all(target_os = "linux", any(feature = "docker", feature = "remote")))]
mod owner;
pub mod progress;
pub mod registry;
#[cfg(all(target_os = "linux", feature = "remote"))]
pub mod remote;
