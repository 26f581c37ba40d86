//! The client of E2B, against servers that play given bytes and against a real one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

mod control;
mod hostile;
mod hostile_streams;
mod inside;
mod live;
mod live_files;
mod player;
mod recorded;
mod recording;
