//! Images and the root file systems that boxes are made of.
//!
//! ```text
//! registry · layout · archive · directory ──▶ blobs by digest ──▶ manifest ──name──▶ Image ──unpack──▶ Rootfs
//! ```
//!
//! A [`Store`] is a directory that any number of processes use at the same time. What is in it is named by its digest and
//! checked whenever it is read. Layers are written by strangers: [`unpack`] says what is done about that.
#![cfg(target_os = "linux")]

pub mod build;
mod compression;
mod config;
mod digest;
mod error;
mod export;
mod import;
mod limits;
mod manifest;
mod name;
mod platform;
mod progress;
#[cfg(feature = "registry")]
mod registry;
#[cfg(not(feature = "registry"))]
#[path = "registry_disabled.rs"]
mod registry;
mod store;
pub mod tarball;
pub mod unpack;

pub use config::ImageConfig;
pub use digest::{BadDigest, Digest};
pub use error::{ImageError, StoreError};
pub use export::ExportFormat;
pub use limits::Limits;
pub use name::{BadName, ImageName};
pub use progress::{Progress, Step, silent};
#[cfg(feature = "registry")]
pub use registry::Credentials;
pub use registry::PullOptions;
pub use store::{Image, Leftover, Listed, Pruned, Removed, Rootfs, Store};
