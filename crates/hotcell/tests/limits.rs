//! Limits: each is held, and each ends in an outcome of its own name; what cannot be held is refused by name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::time::Duration;

use common::{
    LONG, PYTHON, Place, engine, engine_with, eventually, has_program, marker, processes_with, python, sh, skip,
};
use hotcell::plan::EnforcementReport;
use hotcell::policy::PolicyBuilder;
use hotcell::{Capability, Control, Engine, Policy, SandboxOutput, SpawnConfig, Status, StdinMode};
use hotcell_backends::native::Layers;

const MIB: u64 = 1 << 20;

const NO_CGROUPS: Layers = Layers { cgroups: false, ..Layers::ALL };

/// A policy with one limit on `control`. Where the limit cannot be held, checks that it is refused by name, and accepts
/// an approximation.
async fn limited(engine: &Engine, control: Control, limit: impl Fn(PolicyBuilder) -> PolicyBuilder) -> Policy {
    let policy = || limit(Policy::builder().timeout(LONG));
    let strict = policy().build().unwrap();
    match engine.plan(&strict).await {
        Ok(_) => strict,
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(text.contains(&format!("{control} (")), "{text}");
            policy().approximate(control).build().unwrap()
        }
    }
}

fn is_enforced(report: &EnforcementReport, control: Control) -> bool {
    report.controls.iter().any(|row| row.control == control && matches!(row.actual, Capability::Enforced { .. }))
}

#[track_caller]
fn assert_status(output: &SandboxOutput, status: Status) {
    let start = |stream| common::text(stream).chars().take(500).collect::<String>();
    assert_eq!(output.status(), status, "stdout {:?}\nstderr {:?}", start(&output.stdout), start(&output.stderr));
}

/// Holds on to 200 MiB in one way, then waits to be caught: sampling may take a moment.
const EATERS: &[(&str, &str)] = &[
    ("anonymous", "b = bytearray(200 << 20)"),
    ("/dev/shm", "f = open('/dev/shm/x', 'wb')\nfor i in range(200): f.write(bytes(1 << 20))\nf.flush()"),
    ("/tmp", "f = open('/tmp/x', 'wb')\nfor i in range(200): f.write(bytes(1 << 20))\nf.flush()"),
    ("memfd", "f = os.memfd_create('x')\nfor i in range(200): os.write(f, bytes(1 << 20))"),
    ("shared", "m = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1"),
    ("children", "for i in range(10):\n  if os.fork() == 0:\n    b = bytearray(20 << 20); time.sleep(15); os._exit(0)"),
    ("undumpable", "ctypes.CDLL(None).prctl(4, 0)\nb = bytearray(200 << 20)"),
];

fn eater(how: &str) -> SpawnConfig {
    // When a child is killed rather than the command itself, it says so by its exit code.
    let end = "end = time.time() + 10\nwhile time.time() < end:\n  try:\n    if os.waitpid(-1, os.WNOHANG)[1]: sys.exit(9)\n  except ChildProcessError: pass\n  time.sleep(.05)";
    python(&format!("import ctypes, mmap, os, sys, time\n{how}\n{end}"))
}

async fn eat(engine: &Engine, approximated: bool) {
    let policy = limited(engine, Control::Memory, |policy| policy.memory(64 * MIB)).await;
    for (name, how) in EATERS {
        if approximated && *name == "memfd" {
            // Said in the report: a memory file that nobody maps is not seen by sampling.
            continue;
        }
        let output = engine.run_with(&policy, eater(how)).await.unwrap();
        assert_eq!(output.status(), Status::OutOfMemory, "{name}: {}", common::text(&output.stderr));
        assert_eq!(is_enforced(&output.outcome.report, Control::Memory), !approximated);
        if let Some(peak) = output.outcome.usage.peak_memory.filter(|_| !approximated) {
            assert!(peak <= 64 * MIB, "{name}: {peak}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_every_kind_counts() {
    let Some(engine) = engine("memory_of_every_kind_counts").await else { return };
    if !has_program("memory_of_every_kind_counts", PYTHON) {
        return;
    }
    let approximated = !is_enforced(&engine.plan(&Policy::default()).await.unwrap().report(), Control::Memory);
    eat(&engine, approximated).await;
    // The control: the same program under a limit that it keeps.
    let policy = limited(&engine, Control::Memory, |policy| policy.memory(400 * MIB)).await;
    let output = engine.run_with(&policy, python("b = bytearray(200 << 20)")).await.unwrap();
    assert_status(&output, Status::Exited(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_sampled_without_cgroups() {
    let test = "memory_is_sampled_without_cgroups";
    if engine(test).await.is_none() || !has_program(test, PYTHON) {
        return;
    }
    let engine = engine_with(NO_CGROUPS).await;
    let strict = Policy::builder().memory(64 * MIB).build().unwrap();
    let refusal = engine.create(&strict).await.map(drop).unwrap_err().to_string();
    assert!(refusal.contains("memory (") && refusal.contains("nothing was run"), "{refusal}");
    eat(&engine, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_limit_may_be_approximated_and_the_report_says_so() {
    let test = "a_default_limit_may_be_approximated_and_the_report_says_so";
    if engine(test).await.is_none() {
        return;
    }
    let output = engine_with(NO_CGROUPS).await.run(sh("exit 0")).await.unwrap();
    assert_status(&output, Status::Exited(0));
    for control in [Control::Memory, Control::CpuTime] {
        assert!(!is_enforced(&output.outcome.report, control), "{control}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_full_of_memory_files_still_answers() {
    let test = "a_box_full_of_memory_files_still_answers";
    let Some(engine) = engine(test).await else { return };
    let policy = limited(&engine, Control::Memory, |policy| policy.memory(32 * MIB)).await;
    let sandbox = engine.create(&policy).await.unwrap();
    let filling = "head -c 100000000 /dev/zero > /tmp/full; exit 7";
    let output = common::run_in(&*sandbox, sh(filling)).await;
    assert_status(&output, Status::OutOfMemory);
    // Whatever becomes of the next command, its caller hears of it.
    let next = async {
        match sandbox.spawn(sh("exit 3")).await {
            Ok(process) => drop(process.wait().await),
            Err(error) => drop(error),
        }
    };
    tokio::time::timeout(LONG, next).await.expect("no answer");
    tokio::time::timeout(LONG, sandbox.destroy()).await.expect("no end").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_misfortune_is_not_blamed_on_a_later_command() {
    let test = "an_earlier_misfortune_is_not_blamed_on_a_later_command";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    if !is_enforced(&engine.plan(&Policy::default()).await.unwrap().report(), Control::Memory) {
        return skip(test, "no cgroup can be made here");
    }
    let policy = Policy::builder().memory(64 * MIB).timeout(LONG).build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    let word = marker();
    // A daemon that outlives its command, then runs out of memory while no command runs.
    let daemon =
        format!("({PYTHON} -I -c 'import time; time.sleep(1); b = bytearray(200 << 20)' {word} &) >/dev/null 2>&1");
    let output = common::run_in(&*sandbox, sh(&daemon)).await;
    assert_status(&output, Status::Exited(0));
    eventually("the daemon is killed", || processes_with(&word).is_empty()).await;
    let output = common::run_in(&*sandbox, sh("exit 3")).await;
    assert_status(&output, Status::Exited(3));
}

/// Four processes that use a CPU each, one of them through children that nobody waits for by name.
const SPINNERS: &str = "for i in 1 2 3; do (while :; do :; done) & done; while :; do (i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done); done";

fn cpu_of(output: &SandboxOutput) -> Option<Duration> {
    Some(output.outcome.usage.cpu_user? + output.outcome.usage.cpu_system?)
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time_is_the_total_over_all_processes() {
    let Some(engine) = engine("cpu_time_is_the_total_over_all_processes").await else { return };
    let limit = Duration::from_millis(700);
    let policy = limited(&engine, Control::CpuTime, |policy| policy.cpu_time(limit)).await;
    let output = engine.run_with(&policy, sh(SPINNERS)).await.unwrap();
    assert_status(&output, Status::CpuTime);
    if is_enforced(&output.outcome.report, Control::CpuTime) {
        let used = cpu_of(&output).unwrap();
        // Told in clock ticks, so not exactly.
        assert!(used >= limit / 2 && used <= limit * 3, "{used:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time_is_sampled_without_cgroups() {
    let test = "cpu_time_is_sampled_without_cgroups";
    if engine(test).await.is_none() {
        return;
    }
    let engine = engine_with(NO_CGROUPS).await;
    let limit = |policy: PolicyBuilder| policy.cpu_time(Duration::from_millis(700));
    let refusal = engine.plan(&limit(Policy::builder()).build().unwrap()).await.unwrap_err().to_string();
    assert!(refusal.contains("cpu-time ("), "{refusal}");
    let policy = limited(&engine, Control::CpuTime, limit).await;
    let output = engine.run_with(&policy, sh(SPINNERS)).await.unwrap();
    assert_status(&output, Status::CpuTime);
}

#[tokio::test(flavor = "multi_thread")]
async fn sleeping_uses_no_cpu_time() {
    let Some(engine) = engine("sleeping_uses_no_cpu_time").await else { return };
    let policy = limited(&engine, Control::CpuTime, |policy| policy.cpu_time(Duration::from_millis(500))).await;
    let output = engine.run_with(&policy, sh("sleep 1; exit 4")).await.unwrap();
    assert_status(&output, Status::Exited(4));
}

/// Starts up to `$1` children that sleep; 9 when no more can be started, with how many there are.
fn forks(count: u32) -> SpawnConfig {
    python(&format!(
        "import os, time\nn = 0\ntry:\n  while n < {count}:\n    if os.fork() == 0:\n      time.sleep(60); os._exit(0)\n    n += 1\nexcept OSError: pass\nprint(n, flush=True)\nos._exit(0 if n == {count} else 9)"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_counted() {
    let test = "processes_are_counted";
    if engine(test).await.is_none() || !has_program(test, PYTHON) {
        return;
    }
    for engine in [engine(test).await.unwrap(), engine_with(NO_CGROUPS).await] {
        let policy = limited(&engine, Control::ProcessCount, |policy| policy.processes(20)).await;
        let output = engine.run_with(&policy, forks(40)).await.unwrap();
        assert_status(&output, Status::Processes);
        if is_enforced(&output.outcome.report, Control::ProcessCount) {
            // Itself is one of the twenty.
            assert_eq!(common::text(&output.stdout), "19\n");
        }
        // As many as are allowed are allowed.
        let output = engine.run_with(&policy, forks(19)).await.unwrap();
        assert_status(&output, Status::Exited(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_count_as_processes() {
    let test = "threads_count_as_processes";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let policy = limited(&engine, Control::ProcessCount, |policy| policy.processes(20)).await;
    let bomb = "import os, threading, time\nn = 0\ntry:\n  while n < 60:\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\nexcept RuntimeError: pass\nprint(n, flush=True)\nos._exit(9)";
    let output = engine.run_with(&policy, python(bomb)).await.unwrap();
    if is_enforced(&output.outcome.report, Control::ProcessCount) {
        assert_eq!(common::text(&output.stdout), "19\n");
    }
    // Without the cgroup's counter nothing is left to tell by: the threads are gone with their process.
    let counted = output.outcome.usage.processes.is_some();
    assert_status(&output, if counted { Status::Processes } else { Status::Exited(9) });
    let roomy = limited(&engine, Control::ProcessCount, |policy| policy.processes(100)).await;
    let output = engine.run_with(&roomy, python(bomb)).await.unwrap();
    assert_eq!((output.status(), common::text(&output.stdout)), (Status::Exited(9), "60\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_ends_and_leaves_nothing() {
    let test = "a_fork_bomb_ends_and_leaves_nothing";
    if engine(test).await.is_none() {
        return;
    }
    for engine in [engine(test).await.unwrap(), engine_with(NO_CGROUPS).await] {
        let policy =
            limited(&engine, Control::ProcessCount, |policy| policy.processes(30).timeout(Duration::from_secs(2)))
                .await;
        let word = marker();
        // Each tries for ever, whatever fails.
        let bomb = "trap '' TERM INT HUP; while :; do /bin/sh -c \"$0\" \"$0\" \"$1\" & done 2>/dev/null";
        let config = SpawnConfig::new("/bin/sh").args(["-c", bomb, bomb, &word]);
        let output = tokio::time::timeout(LONG, engine.run_with(&policy, config)).await.expect("no end").unwrap();
        // A shell that cannot fork may end by itself; without the cgroup's counter nobody can say why.
        let by_itself = output.outcome.usage.processes.is_none() && matches!(output.status(), Status::Exited(_));
        assert!(by_itself || matches!(output.status(), Status::TimedOut | Status::Processes), "{:?}", output.status());
        if let Some(peak) = output.outcome.usage.processes {
            assert!((20..=30).contains(&peak), "{peak}");
        }
        assert_eq!(processes_with(&word), [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_has_a_name_of_its_own() {
    let Some(engine) = engine("a_full_disk_has_a_name_of_its_own").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    let policy = limited(&engine, Control::Disk, |policy| policy.disk(8 * MIB)).await;
    for directory in ["/tmp", "/var/tmp", "/dev/shm", "/home/hotcell"] {
        let full = format!("head -c 20000000 /dev/zero > {directory}/full");
        assert_status(&engine.run_with(&policy, sh(&full)).await.unwrap(), Status::Disk);
        let fits = format!("head -c 4000000 /dev/zero > {directory}/fits && exit 5");
        assert_status(&engine.run_with(&policy, sh(&fits)).await.unwrap(), Status::Exited(5));
    }
    let overlaid = Policy::builder().disk(8 * MIB).overlay(&tree).build().unwrap();
    if engine.plan(&overlaid).await.is_err() {
        return skip("a_full_disk_has_a_name_of_its_own (overlay)", "no overlays here");
    }
    let full = format!("head -c 20000000 /dev/zero > {}/full", tree.display());
    assert_status(&engine.run_with(&overlaid, sh(&full)).await.unwrap(), Status::Disk);
    assert_eq!(place.listing(), ["tree"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_files_is_bounded() {
    let test = "the_number_of_files_is_bounded";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let policy = limited(&engine, Control::Disk, |policy| policy.disk(8 * MIB)).await;
    let many =
        "import os\nos.chdir('/tmp')\nfor i in range(100000): os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))";
    assert_status(&engine.run_with(&policy, python(many)).await.unwrap(), Status::Disk);
    let some = many.replace("100000", "500");
    assert_status(&engine.run_with(&policy, python(&some)).await.unwrap(), Status::Exited(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_disk_is_not_a_full_one() {
    let Some(engine) = engine("a_small_disk_is_not_a_full_one").await else { return };
    for kib in [16, 64, 1024] {
        let policy = limited(&engine, Control::Disk, |policy| policy.disk(kib << 10)).await;
        match engine.run_with(&policy, sh("exit 3")).await {
            Ok(output) => assert_status(&output, Status::Exited(3)),
            // A disk on which no box fits may be refused.
            Err(error) => assert!(kib < 1024, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_cut_at_the_limit_exactly() {
    let Some(engine) = engine("output_is_cut_at_the_limit_exactly").await else { return };
    let policy = limited(&engine, Control::Output, |policy| policy.output(MIB)).await;
    let output = engine.run_with(&policy, sh("yes")).await.unwrap();
    assert_status(&output, Status::Output);
    assert_eq!(output.stdout.total, MIB);
    // Both streams share it.
    let output = engine.run_with(&policy, sh("yes >&2 & yes")).await.unwrap();
    assert_status(&output, Status::Output);
    assert_eq!(output.stdout.total + output.stderr.total, MIB);
    // One byte too many is seen, also when it is found in the pipe after the command has ended.
    let thousand = limited(&engine, Control::Output, |policy| policy.output(1000)).await;
    let sandbox = engine.create(&thousand).await.unwrap();
    let mut process = sandbox.spawn(sh("head -c 1001 /dev/zero")).await.unwrap();
    let mut unread = process.take_io().output.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Exited(0), "nobody has looked yet");
    let mut total = 0;
    while let Some(event) = unread.next().await {
        total += event.bytes.len();
    }
    assert_eq!(total, 1000);
    assert_eq!(process.wait().await.unwrap().status, Status::Output);
    // What is allowed is allowed, to the byte.
    let output = engine.run_with(&policy, sh("head -c 1048576 /dev/zero")).await.unwrap();
    assert_status(&output, Status::Exited(0));
    assert_eq!(output.stdout.total, MIB);
    let output = engine.run_with(&policy, sh("head -c 1300000 /dev/zero")).await.unwrap();
    assert_status(&output, Status::Output);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_nobody_reads_counts() {
    let Some(engine) = engine("output_that_nobody_reads_counts").await else { return };
    let policy = limited(&engine, Control::Output, |policy| policy.output(MIB)).await;
    let command = engine.start(&policy, sh("yes")).await.unwrap();
    assert_eq!(command.finish().await.unwrap().status, Status::Output);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_files_are_counted() {
    let test = "open_files_are_counted";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let policy = limited(&engine, Control::OpenFiles, |policy| policy.open_files(32)).await;
    let open = "import os\nn = 3\ntry:\n  while n < 100: os.open('/dev/null', os.O_RDONLY); n += 1\nexcept OSError as e: print(n, e.errno)";
    assert_eq!(common::stdout(&engine.run_with(&policy, python(open)).await.unwrap()), "32 24\n");
    let raise = "import resource as r\ntry: r.setrlimit(r.RLIMIT_NOFILE, (64, 64))\nexcept Exception: print('no')";
    assert_eq!(common::stdout(&engine.run_with(&policy, python(raise)).await.unwrap()), "no\n");
}

/// What resists being ended, each with a word to find it by.
fn stubborn(word: &str) -> String {
    let ignore = "trap \"\" TERM INT HUP QUIT USR1 USR2";
    format!(
        "(setsid sh -c '(setsid sleep {word} &) ; {ignore}; while :; do sleep 1; done' x {word} &)\n\
         sh -c '{ignore}; while :; do sleep 1; done' x {word} &\n\
         sh -c 'kill -STOP $$; sleep 1' x {word} &\n\
         {ignore}\n\
         sleep 0.2; echo ready; while :; do sleep 1; done"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_everything() {
    let test = "a_timeout_ends_everything";
    if engine(test).await.is_none() {
        return;
    }
    for engine in [engine(test).await.unwrap(), engine_with(NO_CGROUPS).await] {
        let word = marker();
        let policy = Policy::builder().timeout(Duration::from_millis(1500)).build().unwrap();
        let mut command = engine.start(&policy, sh(&stubborn(&word))).await.unwrap();
        let mut output = command.take_io().output.unwrap();
        assert_eq!(output.next().await.unwrap().bytes, b"ready\n");
        // The control: they are there, and can be seen.
        assert!(processes_with(&word).len() >= 4, "{:?}", processes_with(&word));
        let outcome = tokio::time::timeout(LONG, command.finish()).await.expect("no end").unwrap();
        assert_eq!(outcome.status, Status::TimedOut);
        assert_eq!(processes_with(&word), [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_in_a_kept_box_ends_the_daemons_of_its_command() {
    let test = "a_timeout_in_a_kept_box_ends_the_daemons_of_its_command";
    let Some(engine) = engine(test).await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let word = marker();
    let config = sh(&stubborn(&word)).timeout(Duration::from_secs(1));
    let process = sandbox.spawn(config).await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::TimedOut);
    eventually("all are gone", || processes_with(&word).is_empty()).await;
    assert_status(&common::run_in(&*sandbox, sh("exit 3")).await, Status::Exited(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_needs_nobody_to_wait_for_it() {
    let Some(engine) = engine("a_timeout_needs_nobody_to_wait_for_it").await else { return };
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let word = marker();
    let script = format!("sleep {word}");
    let config = sh(&script).stdin(StdinMode::Piped).timeout(Duration::from_millis(300));
    let mut process = sandbox.spawn(config).await.unwrap();
    let io = process.take_io();
    eventually("it is ended", || processes_with(&word).is_empty()).await;
    assert_eq!(process.wait().await.unwrap().status, Status::TimedOut);
    drop(io);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_says_goodbye_in_time_is_still_timed_out() {
    let Some(engine) = engine("a_command_that_says_goodbye_in_time_is_still_timed_out").await else { return };
    let policy = Policy::builder().timeout(Duration::from_millis(400)).build().unwrap();
    let polite = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let output = engine.run_with(&policy, sh(polite)).await.unwrap();
    assert_status(&output, Status::TimedOut);
    assert_eq!(common::text(&output.stdout), "ready\nbye\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn cpus_are_shared_out_or_refused() {
    let test = "cpus_are_shared_out_or_refused";
    let Some(engine) = engine(test).await else { return };
    let policy = Policy::builder().cpus(0.25).timeout(Duration::from_secs(2)).build().unwrap();
    if let Err(refusal) = engine.plan(&policy).await {
        assert!(refusal.to_string().contains("cpus ("), "{refusal}");
        return skip(test, "no cgroup with a cpu controller");
    }
    let output = engine.run_with(&policy, sh(SPINNERS)).await.unwrap();
    assert_status(&output, Status::TimedOut);
    // A quarter of two seconds and a bit; without a limit it would be two seconds or four.
    assert!(cpu_of(&output).unwrap() < Duration::from_millis(1200), "{:?}", output.outcome.usage);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_to_start_with_is_an_error() {
    let Some(engine) = engine("too_little_to_start_with_is_an_error").await else { return };
    let policy = limited(&engine, Control::Memory, |policy| policy.memory(4096)).await;
    let error = engine.run_with(&policy, sh("exit 0")).await.unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    for zero in [Policy::builder().processes(0), Policy::builder().disk(0), Policy::builder().timeout(Duration::ZERO)] {
        assert!(zero.build().is_err());
    }
}
