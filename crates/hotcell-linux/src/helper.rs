//! The helper program, carried inside the library and run from a sealed memory file.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// The program that `build.rs` compiled from `helper/`.
pub(crate) static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hotcell-helper"));

/// The helper as a program to be put into a container as its first process: static, for this machine's architecture.
///
/// `init` as its only argument makes it talk in records on the socket that is its standard input; `agent`, in frames on
/// its standard input and output ([`crate::bridge`]). `file …` is a tool for files, run inside.
pub fn agent_image() -> &'static [u8] {
    IMAGE
}

/// A memory file with `contents` that nobody can change any more.
///
/// Sealed against growing, shrinking and writing: the receiver can map it without fear, and an executable made of it is
/// the one that we wrote.
pub(crate) fn sealed_file(name: &CStr, contents: &[u8], executable: bool) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Linux 6.3 wants to be told; older kernels reject the flag.
    let kind = if executable { libc::MFD_EXEC } else { libc::MFD_NOEXEC_SEAL };
    // SAFETY: `name` is NUL-terminated; the result is checked.
    let mut descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags | kind) };
    if descriptor < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // SAFETY: as above.
        descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    }
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(contents)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: plain numbers on a descriptor that we own.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// Starts the helper as a spawner that talks on `conversation`.
///
/// Its environment is empty and it gets no descriptor but that one. The standard library starts it without copying the
/// host program's memory (`posix_spawn`), so neither its size nor its threads matter.
pub(crate) fn start(conversation: OwnedFd) -> io::Result<Child> {
    let image = sealed_file(c"hotcell-helper", IMAGE, true)?;
    Command::new(format!("/proc/self/fd/{}", image.as_raw_fd()))
        .env_clear()
        .stdin(conversation)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_cannot_be_changed() {
        let file = File::from(sealed_file(c"test", b"contents", false).unwrap());
        assert!((&file).write_all(b"more").is_err());
        assert!(file.set_len(1).is_err());
    }

    #[test]
    fn the_image_is_a_small_static_program() {
        assert_eq!(&IMAGE[..4], b"\x7fELF");
        assert!(IMAGE.len() < 256 * 1024, "{} bytes", IMAGE.len());
    }
}
