//! Messages in envelopes: a byte of flags, the length in four, and that much JSON.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::http::Why;

/// The most that a message may have. `envd` sends output in pieces of 32 KiB.
pub(in super::super) const MOST: usize = 4 << 20;

const HEAD: usize = 5;
const COMPRESSED: u8 = 1;
const LAST: u8 = 2;

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Envelope {
    /// One of the messages.
    Message(Bytes),
    /// The last one, which says how the stream ended.
    Last(Bytes),
}

/// Takes envelopes out of bytes that come in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Envelopes {
    buffer: BytesMut,
    over: bool,
}

impl Envelopes {
    /// More bytes.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next envelope, if it is there in whole. An envelope that is too large is refused before it has come.
    pub(super) fn next(&mut self) -> Result<Option<Envelope>, Why> {
        if self.over && !self.buffer.is_empty() {
            return Err(garbled("there is more after the last message"));
        }
        let Some(&[flags, a, b, c, d]) = self.buffer.get(..HEAD) else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]);
        if flags & COMPRESSED != 0 {
            return Err(garbled("a message is compressed, which was not asked for"));
        }
        if flags & !LAST != 0 {
            return Err(garbled("a message has flags that nobody knows"));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST);
        let Some(length) = length else { return Err(Why::TooLarge { limit: MOST as u64 }) };
        if self.buffer.len() < HEAD + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        let message = self.buffer.split_to(length).freeze();
        self.over = flags & LAST != 0;
        Ok(Some(if self.over { Envelope::Last(message) } else { Envelope::Message(message) }))
    }

    /// Whether there is the beginning of an envelope.
    pub(super) fn is_in_the_middle(&self) -> bool {
        !self.buffer.is_empty()
    }
}

fn garbled(what: &str) -> Why {
    Why::Garbled { what: what.to_owned() }
}

/// A message in its envelope; none if it is too long for one.
pub(in super::super) fn enclosed(message: &[u8]) -> Option<Bytes> {
    let length = u32::try_from(message.len()).ok()?;
    let mut envelope = BytesMut::with_capacity(HEAD + message.len());
    envelope.put_u8(0);
    envelope.put_u32(length);
    envelope.put_slice(message);
    Some(envelope.freeze())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(envelopes: &mut Envelopes) -> Result<Vec<Envelope>, Why> {
        std::iter::from_fn(|| envelopes.next().transpose()).collect()
    }

    fn head(flags: u8, length: u32) -> Vec<u8> {
        let mut head = vec![flags];
        head.extend_from_slice(&length.to_be_bytes());
        head
    }

    #[test]
    fn an_envelope_that_is_too_large_is_refused_by_its_head_alone() {
        for length in [MOST as u32 + 1, 2 << 30, u32::MAX] {
            let mut envelopes = Envelopes::default();
            envelopes.push(&head(0, length));
            assert_eq!(envelopes.next(), Err(Why::TooLarge { limit: MOST as u64 }));
            assert!(envelopes.buffer.capacity() < 4096);
        }
        let mut envelopes = Envelopes::default();
        envelopes.push(&head(0, MOST as u32));
        assert_eq!(envelopes.next(), Ok(None));
    }

    #[test]
    fn flags_that_were_not_asked_for_are_refused() {
        for flags in [1, 3, 4, 0x80, 0xff] {
            let mut envelopes = Envelopes::default();
            envelopes.push(&head(flags, 0));
            let Err(Why::Garbled { what }) = envelopes.next() else { panic!("{flags}") };
            assert_eq!(what.contains("compressed"), flags & 1 != 0, "{flags}: {what}");
        }
    }

    #[test]
    fn nothing_comes_after_the_last_message() {
        let mut envelopes = Envelopes::default();
        envelopes.push(&head(2, 0));
        assert_eq!(envelopes.next(), Ok(Some(Envelope::Last(Bytes::new()))));
        assert_eq!(envelopes.next(), Ok(None));
        envelopes.push(b"x");
        assert!(matches!(envelopes.next(), Err(Why::Garbled { .. })));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut wire = Vec::new();
            for message in &messages {
                wire.extend_from_slice(&enclosed(message).unwrap());
            }
            wire.extend_from_slice(&head(2, 2));
            wire.extend_from_slice(b"{}");
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len())).collect();
            cuts.extend([0, wire.len()]);
            cuts.sort_unstable();
            let mut envelopes = Envelopes::default();
            let mut got = Vec::new();
            for window in cuts.windows(2) {
                envelopes.push(&wire[window[0]..window[1]]);
                got.extend(all(&mut envelopes).unwrap());
            }
            let mut expected: Vec<Envelope> =
                messages.into_iter().map(|message| Envelope::Message(message.into())).collect();
            expected.push(Envelope::Last(Bytes::from_static(b"{}")));
            prop_assert_eq!(got, expected);
            prop_assert!(!envelopes.is_in_the_middle());
        }

        #[test]
        fn bytes_of_any_kind_do_no_harm(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..16)) {
            let mut envelopes = Envelopes::default();
            for piece in pieces {
                envelopes.push(&piece);
                if all(&mut envelopes).is_err() {
                    break;
                }
            }
        }
    }
}
