//! The vocabulary and the pure functions of Hotcell.
//!
//! One noun per module, in the order in which a run passes through them:
//!
//! ```text
//! config ──layers──▶ policy ──plan(+capability)──▶ plan ──backend──▶ outcome
//! ```
//!
//! - [`config`]: what a person wrote, with the place where they wrote it.
//! - [`presets`]: policies for common cases, by name.
//! - [`layers`]: how defaults, files, environment and flags become one policy.
//! - [`policy`]: what the code in the box may do, validated.
//! - [`capability`]: what a backend can hold on this machine, now.
//! - [`plan`]: policy × capabilities: the exact mechanisms, or a [`plan::Refusal`].
//! - [`backend`]: the contracts that every backend implements.
//! - [`outcome`]: what happened.
//!
//! This crate does no I/O, contains no unsafe code and needs no async runtime, so everything it decides
//! can be tested without root, kernel or network.
//!
//! ```
//! use hotcell_core::capability::Control;
//! use hotcell_core::policy::{Access, NetworkMode, Policy};
//!
//! let policy = Policy::builder()
//!     .write("/srv/build")
//!     .deny("/srv/build/keys")
//!     .network(NetworkMode::Deny)
//!     .memory(256 << 20)
//!     .approximate(Control::Memory)
//!     .build()?;
//! assert_eq!(policy.filesystem.access("/srv/build/src/main.c".as_ref()), Access::Write);
//! assert_eq!(policy.filesystem.access("/srv/build/keys/id".as_ref()), Access::Deny);
//! # Ok::<(), hotcell_core::layers::PolicyError>(())
//! ```

pub mod backend;
pub mod capability;
pub mod config;
pub mod layers;
pub mod outcome;
pub mod plan;
pub mod policy;
pub mod presets;
pub mod runtime;
pub mod schema;
pub mod secret;
mod serialize;
mod suggest;
pub mod text;
