//! The client of OpenSandbox: against servers that play given bytes, good and hostile, and against a real execd
//! (`HOTCELL_TEST_EXECD_URL`, `HOTCELL_TEST_EXECD_TOKEN`), without which those tests are listed as skipped.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

mod hostile;
mod hostile_pty;
mod lifecycle;
mod live;
mod player;
mod recorded;
