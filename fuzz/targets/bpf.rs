//! Any program to the evaluator of system call filters.
//!
//! The input is one call (number, architecture, instruction pointer and six arguments) and the instructions, eight bytes
//! each. Holds: no program makes the evaluator panic; one that it accepts ends with the verdict that another, obvious
//! interpreter gives; one that it does not accept is not run.
#![no_main]

use hotcell_linux::seccomp::evaluate::{SeccompData, Verdict, check, evaluate};
use hotcell_linux::seccomp::{Program, SockFilter};
use libfuzzer_sys::fuzz_target;

/// What the evaluator knows, so that random programs are not all refused at their first instruction, and one that it does not.
const CODES: [u16; 7] = [0x20, 0x54, 0x05, 0x15, 0x35, 0x06, 0x80];
/// Verdicts, which random numbers would hardly ever be.
const VERDICTS: [u32; 5] = [0x7fff_0000, 0x7fc0_0000, 0x8000_0000, 0x0005_0001, 0x0005_0026];

fuzz_target!(|bytes: &[u8]| {
    let Some((call, instructions)) = bytes.split_first_chunk::<64>() else { return };
    let data = read_call(call);
    let program = Program { instructions: instructions.chunks_exact(8).map(instruction).collect() };
    let found = evaluate(&program, &data);
    if check(&program).is_err() {
        assert!(found.is_err(), "an invalid program was run: {program:?}");
        return;
    }
    let Some(expected) = interpret(&program, &data) else { panic!("{program:?} runs off its end on {data:?}") };
    assert_eq!(found, Ok(expected), "{program:?} on {data:?}");
});

fn read_call(bytes: &[u8; 64]) -> SeccompData {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let double = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
    let args = [16, 24, 32, 40, 48, 56].map(double);
    SeccompData { nr: word(0), arch: word(4), instruction_pointer: double(8), args }
}

fn instruction(bytes: &[u8]) -> SockFilter {
    let word = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let code = match CODES.get(usize::from(bytes[0])) {
        Some(code) => *code,
        None => u16::from_le_bytes([bytes[0], bytes[1]]),
    };
    // Most words are no verdict, no offset and no distance that makes sense: a small second byte chooses one that may.
    let k = match (code, bytes[1]) {
        (0x06, chosen) => VERDICTS.get(usize::from(chosen)).copied().unwrap_or(word),
        (0x20, chosen @ 1..=20) => u32::from(chosen - 1) * 4,
        (0x05, chosen @ 1..=20) => u32::from(chosen - 1),
        _ => word,
    };
    SockFilter { code, jt: bytes[2], jf: bytes[3], k }
}

/// Runs a program that was found valid, counting instructions.
fn interpret(program: &Program, data: &SeccompData) -> Option<Verdict> {
    let mut words = vec![data.nr, data.arch, data.instruction_pointer as u32, (data.instruction_pointer >> 32) as u32];
    words.extend(data.args.iter().flat_map(|argument| [*argument as u32, (argument >> 32) as u32]));
    let (mut at, mut value) = (0, 0);
    loop {
        let SockFilter { code, jt, jf, k } = *program.instructions.get(at)?;
        at += 1;
        match code {
            0x20 => value = words[k as usize / 4],
            0x54 => value &= k,
            0x05 => at += k as usize,
            0x15 => at += usize::from(if value == k { jt } else { jf }),
            0x35 => at += usize::from(if value >= k { jt } else { jf }),
            _ => {
                return Some(match k {
                    0x7fff_0000 => Verdict::Allow,
                    0x7fc0_0000 => Verdict::Notify,
                    0x8000_0000 => Verdict::KillProcess,
                    errno => Verdict::Errno(errno as u16),
                });
            }
        }
    }
}
