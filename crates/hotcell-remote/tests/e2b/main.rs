//! The client of E2B, against servers that play given bytes and against a real one.

mod live;
mod live_files;
