//! The files that limits are written in.

use alloc::format;
use core::ffi::CStr;

use crate::arguments::Arguments;
use crate::{nr, report, sys};

/// Where hierarchies of cgroups are, on systems with either version or both.
const HIERARCHIES: &[&str] = &["", "/unified", "/memory", "/pids", "/cpu", "/cpu,cpuacct", "/freezer", "/systemd"];
/// Files by which a process moves, frees itself of a limit, or has the kernel start a program.
const FILES: &[&str] = &["cgroup.procs", "memory.limit_in_bytes", "pids.max", "memory.max", "release_agent"];

/// `cgroup-files`: opens them for writing, and writes nothing.
pub fn files(_: Arguments) {
    let mut found = false;
    for hierarchy in HIERARCHIES {
        for file in FILES {
            let path = format!("/sys/fs/cgroup{hierarchy}/{file}\0");
            if open_to_write(&path) {
                found = true;
                report::reached("limit file", path.trim_end_matches('\0'));
            }
        }
    }
    if !found {
        report::refused("open of limit files", sys::Errno(2));
    }
}

fn open_to_write(path: &str) -> bool {
    let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap_or_default();
    sys::open(path, sys::O_WRONLY, 0).map(sys::close).is_ok()
}

/// `cgroup-mount DIRECTORY…`: mounts hierarchies on the first directory that there is, in a mount namespace of its own, and
/// opens their files for writing.
pub fn mount(arguments: Arguments) {
    // Mount and cgroup.
    const NAMESPACES: usize = 0x0002_0000 | 0x0200_0000;
    const RECURSIVE_PRIVATE: usize = 0x4000 | 0x40000;
    let private = sys::call(nr::UNSHARE, &[NAMESPACES])
        .and_then(|_| sys::call(nr::MOUNT, &[0, sys::c(c"/"), 0, RECURSIVE_PRIVATE, 0]));
    if let Err(errno) = private {
        // Without it the machine itself would get the mounts.
        return report::refused("unshare", errno);
    }
    let exists = |path: &&CStr| sys::open(path, sys::O_PATH, 0).map(sys::close).is_ok();
    let Some(place) = arguments.all().into_iter().find(exists) else { return };
    for (kind, options) in [(c"cgroup2", c""), (c"cgroup", c"memory"), (c"cgroup", c"pids")] {
        let what =
            format_args!("mount of {} {}", kind.to_str().unwrap_or_default(), options.to_str().unwrap_or_default());
        let data = if options.is_empty() { 0 } else { sys::c(options) };
        match sys::call(nr::MOUNT, &[sys::c(c"none"), sys::c(place), sys::c(kind), 0, data]) {
            Ok(_) => report::reached(what, "mounted"),
            Err(errno) => report::refused(what, errno),
        }
    }
}
