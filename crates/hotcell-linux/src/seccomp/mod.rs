//! The seccomp allow-list of the native Linux box.
//!
//! Four parts, each readable on its own:
//!
//! ```text
//! rules/      the table: every system call, what happens to it, and why
//! compile.rs  table -> classic BPF (binary search, then argument tests)
//! evaluate.rs classic BPF -> verdict, without a kernel
//! profile.rs  table -> the JSON that container engines and OCI runtimes take
//! ```
//!
//! # What the filter promises
//! - A call of a foreign ABI (i386 or x32 on x86_64, 32-bit ARM on aarch64) kills the process:
//!   such calls have other numbers and other argument layouts, so no rule could be trusted.
//! - A call whose row says so is allowed, for all arguments or for the listed ones.
//! - Everything else fails. `EPERM` says "the box refuses this"; `ENOSYS` says "pretend that this
//!   kernel does not have it", for calls where programs then take another road. A number above the
//!   highest that the table knows is `ENOSYS`, what an older kernel would say; an unlisted number
//!   below it is `EPERM`.
//!
//! # What it cannot promise
//! A filter sees register values and never follows a pointer. Which file is opened or which address
//! is dialled is held by the mount view, Landlock and the network namespace. SysV IPC and POSIX
//! message queues are allowed because the box has its own IPC namespace.
//!
//! # Notification
//! With [`FilterOptions::notify_denied`] every `EPERM` becomes `SECCOMP_RET_USER_NOTIF`, so that a
//! supervisor can record the attempt ([`rule`] gives its name and reason) and answer `EPERM`. The
//! supervisor must never answer with "continue": the arguments may have changed since the filter
//! saw them. If the supervisor goes away the kernel answers `ENOSYS`, so losing it never opens
//! anything. The record is not complete: a guest that loads a stricter filter of its own is refused by
//! that one first.
//!
//! # Cost
//! Most rows do not depend on arguments; for those the kernel (5.11 and later) caches the verdict in
//! a bitmap and does not run the program at all.
//!
//! # Example
//! ```
//! use hotcell_linux::seccomp::{Arch, FilterOptions, compile};
//! use hotcell_linux::seccomp::evaluate::{SeccompData, Verdict, evaluate};
//!
//! let program = compile(Arch::X86_64, &FilterOptions::default());
//! let mount = SeccompData::new(Arch::X86_64, 165, [0; 6]);
//! assert_eq!(evaluate(&program, &mount), Ok(Verdict::Errno(1)));
//! ```

mod bpf;
mod compile;
pub mod condition;
pub mod evaluate;
pub mod profile;
pub mod rules;
#[cfg(test)]
mod tests;

pub use bpf::{MAX_INSTRUCTIONS, Program, SockFilter};
pub use rules::rule;

/// An instruction set whose system calls the table knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// 64-bit x86, without its i386 and x32 ABIs.
    X86_64,
    /// 64-bit little-endian ARM, without its 32-bit ABI.
    Aarch64,
}

impl Arch {
    /// The architecture this program was built for, or `None` if the table does not cover it.
    pub const fn native() -> Option<Arch> {
        // The pointer width excludes x32, the byte order excludes big-endian ARM, where the halves
        // of a 64-bit argument lie the other way round.
        if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(Arch::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little")) {
            Some(Arch::Aarch64)
        } else {
            None
        }
    }

    /// The kernel's `AUDIT_ARCH_*` value, which the filter compares before anything else.
    pub const fn audit_value(self) -> u32 {
        match self {
            Arch::X86_64 => 0xC000_003E,
            Arch::Aarch64 => 0xC000_00B7,
        }
    }
}

/// Whose network the box uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// The box has a network namespace of its own.
    #[default]
    Private,
    /// The box shares the host's network namespace, and so its ports.
    Host,
}

/// What the filter depends on besides the architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilterOptions {
    /// Whose network the box uses; a few socket options are refused on the host's.
    pub network: Network,
    /// Ask a supervisor (`SECCOMP_RET_USER_NOTIF`) instead of answering `EPERM` at once.
    ///
    /// The program must then be loaded with `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    pub notify_denied: bool,
}

/// Compiles the table into the program that the box's first process loads.
///
/// Tests prove, for every architecture and option, that the result is a valid program within
/// [`MAX_INSTRUCTIONS`]; the kernel checks both again and refuses to load anything else.
pub fn compile(arch: Arch, options: &FilterOptions) -> Program {
    compile::compile_rules(arch, rules::rules(), options)
}
