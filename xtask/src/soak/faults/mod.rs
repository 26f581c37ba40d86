//! System calls that fail during the set-up of a box: it is refused, or the command is confined as if nothing had happened.

mod calls;
mod posture;
pub(super) mod subject;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hotcell::Engine;
use serde_json::Value;

use super::random::Random;
use super::report::Found;
use super::snapshot::{Scope, Snapshot, settle};
use super::{Setting, worker};
use crate::process;
use calls::{Call, ERRNOS, Fault};
use subject::{Canaries, Scenario};

const INJECTOR: &str = include_str!("injector.c");

/// How long one box may take before it counts as hanging. Longer than the library waits for a box that does not answer.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long what has ended may take to be gone.
const REST: Duration = Duration::from_secs(5);

/// What came of one box.
#[derive(Debug)]
enum Verdict {
    Refused(String),
    Confined,
    /// Where its posture is not that of a box whose set-up did not fail.
    Half(Vec<String>),
    Hung,
    /// The program that uses the library ended in another way than it should.
    Crashed(String),
}

/// What the part counts.
#[derive(Debug, Default)]
struct Counts {
    injected: usize,
    not_reached: usize,
    refused: usize,
    confined: usize,
    half: usize,
    hung: usize,
    crashed: usize,
    leaked: usize,
    steps: BTreeMap<String, usize>,
}

/// Everything that a box is made with.
struct Bench {
    injector: PathBuf,
    log: PathBuf,
    place: PathBuf,
    canaries: Canaries,
    approximate: bool,
    scope: Scope,
}

pub(super) fn run(setting: &Setting<'_>) -> Result<Found> {
    let mut found = Found::default();
    let bench = Bench::new(setting)?;
    let mut counts = Counts::default();
    let mut differences = 0;
    for scenario in Scenario::ALL {
        let (calls, baseline) = bench.baseline(scenario)?;
        let wrong = bench.unsafe_baseline(scenario, &baseline["inside"]);
        differences += wrong.len();
        for line in wrong {
            found.failure(format!("{}: {line}", scenario.name()));
        }
        let faults = match (setting.options.quick, scenario) {
            (false, _) => calls::every(&calls),
            (true, Scenario::Closed) => calls::some(&calls),
            (true, Scenario::Open) => calls::confining(&calls),
        };
        println!("  {}: {} calls, {} faults", scenario.name(), calls.len(), faults.len());
        found.note(format!("{}: {} calls are made during the set-up.", scenario.name(), calls.len()));
        for (number, fault) in faults.iter().enumerate() {
            bench.one(scenario, fault, &baseline, &mut counts, &mut found)?;
            if (number + 1) % 250 == 0 {
                println!(
                    "  {} of {}: {} refused, {} confined",
                    number + 1,
                    faults.len(),
                    counts.refused,
                    counts.confined
                );
            }
        }
    }
    found.at_least("faults injected", counts.injected as f64, "", 1.0);
    found.tell("refused", counts.refused as f64, "");
    found.tell("ran fully confined", counts.confined as f64, "");
    found.none_of("ran half confined", counts.half);
    found.none_of("hung", counts.hung);
    found.none_of("crashed", counts.crashed);
    found.none_of("left something behind", counts.leaked);
    found.none_of("holes without any fault", differences);
    // Which process gets how far depends on who is faster: a few calls are not made in every run.
    let total = counts.injected + counts.not_reached;
    found.at_most("not reached", counts.not_reached as f64, "", (total as f64 * 0.05).max(2.0));
    let errnos: Vec<_> = ERRNOS.iter().map(|errno| errno.name).collect();
    let which = if setting.options.quick {
        "of the calls with the same number in a process the first and the last, with one error in turn, and those that confine \
         with EPERM too; in the open scenario those alone"
    } else {
        "every call, at each occurrence, with every error"
    };
    found.note(format!(
        "Injected: {which}; errors {}; in the spawner, in what it forks, and in the new process until it executes the program.",
        errnos.join(", ")
    ));
    found.note(
        "The program that uses the library is not touched. A ptrace injector (faults/injector.c) and not strace: that \
         counts the calls of all processes alike.",
    );
    let steps: Vec<_> = counts.steps.iter().map(|(step, count)| format!("{step} {count}")).collect();
    found.note(format!("Refusals by the step that they came from: {}.", steps.join(", ")));
    Ok(found)
}

impl Bench {
    fn new(setting: &Setting<'_>) -> Result<Self> {
        let place = setting.scratch.join("place");
        for directory in ["read/denied", "write/.git", "overlay"] {
            fs::create_dir_all(place.join(directory))?;
        }
        for file in ["canary", "read/denied/canary", "read/file", "overlay/file"] {
            fs::write(place.join(file), "CANARY")?;
        }
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // The network, and with it this name, is shared with every other soak.
        let socket = format!("soak-canary-{}", Random::any_seed());
        let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&socket)?)?;
        let port = tcp.local_addr()?.port();
        // Somebody has to be there to be reached, and to go on answering.
        thread::spawn(move || while tcp.accept().is_ok() {});
        thread::spawn(move || while unix.accept().is_ok() {});
        let engine = setting.runtime.block_on(Engine::new())?;
        let closed = Scenario::Closed.policy(&place, false)?;
        let approximate = setting.runtime.block_on(engine.plan(&closed)).is_err();
        setting.runtime.block_on(engine.close());
        Ok(Self {
            injector: compile(&setting.scratch)?,
            log: setting.scratch.join("calls"),
            canaries: Canaries { port, socket },
            approximate,
            // The log is there from the first run on.
            scope: Scope::new(&place),
            place,
        })
    }

    /// One box with nothing failing: its calls, and how it is confined. Twice, to see that both are the same.
    fn baseline(&self, scenario: Scenario) -> Result<(Vec<Call>, Value)> {
        let nothing = Fault { call: Call { role: "none".into(), number: 0, occurrence: 0 }, errno: &calls::NONE };
        let mut last = None;
        for _ in 0..2 {
            let finished = self.start(scenario, &nothing)?;
            let answer: Value = serde_json::from_str(finished.output.trim())
                .with_context(|| format!("cannot understand what the subject said: {}", finished.output))?;
            let Some(posture) = answer.get("ran") else { bail!("a box cannot be made: {answer}") };
            if let Some(last) = &last {
                let differences = posture::differences(last, posture);
                if !differences.is_empty() {
                    bail!("two boxes are confined differently: {}", differences.join("; "));
                }
            }
            last = Some(posture.clone());
        }
        let calls = calls::read_log(&fs::read_to_string(&self.log)?);
        Ok((calls, last.context("no box was made")?))
    }

    /// What the probe reached although it must not, or did not reach although it has to, in a box whose set-up did not
    /// fail.
    fn unsafe_baseline(&self, scenario: Scenario, inside: &Value) -> Vec<String> {
        let outside = subject::try_everything(&self.place, &self.canaries);
        // Put back what the control changed.
        let _ = fs::remove_file(self.place.join("write/ran"));
        let _ = fs::remove_file(self.place.join("write/.git/config"));
        let mut wrong = Vec::new();
        for (what, result) in inside.as_object().into_iter().flatten() {
            let must_work = match what.as_str() {
                "write" | "write in the overlay" => true,
                "connect" => scenario == Scenario::Open,
                _ => false,
            };
            if (result == "done") != must_work {
                wrong.push(format!("without any fault, `{what}` is {result}"));
            }
            // As an ordinary user outside a device cannot be made on every file system; it is an extra.
            if outside[what] != "done" && what != "device" {
                wrong.push(format!("outside of any box `{what}` is {}, so that it shows nothing", outside[what]));
            }
        }
        if inside.as_object().is_none_or(|seen| seen.len() < 9) {
            wrong.push(format!("the probe said {inside}"));
        }
        wrong
    }

    fn start(&self, scenario: Scenario, fault: &Fault) -> Result<process::Finished> {
        let mut command = Command::new(&self.injector);
        let subject = worker::command("subject")?;
        command
            .arg(&self.log)
            .arg(&fault.call.role)
            .args([fault.call.number.to_string(), fault.call.occurrence.to_string()])
            .arg(fault.errno.number.to_string())
            .arg(subject.get_program())
            .args(subject.get_args())
            .arg(scenario.name())
            .arg(&self.place)
            .args([&self.canaries.port.to_string(), &self.canaries.socket])
            .arg(if self.approximate { "yes" } else { "no" })
            .env("RUST_BACKTRACE", "0");
        process::run(&mut command, PATIENCE)
    }

    fn one(
        &self,
        scenario: Scenario,
        fault: &Fault,
        baseline: &Value,
        counts: &mut Counts,
        found: &mut Found,
    ) -> Result<()> {
        let before = Snapshot::take(&self.scope);
        let finished = self.start(scenario, fault)?;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        if log.lines().any(|line| line == "injected") {
            counts.injected += 1;
        } else {
            counts.not_reached += 1;
        }
        let ran = self.place.join("write/ran");
        let verdict = verdict(&finished, baseline, ran.exists());
        let _ = fs::remove_file(&ran);
        let mut complain = |text: String| found.failure(format!("{}: {fault}: {text}", scenario.name()));
        match verdict {
            Verdict::Refused(step) => {
                counts.refused += 1;
                *counts.steps.entry(step).or_default() += 1;
            }
            Verdict::Confined => counts.confined += 1,
            Verdict::Half(differences) => {
                counts.half += 1;
                complain(format!("half confined: {}", differences.join("; ")));
            }
            Verdict::Hung => {
                counts.hung += 1;
                complain(format!("it hung for {} s", PATIENCE.as_secs()));
            }
            Verdict::Crashed(how) => {
                counts.crashed += 1;
                complain(format!("it crashed: {how}"));
            }
        }
        let (left, _) = settle(&self.scope, &before, REST, Snapshot::leaks);
        if !left.is_empty() {
            counts.leaked += 1;
            complain(format!("left behind: {}", left.join("; ")));
        }
        Ok(())
    }
}

/// What came of a box, by what the subject said.
fn verdict(finished: &process::Finished, baseline: &Value, ran: bool) -> Verdict {
    if finished.out_of_time {
        return Verdict::Hung;
    }
    let answer: Value = match serde_json::from_str(finished.output.trim()) {
        Ok(answer) if finished.success() => answer,
        _ => return Verdict::Crashed(format!("{}: {}", finished.status, finished.output.trim())),
    };
    if let Some(step) = answer["refused"].as_str() {
        return match (ran, step) {
            (false, "start" | "create" | "spawn") => Verdict::Refused(step.to_owned()),
            (true, _) => Verdict::Half(vec![format!("refused ({}), but the command ran", answer["why"])]),
            (false, _) => Verdict::Half(vec![format!("lost at {step}: {}", answer["why"])]),
        };
    }
    let differences = posture::differences(baseline, &answer["ran"]);
    if differences.is_empty() { Verdict::Confined } else { Verdict::Half(differences) }
}

fn compile(scratch: &Path) -> Result<PathBuf> {
    let (source, binary) = (scratch.join("injector.c"), scratch.join("injector"));
    fs::write(&source, INJECTOR)?;
    let output = Command::new("cc").args(["-O2", "-o"]).arg(&binary).arg(&source).output();
    let output = output.context("cannot start a C compiler, `cc`")?;
    if !output.status.success() {
        bail!("cannot compile the injector: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(binary)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finished(output: &str, code: i32, out_of_time: bool) -> process::Finished {
        let status = std::os::unix::process::ExitStatusExt::from_raw(code << 8);
        process::Finished { status, out_of_time, output: output.to_owned() }
    }

    #[test]
    fn only_a_refusal_or_the_whole_posture_will_do() {
        let baseline = json!({ "outside": { "Seccomp": "2" } });
        let judge = |output: Value, ran| verdict(&finished(&output.to_string(), 0, false), &baseline, ran);
        assert!(matches!(judge(json!({ "ran": baseline }), true), Verdict::Confined));
        assert!(matches!(judge(json!({ "ran": { "outside": {} } }), true), Verdict::Half(_)));
        assert!(matches!(judge(json!({ "refused": "create", "why": "" }), false), Verdict::Refused(_)));
        assert!(matches!(judge(json!({ "refused": "create", "why": "" }), true), Verdict::Half(_)));
        assert!(matches!(judge(json!({ "refused": "wait", "why": "" }), false), Verdict::Half(_)));
        assert!(matches!(verdict(&finished("panicked", 101, false), &baseline, false), Verdict::Crashed(_)));
        assert!(matches!(verdict(&finished("", 9, true), &baseline, false), Verdict::Hung));
    }
}
