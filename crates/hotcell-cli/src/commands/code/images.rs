//! The directory of `--save-images`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hotcell::interpreter::RichResult;
use hotcell::text::PrintablePath;
use rustix::fs::{Mode, OFlags};

use crate::failure::Failure;

/// The formats that become files: media type, the end of the name, and whether the content is in Base64.
const FORMATS: [(&str, &str, bool); 3] =
    [("image/png", "png", true), ("image/svg+xml", "svg", false), ("image/jpeg", "jpg", true)];
/// Beyond this somebody should look at what is there already.
const LAST: u32 = 10_000;

/// The directory, opened before any code ran: files are made beneath it, whatever the code does to its path.
#[derive(Debug)]
pub(super) struct Images {
    path: PathBuf,
    directory: OwnedFd,
    next: Mutex<u32>,
}

impl Images {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let directory = match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => File::open(path),
        };
        let directory = directory.and_then(|file| match file.metadata()?.is_dir() {
            true => Ok(OwnedFd::from(file)),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        let directory = directory.map_err(|error| {
            Failure::new("images", format!("cannot write images to `{}`: {error}", PrintablePath(path)))
        })?;
        Ok(Self { path: path.to_owned(), directory, next: Mutex::new(1) })
    }

    /// Writes the images of a result; what was written, or why not.
    pub(super) fn save(&self, result: &RichResult) -> Vec<Result<PathBuf, String>> {
        let images = FORMATS.iter().filter_map(|(media, end, encoded)| {
            let content = result.data.get(*media)?;
            Some(self.save_one(content, end, *encoded))
        });
        images.collect()
    }

    fn save_one(&self, content: &str, end: &str, encoded: bool) -> Result<PathBuf, String> {
        let bytes = match encoded {
            true => decoded(content).ok_or("an image is not in Base64, and was not written")?,
            false => content.as_bytes().to_vec(),
        };
        let (mut file, name) = self.create(end).map_err(|error| self.unwritten(&error))?;
        file.write_all(&bytes).map_err(|error| self.unwritten(&error))?;
        Ok(self.path.join(name))
    }

    /// A new file: what is there is neither overwritten nor followed.
    fn create(&self, end: &str) -> io::Result<(File, String)> {
        // Nothing panics while it is held.
        let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        while *next <= LAST {
            let name = format!("image-{next}.{end}");
            *next += 1;
            match rustix::fs::openat(&self.directory, &name, flags, Mode::from_raw_mode(0o644)) {
                Ok(file) => return Ok((File::from(file), name)),
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("there are images up to number {LAST} already")))
    }

    fn unwritten(&self, error: &io::Error) -> String {
        format!("could not write an image to `{}`: {error}", PrintablePath(&self.path))
    }
}

/// The images that a result has, for people who did not ask for files.
pub(super) fn formats(result: &RichResult) -> Vec<&'static str> {
    FORMATS.iter().map(|(media, ..)| *media).filter(|media| result.data.contains_key(*media)).collect()
}

/// Base64 with or without padding and line ends; none if it is something else.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut bits) = (0_u32, 0_u32);
    for letter in text.bytes().filter(|letter| !matches!(letter, b'\n' | b'\r' | b'=')) {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        group = group << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(decoded(&crate::json::base64(text.as_bytes())).unwrap(), text.as_bytes());
        }
        assert_eq!(decoded("//4A\n").unwrap(), [0xff, 0xfe, 0x00]);
        assert_eq!(decoded("a-b"), None);
    }
}
