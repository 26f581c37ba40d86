//! The same contract for boxes on servers, whoever's server it is: `HOTCELL_TEST_OPENSANDBOX_URL`, `_KEY` and `_IMAGE` name one that
//! speaks OpenSandbox's API, `HOTCELL_TEST_E2B_URL` and `_KEY` one that speaks E2B's.
//!
//! Most cases are those of local boxes. What only a server can hold (system calls, privileges, memory, processes) is not among them:
//! that is its word. A server that nobody names is listed as skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests assert by panicking")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../boxes/files.rs"]
#[allow(dead_code, reason = "not every case of local boxes is one of servers")]
mod files;
mod kinds;
#[path = "../boxes/lifetime.rs"]
#[allow(dead_code, reason = "not every case of local boxes is one of servers")]
mod lifetime;
#[path = "../boxes/limits.rs"]
#[allow(dead_code, reason = "not every case of local boxes is one of servers")]
mod limits;
mod servers;
mod start;
#[path = "../boxes/streams.rs"]
#[allow(dead_code, reason = "not every case of local boxes is one of servers")]
mod streams;

use kinds::Place;

/// Every case, for one kind of server.
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
            limits::the_timeout_ends_it,
            limits::the_cpu_time_limit_ends_it,
            limits::the_output_limit_ends_it,
            files::a_read_tree_cannot_be_written,
            files::a_written_tree_belongs_to_its_owner,
            files::a_denied_path_is_out_of_reach,
            files::a_protected_path_cannot_be_changed,
            files::an_overlay_is_listed_and_committed,
            files::an_overlay_can_be_thrown_away,
            lifetime::a_kept_box_remembers,
            lifetime::many_commands_at_once,
            lifetime::a_killed_command_is_canceled,
            lifetime::dropping_the_box_ends_everything,
            lifetime::nothing_is_left,
            servers::limits_that_a_shell_sets_hold,
            servers::files_are_carried_in_and_out,
            servers::a_written_tree_is_back_when_the_command_has_ended,
            servers::what_the_box_may_not_change_is_reported,
            servers::what_holds_what_is_said,
            servers::an_isolation_level_is_refused,
            servers::a_single_file_is_sent_and_brought_back,
            servers::destroying_the_box_ends_its_commands,
        })*
    };
}

every_case! {
    opensandbox: super::kinds::Kind::OpenSandbox,
    e2b: super::kinds::Kind::E2b,
}
