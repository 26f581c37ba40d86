//! What is planted for an attempt, and what of it was touched afterwards.
//!
//! Every attempt has an arena of its own: what one attack breaks, the next does not see. Everything in it may be read and
//! written by anybody on the host, so that nothing but the box stands in the way.

mod caller;
mod listeners;
mod lures;
mod survivors;
mod toolchain;
mod tree;
mod victim;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use hotcell::policy::protect::DEFAULT_PROTECTED;
use rustix::io::FdFlags;
use tempfile::TempDir;

use caller::Caller;
use listeners::Listeners;
pub(crate) use listeners::own_address;
use victim::Victim;

/// The planted things of one attempt. Dropping it removes them.
#[derive(Debug)]
pub struct Arena {
    path: PathBuf,
    token: String,
    marker: String,
    planted: Mutex<Planted>,
    // Last, so that the directory goes when nothing uses it any more.
    _directory: TempDir,
}

/// What is only planted for attempts that ask for it.
#[derive(Debug, Default)]
struct Planted {
    listeners: Listeners,
    caller: Option<Caller>,
    victim: Option<Victim>,
    open_file: Option<File>,
    open_directory: Option<File>,
    ipc_key: Option<String>,
    locked_file: Option<File>,
    /// What the intruder made, and how it takes it away again.
    kernel_objects: Vec<(String, String)>,
}

impl Arena {
    /// Plants what every attempt has.
    pub fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = make_directory()?;
        let path = directory.path().canonicalize()?;
        let number = format!("{:x}-{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let token = format!("CANARY-{number}-{}", unpredictable()?);
        let marker = format!("hotcell-verify-marker-{number}-{}", unpredictable()?);
        let arena = Self { path, token, marker, planted: Mutex::new(Planted::default()), _directory: directory };
        arena.plant()?;
        Ok(arena)
    }

    fn plant(&self) -> io::Result<()> {
        let open = Permissions::from_mode(0o777);
        fs::set_permissions(&self.path, open.clone())?;
        for directory in
            ["program", "host/home/.ssh", "host/home/.aws", "host/tree/below", "shown", "workspace/.git/hooks"]
        {
            fs::create_dir_all(self.path.join(directory))?;
        }
        self.file("program/intruder", hotcell_linux::intruder::IMAGE, 0o755)?;
        let secret = format!("{}\n", self.token);
        for name in ["host/home/.ssh/id_ed25519", "host/home/.aws/credentials", "host/tree/below/file", "host/target"] {
            self.file(name, secret.as_bytes(), 0o666)?;
        }
        self.file("shown/file", b"shown\n", 0o666)?;
        self.file("workspace/file", b"work\n", 0o666)?;
        self.file("workspace/.git/config", b"[core]\n\tbare = false\n", 0o666)?;
        self.file("workspace/.git/HEAD", b"ref: refs/heads/main\n", 0o666)?;
        self.file("workspace/.git/hooks/sample", b"#!/bin/sh\n", 0o777)?;
        for directory in tree::directories(&self.path)? {
            fs::set_permissions(directory, open.clone())?;
        }
        Ok(())
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        let path = self.path.join(name);
        let mut file = File::create_new(&path)?;
        file.write_all(content)?;
        drop(file);
        fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// Where the intruder is: a directory that boxes are shown.
    pub fn program(&self) -> PathBuf {
        self.path.join("program")
    }

    /// The intruder.
    pub fn intruder(&self) -> PathBuf {
        self.path.join("program/intruder")
    }

    /// A directory of the host's that no box is shown: secrets, and files to change.
    pub fn host(&self) -> PathBuf {
        self.path.join("host")
    }

    /// A directory for policies that show one to read.
    pub fn shown(&self) -> PathBuf {
        self.path.join("shown")
    }

    /// A directory for policies that let one be written. It is a Git repository.
    pub fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    /// Where the toolchain behind `rustc` is, if there is one.
    pub fn rust(&self) -> Option<&'static Path> {
        toolchain::rust()
    }

    /// The planted secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Replaces every `{name}` in `text` by what it stands for, planting it first where need be.
    ///
    /// | name | what |
    /// |---|---|
    /// | `host`, `shown`, `workspace`, `program` | the directories |
    /// | `secret`, `target` | files below `host`; both hold the token, `target` is there to be changed |
    /// | `marker` | a word that survivors of a box are recognised by: give it to them as an argument |
    /// | `supervisor` | the process that runs the verification |
    /// | `socket`, `abstract`, `tcp4`, `tcp6`, `udp4`, `udp6` | listening sockets: path, name, ports of the loopback |
    /// | `datagram` | a datagram socket: its path |
    /// | `address`, `address-port` | an address of the host's that is not of its loopback, and a port that listens there |
    /// | `shared-port` | a port of the loopback that listens, and lets others listen too |
    /// | `called-port` | a port of the loopback that somebody calls all the time, to tell the token |
    /// | `ipc-key` | a key of SysV shared memory that nobody has |
    /// | `victim`, `victim-address`, `victim-length`, `victim-fd` | a process with the token in its memory and in a pipe |
    /// | `fd` | an inheritable descriptor of a file with the token |
    /// | `shm`, `queue` | SysV shared memory and message queue with the token |
    /// | `shm-file`, `tmp-file`, `var-tmp-file` | files in the host's `/dev/shm`, `/tmp` and `/var/tmp` with the token |
    /// | `directory-fd` | an inheritable descriptor of `host/home` |
    /// | `named`, `link`, `attribute`, `tool` | below `host`: a directory with a file that is named by the token, a link to the token, a file with the token in the attribute `user.secret`, a program that prints it |
    /// | `denied`, `private` | files with the token below `shown` and `workspace`, for policies that deny their directories |
    /// | `fresh` | a directory in the workspace, for policies that let one be written that is no repository |
    /// | `handle` | the file handle of `secret` |
    /// | `locked` | a file in `shown` that is locked |
    /// | `shown-socket`, `fifo` | a listening socket and a pipe with a reader, both in `shown` |
    /// | `mqueue`, `key` | a POSIX message queue and a key with the token |
    /// | `ns-…`, `hostname`, `session` | what namespaces of the host are called, its name, the supervisor's session |
    /// | `rust` | where the toolchain behind `rustc` is |
    pub fn expand(&self, text: &str) -> io::Result<OsString> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            bytes.extend_from_slice(before.as_bytes());
            // A brace that names nothing is the script's own.
            match after.split_once('}').and_then(|(name, tail)| Some((self.value(name)?, tail))) {
                Some((value, tail)) => {
                    bytes.extend_from_slice(value?.as_encoded_bytes());
                    rest = tail;
                }
                None => {
                    bytes.push(b'{');
                    rest = after;
                }
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
        Ok(OsString::from_vec(bytes))
    }

    fn value(&self, name: &str) -> Option<io::Result<OsString>> {
        let path = |name: &str| Ok(self.path.join(name).into_os_string());
        Some(match name {
            "host" | "shown" | "workspace" | "program" => path(name),
            "secret" => path("host/home/.ssh/id_ed25519"),
            "target" => path("host/target"),
            "marker" => Ok(OsString::from(&self.marker)),
            "supervisor" => Ok(OsString::from(std::process::id().to_string())),
            "named" | "link" | "attribute" | "tool" | "denied" | "private" | "fresh" => {
                lures::plant(name, &self.path, &self.token).map(PathBuf::into_os_string)
            }
            "directory-fd" => self.inheritable_directory(),
            "handle" => self.file_handle(),
            "locked" => self.locked(),
            "socket" | "shown-socket" | "fifo" | "abstract" | "tcp4" | "tcp6" | "udp4" | "udp6" => {
                self.planted().listeners.open(name, &self.path, &self.marker)
            }
            "datagram" | "address-port" | "shared-port" => {
                self.planted().listeners.open(name, &self.path, &self.marker)
            }
            "address" => own_address()
                .map(|address| OsString::from(address.to_string()))
                .ok_or(ErrorKind::AddrNotAvailable.into()),
            "called-port" => self.called_port(),
            "ipc-key" => self.ipc_key(),
            "victim" | "victim-address" | "victim-length" | "victim-fd" => self.victim(name),
            "fd" => self.inheritable(),
            "shm" | "queue" | "shm-file" | "tmp-file" | "var-tmp-file" | "mqueue" | "key" => self.kernel_object(name),
            // Where there is none, what needs it fails, outside of the box too.
            "rust" => Ok(self.rust().unwrap_or(Path::new("/none")).into()),
            "hostname" => fs::read_to_string("/proc/sys/kernel/hostname").map(|name| OsString::from(name.trim())),
            // After the name, which ends with the last parenthesis, it is the fourth field; 0 if its leader is not seen here.
            "session" => fs::read_to_string("/proc/self/stat").map(|stat| {
                let fields = stat.rsplit(')').next().unwrap_or_default();
                OsString::from(fields.split_whitespace().nth(3).unwrap_or_default())
            }),
            _ => {
                let namespace = Path::new("/proc/self/ns").join(name.strip_prefix("ns-")?);
                fs::read_link(namespace).map(PathBuf::into_os_string)
            }
        })
    }

    fn called_port(&self) -> io::Result<OsString> {
        let mut planted = self.planted();
        let caller = match planted.caller.take() {
            Some(caller) => caller,
            None => Caller::start(&self.token)?,
        };
        Ok(planted.caller.insert(caller).port())
    }

    /// A key that is nobody's yet. What is made under it shows up, and goes with the arena.
    fn ipc_key(&self) -> io::Result<OsString> {
        let mut planted = self.planted();
        if planted.ipc_key.is_none() {
            let digits = &unpredictable()?[..7];
            planted.ipc_key = Some(format!("0x{digits}"));
        }
        Ok(OsString::from(planted.ipc_key.clone().unwrap_or_default()))
    }

    fn planted(&self) -> std::sync::MutexGuard<'_, Planted> {
        self.planted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn victim(&self, name: &str) -> io::Result<OsString> {
        let mut planted = self.planted();
        let victim = match planted.victim.take() {
            Some(victim) => victim,
            None => Victim::start(&self.intruder(), &self.token)?,
        };
        let value = victim.value(name);
        planted.victim = Some(victim);
        Ok(value)
    }

    fn inheritable(&self) -> io::Result<OsString> {
        let mut planted = self.planted();
        let file = match planted.open_file.take() {
            Some(file) => file,
            None => File::open(self.path.join("host/home/.ssh/id_ed25519"))?,
        };
        rustix::io::fcntl_setfd(file.as_fd(), FdFlags::empty())?;
        let number = OsString::from(file.as_raw_fd().to_string());
        planted.open_file = Some(file);
        Ok(number)
    }

    fn inheritable_directory(&self) -> io::Result<OsString> {
        let mut planted = self.planted();
        let directory = match planted.open_directory.take() {
            Some(directory) => directory,
            None => File::open(self.path.join("host/home"))?,
        };
        rustix::io::fcntl_setfd(directory.as_fd(), FdFlags::empty())?;
        let number = OsString::from(directory.as_raw_fd().to_string());
        planted.open_directory = Some(directory);
        Ok(number)
    }

    fn locked(&self) -> io::Result<OsString> {
        let path = self.path.join("shown/file");
        let file = File::open(&path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        self.planted().locked_file = Some(file);
        Ok(path.into_os_string())
    }

    fn file_handle(&self) -> io::Result<OsString> {
        let secret = self.path.join("host/home/.ssh/id_ed25519");
        let output = Command::new(self.intruder()).arg("file-handle").arg(secret).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(OsString::from(text.lines().next().unwrap_or_default()))
    }

    /// Lets the intruder make something that lives in the kernel; it says its name.
    fn kernel_object(&self, kind: &str) -> io::Result<OsString> {
        let mut planted = self.planted();
        if let Some((_, name)) = planted.kernel_objects.iter().find(|(made, _)| made == kind) {
            return Ok(OsString::from(name));
        }
        let output = self.ask_intruder(&[&format!("plant-{kind}"), &self.token])?;
        let name = output.split_whitespace().next().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(io::Error::other(format!("the intruder could not plant {kind}")));
        }
        planted.kernel_objects.push((kind.to_owned(), name.clone()));
        Ok(OsString::from(name))
    }

    fn ask_intruder(&self, arguments: &[&str]) -> io::Result<String> {
        let output = Command::new(self.intruder()).args(arguments).stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What the host looks like now, as far as attacks are aimed at it.
    pub fn snapshot(&self) -> BTreeMap<String, String> {
        let mut seen = BTreeMap::new();
        for tree in ["host", "shown", "program"] {
            tree::describe(&self.path, Path::new(tree), &mut seen);
        }
        for protected in DEFAULT_PROTECTED {
            for top in ["workspace", "workspace/fresh"] {
                tree::describe(&self.path, &Path::new(top).join(protected.name), &mut seen);
            }
        }
        tree::describe_harmful(&self.path, Path::new("workspace"), &mut seen);
        for setting in ["hostname", "domainname", "core_pattern"] {
            let value = fs::read_to_string(Path::new("/proc/sys/kernel").join(setting)).unwrap_or_default();
            seen.insert(format!("the host's {setting}"), value);
        }
        let mut planted = self.planted();
        if let Some(victim) = &mut planted.victim {
            victim.describe(&mut seen);
        }
        if let Some(key) = &planted.ipc_key {
            let content = self.ask_intruder(&["show-left-memory", key]).unwrap_or_default();
            seen.insert(
                "shared memory under the key".to_owned(),
                content.lines().next().unwrap_or_default().to_owned(),
            );
        }
        for (kind, name) in &planted.kernel_objects {
            let content = self.ask_intruder(&[&format!("show-{kind}"), name]).unwrap_or_default();
            seen.insert(format!("the planted {kind}"), content);
        }
        seen
    }

    /// Which of the planted listeners heard something.
    pub fn contacts(&self) -> Vec<String> {
        self.planted().listeners.heard()
    }

    /// Whether processes of the attempt are there.
    pub fn has_survivors(&self) -> bool {
        !survivors::find(&self.marker).is_empty()
    }

    /// Processes of the attempt that are still there. They are ended.
    pub fn end_survivors(&self) -> Vec<String> {
        survivors::end(&self.marker)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(key) = self.planted().ipc_key.take() {
            let _ = self.ask_intruder(&["remove-left-memory", &key]);
        }
        let objects = std::mem::take(&mut self.planted().kernel_objects);
        for (kind, name) in objects {
            let _ = self.ask_intruder(&[&format!("remove-{kind}"), &name]);
        }
    }
}

/// Makes the directory. Not in a place for temporary files if it can be helped: boxes have one of their own under the same
/// name, so some of their layers let everything there pass.
fn make_directory() -> io::Result<TempDir> {
    let mut places: Vec<PathBuf> = std::env::var_os("HOTCELL_TEST_ARENA").map(PathBuf::from).into_iter().collect();
    if rustix::process::geteuid().is_root() {
        places.push(PathBuf::from("/var/cache"));
    } else {
        places.extend(std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from));
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            places.extend([home.join(".cache"), home]);
        }
    }
    let make = |place: &PathBuf| tempfile::Builder::new().prefix("hotcell-verify-").tempdir_in(place).ok();
    match places.iter().filter(|place| place.is_absolute()).find_map(make) {
        Some(directory) => Ok(directory),
        None => tempfile::Builder::new().prefix("hotcell-verify-").tempdir(),
    }
}

fn unpredictable() -> io::Result<String> {
    let mut bytes = [0u8; 12];
    io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
