//! Hotcell's own code on the host's side: what it does with what a guest left, said or asked for.
//!
//! The control of each is the obvious way of doing the same, which falls for it.

mod commands;
mod files;
mod lifetimes;
mod output;
mod overlays;
mod policies;

use std::collections::BTreeSet;
use std::fs;

use crate::check::Check;

pub(super) const CHECKS: &[&[Check]] =
    &[files::CHECKS, overlays::CHECKS, output::CHECKS, commands::CHECKS, policies::CHECKS, lifetimes::CHECKS];

/// The helper processes that this process has started.
fn helpers() -> BTreeSet<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|process| is_helper_of(own, *process)).collect()
}

fn is_helper_of(parent: u32, process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let has = |line: &str| status.lines().any(|known| known == line);
    has("Name:\thotcell-spawner") && has(&format!("PPid:\t{parent}"))
}
