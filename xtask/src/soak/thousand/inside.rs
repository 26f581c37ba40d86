//! What runs inside each of very many boxes.

use std::fs;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Where a box's UUID is.
pub(super) const OWN: &str = "/home/hotcell/uuid";
/// What the resident says once it can be found.
pub(super) const READY: &str = "ready\n";

fn file_of(uuid: &str) -> String {
    format!("/tmp/soak-{uuid}")
}

fn socket_of(uuid: &str) -> Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("soak-{uuid}")).context("cannot name a socket")
}

/// Stays, and can be found in three ways: by a file, a process and an abstract socket.
pub(in crate::soak) fn resident(arguments: &[String]) -> Result<()> {
    let [uuid] = arguments else { anyhow::bail!("usage: resident UUID") };
    fs::write(file_of(uuid), uuid)?;
    let _socket = UnixListener::bind_addr(&socket_of(uuid)?)?;
    std::io::stdout().write_all(READY.as_bytes())?;
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Tells which UUID this box has, and what is to be found here of it and of another.
pub(in crate::soak) fn look(arguments: &[String]) -> Result<()> {
    let [own, other] = arguments else { anyhow::bail!("usage: look OWN OTHER") };
    let seen = |uuid: &str| -> Result<Value> {
        Ok(json!({
            "file": fs::read(file_of(uuid)).is_ok(),
            "process": has_process(uuid),
            "socket": UnixStream::connect_addr(&socket_of(uuid)?).is_ok(),
        }))
    };
    let files = fs::read_dir("/tmp")?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // The program itself may be there too.
    let files = files.filter(|name| name.starts_with("soak-"));
    let answer = json!({
        "uuid": fs::read_to_string(OWN)?,
        "own": seen(own)?,
        "other": seen(other)?,
        "files": files.collect::<Vec<_>>(),
    });
    println!("{answer}");
    Ok(())
}

/// Whether a resident with this UUID runs here. (The one who looks has it among its arguments too.)
fn has_process(uuid: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&b"resident".as_slice()) && words.contains(&uuid.as_bytes())
    })
}

/// What one box saw.
#[derive(Debug)]
pub(super) struct Seen(pub(super) Value);

impl Seen {
    /// What is not as it has to be.
    pub(super) fn complaints(&self, own: &str) -> Vec<String> {
        let Self(seen) = self;
        let mut wrong = Vec::new();
        if seen["uuid"] != own {
            wrong.push(format!("it says that it is {}", seen["uuid"]));
        }
        for way in ["file", "process", "socket"] {
            if seen["own"][way] != true {
                wrong.push(format!("it does not find its own {way}, so that its search means nothing"));
            }
            if seen["other"][way] != false {
                wrong.push(format!("it finds the {way} of another box"));
            }
        }
        if seen["files"] != json!([format!("soak-{own}")]) {
            wrong.push(format!("its /tmp has {}", seen["files"]));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_box_alone_is_accepted() {
        let good = || {
            json!({
                "uuid": "a",
                "own": { "file": true, "process": true, "socket": true },
                "other": { "file": false, "process": false, "socket": false },
                "files": ["soak-a"],
            })
        };
        assert_eq!(Seen(good()).complaints("a"), Vec::<String>::new());
        assert!(!Seen(good()).complaints("b").is_empty());
        for (who, way) in ["own", "other"].iter().flat_map(|who| ["file", "process", "socket"].map(|way| (*who, way))) {
            let mut bad = good();
            bad[who][way] = json!(who == "other");
            assert_eq!(Seen(bad).complaints("a").len(), 1, "{who} {way}");
        }
        let mut bad = good();
        bad["files"] = json!(["soak-a", "soak-b"]);
        assert_eq!(Seen(bad).complaints("a").len(), 1);
    }
}
