//! The tools of an agent, on real native boxes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod commands;
mod support;
