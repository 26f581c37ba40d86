//! System call entry, process entry and system call numbers of x86_64.

use core::arch::{asm, naked_asm};

/// Issues a system call.
///
/// # Safety
/// The arguments must be valid for the call `nr`: pointers live and sized as the kernel expects.
#[inline(always)]
pub unsafe fn syscall6(nr: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; rcx and r11 are the only registers the kernel clobbers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE as isize => result,
            in("rdi") flags, in("rsi") stack_top, in("rdx") 0usize, in("r10") 0usize, in("r8") 0usize,
            in("r9") entry,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Where the kernel starts the program: hands the arguments over to Rust, on an aligned stack.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {main}", "ud2", main = sym crate::start)
}

/// Numbers of the calls that the helper makes.
pub mod nr {
    pub const RT_SIGACTION: usize = 13;
    pub const FSTATFS: usize = 138;
    pub const CLOCK_GETTIME: usize = 228;
    pub const CAPGET: usize = 125;
    pub const FCNTL: usize = 72;
    pub const GETPID: usize = 39;
    pub const FTRUNCATE: usize = 77;
    pub const NEWFSTATAT: usize = 262;
    pub const GETGID: usize = 104;
    pub const UMASK: usize = 95;
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const SOCKET: usize = 41;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const SOCKETPAIR: usize = 53;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const FLOCK: usize = 73;
    pub const FCHDIR: usize = 81;
    pub const FCHMOD: usize = 91;
    pub const FCHOWN: usize = 93;
    pub const SETNS: usize = 308;
    pub const GETUID: usize = 102;
    pub const SETSID: usize = 112;
    pub const SETGROUPS: usize = 116;
    pub const SETRESUID: usize = 117;
    pub const SETRESGID: usize = 119;
    pub const CAPSET: usize = 126;
    pub const PIVOT_ROOT: usize = 155;
    pub const PRCTL: usize = 157;
    pub const MOUNT: usize = 165;
    pub const UMOUNT2: usize = 166;
    pub const SETHOSTNAME: usize = 170;
    pub const GETDENTS64: usize = 217;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const UNLINKAT: usize = 263;
    pub const SYMLINKAT: usize = 266;
    pub const PPOLL: usize = 271;
    pub const UNSHARE: usize = 272;
    pub const SIGNALFD4: usize = 289;
    pub const DUP3: usize = 292;
    pub const PIPE2: usize = 293;
    pub const PRLIMIT64: usize = 302;
    pub const RENAMEAT2: usize = 316;
    pub const SECCOMP: usize = 317;
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
    pub const CHDIR: usize = 80;
}
