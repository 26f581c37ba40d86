//! The host's trees as one archive.
//!
//! Every directory is opened beneath the pinned top of its tree, without following a link or entering another file system. What the
//! policy denies, and sockets, pipes and devices, are left out.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_core::backend::{CreateError, FileKind};
use hotcell_core::policy::{Access, FilesystemPolicy, PathRule};
use hotcell_core::text::PrintablePath;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use tar::{Builder, EntryType, Header};

use super::{Caps, Kept, Packed, records};
use crate::cell::workspace::beneath;
use crate::cell::workspace::copied::{Fingerprint, Fingerprints, Records};
use crate::native::lower::{bad_path, is_link, look_at, real_path};

/// What no tree may be, contain or be inside of: the box's own.
const RESERVED: &[&str] = &["/proc", "/sys", "/dev"];

/// Packs every tree that the policy shows.
pub(crate) fn pack(
    filesystem: &FilesystemPolicy,
    caps: Caps,
    fingerprints: &Fingerprints,
) -> Result<Packed, CreateError> {
    let file = tempfile::tempfile().map_err(|error| keeping(&error))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok();
    let mut packing = Packing {
        filesystem,
        caps,
        fingerprints,
        builder: Builder::new(BufWriter::with_capacity(1 << 18, file)),
        entries: 0,
        bytes: 0,
        path_bytes: 0,
        places: Vec::new(),
        kept: Vec::new(),
        now: now.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0),
    };
    for rule in &filesystem.rules {
        match rule.access {
            Access::Deny => refuse_other_names(filesystem, &rule.path)?,
            _ => packing.tree(rule)?,
        }
    }
    let Packing { builder, places, kept, .. } = packing;
    let finished = builder.into_inner().and_then(|writer| writer.into_inner().map_err(io::IntoInnerError::into_error));
    let (archive, length) = finished
        .and_then(|mut file| file.stream_position().map(|length| (file, length)))
        .map_err(|error| keeping(&error))?;
    Ok(Packed { archive, length, places, kept })
}

fn keeping(error: &io::Error) -> CreateError {
    super::setup(
        "packing the trees",
        error.to_string(),
        "there must be room for them in the directory for temporary files",
    )
}

struct Packing<'a> {
    filesystem: &'a FilesystemPolicy,
    caps: Caps,
    fingerprints: &'a Fingerprints,
    builder: Builder<BufWriter<File>>,
    entries: usize,
    bytes: u64,
    path_bytes: usize,
    places: Vec<String>,
    kept: Vec<Kept>,
    /// Seconds since 1970.
    now: i64,
}

/// A tree that is being packed.
struct Top<'a> {
    rule: &'a PathRule,
    directory: OwnedFd,
    given: Records,
}

impl Packing<'_> {
    fn tree(&mut self, rule: &PathRule) -> Result<(), CreateError> {
        let path = &rule.path;
        if path == Path::new("/") {
            return Err(bad_path(path, "the root is the box's own", "name the directories that the box needs"));
        }
        if let Some(own) = RESERVED.iter().map(Path::new).find(|own| path.starts_with(own) || own.starts_with(path)) {
            let reason = format!("`{}` is the box's own", PrintablePath(own));
            return Err(bad_path(path, &reason, "name directories that have nothing to do with it"));
        }
        if path.to_str().is_none() {
            return Err(bad_path(path, "its name is no text, and servers take names as text", "rename it"));
        }
        let metadata = look_at(path).map_err(|error| match fs::canonicalize(path) {
            Ok(leads_to) if is_link(&error) => {
                let reason = format!("a link leads from it to `{}`", PrintablePath(&leads_to));
                bad_path(path, &reason, "name the real path: whoever can change a link decides what is sent")
            }
            _ => bad_path(path, &error.to_string(), "name a path that exists, or leave the rule out"),
        })?;
        match (metadata.is_dir(), metadata.is_file()) {
            (true, _) => self.directory_tree(rule, &metadata),
            (_, true) if rule.access == Access::Overlay => {
                Err(bad_path(path, "only a directory can be an overlay", "name the directory that it is in"))
            }
            (_, true) => self.single_file(rule, &metadata),
            _ => Err(bad_path(path, "it is neither a directory nor a file", "sockets and devices are never sent")),
        }
    }

    fn directory_tree(&mut self, rule: &PathRule, metadata: &fs::Metadata) -> Result<(), CreateError> {
        let directory = open(&rule.path).map_err(|error| unreadable(&rule.path, &error))?;
        self.place(&rule.path);
        let mut top = Top { rule, directory, given: Records::new() };
        self.append_directory(&top, Path::new(""), metadata.mode())?;
        let mut pending = vec![PathBuf::new()];
        while let Some(at) = pending.pop() {
            self.directory(&mut top, &at, &mut pending)?;
        }
        let Top { directory, given, .. } = top;
        self.keep(rule, rule.path.clone(), directory, metadata, given);
        Ok(())
    }

    fn single_file(&mut self, rule: &PathRule, metadata: &fs::Metadata) -> Result<(), CreateError> {
        let (Some(above), Some(name)) = (rule.path.parent(), rule.path.file_name()) else { return Ok(()) };
        self.place(above);
        let directory = open(above).map_err(|error| unreadable(above, &error))?;
        let mut top = Top { rule, directory, given: Records::new() };
        self.append_file(&mut top, Path::new(name), &rule.path)?;
        let Top { directory, given, .. } = top;
        self.keep(rule, above.to_owned(), directory, metadata, given);
        Ok(())
    }

    fn place(&mut self, path: &Path) {
        self.places.extend(path.to_str().map(str::to_owned));
    }

    fn keep(&mut self, rule: &PathRule, place: PathBuf, lower: OwnedFd, metadata: &fs::Metadata, given: Records) {
        if rule.access < Access::Overlay {
            return;
        }
        let caller = rustix::process::geteuid().is_root().then(|| (metadata.uid(), metadata.gid()));
        let (root, given) = (rule.path.clone(), Arc::new(given));
        self.kept.push(Kept { root, access: rule.access, place, lower, caller, given });
    }

    fn directory(&mut self, top: &mut Top<'_>, at: &Path, pending: &mut Vec<PathBuf>) -> Result<(), CreateError> {
        let here = top.rule.path.join(at);
        let wrong = |error: io::Error| unreadable(&here, &error);
        let opened = beneath::open_directory(&top.directory, at).map_err(wrong)?;
        let mut names = beneath::names(&opened).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(wrong)?;
        names.sort();
        for name in names {
            let (relative, path) = (at.join(&name), here.join(&name));
            // It has a rule of its own, which says what becomes of it.
            if self.filesystem.rules.iter().any(|rule| rule.path == path) {
                continue;
            }
            let Some(seen) = beneath::look(&opened, &name).map_err(|error| unreadable(&path, &error))? else {
                continue;
            };
            match seen.kind {
                FileKind::Directory => {
                    self.append_directory(top, &relative, seen.mode)?;
                    top.given.insert(relative.clone(), records::directory(seen.mode));
                    pending.push(relative);
                }
                FileKind::File => self.append_file(top, &relative, &path)?,
                FileKind::Link => {
                    let target = beneath::link_target(&opened, &name).map_err(|error| unreadable(&path, &error))?;
                    let mut header = header(EntryType::Symlink, 0o777, 0, self.now);
                    // As when it comes back.
                    self.path_bytes += target.len();
                    self.count(&path, target.len() as u64)?;
                    let appended = self.builder.append_link(&mut header, archived(&path), Path::new(&target));
                    appended.map_err(|error| keeping(&error))?;
                    top.given.insert(relative, records::link(target.as_bytes()));
                }
                // Nobody is at the other end of it over there.
                _ => {}
            }
        }
        Ok(())
    }

    fn append_directory(&mut self, top: &Top<'_>, relative: &Path, mode: u32) -> Result<(), CreateError> {
        let path = if relative.as_os_str().is_empty() { top.rule.path.clone() } else { top.rule.path.join(relative) };
        self.count(&path, 0)?;
        let mut header = header(EntryType::Directory, mode, 0, self.now);
        let appended = self.builder.append_data(&mut header, archived(&path), io::empty());
        appended.map_err(|error| keeping(&error))
    }

    /// A file, as long as it was when it was opened: what grows is cut, what shrinks is filled with zeros.
    fn append_file(&mut self, top: &mut Top<'_>, relative: &Path, path: &Path) -> Result<(), CreateError> {
        let wrong = |error: io::Error| unreadable(path, &error);
        let (file, seen) = beneath::open_file(&top.directory, relative).map_err(wrong)?;
        let modified = file.metadata().map_err(wrong)?.mtime();
        self.count(path, seen.size)?;
        let mut header = header(EntryType::Regular, seen.mode, seen.size, modified);
        let exact = io::BufReader::new(file).chain(io::repeat(0)).take(seen.size);
        let mut content = Watched { inner: exact, fingerprint: self.fingerprints.start() };
        self.builder.append_data(&mut header, archived(path), &mut content).map_err(wrong)?;
        let fingerprint = content.fingerprint.finish();
        top.given.insert(relative.to_owned(), records::file(seen.mode, seen.size, fingerprint));
        Ok(())
    }

    fn count(&mut self, path: &Path, bytes: u64) -> Result<(), CreateError> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.path_bytes += path.as_os_str().len();
        let too = |what: String| {
            Err(bad_path(
                path,
                &format!("up to here there are {what}"),
                "send less: name smaller trees, deny what is not needed",
            ))
        };
        if self.bytes > self.caps.bytes {
            return too(format!("more than {} bytes, which is the disk limit", self.caps.bytes));
        }
        if self.entries > self.caps.entries {
            return too(format!(
                "more than {} files and directories, which is the most that is sent",
                self.caps.entries
            ));
        }
        if self.path_bytes > self.caps.path_bytes {
            return too(format!("more than {} bytes of paths, which is the most that is sent", self.caps.path_bytes));
        }
        Ok(())
    }
}

/// What is read, seen by its fingerprint.
struct Watched<R> {
    inner: R,
    fingerprint: Fingerprint,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.fingerprint.update(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}

fn header(kind: EntryType, mode: u32, size: u64, modified: i64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o777);
    header.set_size(size);
    header.set_mtime(u64::try_from(modified).unwrap_or(0));
    // The box's own user unpacks it, and owns what it unpacks.
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// A path below the root, as archives have it.
fn archived(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

/// Opens the top of a tree. No part of its path may be a link: whoever can change one decides what is sent.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

fn unreadable(path: &Path, error: &io::Error) -> CreateError {
    let hint = match error.kind() {
        io::ErrorKind::CrossesDevices => "name what is mounted there as a tree of its own, or deny it",
        _ => "make it readable, deny it, or name smaller trees",
    };
    bad_path(path, &error.to_string(), hint)
}

/// A denied path that a tree shows under another name would be sent under that.
fn refuse_other_names(filesystem: &FilesystemPolicy, path: &Path) -> Result<(), CreateError> {
    let Some(denied) = real_path(path) else { return Ok(()) };
    if filesystem.access(&denied) == Access::Deny {
        return Ok(());
    }
    let reason = format!("it is denied, but it really is `{}`, which is sent", PrintablePath(&denied));
    Err(bad_path(path, &reason, "deny it under that name too, or name real paths only"))
}
