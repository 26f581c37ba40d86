//! What this kernel, and this process's place in it, can do.
//!
//! Whether a box can be made at all is found by making one: [`crate::Spawner::greet`].

use std::fs;
use std::io;

use crate::cgroup;
use crate::landlock::Abi;

/// What was found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The kernel's release.
    pub kernel: String,
    /// Root with the capability to mount on the host.
    pub privileged: bool,
    /// The version of Landlock; zero for none.
    pub landlock: Abi,
    /// Whether seccomp filters can be loaded.
    pub seccomp: bool,
    /// Whether refused calls can be announced to the supervisor.
    pub seccomp_notify: bool,
    /// Whether this process already runs with no_new_privs.
    pub no_new_privs: bool,
}

/// Looks at everything that needs no box.
pub fn look() -> Findings {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let privileged = effective_user() == 0 && has_capability(&status, CAP_SYS_ADMIN);
    Findings {
        kernel: release.trim().to_owned(),
        privileged,
        landlock: Abi::detect(),
        seccomp: has_seccomp_action(libc::SECCOMP_RET_KILL_PROCESS),
        seccomp_notify: has_seccomp_action(libc::SECCOMP_RET_USER_NOTIF),
        no_new_privs: status.lines().any(|line| line.split_whitespace().eq(["NoNewPrivs:", "1"])),
    }
}

const CAP_SYS_ADMIN: u32 = 21;

/// The user that this process acts as.
pub fn effective_user() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::geteuid() }
}

fn has_capability(status: &str, number: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & (1 << number) != 0)
}

fn has_seccomp_action(action: u32) -> bool {
    const GET_ACTION_AVAIL: libc::c_uint = 2;
    // SAFETY: the call reads one u32.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|value| value.trim().to_owned())
}

/// Why user namespaces do not work here, and the command that would change it; `error` is what the kernel said.
pub fn explain_user_namespace(error: &io::Error) -> String {
    if sysctl("user/max_user_namespaces").as_deref() == Some("0") {
        return "user namespaces are turned off: `sysctl user.max_user_namespaces=15000` (as root) turns them on".into();
    }
    if sysctl("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return "user namespaces are kept from ordinary users: `sysctl kernel.unprivileged_userns_clone=1` (as root) allows them".into();
    }
    if sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return "AppArmor restricts user namespaces: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (as root), or a profile for this program, allows them".into();
    }
    format!("a user namespace cannot be used here ({error}): in a container, start that with a seccomp profile that allows `unshare` and `mount`")
}

/// The number of CPUs that are online.
pub fn cpu_count() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// The unit of [`crate::Sample::ticks`], per second.
pub fn ticks_per_second() -> u64 {
    cgroup::ticks_per_second()
}
