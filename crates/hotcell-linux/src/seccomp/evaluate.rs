//! Runs a filter without a kernel.
//!
//! Tests use it to ask what a filter would say about any call, on any architecture. It knows exactly
//! the instructions that the compiler writes and rejects every other one.

use super::Arch;
use super::bpf::{
    AND, ARCH_OFFSET, ARGUMENTS_OFFSET, DATA_SIZE, IF_AT_LEAST, IF_EQUAL, JUMP, LOAD, MAX_INSTRUCTIONS, NUMBER_OFFSET,
    Program, RETURN, RETURN_ALLOW, RETURN_ERRNO, RETURN_KILL_PROCESS, RETURN_NOTIFY, SockFilter,
};

/// What a filter is asked about: the kernel's `struct seccomp_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeccompData {
    /// The system call number.
    pub nr: u32,
    /// The `AUDIT_ARCH_*` value of the calling convention.
    pub arch: u32,
    /// Where the call came from.
    pub instruction_pointer: u64,
    /// The argument registers, whole.
    pub args: [u64; 6],
}

impl SeccompData {
    /// A call in the native convention of `arch`.
    pub const fn new(arch: Arch, nr: u32, args: [u64; 6]) -> SeccompData {
        SeccompData { nr, arch: arch.audit_value(), instruction_pointer: 0, args }
    }

    /// The word at `offset`, as it lies in the memory of a little-endian machine.
    fn word(&self, offset: u32) -> u32 {
        let double = match offset & !7 {
            NUMBER_OFFSET => u64::from(self.arch) << 32 | u64::from(self.nr),
            8 => self.instruction_pointer,
            argument => {
                let index = (argument - ARGUMENTS_OFFSET) / 8;
                self.args.get(index as usize).copied().unwrap_or_default()
            }
        };
        // The two words of a pair share an aligned eight bytes, the lower one first.
        if offset & ARCH_OFFSET == 0 { double as u32 } else { (double >> 32) as u32 }
    }
}

/// What a filter says about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The call proceeds.
    Allow,
    /// The call fails with this error and does nothing.
    Errno(u16),
    /// A supervisor is asked.
    Notify,
    /// The whole process dies by `SIGSYS`.
    KillProcess,
}

/// Why a program is not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProgram {
    /// The program is empty or longer than the kernel takes.
    #[error("the program has {length} instructions, the kernel takes 1 to {MAX_INSTRUCTIONS}")]
    Length {
        /// Number of instructions.
        length: usize,
    },
    /// An instruction that the compiler never writes.
    #[error("instruction {at} has the unknown code {code:#06x}")]
    UnknownInstruction {
        /// Position in the program.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A load that is unaligned or outside of `struct seccomp_data`.
    #[error("instruction {at} loads from offset {offset}, outside of the call's data or unaligned")]
    BadLoad {
        /// Position in the program.
        at: usize,
        /// Where it loads from.
        offset: u32,
    },
    /// A jump, or the step after the last instruction, leaves the program.
    #[error("execution can run past the end of the program from instruction {at}")]
    RunsOff {
        /// Position in the program.
        at: usize,
    },
    /// A verdict that the compiler never writes.
    #[error("instruction {at} returns the unknown verdict {value:#010x}")]
    UnknownVerdict {
        /// Position in the program.
        at: usize,
        /// The value returned.
        value: u32,
    },
}

/// Checks every instruction, reached or not, as the kernel does when a filter is loaded.
///
/// # Errors
/// The first instruction that is wrong, and how.
pub fn check(program: &Program) -> Result<(), InvalidProgram> {
    let length = program.instructions.len();
    if length == 0 || length > MAX_INSTRUCTIONS {
        return Err(InvalidProgram::Length { length });
    }
    for (at, instruction) in program.instructions.iter().enumerate() {
        check_instruction(at, *instruction, length)?;
    }
    Ok(())
}

fn check_instruction(at: usize, instruction: SockFilter, length: usize) -> Result<(), InvalidProgram> {
    let SockFilter { code, jt, jf, k } = instruction;
    let farthest_skip = match code {
        RETURN => return verdict(at, k).map(drop),
        LOAD if k % 4 != 0 || k >= DATA_SIZE => {
            return Err(InvalidProgram::BadLoad { at, offset: k });
        }
        LOAD | AND => 0,
        JUMP => k as usize,
        IF_EQUAL | IF_AT_LEAST => usize::from(jt.max(jf)),
        _ => return Err(InvalidProgram::UnknownInstruction { at, code }),
    };
    // Jumps go forward only, so a program without a way out of its end always reaches a `RETURN`.
    if at + 1 + farthest_skip >= length {
        return Err(InvalidProgram::RunsOff { at });
    }
    Ok(())
}

fn verdict(at: usize, value: u32) -> Result<Verdict, InvalidProgram> {
    match (value & 0xffff_0000, value as u16) {
        (RETURN_ALLOW, 0) => Ok(Verdict::Allow),
        (RETURN_NOTIFY, 0) => Ok(Verdict::Notify),
        (RETURN_KILL_PROCESS, 0) => Ok(Verdict::KillProcess),
        (RETURN_ERRNO, errno) => Ok(Verdict::Errno(errno)),
        _ => Err(InvalidProgram::UnknownVerdict { at, value }),
    }
}

/// What `program` says about `data`.
///
/// # Errors
/// The program is not a valid filter; see [`check`].
pub fn evaluate(program: &Program, data: &SeccompData) -> Result<Verdict, InvalidProgram> {
    check(program)?;
    run(program, data, |_, _| {})
}

/// Runs a program and tells `visit` each position and the number of instructions skipped after it.
pub(super) fn run(
    program: &Program,
    data: &SeccompData,
    mut visit: impl FnMut(usize, usize),
) -> Result<Verdict, InvalidProgram> {
    let mut accumulator = 0;
    let mut at = 0;
    while let Some(&SockFilter { code, jt, jf, k }) = program.instructions.get(at) {
        let branch = |holds: bool| usize::from(if holds { jt } else { jf });
        let skip = match code {
            RETURN => {
                visit(at, 0);
                return verdict(at, k);
            }
            LOAD => {
                accumulator = data.word(k);
                0
            }
            AND => {
                accumulator &= k;
                0
            }
            JUMP => k as usize,
            IF_EQUAL => branch(accumulator == k),
            IF_AT_LEAST => branch(accumulator >= k),
            _ => return Err(InvalidProgram::UnknownInstruction { at, code }),
        };
        visit(at, skip);
        at = at.saturating_add(1).saturating_add(skip);
    }
    Err(InvalidProgram::RunsOff { at })
}
