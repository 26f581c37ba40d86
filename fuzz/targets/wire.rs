//! The records that the library and the helper exchange, without the processes.
//!
//! The input is what to read, one letter per field (`b` one byte, `w` four, `i` four with a sign, `l` eight, `s` a byte
//! string, `t` a text), a line end, and the record. Holds: the reader gives what counting by hand gives and never more
//! than the record has; what it gave, written again, is what it read; every shorter record is refused.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use hotcell_linux::wire::{Malformed, Reader, Writer};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field<'a> {
    Byte(u8),
    Word(u32),
    Signed(i32),
    Long(u64),
    Bytes(&'a [u8]),
    /// With the NUL that ends it.
    Text(&'a [u8]),
}

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (kinds, record) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let kinds: Vec<u8> = kinds.iter().copied().filter(|kind| b"bwilst".contains(kind)).take(64).collect();

    let mut reader = Reader::new(record);
    let mut at = 0;
    let mut fields = Vec::new();
    for kind in &kinds {
        let (found, expected) = (read(&mut reader, *kind), count(record, &mut at, *kind));
        assert_eq!(found.ok(), expected, "field {} of {kinds:?} in {record:?}", fields.len());
        match expected {
            Some(field) => fields.push(field),
            None => break,
        }
    }
    if fields.len() < kinds.len() {
        return;
    }
    assert_eq!(reader.is_empty(), at == record.len());

    let written = fields.iter().fold(Writer::new(0), |writer, field| match field {
        Field::Byte(value) => writer.u8(*value),
        Field::Word(value) => writer.u32(*value),
        Field::Signed(value) => writer.i32(*value),
        Field::Long(value) => writer.u64(*value),
        Field::Bytes(value) => writer.bytes(value),
        Field::Text(value) => writer.text(OsStr::from_bytes(&value[..value.len() - 1])),
    });
    let written = written.finish().split_off(1);
    assert_eq!(written, record[..at], "written again, the record is another");

    // Every cut is in some field, and that one cannot be read.
    for length in (0..at).rev().take(256) {
        let mut reader = Reader::new(&record[..length]);
        let refused = kinds.iter().any(|kind| read(&mut reader, *kind).is_err());
        assert!(refused, "{length} of {at} bytes are enough for {kinds:?}");
    }
});

fn read<'a>(reader: &mut Reader<'a>, kind: u8) -> Result<Field<'a>, Malformed> {
    Ok(match kind {
        b'b' => Field::Byte(reader.u8()?),
        b'w' => Field::Word(reader.u32()?),
        b'i' => Field::Signed(reader.i32()?),
        b'l' => Field::Long(reader.u64()?),
        b's' => Field::Bytes(reader.bytes()?),
        _ => Field::Text(reader.text()?),
    })
}

/// The field at `at`, counted byte by byte; none if the record does not have it.
fn count<'a>(record: &'a [u8], at: &mut usize, kind: u8) -> Option<Field<'a>> {
    let mut take = |length: usize| {
        let rest = &record[*at..];
        if length > rest.len() {
            return None;
        }
        *at += length;
        Some(&rest[..length])
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |number, byte| number * 256 + u64::from(*byte));
    Some(match kind {
        b'b' => Field::Byte(number(take(1)?) as u8),
        b'w' => Field::Word(number(take(4)?) as u32),
        b'i' => Field::Signed(number(take(4)?) as u32 as i32),
        b'l' => Field::Long(number(take(8)?)),
        other => {
            let length = number(take(4)?) as usize;
            let bytes = take(length)?;
            if other == b's' {
                return Some(Field::Bytes(bytes));
            }
            let nuls = bytes.iter().filter(|byte| **byte == 0).count();
            if nuls != 1 || bytes.last() != Some(&0) {
                return None;
            }
            Field::Text(bytes)
        }
    })
}
