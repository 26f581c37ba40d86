//! Attacks on the kernel's own surface that need more than one call with wrong arguments.

use alloc::ffi::CString;
use alloc::format;

use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("unshare", unshare),
    ("clone-namespaces", clone_namespaces),
    ("clone3", clone3),
    ("nested-powers", nested_powers),
    ("socket-families", socket_families),
    ("sockets", sockets),
    ("drivers", drivers),
    ("overlay", overlay),
    ("fuse", fuse),
    ("tunnel", tunnel),
    ("realtime", realtime),
    ("null-page", null_page),
    ("kernel-addresses", kernel_addresses),
];

const NEW_USER: usize = 0x1000_0000;
const NAMESPACES: &[(&str, usize)] = &[
    ("user", NEW_USER),
    ("mount", 0x0002_0000),
    ("cgroup", 0x0200_0000),
    ("uts", 0x0400_0000),
    ("ipc", 0x0800_0000),
    ("pid", 0x2000_0000),
    ("network", 0x4000_0000),
];
/// Only `unshare` and `clone3` can make one.
const TIME_NAMESPACE: (&str, usize) = ("time", 0x80);

/// Each namespace, with a user namespace that grants the right to make it, and without.
fn unshare(_: Arguments) {
    for (name, flag) in NAMESPACES.iter().chain([&TIME_NAMESPACE]) {
        for flags in [*flag, *flag | NEW_USER] {
            let _ = sys::in_child(|| {
                report::success(format_args!("unshare {name} {flags:#x}"), sys::call(nr::UNSHARE, &[flags]));
            });
        }
    }
}

/// The same, as part of making a process.
fn clone_namespaces(_: Arguments) {
    for (name, flag) in NAMESPACES {
        for flags in [*flag, *flag | NEW_USER] {
            let made = sys::call(nr::CLONE, &[flags | sys::SIGCHLD]);
            born(format_args!("clone {name} {flags:#x}"), made);
        }
    }
}

/// Ends the child, if this is it; otherwise says what came of it.
fn born(what: core::fmt::Arguments<'_>, made: sys::Result<usize>) {
    match made {
        Ok(0) => sys::exit(0),
        Ok(child) => {
            report::reached(what, "made");
            let _ = sys::wait(child);
        }
        Err(errno) => report::refused(what, errno),
    }
}

/// A user namespace whose flag lies in memory, where a filter cannot see it.
fn clone3(_: Arguments) {
    // Flags, three pointers, the exit signal, and three fields for a stack and thread data.
    let arguments = [NEW_USER, 0, 0, 0, sys::SIGCHLD, 0, 0, 0];
    let made = sys::call(nr::CLONE3, &[arguments.as_ptr() as usize, size_of_val(&arguments)]);
    born(format_args!("clone3 user"), made);
}

/// For use after `nested`: what it is good for.
fn nested_powers(_: Arguments) {
    const VERSION_3: u32 = 0x2008_0522;
    let (header, mut sets) = ([VERSION_3, 0], [0u32; 6]);
    match sys::call(nr::CAPGET, &[header.as_ptr() as usize, sets.as_mut_ptr() as usize]) {
        Ok(_) if sets[0] != 0 => report::reached("capabilities", format_args!("{:#x}", sets[0])),
        Ok(_) => {}
        Err(errno) => report::refused("capget", errno),
    }
}

/// All families but the four that programs need, of a type that does not exist: the kernel complains about that before it
/// would load a module for the family.
fn socket_families(_: Arguments) {
    const NO_SUCH_TYPE: usize = 15;
    const NEEDED: [usize; 4] = [1, 2, 10, 16];
    for family in (0..46).filter(|family| !NEEDED.contains(family)) {
        report::call(format_args!("socket of family {family}"), sys::call(nr::SOCKET, &[family, NO_SUCH_TYPE, 0]));
    }
}

/// `sockets FAMILY TYPE PROTOCOL…`: makes each.
fn sockets(arguments: Arguments) {
    for index in (0..arguments.len()).step_by(3) {
        let [family, kind, protocol] = [0, 1, 2].map(|offset| arguments.number(index + offset));
        let made = sys::call(nr::SOCKET, &[family, kind, protocol]);
        report::success(format_args!("socket {family} {kind} {protocol}"), made);
    }
}

/// `drivers PATH…`: opens device nodes. It does nothing with them.
fn drivers(arguments: Arguments) {
    for path in arguments.all() {
        let opened = sys::open(path, sys::O_RDWR | sys::O_NONBLOCK, 0);
        report::success(format_args!("open {}", path.to_str().unwrap_or_default()), opened.map(|fd| fd as usize));
    }
}

fn mount(kind: &core::ffi::CStr, target: &core::ffi::CStr, flags: usize, data: &core::ffi::CStr) -> sys::Result<usize> {
    sys::call(nr::MOUNT, &[sys::c(kind), sys::c(target), sys::c(kind), flags, sys::c(data)])
}

/// For use after `nested`: makes sure that what is mounted next stays in a mount namespace of its own.
fn keep_mounts_private() -> bool {
    const RECURSIVE_PRIVATE: usize = 0x4000 | 0x4_0000;
    match mount(c"none", c"/", RECURSIVE_PRIVATE, c"") {
        Ok(_) => true,
        Err(errno) => {
            report::refused("mount", errno);
            false
        }
    }
}

/// An overlay in a mount namespace of its own.
fn overlay(_: Arguments) {
    if !keep_mounts_private() {
        return;
    }
    if !report::success("mount tmpfs", mount(c"tmpfs", c"/tmp", 0, c"")) {
        return;
    }
    for name in [c"/tmp/lower", c"/tmp/upper", c"/tmp/work", c"/tmp/merged"] {
        let _ = sys::call(nr::MKDIRAT, &[sys::AT_FDCWD, sys::c(name), 0o755]);
    }
    let layers = c"lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
    report::success("mount overlay", mount(c"overlay", c"/tmp/merged", 0, layers));
}

/// A file system whose answers come from this process.
fn fuse(_: Arguments) {
    const NO_SET_ID_NO_DEVICES: usize = 2 | 4;
    let device = match sys::open(c"/dev/fuse", sys::O_RDWR, 0) {
        Ok(device) => device,
        Err(errno) => return report::refused("open /dev/fuse", errno),
    };
    report::reached("/dev/fuse", "opened");
    if keep_mounts_private() {
        let options = CString::new(format!("fd={device},rootmode=40000,user_id=0,group_id=0")).unwrap_or_default();
        report::success("mount fuse", mount(c"fuse", c"/tmp", NO_SET_ID_NO_DEVICES, &options));
    }
}

/// A network interface whose packets come from this process; for use after `nested`.
fn tunnel(_: Arguments) {
    const TUNSETIFF: usize = 0x4004_54ca;
    const TUN_WITHOUT_HEADER: u16 = 0x1001;
    let device = match sys::open(c"/dev/net/tun", sys::O_RDWR, 0) {
        Ok(device) => device,
        Err(errno) => return report::refused("open /dev/net/tun", errno),
    };
    report::reached("/dev/net/tun", "opened");
    let mut request = [0u8; 40];
    request[..8].copy_from_slice(b"hotcell0");
    request[16..18].copy_from_slice(&TUN_WITHOUT_HEADER.to_ne_bytes());
    let made = sys::call(nr::IOCTL, &[device as usize, TUNSETIFF, request.as_ptr() as usize]);
    report::success("ioctl TUNSETIFF", made);
}

/// To run before everybody else, for as long as this program lives.
fn realtime(_: Arguments) {
    const SCHED_FIFO: usize = 1;
    const SCHED_DEADLINE: u64 = 6;
    const IOPRIO_WHO_PROCESS: usize = 1;
    const REALTIME_CLASS: usize = 1 << 13;
    let priority = [1i32];
    report::success("ioprio_set", sys::call(nr::IOPRIO_SET, &[IOPRIO_WHO_PROCESS, 0, REALTIME_CLASS]));
    report::success(
        "sched_setscheduler",
        sys::call(nr::SCHED_SETSCHEDULER, &[0, SCHED_FIFO, priority.as_ptr() as usize]),
    );
    // Size and policy, flags, nice and priority; then run time, deadline and period in nanoseconds.
    let attributes = [48 | SCHED_DEADLINE << 32, 0, 0, 100_000, 10_000_000, 10_000_000];
    report::success("sched_setattr", sys::call(nr::SCHED_SETATTR, &[0, attributes.as_ptr() as usize, 0]));
}

/// Memory at address zero, where the kernel's own null pointers lead.
fn null_page(_: Arguments) {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS_FIXED: usize = 0x32;
    let mapped = sys::call(nr::MMAP, &[0, 4096, READ_WRITE, PRIVATE_ANONYMOUS_FIXED, usize::MAX, 0]);
    report::success("mmap at zero", mapped);
}

/// Where the kernel's code lies.
fn kernel_addresses(_: Arguments) {
    match sys::read_file(c"/proc/kallsyms", 4096) {
        Ok(symbols) => {
            let address = symbols.split(|byte| *byte == b' ').next().unwrap_or_default();
            if address.iter().any(|digit| *digit != b'0') {
                report::reached("an address of the kernel", core::str::from_utf8(address).unwrap_or_default());
            }
        }
        Err(errno) => report::refused("open /proc/kallsyms", errno),
    }
}
