//! A place in which the real helper can be told anything.
//!
//! The helper trusts the library: a record that no library would send can make it mount, remove or kill whatever it may.
//! So it runs as an ordinary user (`nobody`, where the caller is root) in namespaces of its own, with a `/tmp` of its own
//! and few processes. The first process there is this same program again: it gets scripts through a socket, runs
//! each against a new helper, and answers with what it saw.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, exit};
use std::sync::{Mutex, PoisonError};

use crate::helper::{self, PLACE};
use crate::{feedback, script};

/// Set for the program inside.
const INSIDE: &str = "HOTCELL_FUZZ_INSIDE";
/// How a target says that it cannot run on this machine.
pub const CANNOT_RUN: i32 = 77;
/// The longest script or answer.
const LONGEST: usize = 1 << 20;

struct Enclosure {
    socket: UnixStream,
    /// Ends by itself when the socket does.
    _process: Child,
}

static ENCLOSURE: Mutex<Option<Enclosure>> = Mutex::new(None);

/// Makes the enclosure; inside, serves and does not return. To be called before anything else.
pub fn enter() {
    if std::env::var_os(INSIDE).is_some() {
        let failure = serve();
        // The one outside sees the end of the socket too; this says why.
        eprintln!("the enclosure ended: {failure}");
        exit(1);
    }
    match start() {
        Ok(enclosure) => *ENCLOSURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(enclosure),
        Err(error) => {
            eprintln!("cannot run here: the helper needs an enclosure of namespaces: {error}");
            exit(CANNOT_RUN);
        }
    }
}

/// Runs a script inside, and panics if the helper did what it must not.
pub fn run(text: &str) {
    let mut enclosure = ENCLOSURE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(enclosure) = enclosure.as_mut() else { panic!("`enter` was not called") };
    let answer = write(&mut enclosure.socket, text.as_bytes()).and_then(|()| read(&mut enclosure.socket));
    match answer {
        Ok(Some(answer)) => match answer.strip_prefix("seen ") {
            Some(seen) => seen.split(' ').for_each(feedback::saw),
            None => panic!("{answer}"),
        },
        Ok(None) => panic!("the enclosure ended"),
        Err(error) => panic!("the enclosure does not answer: {error}"),
    }
}

fn start() -> io::Result<Enclosure> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    // The program comes as an open file: the user inside may not be able to reach its path.
    let inside = format!("mount -t tmpfs -o size=64m none /tmp && mkdir {PLACE} && exec /proc/self/fd/0");
    let process = command
        .args(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--net"])
        .args(["--fork", "--kill-child", "--mount-proc", "prlimit", "--nproc=256", "--core=0", "sh", "-c", &inside])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env(INSIDE, "1")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .current_dir("/")
        .stdin(File::open("/proc/self/exe")?)
        .stdout(theirs)
        .spawn()?;
    let mut enclosure = Enclosure { socket: ours, _process: process };
    // An empty script: a helper that is started and let go of.
    write(&mut enclosure.socket, b"")?;
    match read(&mut enclosure.socket)? {
        Some(answer) if answer.starts_with("seen ") => Ok(enclosure),
        Some(answer) => Err(io::Error::other(answer)),
        None => Err(io::Error::other("it ended at once")),
    }
}

/// Runs scripts until nobody sends any more. Returns why it cannot go on.
fn serve() -> String {
    let socket = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(socket) => socket,
        Err(error) => return error.to_string(),
    };
    let mut socket = UnixStream::from(socket);
    loop {
        let text = match read(&mut socket) {
            Ok(Some(text)) => text,
            Ok(None) => exit(0),
            Err(error) => return error.to_string(),
        };
        let answer = match helper::run(&script::messages(&text)) {
            Ok(seen) => format!("seen {}", seen.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")),
            Err(failure) => failure,
        };
        // What a box wrote there is not for the next.
        let cleaned = fs::remove_dir_all(PLACE).and_then(|()| fs::create_dir(PLACE));
        let sent = cleaned.and_then(|()| write(&mut socket, answer.as_bytes()));
        if let Err(error) = sent {
            return error.to_string();
        }
    }
}

fn write(socket: &mut UnixStream, text: &[u8]) -> io::Result<()> {
    let text = &text[..text.len().min(LONGEST)];
    socket.write_all(&(text.len() as u32).to_le_bytes())?;
    socket.write_all(text)
}

fn read(socket: &mut UnixStream) -> io::Result<Option<String>> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut text = vec![0; (u32::from_le_bytes(length) as usize).min(LONGEST)];
    socket.read_exact(&mut text)?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}
