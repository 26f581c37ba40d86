//! Attacks on limits: more memory, processes, time, disk, output or descriptors than a box was given.
//!
//! What is asked for is bounded, and given back: files are unlinked as soon as they are open, children end with their
//! parent.

mod cgroups;
mod descriptors;
mod disk;
mod memory;
mod output;
mod priority;
mod tasks;
mod time;

use crate::Attack;

pub const ATTACKS: &[Attack] = &[
    ("memory", memory::memory),
    ("kernel-memory", memory::kernel_memory),
    ("lock-memory", memory::lock),
    ("leave-memory", memory::leave),
    ("show-left-memory", memory::show_left),
    ("remove-left-memory", memory::remove_left),
    ("processes", tasks::processes),
    ("threads", tasks::threads),
    ("burn", time::burn),
    ("share-of-cpu", time::share),
    ("outstay", time::outstay),
    ("disk", disk::disk),
    ("files", disk::files),
    ("flood", output::flood),
    ("descriptors", descriptors::descriptors),
    ("in-flight", descriptors::in_flight),
    ("set-limit", descriptors::set_limit),
    ("timers", descriptors::timers),
    ("cgroup-files", cgroups::files),
    ("cgroup-mount", cgroups::mount),
    ("priority", priority::priority),
];

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
