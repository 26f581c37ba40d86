//! Reading what may be compressed, within bounds.

use std::fmt;
use std::io::{self, BufRead, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::limits::Limits;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const BZIP2: [u8; 3] = *b"BZh";

/// How bytes are compressed. Found by looking: labels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// A kind of compression that is known by sight but not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsupported(pub(crate) &'static str);

impl Compression {
    /// By the first bytes.
    pub(crate) fn of(start: &[u8]) -> Result<Self, Unsupported> {
        if start.starts_with(&GZIP) {
            Ok(Self::Gzip)
        } else if start.starts_with(&ZSTD) || is_skippable(start) {
            Ok(Self::Zstd)
        } else if start.starts_with(&XZ) {
            Err(Unsupported("xz"))
        } else if start.starts_with(&BZIP2) {
            Err(Unsupported("bzip2"))
        } else {
            Ok(Self::None)
        }
    }

    /// The end of a layer's media type.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "+gzip",
            Self::Zstd => "+zstd",
        }
    }
}

fn is_skippable(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// More came out than any honest content has.
#[derive(Debug)]
pub(crate) struct Bomb {
    /// How much may come out.
    pub(crate) limit: u64,
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it unpacks to more than {} bytes", self.limit)
    }
}

impl std::error::Error for Bomb {}

/// The limit that an error is about, if it is about one.
pub(crate) fn exceeded(error: &io::Error) -> Option<u64> {
    error.get_ref()?.downcast_ref::<Bomb>().map(|bomb| bomb.limit)
}

/// Uncompressed bytes of a stream of `size` bytes: what is more than [`Limits`] allow for that size is an error.
pub(crate) struct Decoder<'a> {
    inner: Box<dyn Read + 'a>,
    compression: Compression,
    left: u64,
    limit: u64,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(mut stream: impl BufRead + 'a, size: u64, limits: &Limits) -> io::Result<Self> {
        let mut start = [0; 6];
        let mut filled = 0;
        while let Some(rest) = start.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match stream.read(rest) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let start = start.get(..filled).unwrap_or_default().to_vec();
        let compression = Compression::of(&start).map_err(|Unsupported(kind)| {
            io::Error::other(format!("it is compressed with {kind}, which is not supported"))
        })?;
        let whole = Cursor::new(start).chain(stream);
        let by_ratio = size.saturating_mul(limits.ratio).max(limits.ratio_from);
        let (inner, limit): (Box<dyn Read + 'a>, u64) = match compression {
            Compression::None => (Box::new(whole), limits.unpacked_bytes),
            Compression::Gzip => (Box::new(MultiGzDecoder::new(whole)), by_ratio.min(limits.unpacked_bytes)),
            Compression::Zstd => (Box::new(ZstdFrames::new(whole)), by_ratio.min(limits.unpacked_bytes)),
        };
        Ok(Self { inner, compression, left: limit, limit })
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| io::Error::other(Bomb { limit: self.limit }))?;
        Ok(count)
    }
}

/// All frames of a zstd stream, one after the other. Those that carry no content are skipped.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), inside: false }
    }

    /// Goes to the next frame with content; `false` at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.inside {
                while self.decoder.can_collect() < buffer.len() && !self.decoder.is_finished() {
                    let missing = buffer.len().saturating_sub(self.decoder.can_collect());
                    self.decoder
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBytes(missing))
                        .map_err(io::Error::other)?;
                }
                let count = self.decoder.read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
            }
            self.inside = self.next_frame()?;
            if !self.inside {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn decode(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        Decoder::new(bytes, bytes.len() as u64, &Limits::default())?.read_to_end(&mut whole)?;
        Ok(whole)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    #[test]
    fn every_kind_reads_back() {
        let text = "some text ".repeat(50_000).into_bytes();
        for bytes in [text.clone(), gzip(&text), zstd(&text)] {
            assert!(decode(&bytes).unwrap() == text);
        }
        assert!(decode(b"").unwrap().is_empty());
        assert_eq!(decode(b"ab").unwrap(), b"ab");
    }

    #[test]
    fn several_members_and_frames_are_one_stream() {
        assert_eq!(decode(&[gzip(b"ab"), gzip(b"cd")].concat()).unwrap(), b"abcd");
        let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        assert_eq!(decode(&[&zstd(b"ab")[..], &skippable, &zstd(b"cd")].concat()).unwrap(), b"abcd");
        assert_eq!(decode(&[&skippable[..], &zstd(b"ab")].concat()).unwrap(), b"ab");
    }

    #[test]
    fn what_is_cut_or_unknown_is_an_error() {
        let text = "some text ".repeat(50_000).into_bytes();
        for bytes in [gzip(&text), zstd(&text)] {
            assert!(decode(&bytes[..bytes.len() / 2]).is_err());
        }
        assert!(decode(&[0x53, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1]).is_err());
        assert!(decode(&XZ).unwrap_err().to_string().contains("xz"));
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let limits = Limits { ratio: 10, ratio_from: 1000, ..Limits::default() };
        let zeros = vec![0; 100_000];
        for bytes in [gzip(&zeros), zstd(&zeros)] {
            let mut decoder = Decoder::new(&bytes[..], bytes.len() as u64, &limits).unwrap();
            let error = io::copy(&mut decoder, &mut io::sink()).unwrap_err();
            assert_eq!(exceeded(&error), Some((bytes.len() as u64 * 10).max(1000)));
        }
        // What is small may be as empty as it likes.
        let small = gzip(&zeros[..1000]);
        let mut decoder = Decoder::new(&small[..], small.len() as u64, &limits).unwrap();
        assert_eq!(io::copy(&mut decoder, &mut io::sink()).unwrap(), 1000);
    }
}
