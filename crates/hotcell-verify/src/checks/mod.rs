//! The checks, by group.

mod filesystem;
mod kept;
mod kernel;
mod network;
mod process;
mod resources;
mod supervisor;
mod work;

use crate::check::Check;

/// All checks, in the order of reports.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        filesystem::CHECKS,
        &[process::CHECKS],
        &[kernel::CHECKS],
        &[network::CHECKS],
        &[resources::CHECKS],
        supervisor::CHECKS,
        work::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .flatten()
}
