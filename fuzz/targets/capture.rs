//! A stream captured within bounds, in pieces of any length.
//!
//! The input is the length of the head, the length of the tail, four lengths of pieces, and the stream. Holds: head,
//! tail and count are those of the whole stream, however it is cut.
#![no_main]

use hotcell_core::backend::{CaptureLimits, StreamCapture};
use hotcell_fuzz::pieces;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[head, tail, ref lengths @ ..], stream)) = data.split_first_chunk::<6>() else { return };
    let limits = CaptureLimits { head: usize::from(head), tail: usize::from(tail) };

    let mut capture = StreamCapture::new(limits);
    for piece in pieces(stream, lengths) {
        capture.push(piece);
    }
    let found = capture.finish();

    let in_head = stream.len().min(limits.head);
    let in_tail = (stream.len() - in_head).min(limits.tail);
    assert_eq!(found.head, stream[..in_head]);
    assert_eq!(found.tail, stream[stream.len() - in_tail..]);
    assert_eq!(found.total, stream.len() as u64);
    assert_eq!(found.dropped(), (stream.len() - in_head - in_tail) as u64);
    assert_eq!(found.truncated(), in_head + in_tail < stream.len());
    assert_eq!(found.bytes(), [&found.head[..], &found.tail[..]].concat());
});
