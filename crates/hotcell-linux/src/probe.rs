//! What this kernel, and this process's place in it, can do.
//!
//! Whether a box can be made at all is found by making one: [`crate::Spawner::greet`].

use std::fs;
use std::io;
use std::sync::OnceLock;

use crate::cgroup;
use crate::landlock::Abi;

/// What was found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The kernel's release.
    pub kernel: String,
    /// The user that this process acts as.
    pub user: u32,
    /// Root with the capability to mount on the host and to act as any user of it.
    pub privileged: bool,
    /// The version of Landlock; zero for none.
    pub landlock: Abi,
    /// Whether seccomp filters can be loaded.
    pub seccomp: bool,
    /// Whether refused calls can be announced to the supervisor.
    pub seccomp_notify: bool,
    /// Whether this process already runs with no_new_privs.
    pub no_new_privs: bool,
    /// Whether overlayfs is there.
    pub overlay: bool,
    /// Whether a tmpfs takes attributes of users, which overlays in user namespaces need.
    pub tmpfs_user_attributes: bool,
}

impl Findings {
    /// Whether the kernel's release is at least this; for the few facts that cannot be tried.
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
    }
}

/// Looks at everything that needs no box.
pub fn look() -> Findings {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let privileged = effective_user() == 0 && has_capability(&status, CAP_SYS_ADMIN) && maps_every_user();
    Findings {
        kernel: release.trim().to_owned(),
        user: effective_user(),
        privileged,
        landlock: Abi::detect(),
        seccomp: has_seccomp_action(libc::SECCOMP_RET_KILL_PROCESS),
        seccomp_notify: has_seccomp_action(libc::SECCOMP_RET_USER_NOTIF),
        overlay: fs::read_to_string("/proc/filesystems")
            .is_ok_and(|list| list.lines().any(|line| line.split_whitespace().last() == Some("overlay"))),
        tmpfs_user_attributes: memory_file_takes_attribute(),
        no_new_privs: status.lines().any(|line| line.split_whitespace().eq(["NoNewPrivs:", "1"])),
    }
}

const CAP_SYS_ADMIN: u32 = 21;

/// The user that this process acts as.
pub fn effective_user() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::geteuid() }
}

/// Whether this process may give boxes users of their own: root in a user namespace has only those that it was given.
fn maps_every_user() -> bool {
    const ALL: u64 = 4_294_967_295;
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| {
        let mut numbers = map.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        (numbers.next(), numbers.next(), numbers.next()) == (Some(0), Some(0), Some(ALL))
    })
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
        return "user namespaces are turned off: `sysctl user.max_user_namespaces=15000` (as root) turns them on"
            .into();
    }
    if sysctl("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return "user namespaces are kept from ordinary users: `sysctl kernel.unprivileged_userns_clone=1` (as root) allows them".into();
    }
    if sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return "AppArmor restricts user namespaces: `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (as root), or a profile for this program, allows them".into();
    }
    format!(
        "a user namespace cannot be used here ({error}): in a container, start that with a seccomp profile that allows `unshare` and `mount`"
    )
}

/// Memory files live on a tmpfs of the kernel's own.
fn memory_file_takes_attribute() -> bool {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: NUL-terminated name; the result is checked and owned at once; then one attribute of one byte is set.
    unsafe {
        let descriptor = libc::memfd_create(c"hotcell-trial".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return false;
        }
        let file = OwnedFd::from_raw_fd(descriptor);
        libc::fsetxattr(file.as_raw_fd(), c"user.hotcell".as_ptr(), c"y".as_ptr().cast(), 1, 0) == 0
    }
}

/// The number of CPUs that this process may use. Looked up once: the standard library reads cgroup files for it.
pub fn cpu_count() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u32))
}

/// The unit of [`crate::Sample::ticks`], per second.
pub fn ticks_per_second() -> u64 {
    cgroup::ticks_per_second()
}
