//! Classic BPF as seccomp takes it: one instruction, a program, and the few opcodes in use.

/// The kernel's limit on the length of one filter (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct SockFilter {
    /// Operation, operand size and addressing mode.
    pub code: u16,
    /// How many instructions to skip when a comparison holds.
    pub jt: u8,
    /// How many instructions to skip when it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// A filter, ready to be handed to `seccomp(2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The instructions, in the order of execution.
    pub instructions: Vec<SockFilter>,
}

impl Program {
    /// The program as an array of `struct sock_filter`: eight bytes each, in native byte order.
    pub fn as_bytes(&self) -> &[u8] {
        let instructions: &[SockFilter] = &self.instructions;
        // SAFETY: `SockFilter` is `repr(C)` with fields of 2 + 1 + 1 + 4 bytes and alignment 4, so
        // it has no padding and every one of its bytes is initialised. The length is that of the
        // same slice in bytes, and the result borrows `self`.
        unsafe { std::slice::from_raw_parts(instructions.as_ptr().cast::<u8>(), std::mem::size_of_val(instructions)) }
    }
}

/// Load the 32-bit word of `struct seccomp_data` at offset `k` (`BPF_LD | BPF_W | BPF_ABS`).
pub(super) const LOAD: u16 = 0x20;
/// Keep the bits of `k` (`BPF_ALU | BPF_AND | BPF_K`).
pub(super) const AND: u16 = 0x54;
/// Skip `k` instructions (`BPF_JMP | BPF_JA`).
pub(super) const JUMP: u16 = 0x05;
/// Is it equal to `k`? (`BPF_JMP | BPF_JEQ | BPF_K`)
pub(super) const IF_EQUAL: u16 = 0x15;
/// Is it at least `k`, unsigned? (`BPF_JMP | BPF_JGE | BPF_K`)
pub(super) const IF_AT_LEAST: u16 = 0x35;
/// End with the verdict `k` (`BPF_RET | BPF_K`).
pub(super) const RETURN: u16 = 0x06;

/// Offset of the system call number in `struct seccomp_data`.
pub(super) const NUMBER_OFFSET: u32 = 0;
/// Offset of the `AUDIT_ARCH_*` value.
pub(super) const ARCH_OFFSET: u32 = 4;
/// Offset of the first argument; the low half comes first on both architectures.
pub(super) const ARGUMENTS_OFFSET: u32 = 16;
/// Size of `struct seccomp_data`.
pub(super) const DATA_SIZE: u32 = 64;

/// `SECCOMP_RET_KILL_PROCESS`
pub(super) const RETURN_KILL_PROCESS: u32 = 0x8000_0000;
/// `SECCOMP_RET_USER_NOTIF`
pub(super) const RETURN_NOTIFY: u32 = 0x7fc0_0000;
/// `SECCOMP_RET_ERRNO`; the low half is the error.
pub(super) const RETURN_ERRNO: u32 = 0x0005_0000;
/// `SECCOMP_RET_ALLOW`
pub(super) const RETURN_ALLOW: u32 = 0x7fff_0000;
