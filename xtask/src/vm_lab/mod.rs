//! `cargo xtask vm-lab`: one command under another kernel.
//!
//! Boots the kernel of a Debian suite under QEMU, by software emulation, on this machine's own files: they are shared
//! read-only, under an overlay that is thrown away. The command's output and exit status come back as if it had run
//! here.

mod boot;
mod cpio;
mod initrd;
pub(crate) mod kernel;
mod listen;
mod modules;
mod options;
mod program;

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};

use crate::test::is_root;
use crate::test::setup::{self, Need, Sign, need};
use crate::{Verdict, debian};

use boot::{End, Guest};
use initrd::{Launch, utf8};
use listen::Silence;
use options::Options;

/// Exit status when there is none of the command's.
const NO_ANSWER: u8 = 125;

/// The user in the guest where there is only root here: one without a name, and not the one that owns what is nobody's.
const UNPRIVILEGED: u32 = 65533;

/// The suites whose kernels there are, oldest first.
pub(crate) const SUITES: &[&str] = &["bullseye", "bookworm", "trixie"];

/// What booting takes beyond Rust.
const NEEDS: &[Need] = &[
    need("qemu-system-x86", Sign::Program("qemu-system-x86_64"), "emulating a machine"),
    // The package that has the same program with libraries would not do.
    need("busybox-static", Sign::File("/var/lib/dpkg/info/busybox-static.list"), "the guest's first steps"),
    need("debian-archive-keyring", Sign::File(debian::KEYRING), "checking a kernel package"),
    need("kmod", Sign::Program("depmod"), "the index of a kernel's modules"),
    need("xz-utils", Sign::Program("xz"), "unpacking a kernel's modules"),
    need("util-linux", Sign::Program("setpriv"), "ending QEMU with this program"),
];

pub(crate) fn run(arguments: &[String]) -> Verdict {
    let options = Options::parse(arguments)?;
    let status = lab(&options).unwrap_or_else(|error| {
        eprintln!("vm-lab: {error:#}");
        NO_ANSWER
    });
    #[expect(clippy::exit, reason = "the command's exit status is the result; nothing is held here any more")]
    process::exit(status.into())
}

/// Runs the command; returns its exit status.
fn lab(options: &Options) -> Result<u8> {
    let directory = env::current_dir().context("cannot tell the current directory")?;
    if let Some(program) = options.command.first() {
        program::check(program, &directory)?;
    }
    if env::consts::ARCH != "x86_64" {
        bail!("the guest is an x86_64 machine and runs this machine's programs, so this works on x86_64 only");
    }
    install()?;
    let kernel = kernel::provide(options.suite)?;

    let user = User::of_guest(options.user)?;
    let out = options.out.as_deref().map(|out| fresh_directory(out, &user)).transpose()?;
    let launch = Launch {
        uid: user.uid,
        gid: user.gid,
        home: &user.home,
        directory: utf8(&directory)?,
        environment: &environment(),
        command: &options.command,
        keeps: out.is_some(),
    };
    let guest = Guest {
        kernel: &kernel,
        initrd: &initrd::build(&kernel, &launch)?,
        megabytes: options.megabytes,
        out: out.as_deref().map(utf8).transpose()?,
    };
    let end = boot::run(&guest, options.limit)?;
    match &end.answer {
        Ok(status) => Ok(*status),
        Err(silence) => {
            explain(silence, &end, options, &kernel.release);
            Ok(NO_ANSWER)
        }
    }
}

/// Sees to it that what booting takes is there. Only one at a time can install packages, so whoever boots several machines
/// at once asks for it before.
pub(crate) fn install() -> Result<()> {
    let Some(shortage) = setup::bring(NEEDS)? else { return Ok(()) };
    let missing: Vec<String> =
        shortage.needs.iter().map(|need| format!("{} ({})", need.package, need.purpose)).collect();
    bail!("{}: {}", missing.join(", "), shortage.hint)
}

/// The user that the command runs as.
struct User {
    uid: u32,
    gid: u32,
    home: String,
}

impl User {
    /// Root; or the user that we are; or, where that is root, one that owns nothing.
    fn of_guest(ordinary: bool) -> Result<Self> {
        let own = Path::new("/proc/self").metadata().context("cannot tell who we are from /proc/self")?;
        Ok(match (ordinary, own.uid()) {
            (false, _) => Self { uid: 0, gid: 0, home: "/root".to_owned() },
            (true, 0) => Self { uid: UNPRIVILEGED, gid: UNPRIVILEGED, home: "/home/vm-lab".to_owned() },
            (true, uid) => {
                Self { uid, gid: own.gid(), home: env::var("HOME").unwrap_or_else(|_| "/home/vm-lab".to_owned()) }
            }
        })
    }
}

/// A new or empty directory that the guest's user may write to.
fn fresh_directory(path: &Path, user: &User) -> Result<PathBuf> {
    let name = path.display();
    fs::create_dir_all(path).with_context(|| format!("cannot make the directory {name}"))?;
    let mut entries = fs::read_dir(path).with_context(|| format!("cannot list {name}"))?;
    if entries.next().is_some() {
        bail!("`--out` needs a directory that is new or empty, and {name} is not");
    }
    // Only root here can have somebody else there.
    if is_root() && user.uid != 0 {
        chown(path, Some(user.uid), Some(user.gid))
            .with_context(|| format!("cannot give {name} to uid {}", user.uid))?;
    }
    path.canonicalize().with_context(|| format!("cannot find {name}"))
}

/// What the command gets of our environment.
fn environment() -> Vec<(&'static str, String)> {
    let own = |name| env::var(name).ok();
    let mut environment = vec![
        ("PATH", own("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned())),
        ("LANG", own("LANG").unwrap_or_else(|| "C.UTF-8".to_owned())),
        ("TERM", "dumb".to_owned()),
    ];
    for name in ["CI", "RUST_BACKTRACE"] {
        environment.extend(own(name).map(|value| (name, value)));
    }
    environment
}

/// Says why there is no answer and what could help.
fn explain(silence: &Silence, end: &End, options: &Options, release: &str) {
    let limit = options.limit.as_secs();
    let (what, advice) = match silence {
        Silence::SlowBoot => (
            format!("the guest did not boot in {limit} s"),
            "a machine with other work needs longer: try a larger --timeout",
        ),
        Silence::SlowCommand => {
            (format!("the command did not end in {limit} s"), "it was ended; --timeout gives it longer")
        }
        Silence::DiedBooting => ("the guest ended before the command began".to_owned(), "try a larger --mem"),
        Silence::DiedRunning => (
            "the guest ended before the command did".to_owned(),
            "its kernel panicked or was told to stop; try a larger --mem if the console speaks of memory",
        ),
        Silence::Failed(what) => (
            format!("the guest could not {what}"),
            "the console may say why; try a larger --mem if it speaks of memory",
        ),
    };
    eprintln!("vm-lab: {what} (Linux {release}): {advice}");
    if end.console.is_empty() {
        eprintln!("vm-lab: its console is empty");
        return;
    }
    eprintln!("vm-lab: the last lines of its console:");
    for line in &end.console {
        eprintln!("  | {line}");
    }
}
