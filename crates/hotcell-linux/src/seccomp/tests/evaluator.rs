//! Programs that are not filters.

use super::super::bpf::{AND, IF_EQUAL, JUMP, LOAD, MAX_INSTRUCTIONS, RETURN, SockFilter};
use super::super::evaluate::{InvalidProgram, evaluate};
use super::*;

const ALLOW: u32 = 0x7fff_0000;

/// code, jt, jf, k
type Raw = (u16, u8, u8, u32);

fn program(instructions: &[Raw]) -> Program {
    Program { instructions: instructions.iter().map(|&(code, jt, jf, k)| SockFilter { code, jt, jf, k }).collect() }
}

#[test]
fn invalid_programs_are_rejected() {
    let too_long = vec![(RETURN, 0, 0, ALLOW); MAX_INSTRUCTIONS + 1];
    let cases: &[(&[Raw], InvalidProgram)] = &[
        (&[], InvalidProgram::Length { length: 0 }),
        (&too_long, InvalidProgram::Length { length: 4097 }),
        (&[(0x80, 0, 0, 0), (RETURN, 0, 0, ALLOW)], InvalidProgram::UnknownInstruction { at: 0, code: 0x80 }),
        (&[(LOAD, 0, 0, 2), (RETURN, 0, 0, ALLOW)], InvalidProgram::BadLoad { at: 0, offset: 2 }),
        (&[(LOAD, 0, 0, 64), (RETURN, 0, 0, ALLOW)], InvalidProgram::BadLoad { at: 0, offset: 64 }),
        (&[(AND, 0, 0, 1)], InvalidProgram::RunsOff { at: 0 }),
        (&[(JUMP, 0, 0, 1), (RETURN, 0, 0, ALLOW)], InvalidProgram::RunsOff { at: 0 }),
        (&[(JUMP, 0, 0, u32::MAX), (RETURN, 0, 0, ALLOW)], InvalidProgram::RunsOff { at: 0 }),
        (&[(IF_EQUAL, 0, 1, 0), (RETURN, 0, 0, ALLOW)], InvalidProgram::RunsOff { at: 0 }),
        (&[(RETURN, 0, 0, 0x7ff0_0000)], InvalidProgram::UnknownVerdict { at: 0, value: 0x7ff0_0000 }),
        (
            // Wrong even though nothing reaches it.
            &[(RETURN, 0, 0, ALLOW), (LOAD, 0, 0, 0)],
            InvalidProgram::RunsOff { at: 1 },
        ),
    ];
    let data = SeccompData::new(Arch::X86_64, 0, [0; 6]);
    for (instructions, expected) in cases {
        let found = evaluate(&program(instructions), &data);
        assert_eq!(found, Err(*expected), "{expected}");
    }
}

#[test]
fn every_word_of_the_data_can_be_loaded() {
    let data = SeccompData {
        nr: 1,
        arch: 2,
        instruction_pointer: 0x4_0000_0003,
        args: [0x6_0000_0005, 0x8_0000_0007, 0xa_0000_0009, 0xc_0000_000b, 0xe_0000_000d, 0x10_0000_000f],
    };
    for (offset, expected) in (0..64).step_by(4).zip(1..) {
        let equal = program(&[
            (LOAD, 0, 0, offset),
            (IF_EQUAL, 0, 1, expected),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, 0x8000_0000),
        ]);
        assert_eq!(evaluate(&equal, &data), Ok(Verdict::Allow), "{offset}");
    }
}
