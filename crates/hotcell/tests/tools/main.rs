//! The tools of an agent, on real native boxes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod adapters;
mod catalogue;
mod code;
mod commands;
mod files;
mod hostile;
mod lifetime;
mod memory;
mod processes;
mod search;
mod support;
mod workspace;
