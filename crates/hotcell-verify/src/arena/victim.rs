//! A process of the host's that no box must be able to touch.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// It has the token among its arguments, in its environment, in its memory and in a pipe. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Victim {
    process: Child,
    address: String,
    length: String,
    descriptor: String,
}

/// Numbers that processes of a box may have, too. Whoever attacks one of those attacks itself, and nothing is proven.
const NUMBERS_OF_BOXES: u32 = 64;

impl Victim {
    pub(super) fn start(intruder: &Path, token: &str) -> io::Result<Self> {
        // In a fresh process namespace the first few are thrown away.
        let mut victim = Self::start_any(intruder, token)?;
        for _ in 0..NUMBERS_OF_BOXES {
            if victim.process.id() > NUMBERS_OF_BOXES {
                break;
            }
            victim = Self::start_any(intruder, token)?;
        }
        Ok(victim)
    }

    fn start_any(intruder: &Path, token: &str) -> io::Result<Self> {
        let process = Command::new(intruder)
            .args(["victim", token])
            .env("HOTCELL_VERIFY_SECRET", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut victim = Self { process, address: String::new(), length: String::new(), descriptor: String::new() };
        let mut line = String::new();
        if let Some(output) = victim.process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["victim", address, length, descriptor] => {
                victim.address = (*address).to_owned();
                victim.length = (*length).to_owned();
                victim.descriptor = (*descriptor).to_owned();
                Ok(victim)
            }
            _ => Err(io::Error::other("the victim did not start")),
        }
    }

    /// What `{name}` stands for.
    pub(super) fn value(&self, name: &str) -> OsString {
        OsString::from(match name {
            "victim" => self.process.id().to_string(),
            "victim-address" => self.address.clone(),
            "victim-length" => self.length.clone(),
            _ => self.descriptor.clone(),
        })
    }

    /// What others could change about it.
    pub(super) fn describe(&mut self, seen: &mut BTreeMap<String, String>) {
        let alive = matches!(self.process.try_wait(), Ok(None));
        let stopped = alive && self.file("status").contains("State:\tT");
        let state = if stopped {
            "stopped"
        } else if alive {
            "alive"
        } else {
            "dead"
        };
        seen.insert("the victim".to_owned(), state.to_owned());
        if !alive {
            return;
        }
        // After the name, which ends with the last parenthesis, the nice value is the seventeenth field.
        let stat = self.file("stat");
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let nice = fields.split_whitespace().nth(16).unwrap_or_default();
        let status = self.file("status");
        let processors = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap_or_default();
        seen.insert("the victim's priority".to_owned(), nice.to_owned());
        seen.insert("the victim's processors".to_owned(), processors.to_owned());
        seen.insert("the victim's limits".to_owned(), self.file("limits"));
        seen.insert("the victim's memory".to_owned(), self.memory().unwrap_or_default());
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.process.id())).unwrap_or_default()
    }

    fn memory(&self) -> io::Result<String> {
        let number = |text: &str, radix| u64::from_str_radix(text, radix).map_err(io::Error::other);
        let address = number(self.address.trim_start_matches("0x"), 16)?;
        let mut bytes = vec![0; usize::try_from(number(&self.length, 10)?).map_err(io::Error::other)?];
        File::open(format!("/proc/{}/mem", self.process.id()))?.read_exact_at(&mut bytes, address)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
