//! Files in a box into which no descriptor gets: our own program is run there as a tool, with the rights of the code in it.
//!
//! That code has the same user, and may stop the tool, or trick it before it protects itself. So what the tool says is
//! checked like anything else that comes out of a box, and waited for only so long.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hotcell_core::backend::{FileEntry, FileKind, Files, FilesError};
use hotcell_linux::wire::{Malformed, Reader, tool};
use hotcell_linux::{Cell, Ended, Launch, LaunchError, Running, Standard};
use rustix::fs::FileType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::files::{At, absolute, check_mode, check_name};

/// How long the tool may do nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much is moved at once.
const CHUNK: usize = 64 * 1024;
/// What the tool says of one entry of a directory, with the longest name that there is.
const ENTRY_MAX: u64 = 16 + 1024;

/// The files of one box. A relative path starts in the box's home directory.
#[derive(Debug)]
pub(crate) struct FilesByTool {
    cell: Arc<Cell>,
    /// Where our program is in the box.
    tool: PathBuf,
    /// Resource limits of every process: which, soft, hard.
    resources: Vec<(u32, u64, u64)>,
}

/// What the tool said.
enum Answer {
    Output(Vec<u8>),
    /// There is more than was asked for.
    TooLarge,
}

impl FilesByTool {
    /// The files of this box, by the program at `tool` in it.
    pub(crate) fn new(cell: Arc<Cell>, tool: PathBuf, resources: Vec<(u32, u64, u64)>) -> Self {
        Self { cell, tool, resources }
    }

    /// Runs the tool. `most`: so much may it say.
    async fn run(
        &self,
        order: &str,
        at: &At<'_>,
        number: Option<u64>,
        input: Option<&[u8]>,
        most: u64,
    ) -> Result<Answer, FilesError> {
        let mut arguments: Vec<OsString> = vec!["file".into(), order.into(), at.path.into()];
        arguments.extend(number.map(|number| number.to_string().into()));
        let launch = Launch {
            program: self.tool.clone().into(),
            arguments,
            environment: Vec::new(),
            directory: "/".into(),
            search: OsString::new(),
            limits: self.resources.clone(),
            standard: Standard::Pipes { input: input.is_some() },
        };
        let mut running = self.cell.launch(launch).await.map_err(|error| not_started(at, error))?;
        let Some(output) = talk(&mut running, input, most).await.map_err(|error| at.io(error))? else {
            // Dropping what runs ends it.
            return Ok(Answer::TooLarge);
        };
        let ended = in_time(async { Ok(running.wait().await) }).await.map_err(|error| at.io(error))?;
        let ended = ended.map_err(|error| FilesError::Lost { reason: error.to_string() })?;
        judge(at, ended, output)
    }

    /// Runs an order that has nothing to say.
    async fn done(&self, order: &str, at: &At<'_>) -> Result<(), FilesError> {
        self.run(order, at, None, None, 0).await.map(drop)
    }
}

async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let stuck = |_| io::Error::new(io::ErrorKind::TimedOut, "the tool in the box does not go on");
    tokio::time::timeout(PATIENCE, step).await.map_err(stuck)?
}

/// Gives the tool its input and takes its output. `None`: that is too much.
async fn talk(running: &mut Running, input: Option<&[u8]>, most: u64) -> io::Result<Option<Vec<u8>>> {
    let to = running.take_input().map(pipe::Sender::from_owned_fd).transpose()?;
    let from = running.take_output().map(pipe::Receiver::from_owned_fd).transpose()?;
    let write = async move {
        let (Some(mut to), Some(input)) = (to, input) else { return Ok(()) };
        for chunk in input.chunks(CHUNK) {
            match in_time(to.write_all(chunk)).await {
                // It ends for a reason, which its end tells.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    };
    let read = async move {
        let mut output = Vec::new();
        let Some(mut from) = from else { return Ok(Some(output)) };
        loop {
            match in_time(from.read_buf(&mut output)).await {
                Ok(0) => return Ok(Some(output)),
                Ok(_) if output.len() as u64 > most => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    };
    let ((), output) = tokio::try_join!(write, read)?;
    Ok(output)
}

/// What the tool's end means.
fn judge(at: &At<'_>, ended: Ended, output: Vec<u8>) -> Result<Answer, FilesError> {
    match ended.code {
        Some(0) => Ok(Answer::Output(output)),
        Some(tool::TOO_LARGE) => Ok(Answer::TooLarge),
        Some(tool::NOT_REGULAR) => Err(FilesError::WrongKind { path: at.path.to_owned(), expected: "regular file" }),
        Some(errno) => Err(at.io(io::Error::from_raw_os_error(errno))),
        None => Err(at.io(io::Error::other(format!("the tool in the box was ended by signal {:?}", ended.signal)))),
    }
}

fn not_started(at: &At<'_>, error: LaunchError) -> FilesError {
    match error {
        LaunchError::Cell(error) => at.file_error(error.into()),
        other => at.io(io::Error::other(other)),
    }
}

fn no_sense(at: &At<'_>) -> FilesError {
    at.io(io::Error::new(io::ErrorKind::InvalidData, "the tool in the box said something that makes no sense"))
}

#[async_trait]
impl Files for FilesByTool {
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "read", path: &path };
        match self.run("read", &at, Some(limit), None, limit).await? {
            Answer::Output(bytes) => Ok(bytes),
            Answer::TooLarge => Err(FilesError::TooLarge { path, limit }),
        }
    }

    async fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "write", path: &path };
        check_mode(&at, mode)?;
        self.run("write", &at, Some(mode.into()), Some(bytes), 0).await.map(drop)
    }

    async fn list(&self, path: &Path, limit: u64) -> Result<Vec<FileEntry>, FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "list", path: &path };
        let answer = self.run("list", &at, Some(limit), None, limit.saturating_mul(ENTRY_MAX)).await?;
        let Answer::Output(said) = answer else { return Err(FilesError::TooLarge { path, limit }) };
        let mut entries = read_entries(&path, &said).map_err(|Malformed| no_sense(&at))?;
        if entries.len() as u64 > limit {
            return Err(FilesError::TooLarge { path, limit });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    async fn stat(&self, path: &Path) -> Result<FileEntry, FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "look at", path: &path };
        let Answer::Output(said) = self.run("stat", &at, None, None, ENTRY_MAX).await? else {
            return Err(no_sense(&at));
        };
        read_entry(&mut Reader::new(&said), path.clone()).map_err(|Malformed| no_sense(&at))
    }

    async fn make_directory(&self, path: &Path) -> Result<(), FilesError> {
        let path = absolute(path)?;
        self.done("mkdir", &At { operation: "make the directory", path: &path }).await
    }

    async fn remove(&self, path: &Path) -> Result<(), FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "remove", path: &path };
        check_name(&at)?;
        self.done("remove", &at).await
    }
}

fn read_entry(reader: &mut Reader<'_>, path: PathBuf) -> Result<FileEntry, Malformed> {
    let (mode, size) = (reader.u32()?, reader.u64()?);
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    Ok(FileEntry { path, kind, size, mode: mode & 0o7777 })
}

fn read_entries(above: &Path, said: &[u8]) -> Result<Vec<FileEntry>, Malformed> {
    let mut reader = Reader::new(said);
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let mut entry = read_entry(&mut reader, PathBuf::new())?;
        let name = reader.bytes()?;
        // Whoever joins a name to a path gets something in that directory, and nothing else.
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return Err(Malformed);
        }
        entry.path = above.join(OsString::from_vec(name.to_vec()));
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(entries: &[(u32, u64, &[u8])]) -> Vec<u8> {
        let mut said = Vec::new();
        for (mode, size, name) in entries {
            said.extend_from_slice(&mode.to_le_bytes());
            said.extend_from_slice(&size.to_le_bytes());
            said.extend_from_slice(&(name.len() as u32).to_le_bytes());
            said.extend_from_slice(name);
        }
        said
    }

    #[test]
    fn entries_are_read() {
        let entries = read_entries(Path::new("/in"), &said(&[(0o100_644, 5, b"a"), (0o120_777, 1, b"b\xff")])).unwrap();
        assert_eq!(
            (entries[0].path.as_path(), entries[0].kind, entries[0].mode),
            (Path::new("/in/a"), FileKind::File, 0o644)
        );
        assert_eq!(entries[1].kind, FileKind::Link);
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        for name in [&b""[..], b".", b"..", b"../x", b"/etc", b"a/b", b"a\0b"] {
            assert!(read_entries(Path::new("/in"), &said(&[(0o100_644, 5, name)])).is_err(), "{name:?}");
        }
        let whole = said(&[(0o100_644, 5, b"name")]);
        assert!(read_entries(Path::new("/in"), &whole[..whole.len() - 1]).is_err());
    }
}
