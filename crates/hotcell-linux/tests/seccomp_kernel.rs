//! The filter in this machine's kernel.
//!
//! A filter belongs to a thread, so most tests load it into a thread of their own. Each refused call
//! is made with arguments that the kernel rejects anyway, and also without the filter: only a
//! *different* answer shows that it was the filter that refused.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "raw system calls are what these tests are about")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests assert by panicking and print what they skip"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use hotcell_linux::seccomp::rules::rules;
use hotcell_linux::seccomp::{Arch, FilterOptions, Program, SockFilter, compile, rule};

const HIGH_BIT: u64 = 1 << 32;
const BAD_FD: u64 = u64::MAX;

fn native() -> Arch {
    Arch::native().expect("the tests run on a supported architecture")
}

fn program(notify_denied: bool) -> Program {
    compile(native(), &FilterOptions { notify_denied, ..FilterOptions::default() })
}

/// Loads the filter into the calling thread; with the listener flag the result is its descriptor.
/// Neither allocates nor locks, so a forked child may call it.
fn load(program: &Program, flags: libc::c_ulong) -> io::Result<libc::c_long> {
    #[repr(C)]
    struct Fprog {
        length: u16,
        instructions: *const SockFilter,
    }
    let fprog = Fprog {
        length: u16::try_from(program.instructions.len()).unwrap_or(u16::MAX),
        instructions: program.instructions.as_ptr(),
    };
    // SAFETY: `fprog` describes a live slice, and the kernel only reads it.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, 1, flags, &raw const fprog)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs `body` in a thread under the filter.
fn inside<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let program = program(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            load(&program, 0).expect("the kernel accepts the filter");
            body()
        });
        thread.join().expect("the filtered thread ends normally")
    })
}

/// Makes a call and returns its error, 0 for success; a descriptor it made is closed.
fn errno_of(name: &str, args: [u64; 6]) -> i32 {
    let number = rules()
        .find(|rule| rule.name == name)
        .and_then(|rule| rule.number(native()))
        .expect("the call exists on this architecture");
    let [a, b, c, d, e, f] = args;
    // SAFETY: the callers pass no pointers but null, so the kernel touches no memory of ours.
    let result = unsafe { libc::syscall(number.into(), a, b, c, d, e, f) };
    if result < 0 {
        return io::Error::last_os_error().raw_os_error().unwrap_or(-1);
    }
    if name == "socket" {
        // SAFETY: the call has just made this descriptor and nobody else knows it.
        drop(unsafe { OwnedFd::from_raw_fd(result as i32) });
    }
    0
}

/// Calls that the filter refuses and that, without it, fail for another reason or do no harm.
const REFUSED: &[(&str, [u64; 6], i32)] = &[
    ("setns", [BAD_FD, 0, 0, 0, 0, 0], libc::EPERM),
    ("unshare", [1, 0, 0, 0, 0, 0], libc::EPERM),
    ("mount", [0; 6], libc::EPERM),
    ("umount2", [0, 0xffff, 0, 0, 0, 0], libc::EPERM),
    ("pivot_root", [0; 6], libc::EPERM),
    ("chroot", [0; 6], libc::EPERM),
    ("open_tree", [BAD_FD, 0, 0xffff_ffff, 0, 0, 0], libc::EPERM),
    ("fsopen", [0; 6], libc::EPERM),
    ("move_mount", [BAD_FD, 0, BAD_FD, 0, 0, 0], libc::EPERM),
    ("mount_setattr", [BAD_FD, 0, 0, 0, 0, 0], libc::EPERM),
    ("name_to_handle_at", [BAD_FD, 0, 0, 0, 0, 0], libc::EPERM),
    ("open_by_handle_at", [BAD_FD, 0, 0, 0, 0, 0], libc::EPERM),
    ("ptrace", [16, u64::MAX, 0, 0, 0, 0], libc::EPERM),
    ("process_vm_readv", [0, 0, 0, 0, 0, 1], libc::EPERM),
    ("kcmp", [0, 0, 99, 0, 0, 0], libc::EPERM),
    ("pidfd_getfd", [BAD_FD, 0, 0, 0, 0, 0], libc::EPERM),
    ("io_uring_setup", [1, 0, 0, 0, 0, 0], libc::EPERM),
    ("io_uring_enter", [BAD_FD, 0, 0, 0, 0, 0], libc::EPERM),
    ("bpf", [u64::MAX, 0, 0, 0, 0, 0], libc::EPERM),
    ("perf_event_open", [0; 6], libc::EPERM),
    ("userfaultfd", [0xffff_ffff, 0, 0, 0, 0, 0], libc::EPERM),
    ("keyctl", [0xffff, 0, 0, 0, 0, 0], libc::EPERM),
    ("add_key", [0; 6], libc::EPERM),
    ("syslog", [99, 0, 0, 0, 0, 0], libc::EPERM),
    ("reboot", [0; 6], libc::EPERM),
    ("swapoff", [0; 6], libc::EPERM),
    ("sethostname", [0, u64::MAX, 0, 0, 0, 0], libc::EPERM),
    ("clock_settime", [99, 0, 0, 0, 0, 0], libc::EPERM),
    ("init_module", [0; 6], libc::EPERM),
    ("fanotify_init", [0xffff_ffff, 0, 0, 0, 0, 0], libc::EPERM),
    ("memfd_secret", [0xffff_ffff, 0, 0, 0, 0, 0], libc::EPERM),
    ("clone3", [0; 6], libc::ENOSYS),
    ("get_mempolicy", [0, 0, 0, 0, 99, 0], libc::ENOSYS),
    ("io_setup", [0; 6], libc::ENOSYS),
    ("statmount", [0; 6], libc::ENOSYS),
    // A new thread without CLONE_SIGHAND is invalid, so even without the filter nothing starts.
    ("clone", [0x1001_0000, 0, 0, 0, 0, 0], libc::EPERM),
    ("clone", [0x1001_0000 | HIGH_BIT, 0, 0, 0, 0, 0], libc::EPERM),
    ("ioctl", [BAD_FD, 0x5412, 0, 0, 0, 0], libc::EPERM),
    ("ioctl", [BAD_FD, 0x5412 | HIGH_BIT, 0, 0, 0, 0], libc::EPERM),
    ("ioctl", [BAD_FD, 0x541c, 0, 0, 0, 0], libc::EPERM),
    ("fcntl", [BAD_FD, 1024, 0, 0, 0, 0], libc::EPERM),
    ("prctl", [9999, 0, 0, 0, 0, 0], libc::EPERM),
    ("prctl", [47, 4 | HIGH_BIT, 0, 0, 0, 0], libc::EPERM),
    ("personality", [0x0004_0000, 0, 0, 0, 0, 0], libc::EPERM),
    ("seccomp", [1, 8, 0, 0, 0, 0], libc::EPERM),
    ("fchmod", [BAD_FD, 0o4755, 0, 0, 0, 0], libc::EPERM),
    ("mknodat", [BAD_FD, 0, 0o020_000, 0, 0, 0], libc::EPERM),
    ("renameat2", [BAD_FD, 0, BAD_FD, 0, 4, 0], libc::EPERM),
    ("sendto", [BAD_FD, 0, 0, 1, 0, 0], libc::EPERM),
    ("setsockopt", [BAD_FD, 1, 50, 0, 0, 0], libc::EPERM),
    ("socket", [16, 3, 12, 0, 0, 0], libc::EPERM),
    ("socket", [17, 3, 0, 0, 0, 0], libc::EPERM),
    ("socket", [38, 5, 0, 0, 0, 0], libc::EPERM),
    ("socket", [40, 1, 0, 0, 0, 0], libc::EPERM),
    ("socket", [2, 3, 1, 0, 0, 0], libc::EPERM),
    ("socket", [2, 1, 262, 0, 0, 0], libc::EPERM),
];

#[test]
fn refused_calls_are_refused_by_the_filter() {
    let outside: Vec<i32> = thread::spawn(|| REFUSED.iter().map(|(name, args, _)| errno_of(name, *args)).collect())
        .join()
        .expect("the unfiltered calls do no harm");
    let inside: Vec<i32> = inside(|| REFUSED.iter().map(|(name, args, _)| errno_of(name, *args)).collect());
    let mut proven = 0;
    for ((name, args, expected), (outside, inside)) in REFUSED.iter().zip(outside.into_iter().zip(inside)) {
        assert_eq!(inside, *expected, "{name} {args:x?}");
        if outside == inside {
            println!("VACUOUS {name} {args:x?}: errno {outside} without the filter too");
        } else {
            proven += 1;
        }
    }
    println!("{proven} of {} calls proven", REFUSED.len());
    // Kernels differ in what they have, and an unprivileged user is refused more; but not this much.
    assert!(proven > REFUSED.len() / 2);
}

#[test]
fn ordinary_calls_pass() {
    let failures: Vec<_> = inside(|| {
        [
            ("getpid", [0; 6], 0),
            ("socket", [1, 1, 0, 0, 0, 0], 0),
            ("socket", [2, 0x8_0001, 6, 0, 0, 0], 0),
            ("socket", [16, 3, 0, 0, 0, 0], 0),
            ("ioctl", [BAD_FD, 0x5401, 0, 0, 0, 0], libc::EBADF),
            ("fcntl", [BAD_FD, 3, 0, 0, 0, 0], libc::EBADF),
            ("prctl", [38, 1, 0, 0, 0, 0], 0),
            ("personality", [0xffff_ffff, 0, 0, 0, 0, 0], 0),
            ("seccomp", [1, 0, 0, 0, 0, 0], libc::EFAULT),
            ("fchmod", [BAD_FD, 0o755, 0, 0, 0, 0], libc::EBADF),
            ("sendto", [BAD_FD, 0, 0, 0, 0, 0], libc::EBADF),
            ("pidfd_send_signal", [BAD_FD, 0, 0, 0, 0, 0], libc::EBADF),
            ("clone", [0x0001_0000, 0, 0, 0, 0, 0], libc::EINVAL),
        ]
        .into_iter()
        .map(|(name, args, expected)| (name, errno_of(name, args), expected))
        .filter(|(_, found, expected)| found != expected)
        .collect()
    });
    assert_eq!(failures, []);
}

#[test]
fn threads_and_programs_start_and_inherit_the_filter() {
    let (thread, output) = inside(|| {
        let thread = thread::spawn(|| errno_of("setns", [BAD_FD, 0, 0, 0, 0, 0])).join();
        let output = Command::new("cat").arg("/proc/self/status").output();
        (thread, output)
    });
    assert_eq!(thread.expect("a thread can start"), libc::EPERM);
    let output = output.expect("a program can start");
    let status = String::from_utf8_lossy(&output.stdout);
    assert!(status.contains("Seccomp:\t2"), "{status}");
}

#[cfg(target_arch = "x86_64")]
mod foreign_abis {
    use super::*;

    /// Forks a child that loads the filter if asked and then makes one call; returns how it ended.
    fn end_of_child(filtered: bool, call: fn()) -> i32 {
        let program = program(false);
        // SAFETY: the child only makes system calls that neither allocate nor lock, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork: {}", io::Error::last_os_error());
        if child == 0 {
            if filtered && load(&program, 0).is_err() {
                // SAFETY: ends the child without running any destructor of the parent's state.
                unsafe { libc::_exit(99) };
            }
            call();
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `status` is a live integer, and `child` is our own child.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(waited, child);
        status
    }

    fn killed_by_sigsys(status: i32) -> bool {
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS
    }

    #[test]
    fn i386_calls_kill_the_process() {
        fn i386_getpid() {
            // SAFETY: getpid takes no arguments and touches no memory; the registers that the entry
            // code of some kernels clears are declared.
            unsafe {
                std::arch::asm!(
                    "int 0x80",
                    inlateout("rax") 20_u64 => _,
                    out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                );
            }
        }
        let outside = end_of_child(false, i386_getpid);
        if !libc::WIFEXITED(outside) {
            println!("VACUOUS: this kernel has no i386 calls");
        }
        let inside = end_of_child(true, i386_getpid);
        assert!(killed_by_sigsys(inside) || !libc::WIFEXITED(outside), "{inside:#x}");
    }

    #[test]
    fn x32_calls_kill_the_process() {
        fn x32_getpid() {
            // SAFETY: getpid takes no arguments and touches no memory.
            unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) };
        }
        assert!(libc::WIFEXITED(end_of_child(false, x32_getpid)));
        let inside = end_of_child(true, x32_getpid);
        assert!(killed_by_sigsys(inside), "{inside:#x}");
    }
}

#[test]
fn a_supervisor_hears_of_refusals_and_answers_them() {
    const NEW_LISTENER: libc::c_ulong = 8;
    let program = program(true);
    let (listener_sender, listener_receiver) = mpsc::channel();
    thread::scope(|scope| {
        let guest = scope.spawn(|| {
            let listener = load(&program, NEW_LISTENER).map(|descriptor| {
                // SAFETY: the kernel has just made this descriptor for us.
                unsafe { OwnedFd::from_raw_fd(descriptor as i32) }
            });
            listener_sender.send(listener).ok();
            // "Not implemented" does not bother the supervisor; "not permitted" does.
            (errno_of("clone3", [0; 6]), errno_of("unshare", [0x1000_0000, 0, 0, 0, 0, 0]))
        });
        let listener = listener_receiver
            .recv()
            .expect("the guest thread loads its filter")
            .expect("the kernel accepts the filter with a listener");
        let data = answer_eperm(&listener).expect("the listener hands out the notification");
        let number = u32::try_from(data.nr).expect("numbers are positive");
        assert_eq!(rule(native(), number).map(|rule| rule.name), Some("unshare"));
        assert_eq!(data.arch, native().audit_value());
        assert_eq!(data.args[0], 0x1000_0000);
        let answers = guest.join().expect("the guest thread ends normally");
        assert_eq!(answers, (libc::ENOSYS, libc::EPERM));
    });
}

/// Receives one notification and answers it as the supervisor of a box does.
fn answer_eperm(listener: &OwnedFd) -> io::Result<libc::seccomp_data> {
    const NOTIF_RECV: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
    const NOTIF_SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
    // SAFETY: both structures are plain numbers, for which zero is a value.
    let (mut notification, mut answer) =
        unsafe { (std::mem::zeroed::<libc::seccomp_notif>(), std::mem::zeroed::<libc::seccomp_notif_resp>()) };
    // SAFETY: the request takes a pointer to exactly this structure, zeroed.
    if unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &raw mut notification) } < 0 {
        return Err(io::Error::last_os_error());
    }
    answer.id = notification.id;
    answer.error = -libc::EPERM;
    // SAFETY: as above.
    if unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &raw mut answer) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(notification.data)
}
