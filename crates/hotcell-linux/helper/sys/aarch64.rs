//! System call entry, process entry and system call numbers of aarch64.

use core::arch::{asm, naked_asm};

/// Issues a system call.
///
/// # Safety
/// The arguments must be valid for the call `nr`: pointers live and sized as the kernel expects.
#[inline(always)]
pub unsafe fn syscall6(nr: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the kernel preserves every register but x0.
    unsafe {
        asm!(
            "svc #0",
            in("x8") nr,
            inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

/// `clone(flags)` onto a stack of its own: the child calls `entry` there, the parent gets the child's pid.
///
/// # Safety
/// `stack_top` must be the 16-byte aligned end of unused memory; `entry` must never return.
pub unsafe fn clone_onto(flags: usize, stack_top: *mut u8, entry: extern "C" fn() -> !) -> isize {
    let result: isize;
    // SAFETY: the child never comes back to this frame (it calls `entry`, which diverges), so only the parent
    // continues with this stack and these registers.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") nr::CLONE,
            inlateout("x0") flags => result,
            in("x1") stack_top, in("x2") 0usize, in("x3") 0usize, in("x4") 0usize,
            in("x9") entry,
            lateout("x30") _,
        );
    }
    result
}

/// Where the kernel starts the program: hands the arguments over to Rust (the kernel aligns the stack).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    naked_asm!("mov x29, xzr", "mov x30, xzr", "mov x0, sp", "bl {main}", "brk #1", main = sym crate::start)
}

/// Numbers of the calls that the helper makes.
pub mod nr {
    pub const RT_SIGACTION: usize = 134;
    pub const FSTATFS: usize = 44;
    pub const CLOCK_GETTIME: usize = 113;
    pub const CAPGET: usize = 90;
    pub const FCNTL: usize = 25;
    pub const GETPID: usize = 172;
    pub const FTRUNCATE: usize = 46;
    pub const NEWFSTATAT: usize = 79;
    pub const GETGID: usize = 176;
    pub const UMASK: usize = 166;
    pub const IOCTL: usize = 29;
    pub const FLOCK: usize = 32;
    pub const MKDIRAT: usize = 34;
    pub const UNLINKAT: usize = 35;
    pub const SYMLINKAT: usize = 36;
    pub const UMOUNT2: usize = 39;
    pub const MOUNT: usize = 40;
    pub const PIVOT_ROOT: usize = 41;
    pub const CHDIR: usize = 49;
    pub const FCHDIR: usize = 50;
    pub const FCHOWN: usize = 55;
    pub const SETNS: usize = 268;
    pub const FCHMOD: usize = 52;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const PIPE2: usize = 59;
    pub const GETDENTS64: usize = 61;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PPOLL: usize = 73;
    pub const SIGNALFD4: usize = 74;
    pub const FSTAT: usize = 80;
    pub const CAPSET: usize = 91;
    pub const EXIT_GROUP: usize = 94;
    pub const UNSHARE: usize = 97;
    pub const KILL: usize = 129;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const SETRESUID: usize = 147;
    pub const SETRESGID: usize = 149;
    pub const SETSID: usize = 157;
    pub const SETGROUPS: usize = 159;
    pub const SETHOSTNAME: usize = 161;
    pub const PRCTL: usize = 167;
    pub const GETUID: usize = 174;
    pub const SOCKET: usize = 198;
    pub const SOCKETPAIR: usize = 199;
    pub const SENDMSG: usize = 211;
    pub const RECVMSG: usize = 212;
    pub const MUNMAP: usize = 215;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const WAIT4: usize = 260;
    pub const PRLIMIT64: usize = 261;
    pub const RENAMEAT2: usize = 276;
    pub const SECCOMP: usize = 277;
    pub const DUP3: usize = 24;
    pub const PIDFD_SEND_SIGNAL: usize = 424;
    pub const OPEN_TREE: usize = 428;
    pub const MOVE_MOUNT: usize = 429;
    pub const FSOPEN: usize = 430;
    pub const FSCONFIG: usize = 431;
    pub const FSMOUNT: usize = 432;
    pub const CLONE3: usize = 435;
    pub const CLOSE_RANGE: usize = 436;
    pub const OPENAT2: usize = 437;
    pub const MOUNT_SETATTR: usize = 442;
    pub const LANDLOCK_CREATE_RULESET: usize = 444;
    pub const LANDLOCK_ADD_RULE: usize = 445;
    pub const LANDLOCK_RESTRICT_SELF: usize = 446;
}
