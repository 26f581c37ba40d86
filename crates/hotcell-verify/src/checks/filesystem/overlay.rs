//! A tree whose changes go to an overlay.

use crate::arena::Arena;
use crate::check::Group::Filesystem;
use crate::check::{Check, Impact, check};
use hotcell::policy::PolicyBuilder;

fn overlay(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    policy.overlay(arena.shown())
}

pub(super) const CHECKS: &[Check] = &[
    check("filesystem.overlay-contents", Filesystem, "write to, replace and remove files of a tree whose changes go to an overlay")
        .safe("the tree on the host stays as it was")
        .grant(overlay)
        .shell(
            "cd {shown}; echo x >>file; mkdir new; echo x >new/file; mv file moved; ln moved linked; rm moved; \
             ln -s / link; echo done",
        ),
    check("filesystem.overlay-metadata", Filesystem, "change mode, times and attributes of a file of a tree whose changes go to an overlay")
        .safe("the tree on the host stays as it was")
        .impact(Impact::Integrity)
        .grant(overlay)
        .shell(
            "for what in set-mode set-times set-flags; do {program}/intruder $what {shown}/file; done; \
             {program}/intruder set-attribute {shown}/file user.changed yes",
        ),
    check("filesystem.overlay-tricks", Filesystem, "steer an overlay to a denied directory with the attributes and devices that it keeps for itself")
        .safe("they are refused or mean nothing")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2023-0386", "CVE-2021-3493"])
        .grant(|policy, arena| overlay(policy, arena).deny(arena.shown().join("denied")))
        .shell(
            "i={program}/intruder; cd {shown}; mkdir around; \
             for prefix in user.overlay trusted.overlay; do \
             $i set-attribute {shown}/around $prefix.redirect /denied; $i set-attribute {shown}/around $prefix.opaque y; \
             $i set-attribute {shown}/around $prefix.origin x; done; \
             $i device-node {shown}; $i read {shown}/around/file {denied}; \
             mv {shown}/denied {shown}/elsewhere; $i read {shown}/elsewhere/file",
        ),
];
