//! Programs: how they start and end. The same on a stream as on a socket.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotcell_linux::{FileError, LaunchError};

use crate::common::{agent, both, in_time, init, launch, marker, runs, sh, until};

#[tokio::test]
async fn output_error_and_exit_code_come_back() {
    let agent = agent().await;
    let (output, error, code) = agent.run("echo one; echo two >&2; echo three; exit 7").await;
    assert_eq!((output.as_str(), error.as_str(), code), ("one\nthree\n", "two\n", Some(7)));
}

#[tokio::test]
async fn a_signal_that_killed_is_told() {
    for cell in both().await {
        let mut running = cell.sh("kill -9 $$").await;
        assert_eq!(running.wait().await.unwrap().signal, Some(9));
        let mut running = cell.sh("exec sleep 600").await;
        running.signaler().signal(15).await.unwrap();
        assert_eq!(in_time("SIGTERM", running.wait()).await.unwrap().signal, Some(15));
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_told_apart() {
    for cell in both().await {
        let missing = cell.cell.launch(launch("no-such-program", &[])).await.unwrap_err();
        assert!(matches!(missing, LaunchError::NotFound { .. }), "{missing}");
        let directory = cell.cell.launch(launch("/usr", &[])).await.unwrap_err();
        assert!(matches!(directory, LaunchError::NotExecutable { .. }), "{directory}");
        let mut nowhere = launch("true", &[]);
        nowhere.directory = "/no-such-directory".into();
        assert!(matches!(cell.cell.launch(nowhere).await.unwrap_err(), LaunchError::Directory { .. }));
        // And it goes on.
        assert_eq!(cell.sh("exit 3").await.wait().await.unwrap().code, Some(3));
    }
}

#[tokio::test]
async fn an_order_that_is_too_large_for_a_socket_gets_through() {
    for cell in both().await {
        let long = "x".repeat(100_000);
        let mut running =
            cell.cell.launch(launch("sh", &["-c", "exit $(( ${#1} / 1000 ))", "sh", &long])).await.unwrap();
        assert_eq!(running.wait().await.unwrap().code, Some(100));
    }
}

#[tokio::test]
async fn two_hundred_programs_at_once() {
    let agent = agent().await;
    let mut all = Vec::new();
    for number in 0..200 {
        all.push(agent.sh(&format!("read line </dev/null; sleep 0.2; echo {number}; exit {}", number % 100)).await);
    }
    for (number, mut running) in all.into_iter().enumerate() {
        let output = crate::common::read(running.take_output()).await;
        assert_eq!(String::from_utf8(output).unwrap(), format!("{number}\n"));
        let ended = in_time("the end of one of many", running.wait()).await.unwrap();
        assert_eq!(ended.code, Some(number as i32 % 100));
    }
}

#[tokio::test]
async fn a_killed_tree_leaves_no_daemon_and_no_other_program_suffers() {
    for cell in both().await {
        let (doomed, spared) = (marker(), marker());
        let mut other = cell.sh(&format!("exec sleep {spared}")).await;
        let running = cell.sh(&format!("(setsid sleep {doomed} &) ; sleep {doomed} & wait")).await;
        until("both run", || runs(&doomed)).await;
        running.signaler().kill_tree().await.unwrap();
        until("the tree is gone", || !runs(&doomed)).await;
        assert!(runs(&spared));
        other.signaler().kill_tree().await.unwrap();
        in_time("the other's end", other.wait()).await.unwrap();
    }
}

#[tokio::test]
async fn a_signal_to_all_reaches_what_was_started_here_and_nothing_else() {
    let bystander = marker();
    let mut outside = std::process::Command::new("sleep").arg(&bystander).spawn().unwrap();
    for cell in both().await {
        let word = marker();
        let mut running = cell.sh(&format!("(setsid sleep {word} &) ; exec sleep {word}")).await;
        until("both run", || runs(&word)).await;
        cell.cell.signal_all(9).await.unwrap();
        assert_eq!(in_time("the end", running.wait()).await.unwrap().signal, Some(9));
        until("the daemon is gone", || !runs(&word)).await;
        assert!(runs(&bystander));
    }
    outside.kill().unwrap();
    outside.wait().unwrap();
}

#[tokio::test]
async fn files_can_be_opened_where_descriptors_get_through_and_are_refused_where_not() {
    let cell = init().await;
    assert!(cell.cell.open_file(Path::new("/etc/passwd"), 0, 0).await.is_ok());
    let cell = agent().await;
    let refused = cell.cell.open_file(Path::new("/etc/passwd"), 0, 0).await.unwrap_err();
    assert!(
        matches!(&refused, FileError::Inside(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP)),
        "{refused}"
    );
    let missing = cell.cell.remove(Path::new("/no/such/file"), false).await.unwrap_err();
    assert!(matches!(&missing, FileError::Inside(error) if error.raw_os_error() == Some(libc::ENOENT)), "{missing}");
}

#[tokio::test]
async fn a_directory_gets_the_mode_that_was_asked_for() {
    for (number, cell) in both().await.into_iter().enumerate() {
        let path = std::env::temp_dir().join(format!("hotcell-made-{number}-{}", std::process::id()));
        cell.cell.make_directory(&path, 0o777).await.unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        cell.cell.remove(&path, true).await.unwrap();
        assert_eq!(mode & 0o7777, 0o777);
        // Programs have the usual mask all the same.
        assert_eq!(cell.run("umask").await.0, "0022\n");
    }
}

#[tokio::test]
async fn what_runs_is_counted() {
    for cell in both().await {
        let mut running = cell.cell.launch(sh("sleep 600")).await.unwrap();
        assert!(cell.cell.sample().await.unwrap().tasks >= 1);
        running.signaler().kill_tree().await.unwrap();
        in_time("the end", running.wait()).await.unwrap();
    }
}
