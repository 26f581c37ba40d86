//! Frames: records on a stream of bytes, and what an agent says in them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::Broken;
use crate::wire::{Malformed, Reader, STREAM_CHUNK, Writer, notice};

/// The longest frame that an agent has reason to send: a piece of output, with what is before it.
const NOTICE_MAX: usize = STREAM_CHUNK + 64;

/// Reads the next frame into `record`. `false`: the stream ended between two.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin), record: &mut Vec<u8>) -> Result<bool, Broken> {
    let mut length = [0; 4];
    let first = stream.read(&mut length).await?;
    if first == 0 {
        return Ok(false);
    }
    stream.read_exact(&mut length[first..]).await?;
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 || length > NOTICE_MAX {
        return Err(Broken::Length { length });
    }
    record.resize(length, 0);
    stream.read_exact(record).await?;
    Ok(true)
}

/// A record as a frame.
pub(super) fn of(record: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(record.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok([&length.to_le_bytes(), record].concat())
}

/// A record that is being written, as a frame.
pub(super) fn from(record: Writer) -> io::Result<Vec<u8>> {
    of(&record.finish())
}

/// What an agent said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice<'a> {
    /// The answer to the set-up, good or bad.
    SetUp,
    Started {
        token: u32,
    },
    NotStarted {
        token: u32,
    },
    Exited {
        token: u32,
    },
    Done {
        token: u32,
    },
    Sampled {
        token: u32,
    },
    Output {
        token: u32,
        stream: u8,
        bytes: &'a [u8],
    },
    OutputEnd {
        token: u32,
        stream: u8,
    },
    InputCredit {
        token: u32,
        bytes: u32,
    },
    InputClosed {
        token: u32,
    },
}

impl<'a> Notice<'a> {
    /// Reads a record to its end: one that has more in it than belongs there is none.
    pub(super) fn decode(record: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(record);
        let notice = match reader.u8()? {
            notice::READY => {
                // Descriptors do not come through a stream.
                if (reader.u8()?, reader.u8()?) != (0, 0) {
                    return Err(Malformed);
                }
                Self::SetUp
            }
            notice::FAILED => {
                reader.u32()?;
                reader.i32()?;
                Self::SetUp
            }
            notice::STARTED => {
                let token = reader.u32()?;
                reader.u64()?;
                Self::Started { token }
            }
            notice::SPAWN_FAILED => {
                let token = reader.u32()?;
                reader.u8()?;
                reader.i32()?;
                Self::NotStarted { token }
            }
            notice::EXITED => {
                let token = reader.u32()?;
                reader.i32()?;
                reader.u64()?;
                reader.u64()?;
                reader.u64()?;
                Self::Exited { token }
            }
            notice::DONE => {
                let token = reader.u32()?;
                reader.i32()?;
                Self::Done { token }
            }
            notice::SAMPLED => {
                let token = reader.u32()?;
                reader.u64()?;
                reader.u64()?;
                reader.u64()?;
                Self::Sampled { token }
            }
            notice::OUTPUT => {
                let (token, stream, bytes) = (reader.u32()?, reader.u8()?, reader.bytes()?);
                if bytes.is_empty() {
                    return Err(Malformed);
                }
                Self::Output { token, stream, bytes }
            }
            notice::OUTPUT_END => Self::OutputEnd { token: reader.u32()?, stream: reader.u8()? },
            notice::INPUT_CREDIT => Self::InputCredit { token: reader.u32()?, bytes: reader.u32()? },
            notice::INPUT_CLOSED => Self::InputClosed { token: reader.u32()? },
            _ => return Err(Malformed),
        };
        if reader.is_empty() { Ok(notice) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_to_its_end_or_refused() {
        let done = Writer::new(notice::DONE).u32(7).i32(2).finish();
        assert_eq!(Notice::decode(&done), Ok(Notice::Done { token: 7 }));
        assert_eq!(Notice::decode(&done[..8]), Err(Malformed));
        assert_eq!(Notice::decode(&[&done[..], &[0]].concat()), Err(Malformed));
        assert_eq!(Notice::decode(&[]), Err(Malformed));
        assert_eq!(Notice::decode(&[200, 0, 0, 0, 0]), Err(Malformed));
    }

    #[test]
    fn output_of_nothing_and_descriptors_that_cannot_come_are_refused() {
        let nothing = Writer::new(notice::OUTPUT).u32(1).u8(0).bytes(b"").finish();
        assert_eq!(Notice::decode(&nothing), Err(Malformed));
        assert_eq!(Notice::decode(&[notice::READY, 0, 0]), Ok(Notice::SetUp));
        assert_eq!(Notice::decode(&[notice::READY, 0, 1]), Err(Malformed));
    }
}
