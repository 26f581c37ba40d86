//! What `--json` prints about a command's output.
//!
//! The input is the exit code, the lengths of head and tail, the length of standard output, and the two streams. Holds:
//! it is one line; nothing in it drives a terminal; read as JSON by somebody else, it gives back the same bytes.
#![no_main]

#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/hotcell-cli/src/exit.rs"]
mod exit;
#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/hotcell-cli/src/json.rs"]
mod json;
#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/hotcell-cli/src/report.rs"]
mod report;
#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../crates/hotcell-cli/src/table.rs"]
mod table;

use hotcell::outcome::{Violation, ViolationKind, Visibility};
use hotcell::plan::EnforcementReport;
use hotcell::{CaptureLimits, CapturedStream, Control, Isolation, Outcome, RuntimeKind, Status, StreamCapture, Usage};
use hotcell_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;
use report::{RunReport, Streams};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some((&[code, head, tail, length], rest)) = data.split_first_chunk::<4>() else { return };
    let limits = CaptureLimits { head: usize::from(head), tail: usize::from(tail) };
    let (stdout, stderr) = rest.split_at(usize::from(length).min(rest.len()));
    let (stdout, stderr) = (captured(stdout, limits), captured(stderr, limits));
    let outcome = outcome(code, &stdout);

    let report = RunReport::new(&outcome, Streams::Captured { stdout: stdout.clone(), stderr: stderr.clone() });
    let line = json::line(&report);

    let Some(line) = line.strip_suffix('\n') else { panic!("{line:?} has no end") };
    assert_printable(line);
    let Ok(value) = serde_json::from_str::<Value>(line) else { panic!("{line:?} is not JSON") };
    assert_eq!(value["exit_code"], u64::from(code));
    assert_eq!(value["violations"][0]["what"], outcome.violations[0].what);
    for (name, stream) in [("stdout", &stdout), ("stderr", &stderr)] {
        assert_eq!(content(&value, name), stream.bytes(), "{name} in {line:?}");
        assert_eq!(value[format!("{name}_bytes")], stream.total);
        assert_eq!(value[format!("{name}_truncated")], stream.truncated());
        let cut_at = stream.truncated().then_some(stream.head.len());
        assert_eq!(value.get(format!("{name}_cut_at")).and_then(Value::as_u64), cut_at.map(|at| at as u64));
    }
});

fn captured(bytes: &[u8], limits: CaptureLimits) -> CapturedStream {
    let mut capture = StreamCapture::new(limits);
    capture.push(bytes);
    capture.finish()
}

/// An outcome in which text of the guest's is found outside of the streams too.
fn outcome(code: u8, stdout: &CapturedStream) -> Outcome {
    let text = String::from_utf8_lossy(&stdout.head).into_owned();
    let violation = Violation {
        control: Control::Memory,
        kind: ViolationKind::Limit,
        what: text.clone(),
        count: 1,
        vouched_by: text.clone(),
    };
    Outcome {
        status: Status::Exited(code.into()),
        usage: Usage::default(),
        report: EnforcementReport { backend: RuntimeKind::Native, isolation: Isolation::Process, controls: Vec::new() },
        violations: vec![violation],
        visibility: Visibility { seen: vec![text.clone()], unseen: vec![text] },
    }
}

/// What a reader of the line takes a stream's content to be.
fn content(report: &Value, name: &str) -> Vec<u8> {
    let (text, encoded) = (&report[name], &report[format!("{name}_base64")]);
    match (text.as_str(), encoded.as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => decode(encoded),
        both => panic!("{name} has to be either text or base64: {both:?}"),
    }
}

/// Base64 by the book: four digits are three bytes, `=` stands for a byte that is not there.
fn decode(text: &str) -> Vec<u8> {
    let digit = |character: u8| match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other:?} is no digit of base64"),
    };
    assert_eq!(text.len() % 4, 0, "base64 comes in groups of four");
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let missing = group.iter().rev().take_while(|character| **character == b'=').count();
        assert!(missing <= 2, "a group of base64 has at least one byte");
        let digits = &group[..4 - missing];
        let number = digits.iter().fold(0_u32, |number, character| number << 6 | u32::from(digit(*character)));
        bytes.extend_from_slice(&(number << (6 * missing)).to_be_bytes()[1..4 - missing]);
    }
    bytes
}
