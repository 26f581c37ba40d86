//! Files and directories.

mod beyond;
mod denied;
mod leftover;
mod outside;
mod overlay;
mod protected;
mod shown;
mod system;
mod unseen;

use crate::check::Check;

pub(super) const CHECKS: &[&[Check]] = &[
    unseen::CHECKS,
    outside::CHECKS,
    shown::CHECKS,
    denied::CHECKS,
    overlay::CHECKS,
    protected::CHECKS,
    leftover::CHECKS,
    beyond::CHECKS,
    system::CHECKS,
];
