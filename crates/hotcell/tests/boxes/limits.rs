//! How much of everything.

use std::time::Duration;

use hotcell::{Control, Status};

use super::Place;
use super::common::{marker, processes_with, sh, text};

const MIB: u64 = 1 << 20;

pub(crate) async fn the_timeout_ends_it(place: &Place) {
    let word = marker();
    let policy = place.policy().timeout(Duration::from_millis(700));
    let output = place.run(policy, sh(&format!("sleep {word} & sleep {word}"))).await;
    assert_eq!(output.status(), Status::TimedOut);
    assert_eq!(processes_with(&word), Vec::<u32>::new());
}

pub(crate) async fn the_memory_limit_ends_it(place: &Place) {
    // gVisor's own kernel is in the same bound.
    let Some(policy) = place.limited(Control::Memory, place.policy().memory(160 * MIB)).await else { return };
    let output = place.engine.run_with(&policy, sh("tail /dev/zero")).await.unwrap();
    assert_eq!(output.status(), Status::OutOfMemory, "{}", text(&output.stderr));
    let output = place.engine.run_with(&policy, sh("head -c 10000000 /dev/zero | tail | wc -c")).await.unwrap();
    assert_eq!(text(&output.stdout).trim(), "10000000", "what fits is left alone");
}

pub(crate) async fn the_cpu_time_limit_ends_it(place: &Place) {
    let policy = place.policy().cpu_time(Duration::from_millis(600));
    let Some(policy) = place.limited(Control::CpuTime, policy).await else { return };
    let output = place.engine.run_with(&policy, sh("while :; do :; done")).await.unwrap();
    assert_eq!(output.status(), Status::CpuTime);
}

pub(crate) async fn the_output_limit_ends_it(place: &Place) {
    let output = place.run(place.policy().output(MIB), sh("yes")).await;
    assert_eq!(output.status(), Status::Output);
    assert!(output.stdout.bytes().len() as u64 <= MIB);
}

pub(crate) async fn the_disk_limit_holds(place: &Place) {
    let Some(policy) = place.limited(Control::Disk, place.policy().disk(8 * MIB)).await else { return };
    for directory in ["/tmp", "/home/hotcell", "/dev/shm"] {
        let script = format!(
            "head -c 800000 /dev/zero > {directory}/a && echo fits; head -c 9000000 /dev/zero > {directory}/b && echo more"
        );
        let output = place.engine.run_with(&policy, sh(&script)).await.unwrap();
        assert_eq!(text(&output.stdout), "fits\n", "{directory}: {:?} {}", output.status(), text(&output.stderr));
    }
}

pub(crate) async fn the_process_limit_holds(place: &Place) {
    let policy = place.policy().processes(20).timeout(Duration::from_secs(8));
    let Some(policy) = place.limited(Control::ProcessCount, policy).await else { return };
    let script = "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all";
    let output = place.engine.run_with(&policy, sh(script)).await.unwrap();
    let held = output.status() == Status::Processes || !text(&output.stdout).contains("all");
    assert!(held, "{:?} {} {}", output.status(), text(&output.stdout), text(&output.stderr));
}

pub(crate) async fn the_open_files_limit_holds(place: &Place) {
    let output = place.run(place.policy().open_files(32), sh("ulimit -n; ulimit -Hn")).await;
    assert_eq!(text(&output.stdout), "32\n32\n");
}
