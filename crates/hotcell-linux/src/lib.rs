//! The Linux mechanisms of the native box, and the only home of Linux `unsafe`.
//!
//! This crate decides nothing: it probes what the kernel can do ([`probe`]), compiles the system call filter
//! ([`seccomp`]), finds the cgroups that boxes may live in ([`cgroup`]), and makes and drives boxes through a helper
//! process ([`Spawner`], [`Cell`]) that runs set-up steps ([`CellSpec`]) in the order given and stops at the first that
//! fails. What a policy means in these terms is the native backend's business.
//!
//! ```text
//! host program ── Spawner ──▶ spawner process ──clone──▶ init of a box ──▶ programs
//!      └───────────── Cell (one socket per box) ─────────────▲
//! ```
//!
//! A box can also be a container that somebody else made, with the same helper ([`agent_image`]) as its first process: it is
//! [joined](Cell::join) over a socket, or over a stream of bytes by way of a [`bridge`].
#![allow(unsafe_code, reason = "this crate is where the Linux system calls are made")]
#![cfg(target_os = "linux")]

pub mod bridge;
mod cell;
pub mod cgroup;
#[cfg(fuzzing)]
pub mod fuzzing;
mod helper;
pub mod intruder;
pub mod landlock;
pub mod notify;
pub mod probe;
mod process;
pub mod seccomp;
mod socket;
mod spawner;
mod spec;
mod terminal;
pub mod wire;

pub use cell::{Cell, CellError, FileError, Joined, Keeper, NotMade, Sample, Staged, Storage};
pub use helper::agent_image;
pub use process::{Ended, Launch, LaunchError, Running, Signaler, Standard};
pub use spawner::{CreateError, Spawner, SpawnerOptions, StartError};
pub use spec::{CellSpec, Cover, Namespaces, Owner, Placeholder, PlaceholderKind, Tree, TreeOptions};
pub use terminal::Terminal;
