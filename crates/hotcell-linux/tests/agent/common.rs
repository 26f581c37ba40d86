//! Starting the helper, and talking to it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hotcell_linux::{Cell, CreateError, Joined, Keeper, Launch, Running, Standard, agent_image, bridge};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Longer than anything takes that works.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Counts what is asked of it. The helper is not pid 1 here, so killing it would leave its programs alone: it ends by itself
/// when the conversation does.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) kills: AtomicU32,
    pub(crate) releases: AtomicU32,
}

impl Keeper for Counter {
    fn kill(&self) {
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    fn release(&self) {
        self.releases.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn joined(keeper: &Arc<Counter>, setup: Vec<u8>, bridged: bool) -> Joined {
    Joined {
        keeper: Arc::clone(keeper) as Arc<dyn Keeper>,
        cgroup: None,
        root: None,
        uppers: Vec::new(),
        setup,
        descriptions: vec!["do the first".into(), "do the second".into()],
        bridged,
    }
}

/// The process; killed if a test forgets it.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < LONG, "the helper does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A box without walls.
pub(crate) struct Box {
    pub(crate) cell: Cell,
    pub(crate) keeper: Arc<Counter>,
    pub(crate) process: Process,
}

impl Box {
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) async fn sh(&self, script: &str) -> Running {
        self.cell.launch(sh(script)).await.unwrap()
    }

    /// The standard output, standard error and exit code of a script.
    pub(crate) async fn run(&self, script: &str) -> (String, String, Option<i32>) {
        let mut running = self.sh(script).await;
        let (output, error) = (read(running.take_output()), read(running.take_error()));
        let (output, error, ended) = tokio::join!(output, error, running.wait());
        (text(output), text(error), ended.unwrap().code)
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The helper from a memory file, as `mode`.
pub(crate) fn helper(mode: &str) -> Command {
    static IMAGE: OnceLock<OwnedFd> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        // SAFETY: a NUL-terminated name; the result is checked.
        let descriptor = unsafe { libc::memfd_create(c"agent".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(descriptor >= 0);
        // SAFETY: the descriptor is new and nobody else's.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(agent_image()).unwrap();
        file.into()
    });
    let mut command = Command::new(format!("/proc/self/fd/{}", image.as_raw_fd()));
    command.env_clear().arg(mode);
    command
}

/// As an agent, behind a bridge.
pub(crate) async fn agent() -> Box {
    agent_by(helper("agent"), Vec::new()).await.unwrap()
}

pub(crate) async fn agent_by(mut command: Command, setup: Vec<u8>) -> Result<Box, CreateError> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let writer = pipe::Sender::from_owned_fd(OwnedFd::from(child.stdin.take().unwrap())).unwrap();
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(child.stdout.take().unwrap())).unwrap();
    let process = Process(child);
    let conversation = bridge::start(reader, writer).unwrap();
    let keeper = Arc::<Counter>::default();
    let cell = Cell::join(conversation, joined(&keeper, setup, true)).await?;
    Ok(Box { cell, keeper, process })
}

/// As an init, on a socket.
pub(crate) async fn init() -> Box {
    init_by(helper("init"), Vec::new()).await.unwrap()
}

pub(crate) async fn init_by(mut command: Command, setup: Vec<u8>) -> Result<Box, CreateError> {
    let (ours, theirs) = record_pair();
    let child = command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let process = Process(child);
    let keeper = Arc::<Counter>::default();
    let cell = Cell::join(ours, joined(&keeper, setup, false)).await?;
    Ok(Box { cell, keeper, process })
}

/// Both, for what is the same for both.
pub(crate) async fn both() -> [Box; 2] {
    [agent().await, init().await]
}

pub(crate) fn record_pair() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors, which are new and nobody else's.
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// Has a command run as a user without rights, where that can be chosen. Says whether it will have none.
pub(crate) fn without_rights(command: &mut Command) {
    // SAFETY: no memory is involved.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65533).gid(65533);
    }
}

pub(crate) fn launch(program: &str, arguments: &[&str]) -> Launch {
    Launch {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: vec![("PATH".into(), OsString::from("/usr/bin:/bin"))],
        directory: "/".into(),
        search: "/usr/bin:/bin".into(),
        limits: vec![],
        standard: Standard::Pipes { input: false },
    }
}

pub(crate) fn sh(script: &str) -> Launch {
    launch("sh", &["-c", script])
}

/// With a pipe to its standard input.
pub(crate) fn with_input(mut launch: Launch) -> Launch {
    launch.standard = Standard::Pipes { input: true };
    launch
}

/// Everything that comes out of a pipe.
pub(crate) async fn read(pipe: Option<OwnedFd>) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe::Receiver::from_owned_fd(pipe.unwrap()).unwrap().read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONG, future).await {
        Ok(value) => value,
        Err(_) => panic!("too slow: {what}"),
    }
}

/// A line of `/proc/PID/status`.
pub(crate) fn status_of(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

/// Sees a process do nothing for a while.
pub(crate) async fn rests(pid: u32) {
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = ticks();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(ticks() <= before + 2, "{} hundredths of a second in thirty", ticks() - before);
}

/// Whether a process runs whose command line contains `word`.
pub(crate) fn runs(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

/// A number that no other test uses, for `sleep`: it makes a process known by its command line.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:04}", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
