//! Comparing and copying what is in files, without reading or filling their holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

const CHUNK: usize = 128 * 1024;

/// Whether two files of the same size hold the same bytes.
pub(super) fn is_same(one: &File, other: &File, size: u64) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    loop {
        // What is a hole in both is the same in both.
        at = next_data(one, at)?.min(next_data(other, at)?);
        if at >= size {
            return Ok(true);
        }
        let length = chunk(size - at);
        let (left, right) = (&mut left[..length], &mut right[..length]);
        match one.read_exact_at(left, at).and_then(|()| other.read_exact_at(right, at)) {
            Ok(()) if left == right => at += length as u64,
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Copies `size` bytes into an empty file. Holes stay holes: a file of a few pages can claim to be of any size.
pub(super) fn copy(from: &File, to: &File, size: u64) -> io::Result<()> {
    to.set_len(size)?;
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    loop {
        at = next_data(from, at)?;
        if at >= size {
            return Ok(());
        }
        let end = next_hole(from, at)?.min(size);
        while at < end {
            let piece = &mut buffer[..chunk(end - at)];
            from.read_exact_at(piece, at)?;
            to.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
    }
}

fn chunk(rest: u64) -> usize {
    usize::try_from(rest).map_or(CHUNK, |rest| rest.min(CHUNK))
}

/// Where the next bytes that are not a hole begin; after the last there is no such place.
fn next_data(file: &File, at: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(next) => Ok(next.max(at)),
        Err(Errno::NXIO) => Ok(u64::MAX),
        // The file system does not know holes: everything is data.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(at),
        Err(errno) => Err(errno.into()),
    }
}

/// Where the bytes at `at` end; always after `at`.
fn next_hole(file: &File, at: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, SeekFrom::Hole(at)) {
        Ok(next) if next > at => Ok(next),
        // A hole was made there meanwhile: reading it gives zeros, which is right too.
        Ok(_) => Ok(at.saturating_add(CHUNK as u64)),
        Err(Errno::NXIO | Errno::INVAL | Errno::NOTSUP) => Ok(u64::MAX),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn file(pieces: &[(u64, &[u8])], size: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in pieces {
            file.write_all_at(bytes, *at).unwrap();
        }
        file
    }

    #[test]
    fn holes_are_zeros_and_stay_holes() {
        let size = 1 << 40;
        let original = file(&[(0, b"start"), (1 << 39, b"middle"), (size - 1, b"e")], size);
        let copied = tempfile::tempfile().unwrap();
        copy(&original, &copied, size).unwrap();
        assert_eq!(copied.metadata().unwrap().len(), size);
        assert!(copied.metadata().unwrap().blocks() * 512 < 1 << 20);
        assert!(is_same(&original, &copied, size).unwrap());
        copied.write_all_at(b"x", (1 << 39) + 1).unwrap();
        assert!(!is_same(&original, &copied, size).unwrap());
    }

    #[test]
    fn written_zeros_and_a_hole_are_the_same() {
        assert!(is_same(&file(&[], 300_000), &file(&[(0, &[0; 300_000])], 300_000), 300_000).unwrap());
    }

    #[test]
    fn a_file_that_shrank_is_not_the_same() {
        let (long, short) = (file(&[(0, &[7; 200_000])], 200_000), file(&[(0, &[7; 10])], 10));
        assert!(!is_same(&long, &short, 200_000).unwrap());
    }
}
