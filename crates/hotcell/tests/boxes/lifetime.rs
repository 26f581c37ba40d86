//! From the first command to nothing.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use hotcell::Status;

use super::Place;
use super::common::{eventually, marker, processes_with, run_in, sh, stdout};

pub(crate) async fn a_kept_box_remembers(place: &Place) {
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    stdout(&run_in(&*sandbox, sh("echo hello > /tmp/file")).await);
    for _ in 0..10 {
        assert_eq!(stdout(&run_in(&*sandbox, sh("cat /tmp/file")).await), "hello\n");
    }
    // A timeout ends the command, not the box.
    let ended = run_in(&*sandbox, sh("sleep 60").timeout(Duration::from_millis(300))).await;
    assert_eq!(ended.status(), Status::TimedOut);
    assert_eq!(stdout(&run_in(&*sandbox, sh("cat /tmp/file")).await), "hello\n");
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn a_timeout_ends_daemons_too(place: &Place) {
    let word = marker();
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let looks =
        format!("for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $file; echo; done | grep -c '^sleep {word}'");
    let older = sandbox.spawn(sh(&format!("(setsid sleep {word} &) ; sleep 0.2"))).await.unwrap();
    older.wait().await.unwrap();
    assert_eq!(super::common::text(&run_in(&*sandbox, sh(&looks)).await.stdout), "1\n");
    let script = format!("(setsid sleep {word} &) ; sleep 60");
    let ended = run_in(&*sandbox, sh(&script).timeout(Duration::from_millis(500))).await;
    assert_eq!(ended.status(), Status::TimedOut);
    // The daemon of the command before is nobody's to end.
    assert_eq!(super::common::text(&run_in(&*sandbox, sh(&looks)).await.stdout), "1\n");
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn many_commands_at_once(place: &Place) {
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let sandbox = std::sync::Arc::new(sandbox);
    let commands: Vec<_> = (0..16)
        .map(|number| {
            let sandbox = std::sync::Arc::clone(&sandbox);
            tokio::spawn(async move {
                let output = run_in(&**sandbox, sh(&format!("sleep 0.1; echo {number}; exit {number}"))).await;
                assert_eq!(output.status(), Status::Exited(number));
                assert_eq!(super::common::text(&output.stdout), format!("{number}\n"));
            })
        })
        .collect();
    for command in commands {
        command.await.unwrap();
    }
    std::sync::Arc::into_inner(sandbox).unwrap().destroy().await.unwrap();
}

pub(crate) async fn a_killed_command_is_canceled(place: &Place) {
    let word = marker();
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let process = sandbox.spawn(sh(&format!("trap '' TERM; sleep {word}"))).await.unwrap();
    process.kill().await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Canceled);
    let process = sandbox.spawn(sh("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    process.signal("USR1".parse().unwrap()).await.unwrap();
    assert_eq!(process.wait().await.unwrap().status, Status::Exited(9));
    sandbox.destroy().await.unwrap();
    assert_eq!(processes_with(&word), Vec::<u32>::new());
}

pub(crate) async fn dropping_the_box_ends_everything(place: &Place) {
    let word = marker();
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let mut process =
        sandbox.spawn(sh(&format!("setsid sleep {word} & sleep 0.2; echo ready; sleep {word}"))).await.unwrap();
    // What does not run yet cannot be seen to end.
    assert!(process.take_io().output.unwrap().next().await.is_some());
    drop(sandbox);
    eventually("everything in the box has ended", || processes_with(&word).is_empty()).await;
}

pub(crate) async fn nothing_is_left(place: &Place) {
    let mounts = mounts();
    let word = marker();
    for _ in 0..3 {
        let output =
            place.run(place.policy(), sh(&format!("(setsid sleep {word} >/dev/null 2>&1 &) ; echo done"))).await;
        assert_eq!(stdout(&output), "done\n");
    }
    assert_eq!(processes_with(&word), Vec::<u32>::new());
    let now = self::mounts();
    assert_eq!(now.difference(&mounts).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// What is mounted where, but for what engines mount for containers of other tests.
fn mounts() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let of_engine = |line: &&str| !line.contains(" overlay ") && !line.contains("shm") && !line.contains(" nsfs ");
    table.lines().filter(of_engine).map(str::to_owned).collect()
}
