//! The program that makes one box and tells what came of it, and the one that runs inside.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hotcell::policy::{NetworkMode, protect::DEFAULT_PROTECTED};
use hotcell::{Control, Engine, EngineOptions, Policy, RuntimeKind, SpawnConfig, StdinMode};
use rustix::fs::{FileType, Mode};
use serde_json::{Value, json};

use super::posture;
use crate::soak::{in_words, proc, worker};

/// A kind of box whose set-up is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// All kinds of trees, no network; made from a box that was half made ahead.
    Closed,
    /// With the host's network, and so without a network namespace; made from the start.
    Open,
}

impl Scenario {
    pub(super) const ALL: [Self; 2] = [Self::Closed, Self::Open];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }

    /// The policy; where this user's limits can only be approximated, that has to be accepted.
    pub(super) fn policy(self, place: &Path, approximate: bool) -> Result<Policy> {
        // A kind that cannot start because of a fault would else be made up for by another that is as strong.
        let mut builder = Policy::builder()
            .runtime(RuntimeKind::Native)
            .read(worker::program()?)
            .read(place.join("read"))
            .deny(place.join("read/denied"))
            .write(place.join("write"))
            .overlay(place.join("overlay"))
            .memory(256 << 20)
            .processes(64)
            .tty(true);
        // One of each kind is as good as all, which would only make for more of the same calls.
        for name in DEFAULT_PROTECTED.iter().map(|protected| protected.name) {
            if ![".git/hooks", ".git/config", ".git/commondir", ".bashrc"].contains(&name) {
                builder = builder.unprotect(name);
            }
        }
        if approximate {
            builder = builder.approximate(Control::Memory).approximate(Control::ProcessCount);
        }
        Ok(match self {
            Self::Closed => builder.build()?,
            Self::Open => builder.network(NetworkMode::Open).build()?,
        })
    }
}

/// What of the host must stay out of reach.
pub(super) struct Canaries {
    pub(super) port: u16,
    pub(super) socket: String,
}

/// `subject SCENARIO PLACE PORT SOCKET APPROXIMATE`: prints one line of JSON.
pub(in crate::soak) fn run(arguments: &[String]) -> Result<()> {
    let [scenario, place, port, socket, approximate] = arguments else {
        bail!("usage: subject SCENARIO PLACE PORT SOCKET APPROXIMATE")
    };
    let scenario = Scenario::ALL.into_iter().find(|known| known.name() == scenario).context("no such scenario")?;
    let canaries = Canaries { port: port.parse()?, socket: socket.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let place = Path::new(place);
    let result = runtime.block_on(one_box(scenario, place, &canaries, approximate == "yes"));
    let answer = match result {
        Ok(posture) => json!({ "ran": posture }),
        Err(Ended { step, why }) => json!({ "refused": step, "why": why }),
    };
    println!("{answer}");
    Ok(())
}

/// Why it did not come to the end.
struct Ended {
    step: &'static str,
    why: String,
}

fn at<E: std::error::Error>(step: &'static str) -> impl FnOnce(E) -> Ended {
    move |error| Ended { step, why: in_words(&error) }
}

fn wrong(step: &'static str) -> impl FnOnce(anyhow::Error) -> Ended {
    move |error| Ended { step, why: format!("{error:#}") }
}

async fn one_box(
    scenario: Scenario,
    place: &Path,
    canaries: &Canaries,
    approximate: bool,
) -> std::result::Result<Value, Ended> {
    let engine = Engine::with_options(EngineOptions::default().warm(0)).await.map_err(at("start"))?;
    let policy = scenario.policy(place, approximate).map_err(wrong("policy"))?;
    let sandbox = engine.create(&policy).await.map_err(at("create"))?;
    let mark = format!("probe-of-{}", std::process::id());
    let config = probe_in_box(place, canaries, &mark).map_err(wrong("policy"))?;
    let mut process = sandbox.spawn(config).await.map_err(at("spawn"))?;
    let mut io = process.take_io();
    let mut said = Vec::new();
    if let Some(output) = &mut io.output {
        while !said.ends_with(b"\n") {
            match output.next().await {
                Some(event) => said.extend(event.bytes),
                None => break,
            }
        }
    }
    let outside = match proc::marked(&mark).as_slice() {
        [probe] => posture::of(probe.pid),
        other => json!({ "processes": other.len() }),
    };
    drop(io.stdin);
    let outcome = process.wait().await.map_err(at("wait"))?;
    drop(process);
    sandbox.destroy().await.map_err(at("destroy"))?;
    engine.close().await;
    let inside: Value = serde_json::from_slice(&said).unwrap_or_else(|_| json!(String::from_utf8_lossy(&said)));
    Ok(json!({ "outside": outside, "inside": inside, "status": outcome.status.to_string() }))
}

fn probe_in_box(place: &Path, canaries: &Canaries, mark: &str) -> Result<SpawnConfig> {
    let place = place.to_str().context("the path is not UTF-8")?;
    let config = worker::in_box("probe", &[place, &canaries.port.to_string(), &canaries.socket], mark)?;
    Ok(config.stdin(StdinMode::Piped))
}

/// `probe PLACE PORT SOCKET`: tells what can be reached, as one line of JSON, and waits for the end of its input.
pub(in crate::soak) fn probe(arguments: &[String]) -> Result<()> {
    let [place, port, socket] = arguments else { bail!("usage: probe PLACE PORT SOCKET") };
    let seen = try_everything(Path::new(place), &Canaries { port: port.parse()?, socket: socket.clone() });
    println!("{seen}");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Tries what must not be possible in a box, and says what came of it.
pub(super) fn try_everything(place: &Path, canaries: &Canaries) -> Value {
    let outcome = |result: std::io::Result<()>| match result {
        Ok(()) => "done".to_owned(),
        Err(error) => error.kind().to_string(),
    };
    let read = |path: &str| outcome(fs::read(place.join(path)).map(|_| ()));
    let write = |path: &str| outcome(fs::write(place.join(path), "x"));
    let abstract_socket =
        SocketAddr::from_abstract_name(&canaries.socket).and_then(|name| UnixStream::connect_addr(&name));
    // A character device of no number is one that everybody may make; Landlock alone refuses it.
    let device =
        rustix::fs::mknodat(rustix::fs::CWD, "/tmp/device", FileType::CharacterDevice, Mode::from_raw_mode(0o600), 0);
    let _ = fs::remove_file("/tmp/device");
    json!({
        // First, so that one that runs without having been admitted is noticed.
        "write": write("write/ran"),
        "canary": read("canary"),
        "denied": read("read/denied/canary"),
        "write where only reading is allowed": write("read/file"),
        "write in the overlay": write("overlay/file"),
        "write a protected name": write("write/.git/config"),
        "connect": outcome(TcpStream::connect((Ipv4Addr::LOCALHOST, canaries.port)).map(|_| ())),
        "connect to an abstract socket": outcome(abstract_socket.map(|_| ())),
        "device": outcome(device.map_err(Into::into)),
    })
}
