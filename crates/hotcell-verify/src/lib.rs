//! Attacks on boxes, from inside, and what came of them.
//!
//! ```text
//! Check ──▶ attempt on the bare host (the control) ─┐
//!       └─▶ attempt in the box ─────────────────────┴─▶ Verdict: held · BROKEN · vacuous · not applicable
//! ```
//!
//! A check is data ([`check`], [`checks`]). Most are tried by one small static program that is put into the box; it comes
//! with `hotcell-linux`. Everything that an attack aims at is planted for it ([`arena`]), and a success is recognised by
//! that: a planted secret in the output, a changed or contacted object of the host's, a process that outlives its box, a
//! system call that was reached. Never by an exit code.
//!
//! The same attack is tried without a box first. Where that fails too, nothing was proven, and the verdict says so.
#![cfg(target_os = "linux")]

pub mod arena;
mod attempt;
pub mod check;
pub mod checks;
pub mod cve;
mod elsewhere;
pub mod expect;
pub mod knockout;
pub mod layer;
pub mod report;
pub mod suite;
pub mod target;
pub mod verdict;

pub use check::{Check, Group, Impact};
pub use layer::Layer;
pub use suite::{Suite, VerifyError};
pub use verdict::{Finding, Verdict};
