//! The built `hotcell` command, seen from outside. Everything here passes as root and as an ordinary user: where this
//! machine cannot hold a limit, the expected result is the refusal that says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod bad_servers;
mod code;
mod engines;
mod exit_codes;
mod hostile_images;
mod image;
mod image_build;
mod import;
mod json;
mod leftovers;
mod limits;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_client;
#[cfg(feature = "mcp")]
mod mcp_http;
mod other_commands;
mod place;
mod plan;
mod prune;
mod remote;
mod servers;
mod settings;
mod signals;
mod streams;
mod swapped_trees;
mod terminal;
mod unique_keys;
mod usage;
mod verify;
