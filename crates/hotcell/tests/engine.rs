//! The engine as part of another program: runtimes, pools, many boxes at once, and nothing that piles up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use common::{
    LONG, engine, eventually, has_program, marker, mount_count, processes_with, remains_of, run_in, sh, spawners_of,
};
use hotcell::config::{Config, Layer};
use hotcell::{BackendError, Engine, Isolation, Policy, Pool, RuntimeKind, SpawnConfig, Status};

/// Tests that count what this process has cannot run beside others.
static COUNTING: Mutex<()> = Mutex::new(());

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_gives_each_box_once() {
    let Some(engine) = engine("a_pool_gives_each_box_once").await else { return };
    let pool = Pool::new(&engine, Policy::default(), 3).await.unwrap();
    assert_eq!(pool.ready(), 3);
    let mut taken = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..8 {
        let sandbox = pool.take().await.unwrap();
        assert!(names.insert(sandbox.id().clone()), "{} was given twice", sandbox.id());
        // Nothing of another's is in it; then something is.
        let output =
            run_in(&*sandbox, sh("test -e /tmp/mine || test -e ~/mine && exit 1; touch /tmp/mine ~/mine")).await;
        assert_eq!(output.status(), Status::Exited(0));
        taken.push(sandbox);
    }
    eventually("it fills up again", || pool.ready() == 3).await;
    let word = marker();
    let sandbox = pool.take().await.unwrap();
    let _process = sandbox.spawn(SpawnConfig::new("sleep").arg(&word)).await.unwrap();
    drop(pool);
    // The box is the taker's, not the pool's.
    assert_eq!(run_in(&*sandbox, sh("exit 3")).await.status(), Status::Exited(3));
    assert_eq!(processes_with(&word).len(), 1);
    sandbox.destroy().await.unwrap();
    assert_eq!(processes_with(&word), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_none_and_a_pool_of_what_cannot_be_made() {
    let Some(engine) = engine("a_pool_of_none_and_a_pool_of_what_cannot_be_made").await else { return };
    let none = Pool::new(&engine, Policy::default(), 0).await.unwrap();
    assert_eq!(run_in(&*none.take().await.unwrap(), sh("exit 3")).await.status(), Status::Exited(3));
    let impossible = Policy::builder().isolation(Isolation::MicroVm).build().unwrap();
    assert!(Pool::new(&engine, impossible, 1).await.is_err());
    let missing = Policy::builder().read("/no/such/path").build().unwrap();
    assert!(Pool::new(&engine, missing, 1).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_boxes_at_once() {
    let Some(engine) = engine("twenty_boxes_at_once").await else { return };
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let script =
                    format!("hostname >/dev/null; echo {number} > /tmp/x; sleep 0.2; cat /tmp/x; exit {number}");
                let output = engine.run(sh(&script)).await.unwrap();
                assert_eq!(
                    (output.status(), common::text(&output.stdout)),
                    (Status::Exited(number), format!("{number}\n"))
                );
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn every_kind_of_runtime_will_do() {
    let run = async {
        let Some(engine) = engine("every_kind_of_runtime_will_do").await else { return };
        let output = engine.run(sh("echo hello")).await.unwrap();
        assert_eq!(common::stdout(&output), "hello\n");
        engine.close().await;
    };
    let one = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    one().block_on(run);
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    many.block_on(async {
        if let Some(engine) = engine("every_kind_of_runtime_will_do").await {
            assert_eq!(engine.run(sh("exit 3")).await.unwrap().status(), Status::Exited(3));
        }
    });
    // And one engine for two, one after the other.
    let first = one();
    let Some(shared) = first.block_on(engine("every_kind_of_runtime_will_do")) else { return };
    assert_eq!(first.block_on(shared.run(sh("exit 4"))).unwrap().status(), Status::Exited(4));
    drop(first);
    let second = one();
    let output = second.block_on(async { tokio::time::timeout(LONG, shared.run(sh("exit 5"))).await });
    assert_eq!(output.expect("no answer").unwrap().status(), Status::Exited(5));
}

#[test]
fn a_box_whose_runtime_is_gone_is_lost_and_not_waited_for() {
    let one = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (one(), one());
    let Some(engine) = first.block_on(engine("a_box_whose_runtime_is_gone")) else { return };
    let word = marker();
    let sandbox = first.block_on(engine.create(&Policy::default())).unwrap();
    let daemon = marker();
    first.block_on(async {
        let starts_it = sandbox.spawn(sh(&format!("setsid sleep {daemon} >/dev/null 2>&1 &"))).await.unwrap();
        assert!(starts_it.wait().await.unwrap().status.success());
        eventually("the daemon runs", || !processes_with(&daemon).is_empty()).await;
    });
    let process = first.block_on(sandbox.spawn(SpawnConfig::new("sleep").arg(&word))).unwrap();
    drop(first);
    second.block_on(async {
        // Nobody holds the box's limits any more, so all of it ends, though somebody still holds the box.
        eventually("the box has ended", || processes_with(&daemon).is_empty()).await;
        let wait = tokio::time::timeout(LONG, process.wait()).await.expect("waits for ever");
        assert!(wait.is_err(), "{wait:?}");
        let spawn = tokio::time::timeout(LONG, sandbox.spawn(sh("exit 3"))).await.expect("waits for ever");
        assert!(spawn.is_err());
        drop(process);
        tokio::time::timeout(LONG, sandbox.destroy()).await.expect("waits for ever").ok();
        eventually("it is gone", || processes_with(&word).is_empty()).await;
    });
}

/// Runs a future on no runtime at all.
fn without_runtime<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(start.elapsed() < LONG, "no answer outside of a runtime");
    }
}

#[test]
fn outside_of_a_runtime_there_is_an_error_and_no_panic() {
    let error = without_runtime(Engine::new()).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
    // An engine that was made properly, used improperly.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let Some(engine) = runtime.block_on(engine("outside_of_a_runtime")) else { return };
    let error = without_runtime(engine.run(sh("exit 0"))).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
    let sandbox = runtime.block_on(engine.create(&Policy::default())).unwrap();
    let spawned = without_runtime(sandbox.spawn(sh("exit 0"))).map(drop);
    assert!(spawned.is_err());
    drop((sandbox, engine));
}

#[tokio::test]
async fn the_configured_backend_or_an_error() {
    let backend = |text: &str| Config::parse(text, "hotcell.toml", Layer::User).unwrap();
    for text in ["", "sandbox_backend = \"none\"", "[sandbox]\nmode = \"native\"", "[sandbox]\nmode = \"auto\""] {
        let backend = hotcell::create_backend(&backend(text)).await.unwrap();
        assert_eq!(backend.kind(), RuntimeKind::Native, "{text}");
        assert_eq!(backend.isolation(), Isolation::Process);
    }
    let error = hotcell::create_backend(&backend("[sandbox]\nmode = \"firecracker\"")).await.unwrap_err();
    assert!(matches!(error, BackendError::NotBuilt { .. }), "{error}");
    // Nobody listens there.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!("sandbox_backend = \"opensandbox\"\nsandbox_url = \"http://{nowhere}\"");
    let error = hotcell::create_backend(&backend(&text)).await.unwrap_err();
    assert!(matches!(error, BackendError::CannotStart { .. }), "{error}");
    for (text, word) in [
        ("sandbox_backend = \"cube\"", "needs the address"),
        ("sandbox_backend = \"e2b\"", "needs a key"),
        ("sandbox_backend = \"e2b\"\nsandbox_url = \"http://10.0.0.1\"", "hotcell.toml:2: `remote.url` cannot be"),
        (
            "sandbox_backend = \"e2b\"\n[remote]\napi_key_file = \"/nope\"",
            "hotcell.toml:3: the key file `/nope` cannot be read",
        ),
    ] {
        let error = hotcell::create_backend(&backend(text)).await.unwrap_err();
        assert!(matches!(error, BackendError::CannotStart { .. }), "{text}: {error}");
        assert!(error.to_string().contains(word), "{text}: {error}");
    }
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs itself alone in a process of its own: what it counts is this process's.
fn alone(test: &str) -> bool {
    const VARIABLE: &str = "HOTCELL_TEST_ALONE";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let _one_at_a_time = COUNTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

#[test]
fn nothing_piles_up() {
    if !alone("nothing_piles_up") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(engine) = engine("nothing_piles_up").await else { return };
        let me = std::process::id();
        let [spawner] = spawners_of(me)[..] else { panic!("{:?}", spawners_of(me)) };
        let policy = Policy::builder().timeout(Duration::from_millis(50)).tty(true).build().unwrap();
        let round = async || {
            // An end of every kind.
            engine.run(sh("exit 3")).await.unwrap();
            engine.run_with(&policy, sh("sleep 600")).await.unwrap();
            engine.run_with(&policy, sh("exit 0").tty(hotcell::TtySize::default())).await.unwrap();
            engine.run(SpawnConfig::new("/no/such")).await.unwrap_err();
            engine.run_with(&Policy::builder().read("/no/such").build().unwrap(), sh("exit 0")).await.unwrap_err();
            let _ = tokio::time::timeout(Duration::from_millis(3), engine.run(sh("sleep 600"))).await;
            drop(engine.start(&Policy::default(), sh("sleep 600")).await.unwrap());
        };
        let clean = |descriptors: usize, mounts: usize| {
            let only_the_helper = remains_of(spawner).len() == 1 && spawners_of(me) == [spawner];
            only_the_helper && open_descriptors() <= descriptors && mount_count() <= mounts
        };
        round().await;
        eventually("the first round is over", || remains_of(spawner).len() == 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (descriptors, mounts) = (open_descriptors(), mount_count());
        for _ in 0..15 {
            round().await;
        }
        eventually("it is as it was", || clean(descriptors, mounts)).await;
        engine.close().await;
        eventually("nothing is left", || remains_of(spawner).is_empty()).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_helper_is_killed_everything_says_so() {
    let test = "when_the_helper_is_killed_everything_says_so";
    if !has_program(test, "/bin/kill") || !alone_async(test) {
        return;
    }
    let Some(engine) = engine(test).await else { return };
    let [spawner] = spawners_of(std::process::id())[..] else { panic!() };
    let word = marker();
    let sandbox = engine.create(&Policy::default()).await.unwrap();
    let process = sandbox.spawn(sh(&format!("trap '' TERM; (setsid sleep {word} &); sleep {word}"))).await.unwrap();
    eventually("they run", || processes_with(&word).len() >= 2).await;
    assert!(std::process::Command::new("/bin/kill").args(["-KILL", &spawner.to_string()]).status().unwrap().success());
    eventually("they are gone", || processes_with(&word).is_empty()).await;
    let wait = tokio::time::timeout(LONG, process.wait()).await.expect("waits for ever");
    assert!(wait.is_err(), "{wait:?}");
    let spawn = tokio::time::timeout(LONG, sandbox.spawn(sh("exit 0"))).await.expect("waits for ever");
    assert!(spawn.is_err());
    let create = tokio::time::timeout(LONG, engine.create(&Policy::default())).await.expect("waits for ever");
    assert!(create.is_err());
    tokio::time::timeout(LONG, sandbox.destroy()).await.expect("waits for ever").ok();
    drop(process);
    tokio::time::timeout(LONG, engine.close()).await.expect("waits for ever");
    eventually("nothing is left", || remains_of(spawner).is_empty()).await;
}

fn alone_async(test: &str) -> bool {
    tokio::task::block_in_place(|| alone(test))
}

/// Helpers in two process namespaces can have the same number, and their boxes' cgroups the same names.
#[tokio::test(flavor = "multi_thread")]
async fn a_cgroup_that_another_has_made_is_left_alone() {
    const NAME: &str = "a_cgroup_that_another_has_made_is_left_alone";
    if !alone(NAME) {
        return;
    }
    let Some(engine) = engine(NAME).await else { return };
    let first = engine.create(&Policy::default()).await.unwrap();
    let [spawner] = spawners_of(std::process::id())[..] else { panic!("no helper process") };
    let groups = || -> Vec<std::path::PathBuf> {
        let found = remains_of(spawner);
        found.iter().filter_map(|line| line.strip_prefix("cgroup ")).map(Into::into).collect()
    };
    let ours = groups();
    if ours.is_empty() {
        return common::skip(NAME, "this user has no cgroups");
    }
    let name = ours[0].file_name().unwrap().to_str().unwrap();
    let serial: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
    let taken: Vec<_> =
        ours.iter().map(|path| path.with_file_name(format!("hotcell-{spawner}-{}", serial + 1))).collect();
    // Only in the last hierarchy: those before it have to be given back.
    fs::create_dir(taken.last().unwrap()).unwrap();
    let second = engine.create(&Policy::default()).await;
    let theirs: Vec<_> = groups().into_iter().filter(|path| !ours.contains(path) && !taken.contains(path)).collect();
    let left_alone = groups().iter().filter(|path| taken.contains(path)).count();
    let removed = fs::remove_dir(taken.last().unwrap());
    assert_eq!(theirs.len(), ours.len(), "{:?}", second.as_ref().err());
    assert_eq!((left_alone, removed.is_ok()), (1, true));
    drop((first, second.unwrap()));
    engine.close().await;
    eventually("nothing is left", || remains_of(spawner).is_empty()).await;
}
