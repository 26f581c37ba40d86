//! The tools of an agent, on real native boxes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod support;
