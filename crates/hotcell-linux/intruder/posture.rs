//! How this process finds itself: each attack says `reached` where something is not as it must be in a box.

use alloc::vec::Vec;

use crate::arguments::Arguments;
use crate::processes::{numbers_in, proc_path};
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("no-new-privileges", no_new_privileges),
    ("filtered", filtered),
    ("capabilities", capabilities),
    ("secure-bits", secure_bits),
    ("descriptors", descriptors),
    ("same-namespaces", same_namespaces),
    ("identity", identity),
    ("hostname", hostname),
    ("session", session),
    ("core-dump", core_dump),
    ("become-root", become_root),
    ("raise-limits", raise_limits),
];

fn no_new_privileges(_: Arguments) {
    const PR_GET_NO_NEW_PRIVS: usize = 39;
    match sys::prctl(&[PR_GET_NO_NEW_PRIVS]) {
        Ok(1) => {}
        other => report::reached("privileges by execution", other.unwrap_or(0)),
    }
}

/// The fields of a status file whose names begin with `name`.
fn fields(status: &[u8], name: &str) -> Vec<(alloc::string::String, alloc::string::String)> {
    let text = core::str::from_utf8(status).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .filter(|(field, _)| field.starts_with(name))
        .map(|(field, value)| (field.into(), value.trim().into()))
        .collect()
}

fn status_of(path: &core::ffi::CStr) -> Vec<u8> {
    match sys::read_file(path, 8192) {
        Ok(status) => status,
        Err(errno) => {
            // Without it nothing can be said.
            report::refused("open /proc/self/status", errno);
            sys::exit(3)
        }
    }
}

/// The system call filter is on every thread, a new one included.
fn filtered(_: Arguments) {
    let _ = sys::thread(waiting_thread);
    for task in numbers_in(c"/proc/self/task") {
        let status = status_of(&proc_path(format_args!("self/task/{task}/status")));
        for (field, value) in fields(&status, "Seccomp") {
            if field == "Seccomp" && value != "2" {
                report::reached(format_args!("a thread without a filter, {field}"), value);
            }
        }
    }
}

extern "C" fn waiting_thread() -> ! {
    loop {
        sys::sleep_ms(1000);
    }
}

fn capabilities(_: Arguments) {
    for (field, value) in fields(&status_of(c"/proc/self/status"), "Cap") {
        if value.bytes().any(|digit| digit != b'0') {
            report::reached(field, value);
        }
    }
}

/// Root must not mean anything, and stay so: `NOROOT`, `NO_SETUID_FIXUP` and `NO_CAP_AMBIENT_RAISE`, each with its lock.
fn secure_bits(_: Arguments) {
    const PR_GET_SECUREBITS: usize = 27;
    const WANTED: usize = 0b1100_1111;
    let bits = sys::prctl(&[PR_GET_SECUREBITS]).unwrap_or(0);
    if bits & WANTED != WANTED {
        report::reached("secure bits", format_args!("{bits:#x}"));
    }
}

/// Descriptors beyond the three that a command is given, and what they lead to.
fn descriptors(_: Arguments) {
    const F_GETFD: usize = 1;
    for fd in 3..4096 {
        if sys::call(nr::FCNTL, &[fd, F_GETFD]).is_ok() {
            report::reached("an inherited descriptor", fd);
            let mut buffer = [0u8; 256];
            if let Ok(count) = sys::call(nr::PREAD64, &[fd, buffer.as_mut_ptr() as usize, buffer.len(), 0]) {
                report::content("descriptor", &buffer[..count.min(256)]);
            }
        }
    }
}

/// `same-namespaces NAME LINK…`: whether namespaces are those of whoever said so.
fn same_namespaces(arguments: Arguments) {
    for index in (0..arguments.len()).step_by(2) {
        let Some(own) = namespace(arguments.display(index)) else { sys::exit(3) };
        if own == arguments.text(index + 1) {
            report::reached(
                format_args!("the host's {} namespace", arguments.display(index)),
                arguments.display(index + 1),
            );
        }
    }
}

/// What the kernel calls a namespace of this process.
pub fn namespace(name: &str) -> Option<Vec<u8>> {
    let mut buffer = [0u8; 64];
    let path = proc_path(format_args!("self/ns/{name}"));
    match sys::call(nr::READLINKAT, &[sys::AT_FDCWD, sys::c(&path), buffer.as_mut_ptr() as usize, buffer.len()]) {
        Ok(length) => Some(buffer[..length.min(64)].to_vec()),
        Err(errno) => {
            report::refused(format_args!("readlink /proc/self/ns/{name}"), errno);
            None
        }
    }
}

/// The host's root is not mapped, and no group came along.
fn identity(_: Arguments) {
    for path in [c"/proc/self/uid_map", c"/proc/self/gid_map"] {
        let map = status_of(path);
        for line in core::str::from_utf8(&map).unwrap_or_default().lines() {
            // First inside, first outside, how many.
            if line.split_whitespace().nth(1) == Some("0") {
                report::reached("the host's root is mapped", line);
            }
        }
    }
    let mut groups = [0u32; 64];
    match sys::call(nr::GETGROUPS, &[groups.len(), groups.as_mut_ptr() as usize]) {
        Ok(0) => {}
        Ok(count) => report::reached("groups", format_args!("{:?}", &groups[..count.min(64)])),
        Err(errno) => report::refused("getgroups", errno),
    }
}

/// `hostname NAME`: whether the machine tells its name.
fn hostname(arguments: Arguments) {
    // Six fields of 65 bytes; the second is the name.
    let mut names = [0u8; 6 * 65];
    let _ = sys::call(nr::UNAME, &[names.as_mut_ptr() as usize]);
    let name = names[65..130].split(|byte| *byte == 0).next().unwrap_or_default();
    if name == arguments.text(0) {
        report::reached("the host's name", arguments.display(0));
    }
}

/// `session ID HOST-NAMESPACE`: whether this process belongs to the session, and so to the terminal, of whoever said so.
fn session(arguments: Arguments) {
    match sys::call(nr::GETSID, &[0]) {
        // A session whose leader has no number here.
        Ok(0) => report::reached("a session outside", 0),
        Ok(session) if session == arguments.number(0) && shares_numbers(arguments.text(1)) => {
            report::reached("the supervisor's session", session);
        }
        Ok(_) => {}
        Err(errno) => report::refused("getsid", errno),
    }
}

/// Whether numbers of processes mean the same here as in the process namespace of that name.
pub fn shares_numbers(namespace_name: &[u8]) -> bool {
    namespace("pid").is_none_or(|own| own == namespace_name)
}

/// `core-dump DIRECTORY`: raises the limit on core dumps, and crashes there.
fn core_dump(arguments: Arguments) {
    const RLIMIT_CORE: usize = 4;
    const SIGSEGV: usize = 11;
    const DUMPED: i32 = 0x80;
    let mut limit = [0usize; 2];
    let _ = sys::call(nr::PRLIMIT64, &[0, RLIMIT_CORE, 0, limit.as_mut_ptr() as usize]);
    limit[0] = limit[1];
    let raised = sys::call(nr::PRLIMIT64, &[0, RLIMIT_CORE, limit.as_ptr() as usize, 0]);
    if raised.is_ok() && limit[0] > 1 {
        report::reached("a limit on core dumps of", limit[0] as isize);
    }
    if let Err(errno) = sys::call(nr::CHDIR, &[sys::c(arguments.c_str(0))]) {
        report::refused("chdir", errno);
    }
    match sys::fork() {
        Ok(0) => {
            let _ = sys::call(nr::KILL, &[sys::call(nr::GETPID, &[]).unwrap_or(0), SIGSEGV]);
            sys::exit(0)
        }
        Ok(child) => {
            let mut status = 0i32;
            let _ = sys::call(nr::WAIT4, &[child, &raw mut status as usize]);
            if status & DUMPED != 0 {
                report::reached("a core dump", status);
            }
        }
        Err(errno) => report::refused("fork", errno),
    }
}

/// Becomes root, joins root's group and takes every capability.
fn become_root(_: Arguments) {
    const VERSION_3: u32 = 0x2008_0522;
    let root = [0u32];
    report::success("setgroups", sys::call(nr::SETGROUPS, &[1, root.as_ptr() as usize]));
    report::success("setgid", sys::call(nr::SETGID, &[0]));
    report::success("setuid", sys::call(nr::SETUID, &[0]));
    // Effective, permitted, inheritable; the lower halves, then the upper ones.
    let (header, kill_and_admin) = ([VERSION_3, 0], 1 << 5 | 1 << 21);
    let sets = [kill_and_admin, kill_and_admin, 0u32, 0, 0, 0];
    report::success("capset", sys::call(nr::CAPSET, &[header.as_ptr() as usize, sets.as_ptr() as usize]));
}

/// Raises every hard limit that is not yet infinite, its priority, and its chance to live when memory runs out.
fn raise_limits(_: Arguments) {
    for resource in 0..16 {
        let mut limit = [0usize; 2];
        let known = sys::call(nr::PRLIMIT64, &[0, resource, 0, limit.as_mut_ptr() as usize]);
        if known.is_ok() && limit[1] != usize::MAX {
            limit[1] = usize::MAX;
            let raised = sys::call(nr::PRLIMIT64, &[0, resource, limit.as_ptr() as usize, 0]);
            report::success(format_args!("prlimit64 {resource}"), raised);
        }
    }
    report::success("setpriority", sys::call(nr::SETPRIORITY, &[0, 0, -5isize as usize]));
    let spared = sys::open(c"/proc/self/oom_score_adj", sys::O_WRONLY, 0).and_then(|file| sys::write(file, b"-500"));
    report::success("write /proc/self/oom_score_adj", spared);
}
