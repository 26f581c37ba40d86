//! The same contract for every kind of box on this machine: what holds in a native box holds in a container.
//!
//! Each case runs once per kind. A kind that is not on this machine is listed as skipped, with the reason.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests assert by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod files;
mod kinds;
mod lifetime;
mod limits;
mod streams;

use kinds::{Kind, Place};

/// Every case, for one kind of box.
macro_rules! cases {
    ($module:ident, $kind:expr; $($subject:ident::$case:ident),* $(,)?) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    if let Some(place) = super::Place::open($kind, stringify!($module), stringify!($case)).await {
                        super::$subject::$case(&place).await;
                        place.close().await;
                    }
                }
            )*
        }
    };
}

macro_rules! every_case {
    ($($module:ident: $kind:expr),* $(,)?) => {
        $(cases! { $module, $kind;
            streams::both_streams_and_the_exit_code,
            streams::a_signal_is_told_from_an_exit,
            streams::a_program_that_is_not_there,
            streams::a_program_that_cannot_be_executed,
            streams::bytes_come_back_as_they_went_in,
            streams::much_output_reaches_a_slow_reader,
            streams::a_terminal_of_its_own,
            streams::only_what_the_policy_says_is_in_the_environment,
            streams::the_code_is_nobody_special,
            streams::no_network_but_its_own,
            limits::the_timeout_ends_it,
            limits::the_memory_limit_ends_it,
            limits::the_cpu_time_limit_ends_it,
            limits::the_output_limit_ends_it,
            limits::the_disk_limit_holds,
            limits::the_process_limit_holds,
            limits::the_open_files_limit_holds,
            files::a_read_tree_cannot_be_written,
            files::a_written_tree_belongs_to_its_owner,
            files::a_denied_path_is_out_of_reach,
            files::a_protected_path_cannot_be_changed,
            files::an_overlay_is_listed_and_committed,
            files::an_overlay_can_be_thrown_away,
            files::files_are_carried_in_and_out,
            lifetime::a_kept_box_remembers,
            lifetime::a_timeout_ends_daemons_too,
            lifetime::many_commands_at_once,
            lifetime::a_killed_command_is_canceled,
            lifetime::dropping_the_box_ends_everything,
            lifetime::nothing_is_left,
        })*
    };
}

every_case! {
    native: super::Kind::Native,
    runc: super::Kind::Runc,
    crun: super::Kind::Crun,
    gvisor: super::Kind::Gvisor,
    docker: super::Kind::Docker,
    podman: super::Kind::Podman,
}

/// It is gVisor's kernel that answers, and the host's in a plain container.
#[tokio::test]
async fn the_kernel_is_gvisors() {
    let uname = || hotcell::SpawnConfig::new("uname").arg("-a");
    let host = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    if let Some(place) = Place::open(Kind::Gvisor, "gvisor", "the_kernel_is_gvisors").await {
        let output = common::stdout(&place.run(place.policy(), uname()).await);
        assert!(output.starts_with("Linux hotcell ") && !output.contains(host.trim()), "{output}");
        let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
        assert_eq!(sandbox.report().isolation, hotcell::Isolation::UserKernel);
        sandbox.destroy().await.unwrap();
        place.close().await;
    }
    if let Some(place) = Place::open(Kind::Runc, "runc", "the_kernel_is_gvisors").await {
        assert!(common::stdout(&place.run(place.policy(), uname()).await).contains(host.trim()));
        place.close().await;
    }
}
