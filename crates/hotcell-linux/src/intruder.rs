//! The intruder: a static program that tries to get out of the box that it is started in.
//!
//! It is here because this crate is the home of unsafe code; what it is run for, and what its answers mean, is the
//! business of `hotcell-verify`.

/// The program that `build.rs` compiled from `intruder/`.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hotcell-intruder"));
