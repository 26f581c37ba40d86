//! The messages of a WebSocket, read from its frames.

use anyhow::Result;

use super::Copier;
use super::format::{Exchange, Side};

/// Passes both directions on until one ends, and writes down the messages.
pub(super) async fn record(up: &mut Copier, down: &mut Copier, exchange: &mut Exchange) {
    let (mut from_client, mut from_server) = (Frames::default(), Frames::default());
    loop {
        from_client.take(&mut up.buffer, Side::Client, exchange);
        from_server.take(&mut down.buffer, Side::Server, exchange);
        let goes_on = tokio::select! {
            part = up.arrived() => pass(up, part).await,
            part = down.arrived() => pass(down, part).await,
        };
        if !matches!(goes_on, Ok(true)) {
            // What one side said last may still be on its way.
            while matches!(down.more().await, Ok(true)) {}
            from_server.take(&mut down.buffer, Side::Server, exchange);
            return;
        }
    }
}

async fn pass(copier: &mut Copier, part: Result<Vec<u8>>) -> Result<bool> {
    copier.pass(&part?).await
}

/// A message that comes in several frames.
#[derive(Debug, Default)]
struct Frames {
    kind: u8,
    payload: Vec<u8>,
}

impl Frames {
    fn take(&mut self, buffer: &mut Vec<u8>, side: Side, exchange: &mut Exchange) {
        while let Some((first, payload, length)) = frame(buffer) {
            buffer.drain(..length);
            let kind = first & 0x0f;
            match kind {
                8 => exchange.add_message(side, "close", &payload),
                9 | 10 => {}
                _ => {
                    if kind != 0 {
                        self.kind = kind;
                    }
                    self.payload.extend(payload);
                    if first & 0x80 != 0 {
                        let name = if self.kind == 1 { "text" } else { "binary" };
                        exchange.add_message(side, name, &std::mem::take(&mut self.payload));
                    }
                }
            }
        }
    }
}

/// The first byte of a frame, its payload without the mask, and the length of the whole.
fn frame(buffer: &[u8]) -> Option<(u8, Vec<u8>, usize)> {
    let (&first, &second) = (buffer.first()?, buffer.get(1)?);
    let (length, mut at) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(buffer.get(2..4)?.try_into().ok()?)), 4),
        127 => (u64::from_be_bytes(buffer.get(2..10)?.try_into().ok()?), 10),
        short => (u64::from(short), 2),
    };
    let mask: [u8; 4] = if second & 0x80 == 0 {
        [0; 4]
    } else {
        at += 4;
        buffer.get(at - 4..at)?.try_into().ok()?
    };
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    let masked = buffer.get(at..end)?;
    let payload = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Some((first, payload, end))
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn masks_are_taken_off() {
        assert_eq!(frame(b"\x81\x02hi"), Some((0x81, b"hi".to_vec(), 4)));
        assert_eq!(frame(b"\x82\x82\x01\x02\x03\x04ik"), Some((0x82, b"hi".to_vec(), 8)));
        assert_eq!(frame(b"\x81\x05hi"), None);
    }
}
