//! `kill -9` of the program that uses the library: nothing of its boxes is left, soon.
//!
//! The program is this one, started again with a variable set.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]
#![allow(clippy::print_stdout, reason = "the victim tells that it is ready")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Place, engine, marker, mount_count, processes_with, remains_of, sh, spawners_of, until};
use hotcell::{Engine, EngineOptions, Policy, Pool};

const ROLE: &str = "HOTCELL_TEST_VICTIM";
const WORD: &str = "HOTCELL_TEST_WORD";
const TREE: &str = "HOTCELL_TEST_TREE";

/// How soon everything has to be gone.
const SOON: Duration = Duration::from_secs(2);

/// What the victim does until it is killed: boxes with all kinds of processes, a kept one, a pool.
async fn victim() {
    let word = std::env::var(WORD).unwrap();
    let tree = PathBuf::from(std::env::var_os(TREE).unwrap());
    let engine = Engine::with_options(EngineOptions::default().warm(2)).await.unwrap();
    let policy = Policy::builder().write(&tree).build().unwrap();
    let ignore = "trap \"\" TERM INT HUP QUIT USR1 USR2";
    let script = format!(
        "(setsid sh -c '{ignore}; (setsid sleep {word} &); while :; do sleep 1; done' x {word} &)\n\
         sh -c 'kill -STOP $$' x {word} &\n\
         {ignore}; echo ready; while :; do sleep 1; done"
    );
    let mut commands = Vec::new();
    for _ in 0..3 {
        let mut command = engine.start(&policy, sh(&script)).await.unwrap();
        let mut output = command.take_io().output.unwrap();
        assert_eq!(output.next().await.unwrap().bytes, b"ready\n");
        commands.push((command, output));
    }
    let pool = Pool::new(&engine, policy, 2).await.unwrap();
    // Overlays and terminals have resources of their own.
    let overlay = Policy::builder().overlay(&tree).tty(true).build().unwrap();
    let kept = match engine.plan(&overlay).await {
        Ok(_) => Some(engine.create(&overlay).await.unwrap()),
        Err(_) => None,
    };
    if let Some(kept) = &kept {
        let config = sh(&format!("{ignore}; exec sleep {word}")).tty(hotcell::TtySize::default());
        std::mem::forget(kept.spawn(config).await.unwrap());
    }
    println!("victim ready");
    std::future::pending::<()>().await;
    drop((commands, pool, kept));
}

#[test]
fn the_victim() {
    if std::env::var_os(ROLE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(victim());
    }
}

/// A victim, killed with the test if not before.
struct Victim(Child);

impl Victim {
    fn start(word: &str, place: &Place) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_victim", "--nocapture"])
            .env(ROLE, "1")
            .env(WORD, word)
            .env(TREE, place.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let victim = Self(child);
        let ready = stdout.lines().map_while(Result::ok).any(|line| line.ends_with("victim ready"));
        assert!(ready, "the victim ended before it was killed");
        victim
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn has_boxes(test: &str) -> bool {
    engine(test).await.is_some()
}

#[tokio::test]
async fn nothing_is_left_of_a_killed_program() {
    if !has_boxes("nothing_is_left_of_a_killed_program").await {
        return;
    }
    let place = Place::new();
    place.file("src/kept", "as it was");
    let before = place.listing();
    let mounts = mount_count();
    let word = marker();
    let mut victim = Victim::start(&word, &place);
    let [spawner] = spawners_of(victim.0.id())[..] else { panic!("no helper process") };
    until("they run", || processes_with(&word).len() >= 9);
    // The controls: what has to go is there, and is seen.
    assert!(remains_of(spawner).len() > 5, "{:?}", remains_of(spawner));
    assert_ne!(place.listing(), before, "no placeholders: the test would not see them left behind");
    victim.kill();
    let took = until("nothing is left", || {
        processes_with(&word).is_empty() && remains_of(spawner).is_empty() && place.listing() == before
    });
    println!("everything was gone after {took:?}");
    assert!(took < SOON, "{took:?}");
    assert_eq!(std::fs::read_to_string(place.join("src/kept")).unwrap(), "as it was");
    assert!(mount_count() <= mounts);
}

#[tokio::test]
async fn nothing_is_left_of_a_program_killed_while_it_makes_boxes() {
    if !has_boxes("nothing_is_left_of_a_program_killed_while_it_makes_boxes").await {
        return;
    }
    for round in 0..6 {
        let place = Place::new();
        let word = marker();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_victim", "--nocapture"])
            .env(ROLE, "1")
            .env(WORD, &word)
            .env(TREE, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Victim)
            .unwrap();
        let mut helpers = Vec::new();
        until("it has a helper", || {
            helpers = spawners_of(child.0.id());
            !helpers.is_empty()
        });
        tokio::time::sleep(Duration::from_millis(3 * round)).await;
        helpers.extend(spawners_of(child.0.id()));
        child.kill();
        let left = || helpers.iter().flat_map(|helper| remains_of(*helper)).collect::<Vec<_>>();
        let took = until("nothing is left", || {
            processes_with(&word).is_empty() && left().is_empty() && place.listing().is_empty()
        });
        assert!(took < SOON, "{took:?}");
    }
}
