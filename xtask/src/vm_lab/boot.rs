//! Booting the guest under QEMU.
//!
//! Everything that QEMU gets, it inherits as a descriptor, so there is no file to remove; and the kernel kills QEMU when
//! the thread that started it ends. However this program ends, nothing is left.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};

use super::kernel::Kernel;
use super::listen::{self, Silence};

/// What a guest consists of.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) initrd: &'a [u8],
    pub(super) megabytes: u32,
    /// The host's directory that the guest may write to.
    pub(super) out: Option<&'a str>,
}

/// What a guest came to.
#[derive(Debug)]
pub(super) struct End {
    /// The command's exit status, or why there is none.
    pub(super) answer: Result<u8, Silence>,
    /// The last lines of the kernel's console and of QEMU's own messages.
    pub(super) console: Vec<String>,
}

/// Boots `guest`, passes its command's output on as it comes, and returns within `limit`.
///
/// To be called from the main thread: QEMU ends with the thread that started it.
pub(super) fn run(guest: &Guest<'_>, limit: Duration) -> Result<End> {
    let deadline = Instant::now() + limit;
    let [stdout, stderr, status, console] =
        [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    let mut initrd = tempfile::tempfile().context("cannot make a temporary file for the guest's first file system")?;
    initrd.write_all(guest.initrd).context("cannot write the guest's first file system")?;

    let mut command = qemu(guest, &initrd, [&stdout.1, &stderr.1, &status.1], &console.1)?;
    let mut running = Running(command.spawn().context("cannot start QEMU")?);
    // From here QEMU alone holds its ends (the command had one too): when it is gone, every reader comes to an end.
    drop((command, initrd, stdout.1, stderr.1, status.1, console.1));

    let stdout = thread::spawn(|| listen::pass_on(stdout.0, io::stdout()));
    let stderr = thread::spawn(|| listen::pass_on(stderr.0, io::stderr()));
    let console = thread::spawn(|| listen::tail(console.0));
    let answer = listen::answer(status.0, deadline);
    running.end().context("cannot end QEMU")?;
    // A reader has nothing to say but what it printed.
    let _ = (stdout.join(), stderr.join());
    Ok(End { answer, console: console.join().unwrap_or_default() })
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Running {
    fn end(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.end();
    }
}

/// The command that boots `guest`, with `ports` as its serial ports 1, 2 and 3.
fn qemu(guest: &Guest<'_>, initrd: &File, ports: [&UnixStream; 3], console: &UnixStream) -> Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
    // Emulation by choice: the kernels are then the same everywhere, with and without a usable /dev/kvm.
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m"]);
    command.arg(guest.megabytes.to_string());
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"]);

    command.arg("-kernel").arg(&guest.kernel.image);
    command.arg("-initrd").arg(format!("/dev/fd/{}", inherited(initrd)?));
    // A kernel that panics reboots at once, which ends QEMU.
    command.args(["-append", "console=ttyS0 quiet panic=-1"]);

    command.arg("-virtfs").arg(share("host", "/", ",readonly=on"));
    if let Some(out) = guest.out {
        command.arg("-virtfs").arg(share("out", out, ""));
    }
    command.arg("-chardev").arg(format!("socket,id=console,fd={}", inherited(console)?));
    command.args(["-serial", "chardev:console", "-device", "virtio-serial"]);
    for (number, port) in (1..).zip(ports) {
        command.arg("-chardev").arg(format!("socket,id=port{number},fd={}", inherited(port)?));
        command.arg("-device").arg(format!("virtserialport,nr={number},chardev=port{number}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(console.as_fd().try_clone_to_owned()?);
    Ok(command)
}

/// A directory of the host as the guest's device `tag`.
fn share(tag: &str, directory: &str, more: &str) -> String {
    // QEMU takes a doubled comma for one that is part of the value.
    let directory = directory.replace(',', ",,");
    format!("local,path={directory},mount_tag={tag},security_model=none,multidevs=remap{more}")
}

/// The number of a descriptor that the next program started will have too.
fn inherited(descriptor: &(impl AsFd + AsRawFd)) -> Result<i32> {
    fcntl_setfd(descriptor, FdFlags::empty()).context("cannot let QEMU inherit a descriptor")?;
    Ok(descriptor.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_is_no_new_option() {
        assert!(share("out", "/a,readonly=on", "").starts_with("local,path=/a,,readonly=on,mount_tag=out,"));
    }
}
