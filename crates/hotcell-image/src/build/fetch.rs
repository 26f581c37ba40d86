//! Downloads, and the directory that keeps them.
//!
//! A file is kept under its hash, so whatever is found there is either right or noticed. The network is apt's: it knows the
//! machine's proxies and certificates, and the build needs apt anyway.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::programs::APT_HELPER;
use super::staging::Staging;
use sha2::{Digest, Sha256, Sha512};

/// A file on the network.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Its address.
    pub(super) address: String,
    /// What it has to be.
    pub(super) hash: Hash,
}

/// The hash of a file, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256(String),
    Sha512(String),
}

/// Where downloads are kept.
#[derive(Debug, Clone)]
pub(super) struct Store(PathBuf);

/// Why not all files are there.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The server says that it does not have these addresses.
    Absent(Vec<String>),
    /// Anything else.
    Other(BuildError),
}

impl Hash {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA256",
            Self::Sha512(_) => "SHA512",
        }
    }

    fn digits(&self) -> &str {
        match self {
            Self::Sha256(digits) | Self::Sha512(digits) => digits,
        }
    }

    /// Checks a file's contents; `name` is for the error.
    pub(super) fn check(&self, file: &Path, name: &str) -> Result<(), BuildError> {
        let found = match self {
            Self::Sha256(_) => digest_of_file::<Sha256>(file)?,
            Self::Sha512(_) => digest_of_file::<Sha512>(file)?,
        };
        if found == self.digits() {
            return Ok(());
        }
        Err(BuildError::WrongHash {
            name: name.to_owned(),
            algorithm: self.algorithm(),
            expected: self.digits().to_owned(),
            found,
        })
    }
}

impl Store {
    /// A directory, which is made if it is not there.
    pub(super) fn open(directory: PathBuf) -> Result<Self, BuildError> {
        fs::create_dir_all(&directory).map_err(BuildError::file("make the directory", &directory))?;
        Ok(Self(directory))
    }

    /// Where a file with this hash is kept.
    pub(super) fn path(&self, hash: &Hash) -> PathBuf {
        self.0.join(format!("{}-{}", hash.algorithm().to_ascii_lowercase(), hash.digits()))
    }

    /// Downloads the files that are not kept yet. Each is checked before it gets its name; whoever uses one checks it again.
    pub(super) fn fetch(&self, wanted: &[Wanted], tell: &mut dyn FnMut(&str)) -> Result<(), FetchError> {
        let missing: Vec<&Wanted> = wanted.iter().filter(|file| !self.path(&file.hash).is_file()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        tell(&format!("downloading {} of {} files", missing.len(), wanted.len()));
        // Next to the place where they are kept, so that moving them there is one step.
        let staging = Staging::new_in(&self.0).map_err(FetchError::Other)?;
        let mut command = APT_HELPER.command().map_err(FetchError::Other)?;
        command.args(["-o", "Acquire::Retries=3", "download-file"]);
        let place = |index: usize| staging.path().join(index.to_string());
        for (index, file) in missing.iter().enumerate() {
            command.arg(&file.address).arg(place(index)).arg(format!(
                "{}:{}",
                file.hash.algorithm(),
                file.hash.digits()
            ));
        }
        let step = "download files";
        let finished = APT_HELPER.run_any(step, &mut command).map_err(FetchError::Other)?;

        let mut absent = Vec::new();
        for (index, file) in missing.iter().enumerate() {
            let place = place(index);
            if !place.is_file() {
                absent.push(file.address.clone());
                continue;
            }
            file.hash.check(&place, &file.address).map_err(FetchError::Other)?;
            let kept = self.path(&file.hash);
            fs::rename(&place, &kept).map_err(BuildError::file("write", kept)).map_err(FetchError::Other)?;
        }
        if absent.is_empty() {
            return Ok(());
        }
        let not_found = finished.stderr.contains("404") || finished.stdout.contains("404");
        Err(if not_found { FetchError::Absent(absent) } else { FetchError::Other(APT_HELPER.failed(step, &finished)) })
    }
}

/// The SHA-256 of a file, in hexadecimal.
pub(super) fn sha256_of_file(path: &Path) -> Result<String, BuildError> {
    digest_of_file::<Sha256>(path)
}

fn digest_of_file<D: Digest>(path: &Path) -> Result<String, BuildError> {
    let mut digest = D::new();
    let mut read = || -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                count => digest.update(buffer.get(..count).unwrap_or_default()),
            }
        }
    };
    read().map_err(BuildError::file("read", path))?;
    Ok(hex(&digest.finalize()))
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::testing::have;
    use super::*;

    #[test]
    fn a_changed_file_is_noticed() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "abc").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        Hash::Sha256(right.into()).check(&file, "it").unwrap();
        fs::write(&file, "abd").unwrap();
        let error = Hash::Sha256(right.into()).check(&file, "it").unwrap_err().to_string();
        assert!(error.contains("it is not the locked file") && error.contains(right), "{error}");
    }

    /// A server that has one file, `/kept`, and says so. It ends with the test's process.
    fn server() -> String {
        use std::io::{BufRead as _, BufReader, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&connection).lines().map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let (status, body) = if request.contains("/kept") { ("200 OK", "abc") } else { ("404 Not Found", "") };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
                // Whoever asked may be gone; the next one is served all the same.
                let _ = (&connection).write_all(answer.as_bytes());
            }
        });
        address
    }

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn what_a_server_lacks_is_told_apart_from_what_it_has() {
        if !have("what_a_server_lacks_is_told_apart_from_what_it_has", &[APT_HELPER]) {
            return;
        }
        let directory = TempDir::new().unwrap();
        let store = Store::open(directory.path().to_owned()).unwrap();
        let server = server();
        let wanted =
            |path: &str, hash: &str| Wanted { address: format!("{server}/{path}"), hash: Hash::Sha256(hash.into()) };
        let result = store.fetch(&[wanted("kept", ABC), wanted("gone", &"cd".repeat(32))], &mut |_| ());
        let gone = [format!("{server}/gone")];
        assert!(matches!(&result, Err(FetchError::Absent(missing)) if *missing == gone), "{result:?}");
        assert_eq!(fs::read(store.path(&Hash::Sha256(ABC.into()))).unwrap(), b"abc", "what came is kept");

        let changed = wanted("kept", &"ef".repeat(32));
        let result = store.fetch(std::slice::from_ref(&changed), &mut |_| ());
        assert!(matches!(result, Err(FetchError::Other(_))), "{result:?}");
        assert!(!store.path(&changed.hash).exists(), "a file with another hash is not kept");
        let left = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 1, "nothing else is left");
    }

    #[test]
    fn what_is_kept_is_not_downloaded_again() {
        let directory = TempDir::new().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let wanted = Wanted { address: "http://127.0.0.1:1/x".into(), hash: Hash::Sha256("ab".repeat(32)) };
        fs::write(store.path(&wanted.hash), "").unwrap();
        assert!(store.fetch(&[wanted], &mut |_| panic!("nothing to tell")).is_ok());
    }
}
