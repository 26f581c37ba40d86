//! Containers through real engines: those that `HOTCELL_TEST_DOCKER` and `HOTCELL_TEST_PODMAN` name, with the image
//! `hotcell-test:latest` in them. An engine that is not named is listed as skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]
#![allow(clippy::print_stdout, reason = "the victim tells that it is ready")]

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod images;
mod inspect;
mod leftovers;
mod life;
mod support;
