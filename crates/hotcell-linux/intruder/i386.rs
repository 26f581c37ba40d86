//! The 32-bit system call entry of x86_64, whose numbers mean something else.

use crate::Attack;

#[cfg(not(target_arch = "x86_64"))]
pub const ATTACKS: &[Attack] = &[];

#[cfg(target_arch = "x86_64")]
pub const ATTACKS: &[Attack] = &[("i386", attack::i386)];

#[cfg(target_arch = "x86_64")]
mod attack {
    use crate::arguments::Arguments;
    use crate::{report, sys};

    /// A 32-bit call can only be given addresses in the lowest 4 GiB, where this program's statics are: a socket of the
    /// kernel's cryptography family, of a type that does not exist.
    static SOCKET: [u32; 3] = [38, 15, 0];

    /// Harmless calls by 32-bit numbers: one that tells nothing, one that hides the family of a socket from filters, and
    /// one that makes a namespace.
    pub fn i386(_: Arguments) {
        const GETPID: u32 = 20;
        const SOCKETCALL: u32 = 102;
        const UNSHARE: u32 = 310;
        const NEW_USER: u32 = 0x1000_0000;
        attempt("getpid", GETPID, 0, 0);
        attempt("socketcall", SOCKETCALL, 1, SOCKET.as_ptr() as u32);
        attempt("unshare", UNSHARE, NEW_USER, 0);
    }

    /// In a child, since filters may end whoever tries.
    fn attempt(name: &str, number: u32, first: u32, second: u32) {
        let ended = sys::in_child(|| report::call(format_args!("i386 {name}"), call(number, first, second)));
        if let Ok(sys::Ended::Signaled(signal)) = ended {
            report::line(format_args!("refused i386 {name}: ended by signal {signal}"));
        }
    }

    fn call(number: u32, first: u32, second: u32) -> sys::Result<usize> {
        let result: i32;
        // SAFETY: none of the calls above writes to memory. rbx is kept for the compiler, which does not let go of it;
        // the 32-bit entry may clear r8 to r11.
        unsafe {
            core::arch::asm!(
                "xchg {first}, rbx",
                "int 0x80",
                "xchg {first}, rbx",
                first = inout(reg) u64::from(first) => _,
                inlateout("eax") number => result,
                in("ecx") second, in("edx") 0, in("esi") 0, in("edi") 0,
                lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
            );
        }
        if (-4095..0).contains(&result) { Err(sys::Errno(-result)) } else { Ok(result as usize) }
    }
}
