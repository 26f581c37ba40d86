//! Running a program to its end with its output kept for when it is wanted.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A program that ended, or was ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// True when the program was killed because its time was over.
    pub(crate) out_of_time: bool,
    /// Standard output and standard error, in the order in which they were written.
    pub(crate) output: String,
}

impl Finished {
    pub(crate) fn success(&self) -> bool {
        self.status.success() && !self.out_of_time
    }
}

/// Runs `command` without input for at most `limit`.
///
/// The output goes through an unlinked file rather than a pipe: a process that outlives the command and keeps
/// the other end open cannot then keep us waiting.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut sink = unlinked_file().context("cannot make a temporary file for a program's output")?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(sink.try_clone()?)
        .stderr(sink.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot start `{program}`"))?;

    let mut out_of_time = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            out_of_time = true;
            child.kill()?;
            break child.wait()?;
        }
        thread::sleep(LOOK_EVERY);
    };

    let mut bytes = Vec::new();
    sink.seek(SeekFrom::Start(0))?;
    sink.read_to_end(&mut bytes)?;
    Ok(Finished { status, out_of_time, output: String::from_utf8_lossy(&bytes).into_owned() })
}

fn unlinked_file() -> io::Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path =
        env::temp_dir().join(format!("hotcell-xtask-{}-{}.out", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_kept_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let finished = run(&mut command, Duration::from_secs(10)).unwrap();
        assert_eq!(finished.output, "one\ntwo\nthree\n");
        assert_eq!(finished.status.code(), Some(3));
        assert!(!finished.success());
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let started = Instant::now();
        let finished = run(&mut command, Duration::from_millis(50)).unwrap();
        assert!(finished.out_of_time);
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("hotcell-no-such-program"), Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("hotcell-no-such-program"), "{error}");
    }
}
